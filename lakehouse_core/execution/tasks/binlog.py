"""The binlog: each column a list, -U and +U of one change packed into one row [before, after].

Source: docs/semantics/reading.md#audit-log-and-binlog.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.execution.tasks.read import ROW_KIND_COLUMN, ReadTask

_BEFORE: Final = "-U"
_AFTER: Final = "+U"


def binlog_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the binlog of rows with kinds."""
    kind, *columns = schema
    return pa.schema([kind, *(pa.field(column.name, pa.list_(column.type)) for column in columns)])


def by_bucket(tasks: Iterable[ReadTask]) -> Iterator[Sequence[ReadTask]]:
    """Yield the tasks that read what one commit did to one bucket: there, the two sides of an update lie together."""
    for _, found in groupby(tasks, key=lambda task: (task.split.snapshot_id, task.split.partition, task.split.bucket)):
        yield list(found)


def binlog_batches(batches: Iterable[pa.RecordBatch], *, packs: bool) -> Iterator[pa.RecordBatch]:
    """Yield rows whose kinds come first as rows of a binlog. `packs`: a -U is packed with the +U behind it."""
    held: pa.RecordBatch | None = None
    for batch in batches:
        rows = batch if held is None else pa.concat_batches([held, batch])
        held = None
        if packs and rows.column(ROW_KIND_COLUMN)[-1].as_py() == _BEFORE:
            # What comes next may belong to it.
            held, rows = rows.slice(rows.num_rows - 1), rows.slice(0, rows.num_rows - 1)
        if rows.num_rows:
            yield _packed(rows, packs=packs)
    if held is not None:
        yield _packed(held, packs=packs)


def _packed(rows: pa.RecordBatch, *, packs: bool) -> pa.RecordBatch:
    """Pairs lie side by side already, so values stay where they are and only the bounds of the lists are made."""
    kinds = rows.column(ROW_KIND_COLUMN)
    is_last = np.ones(rows.num_rows, dtype=bool)
    if packs:
        before = pc.equal(kinds, _BEFORE).to_numpy(zero_copy_only=False)
        after = pc.equal(kinds, _AFTER).to_numpy(zero_copy_only=False)
        is_last[:-1] = ~(before[:-1] & after[1:])
    ends = np.flatnonzero(is_last)
    offsets = pa.array(np.concatenate([[0], ends + 1]).astype(np.int32))
    lists = [pa.ListArray.from_arrays(offsets, column) for column in rows.columns[1:]]
    return pa.RecordBatch.from_arrays([kinds.take(pa.array(ends)), *lists], schema=binlog_schema(rows.schema))
