"""Deletion vectors in reads: load the vectors of a split, and drop the marked rows from batches.

Source: docs/semantics/deletion-vectors.md#key-tables; the bytes are those of `format.deletion_vector`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.format.deletion_vector import Positions, VectorSpan, check_index_file, decode_vector
from lakehouse_core.format.rows import take_all
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.manifest import DeletionVectorRange

# Arrow's filter copies runs of rows: twice as fast as taking rows by their numbers where runs are long, half as fast
# where they are shorter than this.
_SHORT_RUN: Final = 8


def load_positions(store: FileOpener, deletion: DeletionFile, data_file_name: str) -> Positions:
    """Return the positions of the deleted rows of a data file, rising. Reads the vector's bytes only.

    Raises CorruptTable when the index file is missing, or when the vector does not fit the index manifest.
    """
    span = VectorSpan(deletion.offset, deletion.length)
    try:
        source = store.open_read(deletion.key)
    except NotFound as error:
        raise CorruptTable.missing(store.uri(deletion.key)) from error
    with source:
        start = source.read_at(1, 0)
        data = source.read_at(span.most_bytes, span.offset) if span.offset < source.size() else b""
    check_index_file(start, deletion.key)
    where = f"{deletion.key}, at {deletion.offset} for {data_file_name}"
    return decode_vector(data, deletion.length, where, cardinality=deletion.cardinality, checksum=deletion.checksum)


def read_vectors(data: bytes, key: str, vectors: Iterable[DeletionVectorRange]) -> Iterator[tuple[str, Positions]]:
    """Yield the data files of the index file with the content `data`, each with its marked rows. Raises
    CorruptTable.
    """
    check_index_file(data, key)
    for vector in vectors:
        where = f"{key}, at {vector.offset} for {vector.data_file_name}"
        rows = decode_vector(
            data[vector.offset :], vector.length, where, cardinality=vector.cardinality, checksum=vector.checksum
        )
        yield vector.data_file_name, rows


def remaining_rows(batches: Iterator[pa.RecordBatch], positions: Positions) -> Iterator[pa.RecordBatch]:
    """Yield the batches without the rows at these rising positions, which count the rows of all batches."""
    start = 0
    for batch in batches:
        first, last = np.searchsorted(positions, (start, start + batch.num_rows))
        yield _without(batch, positions[first:last] - start) if first < last else batch
        start += batch.num_rows


def _without(batch: pa.RecordBatch, positions: Positions) -> pa.RecordBatch:
    kept = np.ones(batch.num_rows, np.bool_)
    kept[positions] = False
    if len(positions) * _SHORT_RUN > batch.num_rows:
        columns = take_all(batch.columns, np.flatnonzero(kept))
    else:
        mask = pa.array(kept)
        columns = [pc.call_function("filter", [column, mask]) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)
