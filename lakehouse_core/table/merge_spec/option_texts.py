"""Option texts: parse lists and flags of merge options.

Rule: lists are split as in Java; names in lists of sequence groups keep their blanks.
"""

from typing import Final

from lakehouse_core.options import parse_bool
from lakehouse_core.table.merge_spec.values import Mergeable

FIELD_PREFIX: Final = "fields."


def split_names(text: str | None) -> tuple[str, ...]:
    """Return the names between commas as Java's String.split does: blanks stay, trailing empty names are dropped."""
    if not text:
        return () if text is None else ("",)
    names = text.split(",")
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def flag(schema: Mergeable, key: str) -> bool:
    """Return the value of a true/false option; unset is false."""
    return parse_bool(key, schema.options.get(key, "false"))
