"""Write input: convert the caller's data to batches of exactly the table's columns, in its order and types.

Columns are matched by name, a missing nullable column is null, and no value is cast with loss: a value that does not
fit is refused with its row. The write task handles nulls in NOT NULL columns, defaults and row kinds.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final, TypeGuard

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, near_hint, shown
from lakehouse_core.format.data_types import (
    AtomicType,
    DataField,
    TypeRoot,
    arrow_type,
    field_from_arrow,
    type_to_sql,
)
from lakehouse_core.interchange.pandas_frames import Series, array_of, frame_columns, values_of, without_values
from lakehouse_core.table.commit_message import Missing
from lakehouse_core.tasks.python_values import column_of
from lakehouse_core.tasks.write.arrow_casts import Misfits, lossless_cast, misfit_row, refused_type
from lakehouse_core.tasks.write.arrow_input import arrow_source

# The number of rows of a list that are converted to Arrow at once.
_CHUNK_ROWS: Final = 65_536


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
    """Return the rows of `data` as batches of `fields` (and the row kind column last, when it is not a field).

    `missing`: whether a column that the data, or a row of a list, lacks is null or an error.
    Columns are checked by this call, values when a batch is taken. Raises InvalidRequest; the message counts rows from
    `first_row`, ends with `advice` for a value that would lose digits, and with `in_sql` names SQL types.
    """
    misfits = Misfits(first_row, advice, in_sql)
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
        raise InvalidRequest(f"The data is a Series, a single column: write {frame}.")
    # From Spark 4.3 on it has an Arrow stream, too, which the driver alone would draw.
    if _is_spark_frame(data):
        raise InvalidRequest(
            "The data is a Spark DataFrame, and this catalog has no Spark session: open it with "
            "connect(…, spark=df.sparkSession), or hand over df.toArrow() where the rows fit into memory."
        )
    if (source := arrow_source(data)) is not None:
        if missing == "error":
            _check_complete(source[0].names, fields, "The data")
        return _of_arrow(*source, fields, rowkind_column, misfits)
    raise InvalidRequest(
        f"Cannot write {_told(data)}: expected an object with an Arrow stream (a scan, pyarrow, polars, DuckDB), "
        "a pandas DataFrame, a list of dicts, files (lc.RowFiles), or, if the catalog has a session, a Spark "
        f"DataFrame.{_next_step(data)}"
    )


def source_rows(data: object) -> pa.Table:
    """Return all rows of data that has no columns to fit, in memory and in the types of tables; a column without a type
    is text. Raises InvalidRequest.
    """
    source: Any = data
    try:
        if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
            names = dict.fromkeys(str(name) for row in data for name in row)
            source = pa.table({name: [row.get(name) for row in data] for name in names})
        elif frame_columns(data) is not None:
            source = pa.Table.from_pandas(source, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"The rows have no common types: {error}. Hand over a pyarrow.Table.") from error
    found = None if _is_series(data) or _is_spark_frame(data) else arrow_source(source)
    if found is None:
        raise InvalidRequest(
            f"The source is {_told(data)}: expected an object with an Arrow stream (a scan, pyarrow, polars, DuckDB), "
            f"a pandas DataFrame, or a list of dicts.{_next_step(data)}"
        )
    given, batches = found
    schema = pa.schema([pa.field(each.name, _type_of(each)) for each in given])
    try:
        return pa.Table.from_batches([each.cast(schema) for each in batches], schema=schema)
    except pa.ArrowException as error:
        raise InvalidRequest(f"The source cannot be read: {shown(error)}") from error


def _type_of(field: pa.Field) -> pa.DataType:
    return pa.string() if pa.types.is_null(field.type) else arrow_type(field_from_arrow(field).type)


def _told(data: object) -> str:
    """Return the class of the data; for a list, the class of the first element that is not a row."""
    if isinstance(data, list | tuple):
        for row, values in enumerate(data):
            if not isinstance(values, Mapping):
                return f"a {type(data).__qualname__} whose row {row} is {_class(values)}"
    return _class(data)


def _class(value: object) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return name.removeprefix("builtins.")


def _next_step(data: object) -> str:
    match data:
        case str() | PurePath():
            return f" For a file write lc.RowFiles({shown(str(data))})."
        case Mapping():
            return " One row is a list too: [row]. Of columns pyarrow.table(…) makes a table."
        case Iterator():
            return " Call list(…) of it, or write its rows in parts."
    return " Call its collect() first." if type(data).__name__ == "LazyFrame" else ""


def _is_spark_frame(data: object) -> bool:
    # The check is by class name, because this module must not import Spark.
    return type(data).__module__.startswith("pyspark.sql.") and type(data).__name__ == "DataFrame"


def _is_series(data: object) -> TypeGuard[Any]:
    """Return whether `data` is a column of pandas or polars, without importing either."""
    return type(data).__module__.partition(".")[0] in ("pandas", "polars") and type(data).__name__ == "Series"


def row_count(data: object) -> int | None:
    """Return the number of rows of `data`, None if it is known only after reading them."""
    match data:
        case pa.Table() | pa.RecordBatch():
            return int(data.num_rows)
        case list() | tuple():
            return len(data)
        case _:
            is_frame = type(data).__module__.partition(".")[0] in ("pandas", "polars")
            return len(data) if is_frame and isinstance(data, Sized) else None


def can_be_read_again(data: object) -> bool:
    """Return whether `data` certainly gives the same rows a second time; a stream gives its rows once."""
    return row_count(data) is not None or _is_spark_frame(data)


def _of_arrow(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    fields: Sequence[DataField],
    rowkind_column: str | None,
    misfits: Misfits,
) -> Iterator[pa.RecordBatch]:
    wanted = _output_fields(fields, rowkind_column)
    _check_columns(schema.names, fields, rowkind_column)
    target = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in wanted])
    casts: list[tuple[int, Callable[[pa.Array], pa.Array]] | None] = []
    for field in wanted:
        index = schema.get_field_index(field.name)
        casts.append(None if index < 0 else (index, lossless_cast(schema.field(index).type, field, misfits)))
    return _converted(batches, target, casts, misfits, wanted)


def _converted(
    batches: Iterable[pa.RecordBatch],
    target: pa.Schema,
    casts: Sequence[tuple[int, Callable[[pa.Array], pa.Array]] | None],
    misfits: Misfits,
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
                raise misfit_row(batch.column(index), convert, field, replace(misfits, first_row=first_row)) from error
            except pa.ArrowNotImplementedError as error:
                raise refused_type(field, batch.column(index).type, misfits) from error
        first_row += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _of_frame(
    columns: Mapping[Any, Series], fields: Sequence[DataField], rowkind_column: str | None, misfits: Misfits
) -> Iterator[pa.RecordBatch]:
    wanted = _output_fields(fields, rowkind_column)
    _check_columns(list(columns), fields, rowkind_column)
    found = {name: series for name, series in columns.items() if len(series)}
    # A column with a type is checked once by its type, not row by row.
    for field in wanted:
        if field.name not in columns or (empty := array_of(columns[field.name].iloc[:0])) is None:
            continue
        try:
            lossless_cast(empty.type, field, misfits)
        except InvalidRequest:
            if (untyped := without_values(columns[field.name])) is None:
                raise
            if field.name in found:
                found[field.name] = untyped
    return _frame_converted(found, wanted, misfits)


def _frame_converted(
    columns: Mapping[Any, Series], fields: Sequence[DataField], misfits: Misfits
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
                arrays.append(column_of(values_of(part), misfits.first_row + start, field))
                continue
            batch = pa.RecordBatch.from_arrays([array], [field.name])
            convert = [(0, lossless_cast(array.type, field, misfits))]
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
        columns = [column_of((row.get(field.name) for row in chunk), first_row + start, field) for field in fields]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _output_fields(fields: Sequence[DataField], rowkind_column: str | None) -> list[DataField]:
    if rowkind_column is None or any(field.name == rowkind_column for field in fields):
        return list(fields)
    return [*fields, DataField(-1, rowkind_column, AtomicType(TypeRoot.VARCHAR, length=2))]


def _check_complete(names: Container[Any], fields: Sequence[DataField], what: str) -> None:
    for field in fields:
        if field.name not in names:
            raise InvalidRequest(
                f"{what} has no column {shown(field.name)}, and missing='error' expects all columns: add it, with "
                "nulls where there is no value. A table with the merge engine partial-update keeps the values "
                "that rows lack."
            )


def _check_columns(names: Sequence[str], fields: Sequence[DataField], rowkind_column: str | None) -> None:
    known = [field.name for field in fields]
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise InvalidRequest(f"The data has two columns {shown(twice)}: rename or drop one.")
    for name in names:
        if name not in known and name != rowkind_column:
            hint = near_hint(name, known, f"Columns: {', '.join(known)}.", most=1)
            if len(names) == 1 < len(known) and (mark := next((each for each in ";\t|" if each in name), None)):
                hint = f"If the fields of the file are separated by {shown(mark)}, say so (delimiter=, --delimiter)."
            raise InvalidRequest(f"The data has a column {shown(name)}, which the table does not have. {hint}")
    if rowkind_column is not None and rowkind_column not in names:
        raise InvalidRequest(f"The data has no column {shown(rowkind_column)}, the column of row kinds: add it.")
    for field in fields:
        if not field.type.nullable and field.default_value is None and field.name not in names:
            raise InvalidRequest(
                f"The data has no column {shown(field.name)}, which is {type_to_sql(field.type)}: add it."
            )
