"""Tasks of Spark's data source: partitions that are read, rows that are written, as bytes and text for other processes.

Rule: a task gets its splits, or the settings of its write, and no table.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql.types import StructType

from lakehouse_core.errors import InvalidRequest, LakehouseError
from lakehouse_core.execution.engines.spark.batches import exchanged
from lakehouse_core.execution.engines.spark.failures import failed_attempt, from_text, may_pass, to_text
from lakehouse_core.execution.engines.spark.runtime import begin_task
from lakehouse_core.execution.engines.spark.scan.frame import (
    ROW_KIND_FIELD,
    group_rows,
    largest_first,
    packed_groups,
)
from lakehouse_core.execution.engines.spark.types import exchange_schema, spark_schema
from lakehouse_core.execution.engines.spark.write.frame import check_columns, written_messages
from lakehouse_core.execution.read.scan import ScanPlan, read_tasks
from lakehouse_core.execution.write.stage import OpenStage
from lakehouse_core.format.data_types import DataField
from lakehouse_core.table.commit_json import messages_from_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.tasks.read import ReadTask

# Spark sets it for the tasks of a stream; it stays the same as long as the checkpoint does.
_QUERY: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a task wrote, or the error that another attempt would repeat. `query`: the id of the stream."""

    query: str | None
    schema_id: int
    messages: tuple[CommitMessage, ...] = ()
    error: LakehouseError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    tasks: Sequence[ReadTask]
    columns: pa.Schema
    kept_by: int | None
    table: str
    adds_row_kind: bool


def plan_schema(plan: ScanPlan, *, with_row_kind: bool = False) -> StructType:
    """Return the Spark schema of the plan's rows. Raises UnsupportedFeature for a column that Spark cannot hold."""
    return spark_schema([*([ROW_KIND_FIELD] if with_row_kind else ()), *_fields(plan)])


def plan_partitions(plan: ScanPlan, cores: int, *, adds_row_kind: bool = False) -> list[bytes]:
    """Return the partitions that read the plan: small splits share one as long as all cores have work.

    `adds_row_kind`: the rows are a state, and the first column says that each is added.
    """
    with_row_kind = adds_row_kind or plan.with_row_kinds
    columns = exchange_schema([*([ROW_KIND_FIELD] if with_row_kind else ()), *_fields(plan)])
    groups = packed_groups([[task] for task in largest_first(read_tasks(plan))], cores)
    kept_by = None if plan.tags else plan.oldest_id or None
    return [
        CPickleSerializer().dumps(
            _Partition(tasks=group, columns=columns, kept_by=kept_by, table=plan.table, adds_row_kind=adds_row_kind)
        )
        for group in groups
    ]


def partition_rows(packed: bytes | None) -> Iterator[pa.RecordBatch]:
    """Yield, in a task, the rows of a partition; none for the one that Spark makes where there is none.

    Raises the errors of a scan, as one that Spark's next attempt may not meet.
    """
    if packed is None:
        return
    begin_task()
    partition: _Partition = CPickleSerializer().loads(packed)
    for batch in group_rows(partition.tasks, table=partition.table, snapshot_id=partition.kept_by):
        whole = _with_row_kind(batch) if partition.adds_row_kind else batch
        yield from exchanged([whole], partition.columns)


def packed_stage(opened: OpenStage, schema: StructType) -> bytes:
    """Return an opened write for tasks and for the commit. `schema`: that of the frame. Raises InvalidRequest."""
    if opened.task is not None:
        check_columns(opened.task, schema)
    packed: bytes = CPickleSerializer().dumps(opened)
    return packed


def unpacked_stage(packed: bytes) -> OpenStage:
    """Return the opened write."""
    found: OpenStage = CPickleSerializer().loads(packed)
    return found


def task_written(packed: bytes, batches: Iterator[pa.RecordBatch]) -> str:
    """Write, in a task, the rows that Spark gives it; return the text for the commit."""
    begin_task()
    opened = unpacked_stage(packed)
    assert opened.task is not None
    context = TaskContext.get()
    about = {
        "query": None if context is None else context.getLocalProperty(_QUERY),
        "schema_id": opened.staged.schema_id,
    }
    try:
        return json.dumps({**about, "messages": written_messages(opened.task, batches)})
    except LakehouseError as error:
        if may_pass(error):
            raise failed_attempt(error) from error
        return json.dumps({**about, "error": to_text(error)})


def written(text: str) -> Written:
    """Return what a task wrote, from its text."""
    record = json.loads(text)
    return Written(
        query=record["query"],
        schema_id=record["schema_id"],
        messages=tuple(message for part in record.get("messages", ()) for message in messages_from_json(part)),
        error=from_text(record["error"]) if "error" in record else None,
    )


def check_types(declared: StructType, found: StructType, table: str) -> None:
    """Raise InvalidRequest for a declared column whose type is not that of the table."""
    for column in declared.fields:
        kind = found[column.name].dataType
        if column.dataType.simpleString() != kind.simpleString():
            raise InvalidRequest(
                f"{table}: column {column.name!r} is {kind.simpleString()}, found {column.dataType.simpleString()} in "
                "the schema of the frame. Load the table again, without a schema or with this type."
            )


def _fields(plan: ScanPlan) -> list[DataField]:
    return [plan.schema.field(name) for name in plan.columns]


def _with_row_kind(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar("+I", pa.string()), batch.num_rows)
    return batch.add_column(0, pa.field(ROW_KIND_FIELD.name, pa.string()), kinds)
