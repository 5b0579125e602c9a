"""Input rows: apply defaults, the NOT NULL check, row kinds and filters to the batches of a write.

Defaults come before the NOT NULL check, so that the data may lack a column with a default. Java's engines do the same.
Source: docs/semantics/writing.md#write-path.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    parse_literal,
    type_to_sql,
)
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.table.file_columns import ROW_KINDS
from lakehouse_core.table.predicate import Predicate, columns_of, scalar
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.matching import matching_rows

_UPDATE_BEFORE: Final = 1
_LONGEST_KEY_BYTES: Final = 1 << 20
# The type of a MULTISET's element counts.
_COUNT: Final = AtomicType(TypeRoot.INT, False)

Kinds = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class InputRows:
    """Rows of exactly the table's columns, and the kind of each; None when all are +I.

    `buckets`: the bucket of each in its partition; None where key or index give it.
    """

    values: pa.RecordBatch
    kinds: Kinds | None
    buckets: npt.NDArray[np.int32] | None = None


def checked_rows(
    batches: Iterable[pa.RecordBatch], schema: TableSchema, rowkind_column: str | None
) -> Iterator[InputRows]:
    """Yield the rows to write, in order; `batches` have the table's columns and may have the row kind column.

    Raises InvalidRequest naming column and row, counted from 0 over all batches.
    """
    kind_column = rowkind_column or schema.table_options.rowkind_field
    defaults = _defaults(schema)
    keys = {field.name for field in schema.key_fields if _is_any_length(field.type)}
    first_row = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        kinds = None if kind_column is None else _kinds(batch.column(kind_column), kind_column, first_row)
        columns = []
        for field in schema.fields:
            column = batch.column(field.name)
            if column.null_count and field.name in defaults:
                column = column.fill_null(defaults[field.name])
            if column.null_count and not field.type.nullable:
                raise _null(field, column, schema, first_row)
            if place := _null_inside(column, field.type, field.name):
                raise _inner_null(field, column, place, first_row)
            if field.name in keys:
                _check_key_size(field, column, first_row)
            columns.append(column)
        values = pa.RecordBatch.from_arrays(columns, list(schema.column_names))
        yield without_ignored(InputRows(values, kinds), schema, first_row)
        first_row += batch.num_rows


def satisfying(rows: Iterable[InputRows], condition: Predicate, schema: TableSchema) -> Iterator[InputRows]:
    """Yield the rows as they are. `condition` is bound to `schema`; raises InvalidRequest for a row for which it is not
    true.
    """
    for each in rows:
        fitting = matching_rows(each.values, condition, schema.fields)
        if len(fitting) < each.values.num_rows:
            others = np.setdiff1d(np.arange(each.values.num_rows), fitting, assume_unique=True)
            wrong = each.values.slice(int(others[0]), 1).to_pylist()[0]
            told = ", ".join(f"{name} = {shown(wrong[name])}" for name in sorted(columns_of(condition)))
            raise InvalidRequest(
                f"A given row ({told}) does not satisfy the condition of the overwrite: it would be added beside rows "
                "that stay. Leave such rows out, or give a condition that includes them."
            )
        yield each


def _defaults(schema: TableSchema) -> dict[str, pa.Scalar]:
    return {
        field.name: scalar(parse_literal(field.default_value, field.type), field.type)
        for field in schema.fields
        if field.default_value is not None and isinstance(field.type, AtomicType)
    }


def _null(field: DataField, column: pa.Array, schema: TableSchema, first_row: int) -> InvalidRequest:
    row = first_row + pc.index(column.is_null(), True).as_py()
    part = "the primary key" if field.name in schema.primary_keys else type_to_sql(field.type)
    return InvalidRequest(f"Column {field.name!r} is {part} and row {row} holds null: give it a value.")


def _is_any_length(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and (data_type.root in STRING_ROOTS or data_type.root in BINARY_ROOTS)


def _check_key_size(field: DataField, column: pa.Array, first_row: int) -> None:
    """Raise InvalidRequest for keys too large for manifests, which hold the first and last key of each file in full."""
    sizes = pc.binary_length(column)
    longest = pc.max(sizes).as_py() or 0
    if longest > _LONGEST_KEY_BYTES:
        row = first_row + pc.index(sizes, longest).as_py()
        raise InvalidRequest(
            f"Column {field.name!r} is part of the primary key and row {row} holds a value of {longest} bytes: at most "
            f"{_LONGEST_KEY_BYTES} are allowed. Use a digest of the value as the key."
        )


def _null_inside(column: pa.Array, data_type: DataType, place: str) -> str | None:
    """Return the place inside a nested column of a null that its type forbids, None if there is none.

    Arrow's Parquet writer stores zeros for some of these nulls without an error.
    """
    if isinstance(data_type, AtomicType) or not _demands_values(data_type):
        return None
    parts: list[tuple[str, DataType, pa.Array]]
    match data_type:
        case RowType(fields):
            rows = column.drop_null().flatten()
            parts = [(field.name, field.type, values) for field, values in zip(fields, rows, strict=True)]
        case ArrayType(element):
            parts = [("element", element, column.flatten())]
        case MapType(key, value):
            keys, items = _entries(column.drop_null())
            parts = [("key", key, keys), ("value", value, items)]
        case MultisetType(element):
            elements, counts = _entries(column.drop_null())
            parts = [("element", element, elements), ("count", _COUNT, counts)]
    for name, kind, values in parts:
        if values.null_count and not kind.nullable:
            return f"{place}.{name} is {type_to_sql(kind)}"
        if found := _null_inside(values, kind, f"{place}.{name}"):
            return found
    return None


def _entries(maps: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return keys and values of a map array; for a slice only its own. REQUIRES: no map is null."""
    if not len(maps):
        return maps.keys[:0], maps.items[:0]
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    return maps.keys[first:last], maps.items[first:last]


@cache
def _demands_values(data_type: DataType) -> bool:
    """Return whether the type forbids nulls for a nested value."""
    match data_type:
        case AtomicType():
            return False
        case ArrayType(element):
            inner: tuple[DataType, ...] = (element,)
        case MultisetType(element):
            inner = (element, _COUNT)
        case MapType(key, value):
            inner = (key, value)
        case RowType(fields):
            inner = tuple(field.type for field in fields)
    return any(not part.nullable or _demands_values(part) for part in inner)


def _inner_null(field: DataField, column: pa.Array, place: str, first_row: int) -> InvalidRequest:
    row = next(row for row in range(len(column)) if _null_inside(column.slice(row, 1), field.type, field.name))
    return InvalidRequest(
        f"Column {field.name!r}: {place} and row {first_row + row} holds null there: give it a value."
    )


def _kinds(column: pa.Array, name: str, first_row: int) -> Kinds | None:
    encoded = column.dictionary_encode() if not pa.types.is_dictionary(column.type) else column
    texts = encoded.dictionary.to_pylist()
    codes = encoded.indices
    used = pc.unique(codes)
    for code in used.to_pylist():
        if code is None or texts[code] not in ROW_KINDS:
            row = first_row + (pc.index(codes.is_null(), True) if code is None else pc.index(codes, code)).as_py()
            found = "null" if code is None else repr(texts[code])
            raise InvalidRequest(f"Row {row}, column {name!r}: {found} is not a row kind: use +I, -U, +U or -D.")
    numbers = np.array([ROW_KINDS.index(text) if text in ROW_KINDS else 0 for text in texts], dtype=np.int8)
    kinds: Kinds = numbers[codes.to_numpy()]
    return kinds if kinds.any() else None


def without_ignored(rows: InputRows, schema: TableSchema, first_row: int = 0) -> InputRows:
    """Return the rows without those that the options ignore. `first_row`: the number of the first one, for errors.

    Raises InvalidRequest for row kinds that an append table refuses.
    """
    options = schema.table_options
    if rows.kinds is None:
        return rows
    kept = np.ones(len(rows.kinds), dtype=bool)
    if options.ignore_delete:
        kept &= is_add(rows.kinds)
    if options.ignore_update_before:
        kept &= rows.kinds != _UPDATE_BEFORE
    if schema.is_append and not is_add(rows.kinds[kept]).all():
        row = int(np.flatnonzero(kept & ~is_add(rows.kinds))[0])
        raise InvalidRequest(
            f"Row {first_row + row} has the row kind {ROW_KINDS[rows.kinds[row]]}, and the table has no primary key: "
            "it takes +I and +U only. Drop such rows, or set ignore-delete."
        )
    if kept.all():
        return rows
    return InputRows(rows.values.filter(pa.array(kept)), rows.kinds[kept])
