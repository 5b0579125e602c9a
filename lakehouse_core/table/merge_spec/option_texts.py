"""The texts of options about merging.

Rule: lists are split as Java splits them; those of sequence groups keep their blanks.
"""

from typing import Final

from lakehouse_core.options import parse_bool
from lakehouse_core.table.merge_spec.values import Mergeable

FIELD_PREFIX: Final = "fields."


def split_names(text: str | None) -> tuple[str, ...]:
    """Split at commas as Java's String.split does: blanks stay, empty names at the end go."""
    if not text:
        return () if text is None else ("",)
    names = text.split(",")
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def flag(schema: Mergeable, key: str) -> bool:
    """Return what an option that is true or false says; unset is false."""
    return parse_bool(key, schema.options.get(key, "false"))
