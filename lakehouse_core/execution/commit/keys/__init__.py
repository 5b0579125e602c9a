"""What a commit compares by key: hash indexes, and the places of keys that move between partitions.

Source: docs/semantics/commit.md#conflict-detection.
"""
