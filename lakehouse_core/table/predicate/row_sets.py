"""Which rows of a file a bound condition may hold for, where something is known of the rows of its leaves.

Nothing that may match is left out: what is not known stays possible. Tested against the row-wise meaning.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

from pyroaring import BitMap

from lakehouse_core.table.predicate.conditions import And, Compare, In, IsNull, Not, Or, Predicate, StartsWith

Leaf: TypeAlias = Compare | In | IsNull | StartsWith
# The rows for which a leaf may be true (or, asked with False, may be false); None: any.
LeafRows: TypeAlias = Callable[[Leaf, bool], BitMap | None]


def possible_rows(predicate: Predicate, leaf_rows: LeafRows) -> BitMap | None:
    """Return the rows for which the condition may be true, None when it may be for any."""
    return _rows(predicate, leaf_rows, wanted=True)


def _rows(predicate: Predicate, leaf_rows: LeafRows, *, wanted: bool) -> BitMap | None:
    """Return the rows for which the truth may be `wanted`. Rows for which it is unknown are in neither set."""
    match predicate:
        case Compare() | In() | IsNull() | StartsWith():
            return leaf_rows(predicate, wanted)
        case Not(part):
            return _rows(part, leaf_rows, wanted=not wanted)
        case And(parts) | Or(parts):
            found = (_rows(part, leaf_rows, wanted=wanted) for part in parts)
            # A conjunction is true where all parts are, and false where any is.
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
