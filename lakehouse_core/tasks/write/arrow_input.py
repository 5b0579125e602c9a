"""Arrow input: normalize batches of other programs so that every Arrow function accepts them.

Java omits the single offset of a list array without elements. Arrow functions that measure, join or cast such arrays
crash the process, so every batch is normalized before anything else is done with it.
"""

import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.interchange.arrow_rows import ArrowRows

# Far below what Arrow can address, because row sizes differ.
_PIECE_BYTES: Final = 512 << 20
_PIECE_ROWS: Final = 1 << 20


def arrow_source(data: object) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    """Return the schema and the batches of data that offers Arrow, normalized and of bounded size; None for other data.

    Raises InvalidRequest for columns of types unknown to Arrow, and for a stream of a single column.
    """
    found = _found(data)
    return None if found is None else (found[0], _bounded(_normalized(found[1])))


def _found(data: object) -> tuple[pa.Schema, Iterable[pa.RecordBatch]] | None:
    match data:
        case pa.Table():
            return data.schema, data.to_batches(max_chunksize=_PIECE_ROWS)
        case pa.RecordBatch():
            return data.schema, [data]
        case pa.RecordBatchReader():
            return data.schema, data
        case ArrowRows():
            # A scan of ours is read directly, so that its errors keep their classes.
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
    # A caller that holds a dataset has imported the module already.
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
    """Yield the batches of a stream. Raises InvalidRequest with the text of the stream's error, which is all that it
    passes on.
    """
    done = 0
    try:
        for batch in reader:
            yield batch
            done += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"The data ended with an error after {done} rows: {shown(error)}") from error


def _bounded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield large batches in slices: text with 64-bit offsets or views must fit in the 2 GiB of plain text."""
    for batch in batches:
        pieces = max(1, math.ceil(batch.num_rows / _PIECE_ROWS), math.ceil(batch.nbytes / _PIECE_BYTES))
        rows = math.ceil(batch.num_rows / pieces)
        for start in range(0, batch.num_rows, max(1, rows)):
            yield batch.slice(start, rows)


def _normalized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the missing offsets of empty list arrays added."""
    for batch in batches:
        if any(map(_lacks_offsets, batch.columns)):
            # `take` does not read the missing offsets, and makes new ones.
            yield batch.take(pa.array(range(batch.num_rows)))
        else:
            yield batch


def _lacks_offsets(array: pa.Array) -> bool:
    kind = array.type
    if pa.types.is_struct(kind):
        return any(_lacks_offsets(array.field(index)) for index in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = array.buffers()[1]
        return offsets is None or offsets.size == 0 or _lacks_offsets(array.values)
    return False
