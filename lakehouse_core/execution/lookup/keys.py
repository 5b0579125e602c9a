"""Lookup keys: convert the caller's keys to one batch of the primary key's columns, in its order and types."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import AtomicType, DataField, TypeRoot, arrow_type, type_to_sql
from lakehouse_core.interchange.pandas_frames import array_of, frame_columns, frame_of, series_of, values_of
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.write.arrow_input import arrow_source
from lakehouse_core.tasks.write.input import input_batches

_EXPECTED: Final = (
    "expected an Arrow table or column, a pandas or polars one, or a list of dicts, of tuples, or of single values"
)


def key_columns(keys: object, schema: TableSchema) -> pa.RecordBatch:
    """Return the keys as columns of the primary key, one row per given key, in the given order. Other columns are
    ignored.

    Raises InvalidRequest for a table without a primary key, for missing columns, nulls, and values that do not fit.
    """
    if schema.is_append:
        raise InvalidRequest("the table has no primary key, so rows cannot be looked up. Read it with scan(where=…).")
    fields = [schema.field(name) for name in schema.primary_keys]
    target = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])
    try:
        batches = list(
            input_batches(
                _named(keys, fields), fields, advice="No row can have this value in its key: leave the key out."
            )
        )
    except InvalidRequest as error:
        raise InvalidRequest(f"keys: {error}") from error
    found = pa.Table.from_batches(batches, target).combine_chunks()
    for field, column in zip(fields, found.columns, strict=True):
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise InvalidRequest(f"keys: row {row} has null for {shown(field.name)}, a column of the primary key.")
    columns = [column.chunk(0) if column.num_chunks else pa.nulls(0, column.type) for column in found.columns]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _named(keys: object, fields: Sequence[DataField]) -> object:
    """Return the keys as a table or as dicts, with names from the primary key."""
    names = [field.name for field in fields]
    match keys:
        case pa.Array() | pa.ChunkedArray():
            return _of_column(keys, fields)
        case list() | tuple():
            return _of_values(keys, fields)
    if (columns := frame_columns(keys)) is not None:
        _check_names(list(columns), fields)
        return frame_of({name: columns[name] for name in names})
    if (column := _column_of(keys)) is not None:
        return _of_values(column, fields) if isinstance(column, list) else _of_column(column, fields)
    if (source := arrow_source(keys)) is not None:
        schema, batches = source
        _check_names(schema.names, fields)
        return pa.Table.from_batches(batches, schema).select(names)
    raise InvalidRequest(f"{type(keys).__qualname__}: {_EXPECTED}.")


def _column_of(keys: Any) -> pa.Array | pa.ChunkedArray | list[Any] | None:
    """Return a single column of Arrow, pandas or polars as its values; None for any other object."""
    if isinstance(keys, np.ndarray):
        return list(keys) if keys.ndim == 1 else None
    if (series := series_of(keys)) is not None:
        found = array_of(series)
        return list(values_of(series)) if found is None else found
    if type(keys).__name__ == "Series" and hasattr(keys, "__arrow_c_stream__"):
        return pa.chunked_array(keys)
    return None


def _of_column(keys: pa.Array | pa.ChunkedArray, fields: Sequence[DataField]) -> object:
    _check_single(fields)
    return pa.table([keys], [fields[0].name])


def _of_values(keys: Sequence[Any], fields: Sequence[DataField]) -> object:
    names = [field.name for field in fields]
    if all(isinstance(key, Mapping) for key in keys):
        for key in keys:
            if not all(name in key for name in names):
                _check_names(list(key), fields)
        return _rows([tuple(key[name] for name in names) for key in keys], fields)
    if all(isinstance(key, tuple | list) for key in keys):
        for row, key in enumerate(keys):
            if len(key) != len(names):
                raise InvalidRequest(
                    f"row {row} has {len(key)} values, but the primary key has {len(names)} columns: "
                    f"{', '.join(names)}."
                )
        return _rows(keys, fields)
    if any(isinstance(key, Mapping | tuple | list) for key in keys):
        raise InvalidRequest(f"found rows of different kinds: {_EXPECTED}.")
    _check_single(fields)
    return _rows([(key,) for key in keys], fields)


def _rows(keys: Sequence[Sequence[Any]], fields: Sequence[DataField]) -> object:
    """Return a table if Arrow converts all values without a change, which takes a tenth of the time; else dicts."""
    columns = [[key[position] for key in keys] for position in range(len(fields))]
    if all(set(map(type, column)) == {_PLAIN.get(_root(field))} for column, field in zip(columns, fields, strict=True)):
        # The conversion of dicts finds the row that does not fit.
        with suppress(pa.ArrowException, OverflowError):
            return pa.table([pa.array(column) for column in columns], [field.name for field in fields])
    return [dict(zip([field.name for field in fields], key, strict=True)) for key in keys]


_PLAIN: Final[Mapping[TypeRoot | None, type]] = {
    TypeRoot.INT: int,
    TypeRoot.BIGINT: int,
    TypeRoot.CHAR: str,
    TypeRoot.VARCHAR: str,
    TypeRoot.DATE: date,
}


def _root(field: DataField) -> TypeRoot | None:
    return field.type.root if isinstance(field.type, AtomicType) else None


def _check_names(found: Sequence[str], fields: Sequence[DataField]) -> None:
    for field in fields:
        if field.name not in found:
            raise InvalidRequest(
                f"there is no column {shown(field.name)}, which is {type_to_sql(field.type)} and part of the "
                "primary key "
                f"({', '.join(field.name for field in fields)}): add it. Found: {', '.join(map(str, found)) or 'none'}."
            )


def _check_single(fields: Sequence[DataField]) -> None:
    if len(fields) > 1:
        names = ", ".join(field.name for field in fields)
        raise InvalidRequest(f"the primary key has the columns {names}: give tuples of them, dicts or a table.")
