"""Row selection: select the rows at some positions from the batches of a file."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakehouse_core.format.rows import take_all


def chosen_rows(
    batches: Iterable[pa.RecordBatch], spans: Sequence[tuple[int, int]], chosen: BitMap
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at the `chosen` positions; no batch is empty.

    `spans`: the ranges of file positions of the rows in `batches`, in order, ends excluded.
    """
    ranges = iter(spans)
    start = end = 0
    for batch in batches:
        taken = 0
        while taken < batch.num_rows:
            while start == end:
                start, end = next(ranges)
            count = min(end - start, batch.num_rows - taken)
            yield from _chosen(batch.slice(taken, count), start, chosen)
            taken += count
            start += count


def _chosen(batch: pa.RecordBatch, first: int, chosen: BitMap) -> Iterator[pa.RecordBatch]:
    after = first + batch.num_rows
    count = chosen.range_cardinality(first, after)
    if count == batch.num_rows:
        yield batch
    elif count:
        positions = np.asarray((chosen & BitMap(range(first, after))).to_array(), np.int64)
        yield pa.RecordBatch.from_arrays(take_all(batch.columns, positions - first), batch.schema.names)
