"""Routing: send all rows of a bucket of a partition to one task, without sampling the rows.

A task computes the buckets of its rows again; here they only bring rows together. They must still be exact: if two
tasks wrote versions of one key, the order of the versions would be undefined.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakehouse_core.errors import LakehouseError
from lakehouse_core.execution.engines.spark.failures import failed_attempt
from lakehouse_core.execution.engines.spark.session import core_count, settings
from lakehouse_core.execution.engines.spark.types import spark_type
from lakehouse_core.execution.engines.spark.write.bucket_sql import can_hash, sql_hash
from lakehouse_core.format.bucket_hash import buckets
from lakehouse_core.format.data_types import DataField, arrow_type, in_backquotes
from lakehouse_core.options import BucketFunction
from lakehouse_core.planning.bucket_assignment import Assigners
from lakehouse_core.table.bucketing import Dynamic, Fixed, Postpone, Unaware
from lakehouse_core.table.schema import TableSchema

_PREFIX: Final = "__lakehouse_"
_TASK: Final = f"{_PREFIX}task"
BUCKET_COLUMN: Final = f"{_PREFIX}bucket"
# Two tasks per core, so that fewer cores are idle while the slowest task ends.
_TASKS_PER_CORE: Final = 2


def routed(frame: DataFrame, schema: TableSchema, *, assigner_count: int = 1) -> DataFrame:
    """Return the rows of `frame`, its columns unchanged, with all rows of a bucket in one Spark partition.

    With dynamic buckets, all rows of a partition's assigner come to one Spark partition, or of all partitions if keys
    move between them. For a table without buckets, nothing is shuffled.
    """
    match schema.bucketing:
        case Fixed() as fixed:
            return _routed(frame, schema, fixed)
        case Dynamic(crosses_partitions):
            # The hash that chooses the assigner is that of a fixed bucket.
            fixed = Fixed(assigner_count, BucketFunction.DEFAULT)
            return _routed(frame, schema, fixed, across_partitions=crosses_partitions)
        case Unaware() | Postpone():
            return frame
        case _:
            assert_never(schema.bucketing)


def assigners_of(session: SparkSession, schema: TableSchema) -> Assigners:
    """Return the assigners of new keys in a partition with dynamic buckets.

    A table without partition columns has as many as there are write tasks. In a partitioned table the partitions keep
    the tasks busy, and each assigner would open a bucket in each of them, so there is one unless an option says more.
    """
    options = schema.table_options.dynamic_buckets
    most = _most_tasks(session) if options.max_buckets is None else min(_most_tasks(session), options.max_buckets)
    wanted = options.assigner_count or (1 if schema.partition_keys else most)
    return Assigners(min(wanted, most))


def bucketed(frame: DataFrame, schema: TableSchema, fixed: Fixed) -> DataFrame:
    """Return the rows with the bucket number in BUCKET_COLUMN, and with auxiliary columns."""
    # Each column refers to earlier ones in the same projection: Spark takes twice as long to plan one projection per
    # column.
    with settings(frame.sparkSession, {"spark.sql.lateralColumnAlias.enableImplicitResolution": "true"}):
        return _bucketed(frame, schema, fixed)


def _routed(frame: DataFrame, schema: TableSchema, fixed: Fixed, *, across_partitions: bool = False) -> DataFrame:
    is_partitioned = bool(schema.partition_keys) and not across_partitions
    limit = _most_tasks(frame.sparkSession)
    # As many tasks as keep all cores busy, and no more than there are buckets.
    task_count = limit if is_partitioned else min(limit, fixed.count)
    task = f"{BUCKET_COLUMN} % {task_count}"
    if is_partitioned:
        # The two are added, not hashed together, so that the buckets of one partition go to different tasks.
        partition = f"hash({', '.join(_typed(frame, field) for field in schema.partition_fields)})"
        task = f"cast(pmod(cast({partition} as bigint) + {BUCKET_COLUMN}, {task_count}) as int)"
    placed = (
        bucketed(frame, schema, fixed).selectExpr("*", f"{task} as {_TASK}").repartitionById(task_count, sf.col(_TASK))
    )
    return placed.select(*map(in_backquotes, frame.columns))


def _bucketed(frame: DataFrame, schema: TableSchema, fixed: Fixed) -> DataFrame:
    types = [field.type for field in schema.bucket_fields]
    keys = [_typed(frame, field) for field in schema.bucket_fields]
    if fixed.count == 1:
        return frame.selectExpr("*", f"0 as {BUCKET_COLUMN}")
    if fixed.function is BucketFunction.MOD:
        key = f"cast(coalesce({keys[0]}, 0) as bigint)"
        return frame.selectExpr("*", f"cast(pmod({key}, {fixed.count}) as int) as {BUCKET_COLUMN}")
    if fixed.function is BucketFunction.DEFAULT and can_hash(types):
        names = [f"{_PREFIX}key_{index}" for index in range(len(keys))]
        columns = [f"{key} as {name}" for name, key in zip(names, keys, strict=True)]
        hashed = sql_hash(types, names, f"{_PREFIX}hash_")
        columns += [f"{expression} as {name}" for name, expression in hashed.layers]
        return frame.selectExpr("*", *columns, f"abs({hashed.hash} % {fixed.count}) as {BUCKET_COLUMN}")
    row = sf.struct(*(sf.expr(key).alias(field.name) for key, field in zip(keys, schema.bucket_fields, strict=True)))
    return frame.select("*", _python_bucket(row, schema.bucket_fields, fixed).alias(BUCKET_COLUMN))


def _python_bucket(row: Column, fields: Sequence[DataField], fixed: Fixed) -> Column:
    """Return the bucket, computed in Python for keys that SQL cannot hash; this takes several times as long."""

    def bucket_of(rows: pa.Array) -> pa.Array:
        # The write task refuses values that the table cannot hold; here they may go to any task.
        columns = [
            column.cast(arrow_type(field.type), safe=False)
            for column, field in zip(rows.flatten(), fields, strict=True)
        ]
        types = [field.type for field in fields]
        try:
            return pa.array(buckets(columns, types, fixed.count, fixed.function), pa.int32())
        except LakehouseError as error:
            raise failed_attempt(error) from error

    return sf.arrow_udf(bucket_of, "int")(row)


def _typed(frame: DataFrame, field: DataField) -> str:
    """Return the SQL expression of a key column in the table's type; the write task refuses values that do not fit."""
    wanted = spark_type(field.type)
    if field.name not in frame.columns:
        value = "null" if field.default_value is None else _literal(field.default_value)
        return f"cast({value} as {wanted.simpleString()})"
    if frame.schema[field.name].dataType == wanted:
        return in_backquotes(field.name)
    return f"try_cast({in_backquotes(field.name)} as {wanted.simpleString()})"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _most_tasks(session: SparkSession) -> int:
    shuffle = int(session.conf.get("spark.sql.shuffle.partitions"))
    return min(shuffle, _TASKS_PER_CORE * core_count(session))
