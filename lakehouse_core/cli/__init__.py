"""The verbs of the front door from a shell."""

from lakehouse_core.cli.program import main

__all__ = ["main"]
