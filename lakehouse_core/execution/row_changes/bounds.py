"""Bounds: the least and the greatest value of columns, and the condition that a row of the table lies within them.

Rule: a condition names only columns whose types it compares as a join does.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import AtomicType, DataField, TypeRoot
from lakehouse_core.table.predicate import Compare, Comparison, Predicate, all_of, bind
from lakehouse_core.table.schema import TableSchema

# A source of at most so many rows is held in this process.
FEW_ROWS: Final = 500_000
_RANGED: Final = (
    {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT},
    {TypeRoot.CHAR, TypeRoot.VARCHAR},
    {TypeRoot.DATE},
)


def ranged_pairs(
    equated: Sequence[tuple[str, str]], schema: TableSchema, source: Sequence[DataField]
) -> list[tuple[str, str]]:
    """Return the pairs of a column of the table and one of the source whose values a range compares alike."""
    roots = {each.name: _root(each) for each in source}
    return [
        (column, other)
        for column, other in equated
        if any(_root(schema.field(column)) in group and roots[other] in group for group in _RANGED)
    ]


def ranged_columns(names: Sequence[str], schema: TableSchema) -> list[str]:
    """Return the columns of the table whose values a range compares."""
    return [name for name in names if any(_root(schema.field(name)) in group for group in _RANGED)]


def within(bounds: Mapping[str, tuple[Any, Any]], schema: TableSchema) -> Predicate | None:
    """Return that each column is within its bounds; None if nothing is said."""
    found: list[Predicate] = []
    for column, (low, high) in bounds.items():
        found.append(Compare(column, Comparison.GREATER_OR_EQUAL, low))
        found.append(Compare(column, Comparison.LESS_OR_EQUAL, high))
    try:
        whole = all_of(found)
        return None if whole is None else bind(whole, schema.fields)
    except InvalidRequest:
        # A value that the column cannot hold matches no row; what is not left out is joined.
        return None


def arrow_bounds(rows: pa.Table, columns: Sequence[str]) -> Mapping[str, tuple[Any, Any]]:
    """Return the least and the greatest value of columns, as scalars of Arrow; none for a column of nulls."""
    found = {}
    for name in columns:
        bounds = pc.min_max(rows.column(name))
        if bounds["min"].is_valid:
            found[name] = (bounds["min"], bounds["max"])
    return found


def _root(field: DataField) -> TypeRoot | None:
    return field.type.root if isinstance(field.type, AtomicType) else None
