"""What users hand to write → batches of exactly the table's columns, in its order and types.

Columns are matched by name, a missing nullable column is null, and no value is cast with loss: what does not fit is
refused with its row. Nulls in NOT NULL columns, defaults and row kinds are the write task's business.
"""

import difflib
import math
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.tasks.write.arrow_input import normalized
from lakehouse_core.format.data_types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    arrow_type,
    timestamp_unit,
    to_internal,
    type_from_arrow,
    type_to_sql,
    with_nullable,
)
from lakehouse_core.interchange.arrow_rows import ArrowRows
from lakehouse_core.interchange.pandas_frames import Series, array_of, frame_columns, values_of
from lakehouse_core.table.commit_message import Missing

# Rows of a list that are turned into Arrow at once.
_CHUNK_ROWS: Final = 65_536
# Far below what Arrow can address, for rows are not alike.
_PIECE_BYTES: Final = 512 << 20
_PIECE_ROWS: Final = 1 << 20


def input_batches(
    data: object,
    fields: Sequence[DataField],
    *,
    rowkind_column: str | None = None,
    missing: Missing = "null",
    first_row: int = 0,
    advice: str = "Round it, or write it to a wider column.",
    in_sql: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of `data` as batches of `fields` (and the row kind column last, when it is no field).

    A column that is `missing` is null, or refused, also where a row of a list lacks it.
    Columns are checked at once, values as the batches are taken. Raises InvalidRequest; it counts rows from
    `first_row`, ends with `advice` where a value would be cast with loss, and names types as SQL does where who sent
    them knows no Arrow.
    """
    misfits = _Misfits(first_row, advice, in_sql)
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        if missing == "error":
            for row, values in enumerate(data):
                _check_complete(values, fields, f"Row {first_row + row}")
        return _of_rows(data, fields, rowkind_column, first_row)
    if (columns := frame_columns(data)) is not None:
        if missing == "error":
            _check_complete(columns, fields, "The data")
        return _of_frame(columns, fields, rowkind_column, misfits)
    if _is_series(data):
        frame = f"series.to_frame(), with column {shown(data.name)}" if data.name else "series.to_frame('its column')"
        raise InvalidRequest(f"The data is a Series, one column alone: write {frame}.")
    if (source := arrow_source(data)) is not None:
        if missing == "error":
            _check_complete(source[0].names, fields, "The data")
        return _of_arrow(*source, fields, rowkind_column, misfits)
    if _is_spark_frame(data):
        raise InvalidRequest(
            "The data is a Spark DataFrame, and this catalog has no Spark session: open it with "
            "connect(…, spark=df.sparkSession), or hand over df.toArrow() where the rows fit into memory."
        )
    raise InvalidRequest(
        f"Cannot write {_told(data)}: expected what offers an Arrow stream (a "
        "scan, pyarrow, polars, DuckDB), a pandas DataFrame, a list of dicts, or, where the catalog has a session, "
        f"a Spark DataFrame.{_next_step(data)}"
    )


def _told(data: object) -> str:
    """What was sent, by its class; of rows the first that is none."""
    if isinstance(data, list | tuple):
        for row, values in enumerate(data):
            if not isinstance(values, Mapping):
                return f"a {type(data).__qualname__} whose row {row} is {_class(values)}"
    return _class(data)


def _class(value: object) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return name.removeprefix("builtins.")


def _next_step(data: object) -> str:
    if type(data).__name__ == "LazyFrame":
        return " Call its collect() first."
    return " Of columns pyarrow.table(…) makes a table." if isinstance(data, Mapping) else ""


def arrow_source(data: object) -> tuple[pa.Schema, Iterable[pa.RecordBatch]] | None:
    """Return what offers Arrow as its schema and its batches, drawn as they are taken; None for what does not.

    Raises InvalidRequest for columns that Arrow does not know, and for a stream of one column.
    """
    match data:
        case pa.Table():
            return data.schema, data.to_batches(max_chunksize=_PIECE_ROWS)
        case pa.RecordBatch():
            return data.schema, [data]
        case pa.RecordBatchReader():
            return data.schema, data
        case ArrowRows():
            # Not as any other stream, so that what it raises stays what it is.
            reader = data.to_reader()
            return reader.schema, reader
        case type():
            return None
    try:
        reader = _reader_of(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequest(f"{type(data).__qualname__}: the data cannot be taken as Arrow: {shown(error)}") from error
    return None if reader is None else (reader.schema, _drawn(reader))


def _reader_of(data: Any) -> pa.RecordBatchReader | None:
    # Whoever holds a dataset has imported its module.
    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(data, dataset.Dataset):
        return data.scanner().to_reader()
    if dataset is not None and isinstance(data, dataset.Scanner):
        return data.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    return None


def _drawn(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream; of what it fails with, only a text has come along."""
    done = 0
    try:
        for batch in reader:
            yield batch
            done += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"The data ended with an error after {done} rows: {shown(error)}") from error


def _is_spark_frame(data: object) -> bool:
    # By its name: this module must not know Spark.
    return type(data).__module__.startswith("pyspark.sql.") and type(data).__name__ == "DataFrame"


def _is_series(data: object) -> TypeGuard[Any]:
    """Whether it is a column of pandas or polars; neither is loaded for it."""
    return type(data).__module__.partition(".")[0] in ("pandas", "polars") and type(data).__name__ == "Series"


def row_count(data: object) -> int | None:
    """Return how many rows `data` has, None where only taking them tells."""
    match data:
        case pa.Table() | pa.RecordBatch():
            return int(data.num_rows)
        case list() | tuple():
            return len(data)
        case _:
            is_frame = type(data).__module__.partition(".")[0] in ("pandas", "polars")
            return len(data) if is_frame and isinstance(data, Sized) else None


@dataclass(frozen=True, slots=True)
class _Misfits:
    """How columns and values that do not fit are told of; `in_sql`: in SQL's types, not in Arrow's."""

    first_row: int
    advice: str
    in_sql: bool = False


def _of_arrow(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    fields: Sequence[DataField],
    rowkind_column: str | None,
    misfits: _Misfits,
) -> Iterator[pa.RecordBatch]:
    wanted = _output_fields(fields, rowkind_column)
    _check_columns(schema.names, fields, rowkind_column)
    target = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in wanted])
    casts: list[tuple[int, Callable[[pa.Array], pa.Array]] | None] = []
    for field in wanted:
        index = schema.get_field_index(field.name)
        casts.append(None if index < 0 else (index, _cast(schema.field(index).type, field, misfits)))
    return _converted(_bounded(normalized(batches)), target, casts, misfits, wanted)


def _converted(
    batches: Iterable[pa.RecordBatch],
    target: pa.Schema,
    casts: Sequence[tuple[int, Callable[[pa.Array], pa.Array]] | None],
    misfits: _Misfits,
    fields: Sequence[DataField],
) -> Iterator[pa.RecordBatch]:
    first_row = misfits.first_row
    for batch in batches:
        if batch.num_rows == 0:
            continue
        columns = []
        for cast, field in zip(casts, fields, strict=True):
            if cast is None:
                columns.append(pa.nulls(batch.num_rows, arrow_type(field.type)))
                continue
            index, convert = cast
            try:
                columns.append(convert(batch.column(index)))
            except pa.ArrowInvalid as error:
                raise _misfit_row(batch.column(index), convert, field, replace(misfits, first_row=first_row)) from error
            except pa.ArrowNotImplementedError as error:
                raise _refused(field, batch.column(index).type, misfits) from error
        first_row += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _bounded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut large batches: text that comes with 64-bit offsets, or as views, must fit the 2 GiB of plain text."""
    for batch in batches:
        pieces = max(1, math.ceil(batch.num_rows / _PIECE_ROWS), math.ceil(batch.nbytes / _PIECE_BYTES))
        rows = math.ceil(batch.num_rows / pieces)
        for start in range(0, batch.num_rows, max(1, rows)):
            yield batch.slice(start, rows)


def _of_frame(
    columns: Mapping[Any, Series], fields: Sequence[DataField], rowkind_column: str | None, misfits: _Misfits
) -> Iterator[pa.RecordBatch]:
    wanted = _output_fields(fields, rowkind_column)
    _check_columns(list(columns), fields, rowkind_column)
    found = {name: series for name, series in columns.items() if len(series)}
    # What has a type of its own is judged at once, by no row.
    for field in wanted:
        if field.name in columns and (empty := array_of(columns[field.name].iloc[:0])) is not None:
            _cast(empty.type, field, misfits)
    return _frame_converted(found, wanted, misfits)


def _frame_converted(
    columns: Mapping[Any, Series], fields: Sequence[DataField], misfits: _Misfits
) -> Iterator[pa.RecordBatch]:
    target = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])
    count = max(map(len, columns.values()), default=0)
    for start in range(0, count, _CHUNK_ROWS):
        rows = min(_CHUNK_ROWS, count - start)
        arrays = []
        for field in fields:
            if field.name not in columns:
                arrays.append(pa.nulls(rows, arrow_type(field.type)))
                continue
            part = columns[field.name].iloc[start : start + rows]
            array = array_of(part)
            if array is None:
                arrays.append(_values_converted(values_of(part), misfits.first_row + start, field))
                continue
            batch = pa.RecordBatch.from_arrays([array], [field.name])
            convert = [(0, _cast(array.type, field, misfits))]
            at = replace(misfits, first_row=misfits.first_row + start)
            only = pa.schema([target.field(field.name)])
            arrays += [one.column(0) for one in _converted([batch], only, convert, at, [field])]
        yield pa.RecordBatch.from_arrays(arrays, schema=target)


def _of_rows(
    rows: Sequence[Mapping[str, Any]], fields: Sequence[DataField], rowkind_column: str | None, first_row: int
) -> Iterator[pa.RecordBatch]:
    wanted = _output_fields(fields, rowkind_column)
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    if rows:
        _check_columns(list(names), fields, rowkind_column)
    return _rows_converted(rows, wanted, first_row)


def _rows_converted(
    rows: Sequence[Mapping[str, Any]], fields: Sequence[DataField], first_row: int
) -> Iterator[pa.RecordBatch]:
    target = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])
    for start in range(0, len(rows), _CHUNK_ROWS):
        chunk = rows[start : start + _CHUNK_ROWS]
        columns = [_column_of(chunk, first_row + start, field) for field in fields]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _column_of(rows: Sequence[Mapping[str, Any]], start: int, field: DataField) -> pa.Array:
    return _values_converted((row.get(field.name) for row in rows), start, field)


def _values_converted(given: Iterable[Any], start: int, field: DataField) -> pa.Array:
    values = []
    for index, value in enumerate(given):
        try:
            values.append(arrow_value(to_internal(value, field.type), field.type))
        except InvalidRequest as error:
            raise InvalidRequest(f"Row {start + index}, column {shown(field.name)}: {error}") from error
    return pa.array(values, arrow_type(field.type))


def arrow_value(value: Any, data_type: DataType) -> Any:
    """Return what `pyarrow.array` takes for a comparable value: integers for timestamps, so that no digit is lost."""
    if value is None:
        return None
    match data_type:
        case AtomicType(root=root, precision=precision) if root in TIMESTAMP_ROOTS:
            millis, nanos = value
            unit = timestamp_unit(precision if precision is not None else 6)
            return millis if unit == "ms" else millis * 1000 + nanos // 1000 if unit == "us" else millis * 10**6 + nanos
        case AtomicType():
            return value
        case ArrayType(element):
            return [arrow_value(item, element) for item in value]
        case MapType(key, item_type):
            return [(arrow_value(k, key), arrow_value(v, item_type)) for k, v in value]
        case MultisetType(element):
            return [(arrow_value(k, element), v) for k, v in value]
        case RowType(fields):
            return {part.name: arrow_value(item, part.type) for part, item in zip(fields, value, strict=True)}


def _output_fields(fields: Sequence[DataField], rowkind_column: str | None) -> list[DataField]:
    if rowkind_column is None or any(field.name == rowkind_column for field in fields):
        return list(fields)
    return [*fields, DataField(-1, rowkind_column, AtomicType(TypeRoot.VARCHAR, length=2))]


def _check_complete(names: Container[Any], fields: Sequence[DataField], what: str) -> None:
    for field in fields:
        if field.name not in names:
            raise InvalidRequest(
                f"{what} has no column {shown(field.name)}, and missing='error' asks for all: add it, with nulls where "
                "there is no value. A table with the merge engine partial-update keeps the values that rows lack."
            )


def _check_columns(names: Sequence[str], fields: Sequence[DataField], rowkind_column: str | None) -> None:
    known = [field.name for field in fields]
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise InvalidRequest(f"The data has two columns {shown(twice)}: rename or drop one.")
    for name in names:
        if name not in known and name != rowkind_column:
            near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            hint = f" Did you mean {shown(near[0])}?" if near else f" Columns: {', '.join(known)}."
            raise InvalidRequest(f"The data has a column {shown(name)}, which the table does not have.{hint}")
    if rowkind_column is not None and rowkind_column not in names:
        raise InvalidRequest(
            f"The data has no column {shown(rowkind_column)}, which was to hold the row kinds: add it."
        )
    for field in fields:
        if not field.type.nullable and field.default_value is None and field.name not in names:
            raise InvalidRequest(
                f"The data has no column {shown(field.name)}, which is {type_to_sql(field.type)}: add it."
            )


def _cast(source: pa.DataType, field: DataField, misfits: _Misfits) -> Callable[[pa.Array], pa.Array]:
    """Return the lossless conversion of a column; it raises ArrowInvalid for values that do not fit."""
    target = arrow_type(field.type)
    if source.equals(target):
        return lambda array: array
    if not _fits(source, target):
        raise _refused(field, source, misfits)
    if pt.is_dictionary(source):
        convert = _cast(_without_views(source.value_type), field, misfits)
        return lambda array: convert(_decoded(array))
    if _is_list_view(source):
        return lambda array: _as_list(array).cast(target)
    if _may_round(source, target):
        return lambda array: _exactly(array, target)
    if _is_widened_first(source, target):
        return lambda array: array.cast(_ANY_INTEGER).cast(target)
    return lambda array: _from_start(array).cast(target)


def _refused(field: DataField, source: pa.DataType, misfits: _Misfits) -> InvalidRequest:
    wanted = type_to_sql(field.type)
    nullable = type_to_sql(with_nullable(field.type, True))
    found, into = (_sql_of(source), nullable) if misfits.in_sql else (str(source), str(arrow_type(field.type)))
    return InvalidRequest(f"Column {shown(field.name)} is {wanted} and the data has {found}: cast it to {into} first.")


def _sql_of(source: pa.DataType) -> str:
    try:
        return type_to_sql(type_from_arrow(source))
    except InvalidRequest:
        return str(source)


def _from_start(array: pa.Array) -> pa.Array:
    """Copy what a slice shows, where Arrow would judge all that lies before it, too: text of 64-bit offsets."""
    has_offsets = pt.is_nested(array.type) or pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    return pa.concat_arrays([array]) if array.offset and has_offsets else array


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    values = array.dictionary
    return values.cast(_without_views(values.type)).take(array.indices)


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values of which Arrow can take some."""
    return pa.large_string() if pt.is_string_view(kind) else pa.large_binary() if pt.is_binary_view(kind) else kind


def _as_list(array: pa.Array) -> pa.Array:
    """Return a list for each view of one. Arrow's own cast takes the places of views for those of lists."""
    starts = np.asarray(array.offsets, np.int64)
    sizes = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.asarray(array.sizes), 0).astype(np.int64)
    ends = np.cumsum(sizes)
    places = np.arange(sizes.sum()) - np.repeat(ends - sizes - starts, sizes)
    values = array.values
    taken = values.cast(_without_views(values.type)).take(pa.array(places))
    offsets = pa.array(np.concatenate([[0], ends]))
    return pa.LargeListArray.from_arrays(offsets, taken, mask=array.is_null())


# Which kinds of Arrow values may become which; a safe cast then checks each value.
_ACCEPTED: Final = {
    "integer": frozenset({"integer", "floating", "decimal"}),
    "floating": frozenset({"floating", "integer"}),
    "decimal": frozenset({"decimal", "integer"}),
    "zoned": frozenset({"zoned", "naive"}),
}


def _fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of `source` may be values of `target` without a change of meaning."""
    if pt.is_dictionary(source):
        return _fits(source.value_type, target)
    if source.equals(target) or pt.is_null(source):
        return True
    if kind := _kind(target):
        return _kind(source) in _ACCEPTED.get(kind, {kind})
    if pt.is_list(target):
        return _is_any_list(source) and _nested_fits(source.value_type, target.value_type)
    if pt.is_map(target):
        keys = pt.is_map(source) and _nested_fits(source.key_type, target.key_type)
        return keys and _nested_fits(source.item_type, target.item_type)
    if pt.is_struct(target):
        # A value is stored under the name that it came with: none is matched by its place.
        same = pt.is_struct(source) and [part.name for part in source] == [part.name for part in target]
        return same and all(_nested_fits(a.type, b.type) for a, b in zip(source, target, strict=True))
    return False


def _nested_fits(source: pa.DataType, target: pa.DataType) -> bool:
    if _is_list_view(source):
        return False
    return _fits(source, target) and not _may_round(source, target) and not _is_widened_first(source, target)


def _kind(arrow: pa.DataType) -> str | None:
    if pt.is_timestamp(arrow):
        return "naive" if arrow.tz is None else "zoned"
    for kind, tests in _KINDS.items():
        if any(test(arrow) for test in tests):
            return kind
    return None


_KINDS: Final = {
    "boolean": (pt.is_boolean,),
    "integer": (pt.is_integer,),
    "floating": (pt.is_floating,),
    "decimal": (pt.is_decimal,),
    "text": (pt.is_string, pt.is_large_string, pt.is_string_view),
    "binary": (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary),
    "date": (pt.is_date,),
    "time": (pt.is_time,),
}


def _is_any_list(arrow: pa.DataType) -> bool:
    return bool(pt.is_list(arrow) or pt.is_large_list(arrow) or pt.is_fixed_size_list(arrow) or _is_list_view(arrow))


def _is_list_view(arrow: pa.DataType) -> bool:
    return bool(pt.is_list_view(arrow) or pt.is_large_list_view(arrow))


def _may_round(source: pa.DataType, target: pa.DataType) -> bool:
    """Casts to floating point that Arrow carries out without telling of a rounding."""
    if not pt.is_floating(target):
        return False
    return bool(pt.is_integer(source) or (pt.is_floating(source) and source.bit_width > target.bit_width))


# Arrow turns integers into decimals only where the widest of them would fit, whatever the values are.
_ANY_INTEGER: Final = pa.decimal128(20, 0)


def _is_widened_first(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pt.is_integer(source) and pt.is_decimal(target))


def _exactly(array: pa.Array, target: pa.DataType) -> pa.Array:
    cast = array.cast(target, safe=False)
    back = cast.cast(array.type, safe=False)
    changed = pc.not_equal(back, array)
    if pt.is_floating(array.type):
        changed = pc.and_(changed, pc.invert(pc.is_nan(array)))
    if pc.any(changed).as_py():
        raise pa.ArrowInvalid("rounded")
    return cast


def _misfit_row(
    array: pa.Array, convert: Callable[[pa.Array], pa.Array], field: DataField, misfits: _Misfits
) -> InvalidRequest:
    """Find the first row that does not convert, by halving."""
    start, count = 0, len(array)
    while count > 1:
        half = count // 2
        if _converts(array.slice(start, half), convert):
            start, count = start + half, count - half
        else:
            count = half
    # Python cannot hold every value (nanoseconds, far years), so Arrow prints it.
    value = " ".join(array.slice(start, 1).to_string().split())[1:-1].strip()
    place = f"Row {misfits.first_row + start}, column {shown(field.name)}"
    kind = type_to_sql(with_nullable(field.type, True))
    return InvalidRequest(f"{place}: {value[:100]} does not fit {kind} without loss. {misfits.advice}")


def _converts(array: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> bool:
    try:
        convert(array)
    except pa.ArrowInvalid:
        return False
    return True
