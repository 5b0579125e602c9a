"""Names in specifications: which ones fit, and the known one that an unknown one resembles."""

import difflib
from collections.abc import Collection
from typing import Annotated

from pydantic import Field

# Dagster makes op names of them, replacing all else by "_": two tables could fall on one name.
IDENTIFIER = r"^[A-Za-z][A-Za-z0-9_]*$"
Identifier = Annotated[str, Field(pattern=IDENTIFIER)]

# As many as a specification has attributes, and some.
_MOST_NAMES = 30


def nearest(name: str, known: Collection[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, else all of them."""
    matches = difflib.get_close_matches(name, known, n=1)
    if matches:
        return f"; did you mean {matches[0]!r}?"
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return f"; there are {', '.join(list(known)[:_MOST_NAMES])}{more}."


def part_fault(name: str) -> str | None:
    """Return why a name is that of a branch or a system table, None if it is that of a table."""
    table, dollar, part = name.partition("$")
    if not dollar:
        return None
    if part.startswith("branch_"):
        return f"found {name!r}, a branch; Dagster shows tables, not their branches. Name its table, {table!r}"
    return f"found {name!r}, a system table, expected a table. Name {table!r}"
