"""A scan as one DataFrame: Spark's own reader reads splits that need no merge, Python tasks read the others.

Nothing is read before Spark runs the frame; each run reads again. Columns and condition are applied in both branches,
because a filter above them would reach only Spark's reader; of Python tasks it may leave out those of whole partitions.
Only Python tasks read changes.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakehouse_core.errors import CorruptTable
from lakehouse_core.execution.context import reading_context
from lakehouse_core.execution.engines.spark.batches import exchanged
from lakehouse_core.execution.engines.spark.failures import translated
from lakehouse_core.execution.engines.spark.runtime import begin_task, worker_runtime
from lakehouse_core.execution.engines.spark.scan.conditions import atomic, condition, constant
from lakehouse_core.execution.engines.spark.scan.native import differ_without_case, is_exact, native_frame, native_tasks
from lakehouse_core.execution.engines.spark.session import core_count
from lakehouse_core.execution.engines.spark.types import exchange_schema, spark_schema
from lakehouse_core.execution.read.incremental_scan import IncrementalPlan, task_changes
from lakehouse_core.execution.read.scan import ScanPlan, read_tasks
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import UNASSIGNED, ArrayType, DataField, in_backquotes, parse_type
from lakehouse_core.planning.read.packing import pack
from lakehouse_core.table.predicate import columns_of
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split, sharing
from lakehouse_core.tasks.changelogs.binlog import binlog_batches, by_bucket
from lakehouse_core.tasks.read import ROW_KIND_COLUMN, ReadTask
from lakehouse_core.tasks.waiting.read import read_splits

# The bound on the row ids of the frame, which tasks count through in milliseconds. Spark never broadcasts more rows
# anyway.
_MOST_COUNTED_ROWS: Final = 20_000_000
# Each takes Spark tens of milliseconds to make; what they leave out is at least a task of each.
_MOST_FRAMES: Final = 64
ROW_KIND_FIELD: Final = DataField(UNASSIGNED, ROW_KIND_COLUMN, parse_type("STRING"))

# The splits that one Spark task reads.
Group: TypeAlias = Sequence[ReadTask]


class SplitTask(Protocol):
    """A task that reads a split."""

    @property
    def split(self) -> Split: ...


def read_frame(session: SparkSession, plan: ScanPlan) -> DataFrame:
    """Return the rows of the plan as one frame.

    Raises UnsupportedFeature for a column that Spark cannot hold, NotFound, CorruptTable. Errors of tasks come later,
    inside Spark's error.
    """
    tasks, predicate = read_tasks(plan), plan.predicate
    fields = [plan.schema.field(name) for name in plan.columns]
    asked = columns_of(predicate) if predicate is not None else frozenset()
    needed = [*fields, *(plan.schema.field(name) for name in sorted(asked.difference(plan.columns)))]
    with translated(session, f"Reading {len(tasks)} splits"):
        native = native_tasks(session, tasks, needed)
        chosen = set(map(id, native))
        others = [task for task in tasks if id(task) not in chosen]
        branches: list[DataFrame] = []
        if native:
            frame = native_frame(session, native, needed)
            if predicate is not None:
                frame = frame.where(condition(predicate, {field.name: field.type for field in needed}))
            branches.append(frame.select(*map(in_backquotes, plan.columns)))
        if others or not native:
            branches += _task_frames(session, plan, others)
        frame = _union(branches)
        return frame if plan.limit is None else frame.limit(plan.limit)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of frames of the same columns in the same order. Spark looks through the parts of each union
    again, so halves are joined.
    """
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return _union(frames[:middle]).union(_union(frames[middle:]))


def _task_frames(session: SparkSession, plan: ScanPlan, tasks: Group) -> Iterator[DataFrame]:
    """Yield the rows of the tasks as frames of the same columns: one for each partition that fills a Spark task by
    itself, in which its values are constants, and one for the others. Where a filter excludes the constants, Spark
    leaves out the frame.
    """
    fields = [plan.schema.field(name) for name in plan.columns]
    told = [ROW_KIND_FIELD, *fields] if plan.with_row_kinds else fields
    keys = [field for field in fields if field.name in plan.schema.partition_keys and is_exact(field)]
    read = [field for field in told if field not in keys]
    # Of all tasks: a frame of its own takes no more Spark tasks for a partition.
    target = _target_bytes([[task] for task in tasks], core_count(session)) if tasks else 0

    def frame(group: Group, columns: Sequence[DataField]) -> DataFrame:
        groups = _packed([[task] for task in largest_first(group)], target)
        rows = partial(group_rows, table=plan.table, snapshot_id=plan.snapshot_id)
        return task_frame(session, groups, columns, rows)

    alone = _large_partitions(tasks, target) if keys and read and differ_without_case(told) else {}
    for partition, group in alone.items():
        constants = _constants(partition, plan.schema, keys)
        yield frame(group, read).select(
            [constants[one.name] if one in keys else sf.col(in_backquotes(one.name)) for one in told]
        )
    others = [task for task in tasks if task.split.partition not in alone]
    if others or not alone:
        yield frame(others, told)


def _constants(partition: bytes, schema: TableSchema, keys: Collection[DataField]) -> dict[str, Column]:
    """Return the values of these keys of a partition as columns that may be null, as columns of a read are."""
    fields = schema.partition_fields
    values = deserialize_row(partition, [field.type for field in fields])
    always = sf.lit(0) == sf.lit(0)
    return {
        field.name: sf.when(always, constant(value, atomic(field.type))).alias(field.name)
        for field, value in zip(fields, values, strict=True)
        if field in keys
    }


def _large_partitions(tasks: Group, target_bytes: int) -> dict[bytes, list[ReadTask]]:
    """Return the tasks of the largest partitions, at most 64, of those of at least so many bytes of files."""
    of_partition: dict[bytes, list[ReadTask]] = {}
    for task in tasks:
        of_partition.setdefault(task.split.partition, []).append(task)
    sizes = {partition: sum(one.split.size_bytes for one in own) for partition, own in of_partition.items()}
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:_MOST_FRAMES]
    return {partition: of_partition[partition] for partition in largest if sizes[partition] >= target_bytes}


def changes_frame(session: SparkSession, plan: IncrementalPlan) -> DataFrame:
    """Return the changes of the plan as one frame, whose partitions and rows are in the plan's order.

    Raises UnsupportedFeature for a column that Spark cannot hold.
    """
    with translated(session, f"Reading the changes of {len(plan.tasks)} splits"):
        groups = packed_groups([[task] for task in plan.tasks], core_count(session))
        # Each group of tasks is pickled by itself, not with the plan.
        rows = partial(_changes, plan=replace(plan, tasks=()))
        return task_frame(session, groups, [ROW_KIND_FIELD, *plan.schema.fields], rows)


def binlog_frame(session: SparkSession, plan: ScanPlan) -> DataFrame:
    """Return the rows of a plan with row kinds in the form of a binlog: an array for each column.

    Raises UnsupportedFeature for a column that Spark cannot hold.
    """
    tasks = read_tasks(plan)
    fields = [plan.schema.field(name) for name in plan.columns]
    arrays = [DataField(UNASSIGNED, field.name, ArrayType(field.type)) for field in fields]
    with translated(session, f"Reading the binlog of {len(tasks)} splits"):
        # The two rows of an update may be in two files of a bucket.
        groups = packed_groups(list(by_bucket(tasks)), core_count(session))
        rows = partial(_binlog, table=plan.table, snapshot_id=plan.snapshot_id, packs=plan.is_increment)
        return task_frame(session, groups, [ROW_KIND_FIELD, *arrays], rows)


def task_frame(
    session: SparkSession,
    groups: Sequence[Sequence[SplitTask]],
    fields: Sequence[DataField],
    rows: Callable[[Any], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """Return the rows of groups of tasks, each group read by one Spark task with `rows`."""
    declared, exchange = spark_schema(fields), exchange_schema(fields)
    if not groups:
        # Of an empty list Spark would not know the size.
        return session.createDataFrame(exchange.empty_table(), declared)
    # As in `run`: a task unpickles its own splits only.
    packed = [CPickleSerializer().dumps(group) for group in groups]
    # Spark estimates the size of the result by the number of input rows, and would broadcast a large table that a few
    # input rows produce. So the input has as many ids as the plan has rows, filtered to one id per task.
    row_count = min(sum(task.split.row_count for group in groups for task in group), _MOST_COUNTED_ROWS)
    step = max(1, row_count // len(groups))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from exchanged(rows(CPickleSerializer().loads(packed[number // step])), exchange)

    numbers = session.range(0, step * len(groups), 1, len(groups)).where(f"id % {step} = 0")
    return numbers.mapInArrow(read, declared)


def group_rows(tasks: Group, *, table: str, snapshot_id: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the splits. Raises SnapshotExpired if a file is missing because its snapshot expired
    meanwhile.
    """
    runtime = worker_runtime()
    for together in sharing(tasks, lambda task: task.split):
        try:
            yield from read_splits(together, runtime)
        except CorruptTable:
            if snapshot_id is not None:
                store = runtime.open_store(together[0].store)
                reading_context(table, store, runtime.clock).snapshots.snapshot(snapshot_id)
            raise


def _changes(tasks: Group, *, plan: IncrementalPlan) -> Iterator[pa.RecordBatch]:
    runtime = worker_runtime()
    for task in tasks:
        table = reading_context(plan.table, runtime.open_store(task.store), runtime.clock)
        yield from task_changes(task, plan, table)


def _binlog(tasks: Group, *, table: str, snapshot_id: int | None, packs: bool) -> Iterator[pa.RecordBatch]:
    for of_bucket in by_bucket(tasks):
        yield from binlog_batches(group_rows(of_bucket, table=table, snapshot_id=snapshot_id), packs=packs)


def largest_first(tasks: Group) -> Group:
    """Return the tasks by size; those that share waiting rows stay together."""
    groups = sharing(tasks, lambda task: task.split)
    by_size = sorted(groups, key=lambda group: sum(task.split.size_bytes for task in group), reverse=True)
    return list(chain.from_iterable(by_size))


def packed_groups(groups: Sequence[Group], cores: int) -> list[Group]:
    """Return the splits of each Spark task, in order, without dividing a group. Small groups share a task as long as
    all cores have work.
    """
    return _packed(groups, _target_bytes(groups, cores)) if groups else []


def _packed(groups: Sequence[Group], target_bytes: int) -> list[Group]:
    if not groups:
        return []
    sizes = [sum(task.split.size_bytes for task in group) for group in groups]
    open_cost = groups[0][0].schema.table_options.split_open_cost_bytes
    bins = pack(groups, sizes, target_bytes=target_bytes, open_cost_bytes=open_cost)
    return [list(chain.from_iterable(one)) for one in bins]


def _target_bytes(groups: Sequence[Group], cores: int) -> int:
    """Return how many bytes of files fill a Spark task. REQUIRES: a group."""
    options = groups[0][0].schema.table_options
    sizes = (sum(task.split.size_bytes for task in group) for group in groups)
    total = sum(max(size, options.split_open_cost_bytes) for size in sizes)
    return min(options.split_target_bytes, max(options.split_open_cost_bytes, total // cores))
