"""Read of a state: the rows of splits, some of which may have rows that wait for their buckets.

Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.storage.overlap import reading_ahead
from lakehouse_core.tasks.read import ReadTask, split_objects, splits_rows
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.waiting.placing import placed_rows


def read_splits(tasks: Sequence[ReadTask], runtime: TaskRuntime) -> Iterator[pa.RecordBatch]:
    """Yield the rows of splits that satisfy the predicate; no batch is empty.

    REQUIRES: the tasks differ in their splits only. Raises CorruptTable if a file is missing, or differs from its
    manifest entry; StorageFull, StorageUnavailable.
    """
    if not tasks:
        return
    with reading_ahead(runtime.open_store(tasks[0].store), split_objects(task.split for task in tasks)) as store:
        yield from state_rows(tasks, store, runtime)


def state_rows(tasks: Iterable[ReadTask], store: FileOpener, runtime: TaskRuntime) -> Iterator[pa.RecordBatch]:
    """Yield the rows as `read_splits` does; `store` opens the files."""
    return splits_rows(tasks, store, partial(placed_rows, runtime))
