"""Arrow batches as other programs send them, made such that every Arrow function takes them.

Java leaves out the one offset of a list without elements. Measuring, joining or casting the lists around it then ends
the process, so nothing is written that did not pass here.
"""

import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.interchange.arrow_rows import ArrowRows

# Far below what Arrow can address, for rows are not alike.
_PIECE_BYTES: Final = 512 << 20
_PIECE_ROWS: Final = 1 << 20


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


def bounded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut large batches: text that comes with 64-bit offsets, or as views, must fit the 2 GiB of plain text."""
    for batch in batches:
        pieces = max(1, math.ceil(batch.num_rows / _PIECE_ROWS), math.ceil(batch.nbytes / _PIECE_BYTES))
        rows = math.ceil(batch.num_rows / pieces)
        for start in range(0, batch.num_rows, max(1, rows)):
            yield batch.slice(start, rows)


def normalized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the offsets that some of their lists lack."""
    for batch in batches:
        if any(map(_lacks_offsets, batch.columns)):
            # Taking rows does not look at what lists without elements lack, and makes new offsets.
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
