"""Rows go to the task that writes their bucket: SQL finds the bucket that the format says, for every kind of key."""

import datetime
import random
from decimal import Decimal

import pytest
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from lakehouse_core.execution.engines.spark.types import spark_type
from lakehouse_core.execution.engines.spark.write.bucket_sql import can_hash
from lakehouse_core.execution.engines.spark.write.routing import BUCKET_COLUMN, bucketed, routed
from lakehouse_core.format.bucket_hash import bucket_of
from lakehouse_core.format.data_types import UNASSIGNED, DataField, parse_type, to_internal
from lakehouse_core.options import BucketFunction
from lakehouse_core.table.bucketing import Fixed
from lakehouse_core.table.schema import new_schema
from tests.pairs import in_turn

pytestmark = pytest.mark.spark

BUCKETS = 1000
# Lengths around the inline limit and the padding, and one that needs more than 16 bits.
LENGTHS = [0, 1, 6, 7, 8, 9, 15, 16, 17, 100, 70_000]
WORDS = {1: [0, 1, -1], 8: [127, -128], 16: [32767, -32768], 32: [2**31 - 1, -(2**31)], 64: [2**63 - 1, -(2**63)]}

KEYS_IN_SQL = [
    "BIGINT NOT NULL",
    "INT NOT NULL",
    "STRING NOT NULL",
    "BYTES",
    "BIGINT NOT NULL, INT NOT NULL",
    "STRING NOT NULL, BIGINT NOT NULL",
    "DATE NOT NULL, DECIMAL(5; 2) NOT NULL",
    "BIGINT, STRING, VARCHAR(200)",
    "TINYINT, SMALLINT, BOOLEAN, DATE, DECIMAL(18; 7), CHAR(9)",
]
KEYS_IN_PYTHON = ["DOUBLE NOT NULL, FLOAT", "DECIMAL(38; 4)", "TIMESTAMP(3)", "TIMESTAMP(6), TIMESTAMP_LTZ(6) NOT NULL"]


def types_of(text):
    return [parse_type(part.replace(";", ",")) for part in text.split(", ")]


def value_of(kind, chance):
    """Any value of the type, the extremes often."""
    if kind.nullable and chance.random() < 0.3:
        return None
    match kind.root.value:
        case "BOOLEAN":
            return chance.random() < 0.5
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[kind.root.value]
            return chance.choice([*WORDS[1], *WORDS[bits], chance.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))])
        case "DATE":
            return datetime.date.fromordinal(chance.choice([1, 719163, chance.randrange(1, 3652059)]))
        case "DECIMAL":
            unscaled = chance.choice([0, 1, -1, chance.randrange(-(10**kind.precision) + 1, 10**kind.precision)])
            return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))
        case "FLOAT" | "DOUBLE":
            return chance.choice([0.0, -0.0, float("inf"), float(chance.randrange(-1000, 1000)) / 8])
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            zone = datetime.UTC if kind.root.value == "TIMESTAMP_LTZ" else None
            millis = chance.randrange(-(10**12), 10**12)
            return datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(milliseconds=millis)
        case root:
            longest = 9 if root == "CHAR" else 200 if root == "VARCHAR" and kind.length == 200 else LENGTHS[-1]
            size = min(longest, chance.choice(LENGTHS[:-1]) if chance.random() < 0.99 else LENGTHS[-1])
            text = "".join(chance.choices("abcé€😀\0 z", k=size))
            return text.encode()[:longest] if root.endswith("BINARY") else text


def an_append_schema(types):
    names = [f"c{i}" for i in range(len(types))]
    fields = [DataField(UNASSIGNED, name, kind) for name, kind in zip(names, types, strict=True)]
    return new_schema(fields, options={"bucket": str(BUCKETS), "bucket-key": ",".join(names)}, now_millis=0)


def a_frame(spark, types, rows):
    schema = StructType([StructField(f"c{i}", spark_type(kind)) for i, kind in enumerate(types)])
    return spark.createDataFrame(rows, schema)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("key", in_turn(2, [*KEYS_IN_SQL, *KEYS_IN_PYTHON]))
def test_spark_finds_the_bucket_that_the_format_says(spark, key):
    types, chance = types_of(key), random.Random(key)
    rows = [tuple(value_of(kind, chance) for kind in types) for _ in range(150)]

    schema, fixed = an_append_schema(types), Fixed(BUCKETS, BucketFunction.DEFAULT)
    found = bucketed(a_frame(spark, types, rows), schema, fixed).select(BUCKET_COLUMN).collect()

    expected = [
        bucket_of([to_internal(v, kind) for v, kind in zip(row, types, strict=True)], types, BUCKETS, "default")
        for row in rows
    ]
    assert can_hash(types) == (key in KEYS_IN_SQL)
    assert [row[0] for row in found] == expected


def test_all_rows_of_a_bucket_go_to_one_task_and_buckets_of_a_partition_to_several(spark):
    options = {"bucket": "3"}
    columns = {"dt": "STRING NOT NULL", "id": "BIGINT NOT NULL", "v": "DOUBLE"}
    schema = new_schema(columns, primary_keys=["dt", "id"], partition_keys=["dt"], options=options, now_millis=0)
    # Narrower than the table's column: the bucket is that of the wider value.
    frame = spark.range(3000).selectExpr("cast(id as int) as id", "cast(id % 7 as string) as dt", "1.5D as v")

    placed = routed(frame, schema).select("dt", "id", sf.spark_partition_id().alias("task")).collect()

    tasks = {}
    for row in placed:
        tasks.setdefault((row.dt, bucket_of([row.id], [schema.field("id").type], 3, "default")), set()).add(row.task)
    assert len(tasks) == 7 * 3
    assert all(len(found) == 1 for found in tasks.values())
    assert all(len(set.union(*(tasks[dt, bucket] for bucket in range(3)))) == 3 for dt, _ in tasks)
    assert len(placed) == 3000


@pytest.mark.parametrize(
    ("options", "moves"),
    [({"bucket": "-1"}, False), ({"bucket": "2", "bucket-key": "id", "bucket-function.type": "mod"}, True)],
)
def test_rows_are_shuffled_only_where_there_are_buckets(spark, options, moves):
    schema = new_schema({"id": "BIGINT", "v": "INT"}, options=options, now_millis=0)
    frame = spark.range(-10, 10, 1, 4).selectExpr("if(id = 3, null, id) as id")

    placed = routed(frame, schema).select("id", sf.spark_partition_id().alias("task"))

    assert frame.columns == routed(frame, schema).columns
    found = {row.task: {other.id for other in placed.collect() if other.task == row.task} for row in placed.collect()}
    if moves:
        even = {number for number in range(-10, 10) if number % 2 == 0}
        assert found == {0: even | {None}, 1: set(range(-10, 10)) - even - {3}}
    else:
        assert len(found) == 4


def test_a_value_that_does_not_fit_the_key_is_left_for_the_write_task_to_refuse(spark):
    schema = new_schema({"id": "INT NOT NULL"}, primary_keys=["id"], options={"bucket": "2"}, now_millis=0)

    assert routed(spark.range(2**40, 2**40 + 5), schema).count() == 5
