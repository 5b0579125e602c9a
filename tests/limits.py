"""How long a test waits for another process or thread, on however busy a machine: what takes longer hangs."""

# Less than pytest's own limit for a test, whose message says nothing about what it waited for.
HANGS_AFTER_SECONDS = 600
