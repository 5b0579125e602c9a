"""One command each, a table as output: `python -m benchmarks.NAME [--quick]`."""
