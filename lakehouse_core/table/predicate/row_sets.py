"""Row sets: the rows of a file that may satisfy a bound condition, from the rows that may satisfy its leaves.

Rule: a row that may match is never left out; if nothing is known of a row, it may match.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

from pyroaring import BitMap

from lakehouse_core.table.predicate.conditions import And, Compare, In, IsNull, Not, Or, Predicate, StartsWith

Leaf: TypeAlias = Compare | In | IsNull | StartsWith
# A function from a leaf and a truth value to the rows for which the leaf may have that value; None: all rows.
LeafRows: TypeAlias = Callable[[Leaf, bool], BitMap | None]


def possible_rows(predicate: Predicate, leaf_rows: LeafRows) -> BitMap | None:
    """Return the rows for which the condition may be true, None: all rows."""
    return _rows(predicate, leaf_rows, wanted=True)


def _rows(predicate: Predicate, leaf_rows: LeafRows, *, wanted: bool) -> BitMap | None:
    """Return the rows for which the condition may be `wanted`. Rows with an unknown result are in neither set."""
    match predicate:
        case Compare() | In() | IsNull() | StartsWith():
            return leaf_rows(predicate, wanted)
        case Not(part):
            return _rows(part, leaf_rows, wanted=not wanted)
        case And(parts) | Or(parts):
            found = (_rows(part, leaf_rows, wanted=wanted) for part in parts)
            # A conjunction is true if all parts are true, and false if any part is false.
            return _common(found) if isinstance(predicate, And) is wanted else _joined(found)
        case _:
            assert_never(predicate)


def _common(sets: Iterable[BitMap | None]) -> BitMap | None:
    common: BitMap | None = None
    for rows in sets:
        if rows is not None:
            common = rows if common is None else common & rows
        if common is not None and not common:
            break
    return common


def _joined(sets: Iterable[BitMap | None]) -> BitMap | None:
    joined = BitMap()
    for rows in sets:
        if rows is None:
            return None
        joined = joined | rows
    return joined
