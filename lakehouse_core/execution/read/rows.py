"""Rows of a scan: read the splits of its plan in this process, one after the other, or count their rows."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.scan import ScanPlan, explain_missing_files, tasks_of
from lakehouse_core.planning.read.limit import first_rows
from lakehouse_core.storage.overlap import reading_ahead
from lakehouse_core.table.split import sharing
from lakehouse_core.tasks.read import split_objects, splits_rows
from lakehouse_core.tasks.waiting.read import read_splits, state_rows


def scan_batches(plan: ScanPlan, table: TableContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the plan, split by split, in this process; no batch is empty.

    Raises SnapshotExpired or NotFound if planned files were deleted, CorruptTable if a file is damaged.
    """
    rows = _batches(plan, table)
    yield from rows if plan.limit is None else first_rows(rows, plan.limit)


def count_rows(plan: ScanPlan, table: TableContext) -> int:
    """Return the number of rows. A split is not opened if its files' metadata gives the exact number, or once the limit
    is reached.
    """
    total = 0
    for splits in sharing(plan.splits, lambda split: split):
        if plan.limit is not None and total >= plan.limit:
            return plan.limit
        known = None if plan.predicate is not None else splits[0].exact_row_count
        if known is not None:
            total += known
        else:
            tasks = tasks_of(replace(plan, columns=(), splits=splits), table.runtime)
            rows = read_splits(list(tasks), table.runtime)
            total += sum(batch.num_rows for batch in explain_missing_files(rows, table, plan))
    return total if plan.limit is None else min(total, plan.limit)


def _batches(plan: ScanPlan, table: TableContext) -> Iterator[pa.RecordBatch]:
    with reading_ahead(table.runtime.open_store(plan.store), split_objects(plan.splits)) as store:
        # A limit ends the read soon, so splits are read one by one, but waiting rows with those of their partition.
        found = tasks_of(plan, table.runtime)
        groups = [found] if plan.limit is None else sharing(found, lambda task: task.split)
        for tasks in groups:
            rows = state_rows(tasks, store, table.runtime) if plan.merges_waiting else splits_rows(tasks, store)
            yield from explain_missing_files(rows, table, plan)
