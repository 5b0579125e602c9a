"""The join of a MERGE on Spark. The joined rows that fall under a clause are collected in the driver.

Tasks read the rows of the table with their addresses; the source is read once and cached.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NullType

from lakehouse_core.execution.engines.spark.failures import translated
from lakehouse_core.execution.engines.spark.runtime import worker_runtime
from lakehouse_core.execution.engines.spark.scan.frame import task_frame
from lakehouse_core.execution.engines.spark.session import core_count
from lakehouse_core.execution.engines.spark.sql.query import SparkQuery
from lakehouse_core.execution.engines.spark.types import fields_from_spark
from lakehouse_core.execution.row_changes.change_base import ReadAt
from lakehouse_core.execution.sql.relation import Relation
from lakehouse_core.format.data_types import UNASSIGNED, DataField, in_backquotes, parse_type
from lakehouse_core.planning.row_changes.merge_plan import ADDRESS, SOURCE_VIEW, TARGET_VIEW, MergePlan
from lakehouse_core.planning.sql.conditions import is_utc
from lakehouse_core.planning.sql.joining import query_over
from lakehouse_core.planning.sql.spark_text import spark_query
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.change_rows.target import TargetTask, target_rows
from lakehouse_core.tasks.write.input import source_rows

# Of a source of at most so many rows, every task that reads rows of the table gets the values that ON compares.
_MOST_KEYS: Final = 500_000
_ADDRESS_FIELD = DataField(UNASSIGNED, ADDRESS, parse_type("BIGINT"))


class SparkMerge:
    """The side of a MERGE whose source is a frame. Call `close` at the end."""

    def __init__(self, session: SparkSession, source: DataFrame, read_at: ReadAt | None = None) -> None:
        self.read_at = read_at
        self._session = session
        with translated(session, "Reading the source of a MERGE"):
            self._source = _typed(source).cache()
            self.fields: Sequence[DataField] = fields_from_spark(source.schema)
        # By column of the source that was asked for its bounds, its values; empty if there are too many.
        self._values: Mapping[str, pa.Array] = {}

    def close(self) -> None:
        self._source.unpersist()

    @property
    def in_utc(self) -> bool:
        return is_utc(self._session.conf.get("spark.sql.session.timeZone"))

    def bounds(self, columns: Sequence[str]) -> Mapping[str, tuple[Any, Any]]:
        if not columns:
            return {}
        asked = [part(self._source[in_backquotes(name)]) for name in columns for part in (F.min, F.max)]
        with translated(self._session, "Reading the source of a MERGE"):
            row = self._source.agg(F.count(F.lit(1)), *asked).collect()[0]
            if row[0] <= _MOST_KEYS:
                found = self._source.select([self._source[in_backquotes(name)] for name in columns]).toArrow()
                self._values = {name: pc.drop_null(pc.unique(found.column(name))) for name in columns}
        pairs = {name: (row[2 * number + 1], row[2 * number + 2]) for number, name in enumerate(columns)}
        return {name: pair for name, pair in pairs.items() if pair[0] is not None}

    def joined(
        self, plan: MergePlan, tasks: Sequence[TargetTask], schema: TableSchema, parameters: Mapping[str, Any]
    ) -> pa.Table:
        fields = [*(schema.field(name) for name in plan.columns), _ADDRESS_FIELD]
        pairs = plan.equated if plan.is_pruned else ()
        among = {column: self._values[source] for column, source in pairs if source in self._values}
        groups = [tasks[number :: 2 * core_count(self._session)] for number in range(2 * core_count(self._session))]
        with translated(self._session, "Reading the rows of a MERGE"):
            rows = partial(_rows, among=among)
            target = task_frame(self._session, [group for group in groups if group], fields, rows)
        named = {TARGET_VIEW: fields, SOURCE_VIEW: self.fields}
        query, tables, _, views = query_over(plan.text, named, parameters, in_utc=self.in_utc)
        relations = [
            Relation(view=views[TARGET_VIEW], title="target", rows=None, frame=target),
            Relation(view=views[SOURCE_VIEW], title="source", rows=None, frame=self._source),
        ]
        found = SparkQuery(self._session, spark_query(query, tables), relations, parameters)
        return pa.Table.from_batches(found.batches(), schema=found.schema)


def source_frame(session: SparkSession, source: object) -> DataFrame:
    """Return the source of a MERGE as a frame. Raises InvalidRequest for data that has no rows."""
    if isinstance(source, DataFrame):
        return source
    if hasattr(source, "to_spark"):
        frame: DataFrame = source.to_spark(session)
        return frame
    with translated(session, "Reading the source of a MERGE"):
        return session.createDataFrame(source_rows(source))


def _typed(source: DataFrame) -> DataFrame:
    """Return the frame with text in place of the type of columns that are NULL everywhere, which no table has."""
    voids = {each.name for each in source.schema.fields if isinstance(each.dataType, NullType)}
    return source.withColumns({name: F.lit(None).cast("string") for name in voids}) if voids else source


def _rows(tasks: Sequence[TargetTask], among: Mapping[str, pa.Array]) -> Iterator[pa.RecordBatch]:
    runtime = worker_runtime()
    for task in tasks:
        yield from target_rows(task, runtime, among)
