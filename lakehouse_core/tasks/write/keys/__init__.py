"""Where the keys of a table are, while rows are written, in dynamic buckets or partitions."""
