"""What crosses between a task and Spark: Arrow batches of exactly the declared schema.

Spark takes an int32 for a declared bigint, and reads garbage or fails far from the cause. So nothing is yielded that
did not pass here.
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
