"""The binlog: each column is a list; -U and +U of one change become one row of lists [before, after].

Source: docs/semantics/reading.md#audit-log-and-binlog.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.tasks.read import ROW_KIND_COLUMN, ReadTask

_BEFORE: Final = "-U"
_AFTER: Final = "+U"


def binlog_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the binlog for rows of `schema`, which has row kinds."""
    kind, *columns = schema
    return pa.schema([kind, *(pa.field(column.name, pa.list_(column.type)) for column in columns)])


def by_bucket(tasks: Iterable[ReadTask]) -> Iterator[Sequence[ReadTask]]:
    """Yield, in groups, the tasks that read the changes of one commit to one bucket, where -U and +U are adjacent."""
    for _, found in groupby(tasks, key=lambda task: (task.split.snapshot_id, task.split.partition, task.split.bucket)):
        yield list(found)


def binlog_batches(batches: Iterable[pa.RecordBatch], *, packs: bool) -> Iterator[pa.RecordBatch]:
    """Yield the batches, whose first column is the row kind, as batches of a binlog. `packs`: a -U and the next +U
    become one row.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        rows = batch if held is None else pa.concat_batches([held, batch])
        held = None
        if packs and rows.column(ROW_KIND_COLUMN)[-1].as_py() == _BEFORE:
            # The next batch may begin with the +U of this -U.
            held, rows = rows.slice(rows.num_rows - 1), rows.slice(0, rows.num_rows - 1)
        if rows.num_rows:
            yield _packed(rows, packs=packs)
    if held is not None:
        yield _packed(held, packs=packs)


def _packed(rows: pa.RecordBatch, *, packs: bool) -> pa.RecordBatch:
    """Return the rows as lists. The two rows of a pair are adjacent, so the values stay in place and only list offsets
    are made.
    """
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
