"""Scans: the handles of a read and of a range of changes, which one plan serves in several forms."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from lakehouse_core.api.spark_engine import spark_engine_of
from lakehouse_core.api.verb import names_table, overtaken
from lakehouse_core.calls import checks_calls
from lakehouse_core.display import line, page
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.incremental_scan import IncrementalPlan, change_batches
from lakehouse_core.execution.read.rows import count_rows, scan_batches
from lakehouse_core.execution.read.scan import ScanPlan, scan_schema
from lakehouse_core.interchange.arrow_rows import ArrowRows

# Named for the reader: this module must not know Spark.
SparkSession: TypeAlias = Any
DataFrame: TypeAlias = Any


@checks_calls
class Scan(ArrowRows):
    """Rows of one state of a table.

    The first call that needs the snapshot fixes it; all later calls read the same one.
    """

    def __init__(
        self, plan: Callable[[], ScanPlan], table: TableContext, *, asked: Mapping[str, object] | None = None
    ) -> None:
        self.name = table.name
        self._make_plan = plan
        self._table = table
        self._asked = dict(asked or {})

    def __repr__(self) -> str:
        return line("Scan", self.name, self._facts())

    def _repr_html_(self) -> str:
        return page("Scan", self.name, self._facts())

    def _facts(self) -> dict[str, object]:
        """Return the request and, if it is planned already, the facts of the plan. Displaying a scan never plans it."""
        plan: ScanPlan | None = self.__dict__.get("_plan")
        if plan is None:
            return self._asked
        return {**self._asked, "snapshot_id": plan.snapshot_id, "splits": plan.facts()["splits"]}

    @cached_property
    def _plan(self) -> ScanPlan:
        return self._make_plan()

    @names_table
    def plan(self) -> ScanPlan:
        """Return the plan: which files are read in which splits. Reads metadata only."""
        return self._plan

    @names_table
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows: one column for each requested column, in that order."""
        return scan_schema(self._plan)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches, split by split, in this process. A batch is never empty, and memory stays bounded.

        Raises the errors of `Table.scan`, and SnapshotExpired when the snapshot expires during the read.
        """
        with overtaken(self._table):
            yield from scan_batches(self._plan, self._table)

    @names_table
    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """Return the rows as a DataFrame, without `session` on that of the catalog. No data file is read before Spark
        runs it.
        """
        return spark_engine_of(session, self._table).to_spark(self._plan)

    @names_table
    def count(self) -> int:
        """Return the number of rows. Files that need no merge and no condition are not opened."""
        return count_rows(self._plan, self._table)


def planned_anew(scan: Scan) -> Scan:
    """Return the same request, which is not planned yet."""
    return Scan(scan._make_plan, scan._table, asked=scan._asked)


def is_of_latest(scan: Scan, table: TableContext) -> bool:
    """Return whether the rows are those of the latest snapshot of this table: the request names no snapshot, tag or
    time. A table of the same name may be in another warehouse.
    """
    is_its = (scan.name, scan._table.store.uri("")) == (table.name, table.store.uri(""))
    return is_its and scan._asked.get("at") is None and not scan._asked.get("options")


@checks_calls
class ChangesScan(ArrowRows):
    """The changes of a range of snapshots, or the difference of two states.

    The first column is `rowkind`, which is +I, -U, +U or -D. The columns of the table follow.
    """

    def __init__(
        self, plan: Callable[[], IncrementalPlan], table: TableContext, *, asked: Mapping[str, object]
    ) -> None:
        self.name = table.name
        self._make_plan = plan
        self._table = table
        self._asked = dict(asked)

    def __repr__(self) -> str:
        return line("ChangesScan", self.name, self._asked)

    def _repr_html_(self) -> str:
        return page("ChangesScan", self.name, self._asked)

    @cached_property
    def _plan(self) -> IncrementalPlan:
        return self._make_plan()

    @names_table
    def plan(self) -> IncrementalPlan:
        """Return which files hold the changes, snapshot by snapshot. Reads metadata only."""
        return self._plan

    @names_table
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the changes: `rowkind`, then the table's columns."""
        return self._plan.arrow_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes in batches, in the order of the snapshots; within a bucket in the order of its files."""
        with overtaken(self._table):
            yield from change_batches(self._plan, self._table)

    @names_table
    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """Return the changes as a DataFrame, without `session` on that of the catalog. No data file is read before
        Spark runs it.

        Its partitions and their rows have the order of `to_batches`. A shuffle loses that order.
        """
        return spark_engine_of(session, self._table).changes(self._plan)
