"""What differs between two states, row by row. Source: docs/semantics/reading.md#difference-of-two-states."""

from collections.abc import Iterable
from typing import Any

# Key, kind and the other values of a record.
Record = tuple[int, str, tuple[Any, ...]]


def difference(before: Iterable[Record], after: Iterable[Record], *, keeps_deletes: bool) -> list[Record]:
    """Return the records to tell, in key order; each side holds a key once."""
    old = {key: (kind, values) for key, kind, values in before}
    new = {key: (kind, values) for key, kind, values in after}
    told: list[Record] = []
    for key in sorted(old.keys() | new.keys()):
        if key not in new:
            kind, values = old[key]
            if kind in ("+I", "+U"):
                told.append((key, "-D", values))
        elif key not in old or _differ(old[key], new[key]):
            told.append((key, *new[key]))
    return [record for record in told if keeps_deletes or record[1] in ("+I", "+U")]


def _differ(one: tuple[str, tuple[Any, ...]], other: tuple[str, tuple[Any, ...]]) -> bool:
    was_there, is_there = one[0] in ("+I", "+U"), other[0] in ("+I", "+U")
    # As text, so that NaN is NaN and 0.0 is not -0.0.
    return was_there != is_there or repr(one[1]) != repr(other[1])
