"""Lookups in a partition whose rows wait for their buckets: the rows of the keys are merged anew by each lookup, as a
read with a condition on the keys merges them.

Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakehouse_core.execution.lookup.bucket import KEY_NUMBER
from lakehouse_core.format.bucket_hash import buckets
from lakehouse_core.format.rows import take_all
from lakehouse_core.merge.key_words import key_words
from lakehouse_core.merge.order import order_rows
from lakehouse_core.merge.search import search, sorted_keys
from lakehouse_core.planning.read.key_condition import key_condition
from lakehouse_core.tasks.read import ReadTask
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.waiting.read import read_splits


class WaitingLookup:
    """The buckets of a partition of a snapshot, with its waiting rows. REQUIRES: a task for each bucket."""

    def __init__(self, tasks: Sequence[ReadTask], runtime: TaskRuntime) -> None:
        self._schema = tasks[0].schema
        self._columns = tasks[0].columns
        self._runtime = runtime
        columns = tuple(dict.fromkeys([*self._columns, *self.key_columns]))
        self._tasks = [replace(task, columns=columns) for task in tasks]

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the names of the trimmed primary key's columns."""
        return self._schema.trimmed_primary_keys

    def rows(self, columns: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the keys as `BucketLookup.rows` does."""
        sought = sorted_keys(columns)
        condition = key_condition(columns, self._schema.key_fields)
        wanted = self._buckets(columns)
        tasks = [replace(task, predicate=condition) for task in self._tasks if task.split.bucket in wanted]
        for batch in read_splits(tasks, self._runtime):
            own = [batch.column(name) for name in self.key_columns]
            # Rows of several buckets may share a batch.
            order = order_rows(key_words(own), batch.num_rows).rows
            at, is_there = search(sorted_keys(take_all(own, order)), sought)
            numbers = np.flatnonzero(is_there)
            found = batch.select(self._columns).take(pa.array(order[at[numbers]]))
            if found.num_rows:
                yield found.append_column(KEY_NUMBER, pa.array(numbers))

    def _buckets(self, columns: Sequence[pa.Array]) -> set[int]:
        """Return the buckets of the keys."""
        schema, count = self._schema, self._tasks[0].split.total_buckets
        by_name = dict(zip(self.key_columns, columns, strict=True))
        types = [field.type for field in schema.bucket_fields]
        function = schema.table_options.bucket_function
        return set(buckets([by_name[name] for name in schema.bucket_keys], types, count, function).tolist())
