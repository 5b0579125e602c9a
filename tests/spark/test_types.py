"""Types on both sides of Spark. No session is needed."""

import pyarrow as pa
import pyspark.sql.types as st
import pytest

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.execution.engines.spark.batches import exchanged, normalize
from lakehouse_core.execution.engines.spark.types import exchange_schema, fields_from_spark, spark_schema
from lakehouse_core.format.data_types import DataField, parse_type, type_to_sql

# Table type, Spark type in which it is read, type of a table made from that.
BOTH_WAYS = """
BOOLEAN           boolean                    BOOLEAN
TINYINT           tinyint                    TINYINT
SMALLINT          smallint                   SMALLINT
INT               int                        INT
BIGINT            bigint                     BIGINT
FLOAT             float                      FLOAT
DOUBLE            double                     DOUBLE
DECIMAL(12, 2)    decimal(12,2)              DECIMAL(12, 2)
CHAR(3)           string                     STRING
VARCHAR(9)        string                     STRING
STRING            string                     STRING
BINARY(4)         binary                     BYTES
BYTES             binary                     BYTES
DATE              date                       DATE
TIMESTAMP(3)      timestamp_ntz              TIMESTAMP(6)
TIMESTAMP(9)      timestamp_ntz              TIMESTAMP(6)
TIMESTAMP_LTZ(6)  timestamp                  TIMESTAMP(6) WITH LOCAL TIME ZONE
ARRAY<INT>        array<int>                 ARRAY<INT>
MAP<STRING, INT>  map<string,int>            MAP<STRING NOT NULL, INT>
MULTISET<STRING>  map<string,int>            MAP<STRING NOT NULL, INT>
ROW<`a` INT>      struct<a:int>              ROW<`a` INT>
"""


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


@pytest.mark.parametrize("line", BOTH_WAYS.strip().splitlines())
def test_a_type_is_read_as_sparks_and_comes_back_as_the_widest_that_spark_can_mean(line):
    table_type, spark_text, made_type = cells(line)
    fields = [DataField(0, "c", parse_type(table_type))]

    schema = spark_schema(fields)

    assert schema["c"].dataType.simpleString() == spark_text
    assert type_to_sql(fields_from_spark(schema)[0].type) == made_type


@pytest.mark.parametrize("kind", ["TIME(3)", "VARIANT", "ARRAY<TIME(0)>"])
def test_a_column_that_spark_cannot_hold_is_refused_by_name(kind):
    with pytest.raises(UnsupportedFeature, match=r"Column 'c': .* has no counterpart in Spark.*to_arrow"):
        spark_schema([DataField(0, "c", parse_type(kind))])


def test_comments_lengths_and_missing_nulls_of_a_spark_schema_are_kept():
    schema = st.StructType(
        [
            st.StructField("id", st.LongType(), False),
            st.StructField("code", st.VarcharType(5), True, {"comment": "ISO"}),
            st.StructField("tags", st.ArrayType(st.CharType(2), False)),
        ]
    )

    fields = fields_from_spark(schema)

    assert [type_to_sql(field.type) for field in fields] == ["BIGINT NOT NULL", "VARCHAR(5)", "ARRAY<CHAR(2) NOT NULL>"]
    assert [field.description for field in fields] == [None, "ISO", None]


@pytest.mark.parametrize("kind", [st.DayTimeIntervalType(), st.NullType(), st.StringType("UTF8_LCASE"), st.TimeType()])
def test_a_spark_type_without_counterpart_is_refused_by_name(kind):
    with pytest.raises(InvalidRequest, match=r"Column 'c': Spark's .* has no counterpart in a table"):
        fields_from_spark(st.StructType([st.StructField("c", kind)]))


FIELDS = [
    DataField(0, "id", parse_type("BIGINT")),
    DataField(1, "t", parse_type("TIMESTAMP(9)")),
    DataField(2, "z", parse_type("TIMESTAMP_LTZ(3)")),
    DataField(3, "s", parse_type("STRING")),
]


def a_batch(nanos):
    """Columns in another order, and in the types in which readers and users have them."""
    return pa.record_batch(
        {
            "s": pa.array(["a", "a", None]).dictionary_encode(),
            "z": pa.array([0, 1, None], pa.timestamp("ms", "UTC")),
            "t": pa.array([nanos, None, 0], pa.timestamp("ns")),
            "id": pa.array([1, 2, 3], pa.int32()),
        }
    )


def test_what_a_task_yields_has_exactly_the_declared_types():
    schema = exchange_schema(FIELDS)

    batch = normalize(a_batch(5000), schema)

    assert batch.schema == schema
    assert batch.to_pydict()["s"] == ["a", "a", None]
    assert batch.column("t").cast(pa.int64()).to_pylist() == [5, None, 0]
    assert batch.column("z").cast(pa.int64()).to_pylist() == [0, 1000, None]


def test_digits_that_spark_has_no_room_for_are_not_dropped_in_silence():
    with pytest.raises(
        InvalidRequest, match=r"Column 't' has values that Spark's timestamp\[us\] cannot hold.*to_arrow"
    ):
        normalize(a_batch(5001), exchange_schema(FIELDS))


def test_large_batches_are_cut_and_empty_ones_dropped():
    schema = pa.schema([("id", pa.int64())])
    batches = [pa.record_batch({"id": pa.array(range(count), pa.int64())}) for count in (0, 150_000, 1)]

    sizes = [batch.num_rows for batch in exchanged(batches, schema)]

    assert sizes == [65_536, 65_536, 18_928, 1]
