"""File statistics: value ranges of a data file's columns, converted to the schema of a read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakehouse_core.format.data_types import AtomicType, DataField, DataType, TypeRoot, has_same_kind
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.predicate import (
    ColumnRange,
)
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.stats import decode_stats


def file_ranges(file: DataFile, file_schema: TableSchema, wanted: Sequence[DataField]) -> dict[str, ColumnRange]:
    """Return the value ranges of the `wanted` columns of the read's schema, from the file's statistics.

    A column that the file lacks is all null. A column is unknown if its type change may change order or equality.
    """
    by_id = {each.id: each for each in file_schema.fields}
    ranges: dict[str, ColumnRange] = {}
    if any(each.id in by_id for each in wanted):
        decoded = stored_ranges(file, file_schema)
    for each in wanted:
        source = by_id.get(each.id)
        if source is None or (file.write_cols is not None and source.name not in file.write_cols):
            ranges[each.name] = ColumnRange(null_count=file.row_count, row_count=file.row_count)
        elif source.name in decoded and keeps_order(source.type, each.type):
            ranges[each.name] = _as_read(decoded[source.name], source.type)
    return ranges


def _as_read(stored: ColumnRange, kind: DataType) -> ColumnRange:
    """Return the range of the values as reads return them: CHAR values may lack the trailing blanks of the bounds."""
    if isinstance(kind, AtomicType) and kind.root is TypeRoot.CHAR and stored.minimum is not None:
        return replace(stored, minimum=stored.minimum.rstrip(" "))
    return stored


def keeps_order(source: DataType, target: DataType) -> bool:
    """Return whether the cast to `target` leaves comparable values of `source` unchanged."""
    if has_same_kind(source, target):
        return True
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return False
    pair = (source.root, target.root)
    if source.root in _INTEGERS and target.root in _INTEGERS:
        return _INTEGERS.index(source.root) <= _INTEGERS.index(target.root)
    return pair in _WIDENING


_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)


_WIDENING: Final = frozenset(
    {
        (TypeRoot.FLOAT, TypeRoot.DOUBLE),
        (TypeRoot.TINYINT, TypeRoot.DOUBLE),
        (TypeRoot.SMALLINT, TypeRoot.DOUBLE),
        (TypeRoot.INT, TypeRoot.DOUBLE),
    }
)


def stored_ranges(file: DataFile, file_schema: TableSchema) -> Mapping[str, ColumnRange]:
    """Return the value ranges of the file's columns, by the names and in the types of its own schema."""
    stored = file.value_stats_cols if file.value_stats_cols is not None else file.write_cols
    names = [each.name for each in file_schema.fields] if stored is None else list(stored)
    known = [name for name in names if file_schema.has_field(name)]
    if len(known) < len(names) or not names:
        return {}
    lows, highs, nulls = decode_stats(file.value_stats, [file_schema.field(name).type for name in names])
    return {
        name: ColumnRange(minimum=low, maximum=high, null_count=null, row_count=file.row_count)
        for name, low, high, null in zip(names, lows, highs, nulls, strict=False)
    }


def key_ranges(file: DataFile, file_schema: TableSchema, wanted: Sequence[DataField]) -> dict[str, ColumnRange]:
    """Return the value ranges as `file_ranges` does, for key columns, which are never null."""
    fields = file_schema.key_fields
    lows, highs, _ = decode_stats(file.key_stats, [each.type for each in fields])
    found = {each.id: (each, low, high) for each, low, high in zip(fields, lows, highs, strict=False)}
    ranges: dict[str, ColumnRange] = {}
    for each in wanted:
        if each.id in found and keeps_order(found[each.id][0].type, each.type):
            _, low, high = found[each.id]
            ranges[each.name] = ColumnRange(minimum=low, maximum=high, row_count=file.row_count)
    return ranges
