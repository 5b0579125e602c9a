"""What crosses between a task and Spark: Arrow batches of exactly the declared schema.

Spark takes an int32 for a declared bigint, and reads garbage or fails far from the cause. So nothing is yielded that
did not pass here. What Java sends has gaps that Arrow's own code runs into, so nothing is taken in that did not either.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest

# The JVM holds a whole batch off its heap; beyond this size larger ones gain nothing.
_BATCH_ROWS: Final = 65_536


def normalize(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns of `schema`, by name, in its order and types.

    Dictionaries are decoded, views and large types made plain, units and widths changed where no value is lost.
    Raises InvalidRequest naming the column otherwise.
    """
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def exchanged(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches that Spark takes, empty ones left out."""
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield normalize(batch.slice(start, _BATCH_ROWS), schema)


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that Spark sent, as batches that every Arrow function takes."""
    for batch in batches:
        columns = [_with_offsets(column) for column in batch.columns]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _with_offsets(column: pa.Array) -> pa.Array:
    # Java leaves out the one offset of a list without elements. Measuring, joining or casting the lists around it then
    # ends the process; taking rows does not look there, and makes new offsets.
    return column.take(pa.array(range(len(column)))) if _lacks_offsets(column) else column


def _lacks_offsets(array: pa.Array) -> bool:
    if pa.types.is_struct(array.type):
        return any(_lacks_offsets(array.field(index)) for index in range(array.type.num_fields))
    if pa.types.is_list(array.type) or pa.types.is_map(array.type):
        offsets = array.buffers()[1]
        return offsets is None or offsets.size == 0 or _lacks_offsets(array.values)
    return False


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    column = batch.column(batch.schema.get_field_index(field.name))
    if column.type.equals(field.type):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise InvalidRequest(
            f"Column {field.name!r} has values that Spark's {field.type} cannot hold ({error}): leave the column out, "
            "or read in this process with `to_arrow()`."
        ) from error
