"""Arrow batches of exactly the declared schema, as tasks and Spark exchange them.

Spark accepts an int32 for a declared bigint, and then reads wrong values or fails far from the cause. So a task passes
every batch through this module.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest

# The JVM holds a whole batch outside its heap; batches above this size are no faster.
_BATCH_ROWS: Final = 65_536


def normalize(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns of `schema`, by name, in its order and types.

    Dictionaries are decoded, views and 64-bit offsets become plain types, units and widths change if no value is lost.
    Otherwise raises InvalidRequest with the column's name.
    """
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def exchanged(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of `schema` and bounded size, without empty ones."""
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
