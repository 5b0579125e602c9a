"""The Spark engine: run tasks in the user's session, which is made at the first task and never stopped here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.engines.spark.failures import translated
from lakehouse_core.execution.engines.spark.run import run_tasks
from lakehouse_core.execution.engines.spark.runtime import driver_runtime
from lakehouse_core.execution.engines.spark.scan.frame import binlog_frame, changes_frame, read_frame
from lakehouse_core.execution.engines.spark.session import core_count
from lakehouse_core.execution.engines.spark.shipped import data_source
from lakehouse_core.execution.engines.spark.types import spark_schema
from lakehouse_core.execution.engines.spark.write.frame import write_frame
from lakehouse_core.execution.read.incremental_scan import IncrementalPlan
from lakehouse_core.execution.read.scan import ScanPlan
from lakehouse_core.format.data_types import DataField
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.input import input_batches, row_count
from lakehouse_core.tasks.write.task import WriteTask, write_batches

T = TypeVar("T")


class SparkEngine:
    """`spark` is a session, classic or Connect, or a function that makes one."""

    is_remote: Final = True
    tasks_at_once: Final = 1

    def __init__(self, spark: SparkSession | Callable[[], SparkSession]) -> None:
        self._spark = spark

    @cached_property
    def session(self) -> SparkSession:
        """Return the session; make it at the first call. Raises InvalidRequest for an object that is not a session."""
        makes_one = callable(self._spark) and not isinstance(self._spark, type)
        session = self._spark() if makes_one else self._spark
        if isinstance(session, type) or not hasattr(session, "createDataFrame"):
            raise InvalidRequest(
                f"spark={shown(session)} is not a Spark session: pass a SparkSession, or a function that returns one."
            )
        return session

    def run(self, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T]) -> Iterator[str]:
        """Yield the text of one successful attempt per input, in order of the inputs. Put the largest input first.

        Raises the LakehouseError of a task; TaskFailed for any other error.
        """
        return run_tasks(self.session, task, inputs)

    def run_at_once(
        self,
        task: Callable[[T, TaskRuntime], str],
        inputs: Sequence[T],
        take: Callable[[str], None],
        *,
        most: int | None = None,
    ) -> None:
        """As `run`."""
        for text in self.run(task, inputs):
            take(text)

    def write(self, task: WriteTask, data: object, watch: Watch = NO_WATCH) -> Iterable[CommitMessage]:
        """Write rows as files without a snapshot; yield the commit message of each bucket.

        Raises the InvalidRequest of a task after all messages.

        Data in this process's memory is written in this process: a job would take longer to start. Raises
        InvalidRequest, TaskFailed.
        """
        if isinstance(data, DataFrame):
            watch.at("writing on Spark")
            return write_frame(task, data)
        rows = input_batches(data, task.schema.fields, rowkind_column=task.rowkind_column, missing=task.missing)
        return write_batches(task, watch.rows(rows, "writing", row_count(data)), driver_runtime())

    def to_spark(self, plan: ScanPlan) -> DataFrame:
        """Return the rows of a plan as a frame, pinned to the plan's snapshot. Nothing is read before Spark runs the
        frame.

        Raises UnsupportedFeature for a column that Spark cannot hold, NotFound, CorruptTable.
        """
        return read_frame(self.session, plan)

    def changes(self, plan: IncrementalPlan) -> DataFrame:
        """Return the changes of a plan, in partitions that keep their order. Raises as `to_spark` does."""
        return changes_frame(self.session, plan)

    def binlog(self, plan: ScanPlan) -> DataFrame:
        """Return the rows of a plan with row kinds in the form of a binlog. Raises as `to_spark` does."""
        return binlog_frame(self.session, plan)

    def register(self, name: str, functions: str) -> None:
        """Register a data source, whose work the module of the name `functions` does."""
        with translated(self.session, f"Registering {name}"):
            self.session.dataSource.register(data_source(name, functions, core_count(self.session)))

    def from_arrow(self, table: pa.Table, fields: Sequence[DataField]) -> DataFrame:
        """Return a small Arrow table as a frame. Raises UnsupportedFeature."""
        return self.session.createDataFrame(table, spark_schema(fields))
