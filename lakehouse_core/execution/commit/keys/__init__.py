"""What a commit compares by key: hash indexes, and the places of keys that move between partitions."""
