"""A scan as one DataFrame: the files that are the answer by Spark's own reader, merged splits by Python tasks.

Nothing is read before Spark runs it, then as often as it does. Columns and condition are put into both branches: a
filter above them would only reach Spark's own.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession

from lakehouse_core.clock import SystemClock
from lakehouse_core.errors import CorruptTable
from lakehouse_core.execution.engines.spark.batches import exchanged
from lakehouse_core.execution.engines.spark.conditions import condition
from lakehouse_core.execution.engines.spark.failures import translated
from lakehouse_core.execution.engines.spark.native import is_native, native_frame
from lakehouse_core.execution.engines.spark.routing import quoted
from lakehouse_core.execution.engines.spark.session import core_count
from lakehouse_core.execution.engines.spark.types import exchange_schema, spark_schema
from lakehouse_core.execution.scan import ScanPlan, read_tasks
from lakehouse_core.execution.snapshot_log import SnapshotLog
from lakehouse_core.execution.tasks.read import ROW_KIND_COLUMN, ReadTask, read_split
from lakehouse_core.format.data_types import UNASSIGNED, DataField, parse_type
from lakehouse_core.planning.splits import pack
from lakehouse_core.storage import open_store
from lakehouse_core.table.predicate import columns_of

# Ids that a task counts through, in milliseconds. More than this many rows are never broadcast anyway.
_MOST_COUNTED_ROWS: Final = 20_000_000
_ROW_KIND: Final = DataField(UNASSIGNED, ROW_KIND_COLUMN, parse_type("STRING"))


def read_frame(session: SparkSession, plan: ScanPlan) -> DataFrame:
    """Return the rows of the plan as one frame.

    Raises UnsupportedFeature for a column that Spark cannot hold, NotFound, CorruptTable. What tasks raise later is
    inside Spark's error.
    """
    tasks, predicate = read_tasks(plan), plan.predicate
    fields = [plan.schema.field(name) for name in plan.columns]
    asked = columns_of(predicate) if predicate is not None else frozenset()
    needed = [*fields, *(plan.schema.field(name) for name in sorted(asked.difference(plan.columns)))]
    with translated(session, f"Reading {len(tasks)} splits"):
        native = [task for task in tasks if is_native(task, needed)]
        others = [task for task in tasks if not is_native(task, needed)]
        branches: list[DataFrame] = []
        if native:
            frame = native_frame(session, native, needed)
            if predicate is not None:
                frame = frame.where(condition(predicate, {field.name: field.type for field in needed}))
            branches.append(frame.select(*map(quoted, plan.columns)))
        if others or not native:
            told = [_ROW_KIND, *fields] if plan.with_row_kinds else fields
            branches.append(_task_frame(session, others, told, plan.snapshot_id))
        frame = branches[0] if len(branches) == 1 else branches[0].unionByName(branches[1])
        return frame if plan.limit is None else frame.limit(plan.limit)


def _task_frame(
    session: SparkSession, tasks: Sequence[ReadTask], fields: Sequence[DataField], snapshot_id: int | None
) -> DataFrame:
    declared, exchange = spark_schema(fields), exchange_schema(fields)
    if not tasks:
        return session.createDataFrame([], declared)
    groups = _packed(tasks, core_count(session))
    # As in `run`: a task shall unpickle its own splits only.
    packed = [CPickleSerializer().dumps(group) for group in groups]
    # Spark guesses the size of the answer by the number of rows that go in, and would broadcast a large table that
    # comes out of a few. So it is shown as many ids as there are rows, and the tasks get one each.
    row_count = min(sum(task.split.row_count for task in tasks), _MOST_COUNTED_ROWS)
    step = max(1, row_count // len(groups))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        pa.set_io_thread_count(2)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for task in CPickleSerializer().loads(packed[number // step]):
                    yield from exchanged(_rows(task, snapshot_id), exchange)

    numbers = session.range(0, step * len(groups), 1, len(groups)).where(f"id % {step} = 0")
    return numbers.mapInArrow(read, declared)


def _rows(task: ReadTask, snapshot_id: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the split. A missing file of a snapshot that has expired meanwhile is told as such."""
    try:
        yield from read_split(task)
    except CorruptTable:
        if snapshot_id is not None:
            SnapshotLog(open_store(task.store), SystemClock()).snapshot(snapshot_id)
        raise


def _packed(tasks: Sequence[ReadTask], cores: int) -> list[list[ReadTask]]:
    """Return the splits by Spark task, the largest first: small ones together, as far as all cores have work."""
    options = tasks[0].schema.table_options
    total = sum(max(task.split.size_bytes, options.split_open_cost_bytes) for task in tasks)
    target = min(options.split_target_bytes, max(options.split_open_cost_bytes, total // cores))
    ordered = sorted(tasks, key=lambda task: task.split.size_bytes, reverse=True)
    return pack(
        ordered,
        lambda task: task.split.size_bytes,
        target_bytes=target,
        open_cost_bytes=options.split_open_cost_bytes,
    )
