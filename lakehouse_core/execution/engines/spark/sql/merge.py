"""The join of a MERGE on Spark, and what it reads. The joined rows are collected in the driver.

A source of few rows is collected by one job: of the driver's memory it takes at most 500,000 rows, and no more than
spark.driver.maxResultSize. Any other source is cached, and Spark joins. The driver reads a small target itself.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NullType

from lakehouse_core.execution.engines.spark.batches import exchanged
from lakehouse_core.execution.engines.spark.failures import translated
from lakehouse_core.execution.engines.spark.runtime import driver_runtime, worker_runtime
from lakehouse_core.execution.engines.spark.scan.frame import task_frame
from lakehouse_core.execution.engines.spark.session import core_count
from lakehouse_core.execution.engines.spark.sql.query import SparkQuery
from lakehouse_core.execution.engines.spark.types import exchange_schema, fields_from_spark, spark_schema
from lakehouse_core.execution.read.relation import Relation, joined_relations
from lakehouse_core.execution.row_changes.bounds import FEW_ROWS
from lakehouse_core.execution.row_changes.change_base import SourceRows
from lakehouse_core.execution.row_changes.clause_rows import assigned_fields
from lakehouse_core.format.data_types import (
    UNASSIGNED,
    DataField,
    field_from_arrow,
    has_same_kind,
    in_backquotes,
    parse_type,
)
from lakehouse_core.planning.read.packing import waiting_parts
from lakehouse_core.planning.row_changes.merge_join import ADDRESS, SOURCE_VIEW, TARGET_VIEW, MergePlan
from lakehouse_core.planning.sql.conditions import is_utc
from lakehouse_core.planning.sql.spark_text import spark_query
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.change_rows.among import Among
from lakehouse_core.tasks.change_rows.target import TargetTask, target_rows, target_schema
from lakehouse_core.tasks.write.input import source_rows
from lakehouse_core.threads import Threads

# A source that Spark estimates to be larger is not tried to be collected: each of its tasks would send so many rows.
_MOST_BYTES: Final = 256 << 20
# What Spark says of a source of which it knows nothing.
_UNKNOWN_BYTES: Final = (1 << 63) - 1
_ADDRESS_FIELD = DataField(UNASSIGNED, ADDRESS, parse_type("BIGINT"))
_READING: Final = "Reading the source of a MERGE"


class SparkMerge:
    """The side of a MERGE whose source is a frame, or rows in this process. Call `close` at the end."""

    def __init__(self, session: SparkSession, source: "DataFrame | pa.Table", given: SourceRows) -> None:
        self.read_at = given.read_at
        self.request = given.request
        self._named = given.named
        self._session = session
        with translated(session, _READING):
            self._source = _typed(session.createDataFrame(source) if isinstance(source, pa.Table) else source)
            self.fields: Sequence[DataField] = fields_from_spark(self._source.schema)
        # Rows whose types Spark changes, such as times without a zone, are taken as it sees them.
        self._here = source if isinstance(source, pa.Table) and _is_kept(source.schema, self.fields) else None
        # By their names, columns of the source that were asked for.
        self._few: dict[tuple[str, ...], pa.Table | None] = {}
        self._cached: DataFrame | None = None

    def close(self) -> None:
        if self._cached is not None:
            self._cached.unpersist()

    @property
    def in_utc(self) -> bool:
        return is_utc(self._session.conf.get("spark.sql.session.timeZone"))

    def few(self, columns: Sequence[str]) -> pa.Table | None:
        if self._cached is not None:
            # Rows that differ in each read must be those whose bounds were asked for.
            return None
        asked = tuple(columns)
        if asked not in self._few:
            self._few[asked] = self._collected(asked)
        return self._few[asked]

    def _collected(self, columns: Sequence[str]) -> pa.Table | None:
        if self._here is not None:
            return self._here.select(columns) if self._here.num_rows <= FEW_ROWS else None
        with translated(self._session, _READING):
            rows = self._source.select([self._source[in_backquotes(name)] for name in columns])
            if _is_large(rows):
                return None
            try:
                found = rows.limit(FEW_ROWS + 1).toArrow()
            except (PySparkException, Py4JError) as error:
                # The rows are wider than the driver may be sent.
                if "maxResultSize" in str(error):
                    return None
                raise
        return found if found.num_rows <= FEW_ROWS else None

    def bounds(self, columns: Sequence[str]) -> Mapping[str, tuple[Any, Any]]:
        if not columns:
            return {}
        source = self._read_once()
        asked = [part(source[in_backquotes(name)]) for name in columns for part in (F.min, F.max)]
        with translated(self._session, _READING):
            # Python has no dates beyond the year 9999, which Arrow has.
            row = source.agg(*asked).toArrow()
        values = [column[0] for column in row.columns]
        pairs = {name: (values[2 * number], values[2 * number + 1]) for number, name in enumerate(columns)}
        return {name: pair for name, pair in pairs.items() if pair[0].is_valid}

    def matchable(
        self, tasks: Sequence[TargetTask], columns: Sequence[str], schema: TableSchema, among: Among
    ) -> pa.Table:
        if _is_small(tasks, schema):
            return pa.Table.from_batches(_rows_here(tasks, among), target_schema(schema, tuple(columns), ADDRESS))
        frame = self._target_frame(tasks, columns, schema, among)
        with translated(self._session, "Reading the rows of a MERGE"):
            return frame.toArrow()

    def joined(
        self,
        plan: MergePlan,
        tasks: Sequence[TargetTask],
        schema: TableSchema,
        parameters: Mapping[str, Any],
        among: Among | None,
    ) -> pa.Table:
        fields = _target_fields(plan.columns, schema)
        if among is not None and _is_small(tasks, schema):
            exchange = exchange_schema(fields)
            rows = pa.Table.from_batches(exchanged(_rows_here(tasks, among), exchange), exchange)
            target = self._session.createDataFrame(rows, spark_schema(fields))
        else:
            target = self._target_frame(tasks, plan.columns, schema, among)
        named = {TARGET_VIEW: fields, SOURCE_VIEW: self.fields}
        join, others = joined_relations(plan.text, named, parameters, self._named, in_utc=self.in_utc)
        relations = [
            Relation(view=join.views[TARGET_VIEW], title="target", rows=None, frame=target),
            Relation(view=join.views[SOURCE_VIEW], title="source", rows=None, frame=self._source_frame()),
            *others,
        ]
        found = SparkQuery(self._session, spark_query(join.query, join.tables), relations, parameters)
        found.assign(assigned_fields(plan, schema))
        return pa.Table.from_batches(found.batches(), schema=found.schema)

    def _target_frame(
        self, tasks: Sequence[TargetTask], columns: Sequence[str], schema: TableSchema, among: Among | None
    ) -> DataFrame:
        count, parts = 2 * core_count(self._session), _parts(tasks)
        groups = [list(chain.from_iterable(group)) for number in range(count) if (group := parts[number::count])]
        with translated(self._session, "Reading the rows of a MERGE"):
            rows = partial(_rows, among=among)
            return task_frame(self._session, groups, _target_fields(columns, schema), rows)

    def _source_frame(self) -> DataFrame:
        if self._here is not None:
            return self._source
        few = self.few([each.name for each in self.fields])
        return self._read_once() if few is None else self._session.createDataFrame(few, self._source.schema)

    def _read_once(self) -> DataFrame:
        """Return the source, which is read when a job first needs it, and kept."""
        if self._cached is None:
            with translated(self._session, _READING):
                self._cached = self._source.cache()
        return self._cached


def source_of(session: SparkSession, source: object) -> "DataFrame | pa.Table":
    """Return the source of a MERGE as a frame, or as rows in this process. Raises InvalidRequest for data that has no
    rows.
    """
    if isinstance(source, DataFrame):
        return source
    if hasattr(source, "to_spark"):
        frame: DataFrame = source.to_spark(session)
        return frame
    return source_rows(source)


def _typed(source: DataFrame) -> DataFrame:
    """Return the frame with text in place of the type of columns that are NULL everywhere, which no table has."""
    voids = {each.name for each in source.schema.fields if isinstance(each.dataType, NullType)}
    return source.withColumns({name: F.lit(None).cast("string") for name in voids}) if voids else source


def _is_kept(schema: pa.Schema, fields: Sequence[DataField]) -> bool:
    """Return whether columns of these Arrow types have the types of `fields`."""
    kept = map(field_from_arrow, schema)
    return all(has_same_kind(mine.type, field.type) for mine, field in zip(kept, fields, strict=True))


def _is_large(frame: DataFrame) -> bool:
    """Return whether Spark estimates that the rows are many. Over Spark Connect it does not tell."""
    if not hasattr(frame, "_jdf"):
        return False
    estimate = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return _MOST_BYTES < estimate < _UNKNOWN_BYTES


def _is_small(tasks: Sequence[TargetTask], schema: TableSchema) -> bool:
    """Return whether one task of Spark would read all: then the driver does so, in less time than a job takes."""
    return sum(task.split.size_bytes for task in tasks) <= schema.table_options.split_target_bytes


def _target_fields(columns: Sequence[str], schema: TableSchema) -> list[DataField]:
    return [*(schema.field(name) for name in columns), _ADDRESS_FIELD]


def _rows_here(tasks: Sequence[TargetTask], among: Among) -> list[pa.RecordBatch]:
    """Return the rows of the tasks, which threads of the driver read."""
    runtime = driver_runtime()
    with Threads(os.cpu_count(), thread_name_prefix="merge") as pool:
        found = pool.map(lambda part: list(target_rows(part, runtime, among)), _parts(tasks))
        return [batch for batches in found for batch in batches]


def _rows(tasks: Sequence[TargetTask], among: Among | None) -> Iterator[pa.RecordBatch]:
    yield from target_rows(tasks, worker_runtime(), among)


def _parts(tasks: Sequence[TargetTask]) -> list[list[TargetTask]]:
    if not tasks:
        return []
    parts = waiting_parts([task.split for task in tasks], tasks[0].schema.table_options)
    return [[tasks[number] for number in part] for part in parts]
