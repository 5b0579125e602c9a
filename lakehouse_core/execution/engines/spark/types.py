"""The types of a table as Spark's, and back.

Spark has microseconds, no TIME and no multiset. Types that Spark can hold are read and written without loss; the others
are refused by column name. Columns of a read are nullable, as in Spark's own file sources.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyspark.sql.types as st

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.format.data_types import (
    MAX_LENGTH,
    UNASSIGNED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    arrow_type,
    type_to_sql,
    with_nullable,
)

# Spark's timestamps count microseconds.
_TIMESTAMP_PRECISION: Final = 6

_TO_SPARK: Final[dict[TypeRoot, st.DataType]] = {
    TypeRoot.BOOLEAN: st.BooleanType(),
    TypeRoot.TINYINT: st.ByteType(),
    TypeRoot.SMALLINT: st.ShortType(),
    TypeRoot.INT: st.IntegerType(),
    TypeRoot.BIGINT: st.LongType(),
    TypeRoot.FLOAT: st.FloatType(),
    TypeRoot.DOUBLE: st.DoubleType(),
    TypeRoot.CHAR: st.StringType(),
    TypeRoot.VARCHAR: st.StringType(),
    TypeRoot.BINARY: st.BinaryType(),
    TypeRoot.VARBINARY: st.BinaryType(),
    TypeRoot.BLOB: st.BinaryType(),
    TypeRoot.DATE: st.DateType(),
    TypeRoot.TIMESTAMP: st.TimestampNTZType(),
    TypeRoot.TIMESTAMP_LTZ: st.TimestampType(),
}
_FROM_SPARK: Final[dict[type[st.DataType], AtomicType]] = {
    st.BooleanType: AtomicType(TypeRoot.BOOLEAN),
    st.ByteType: AtomicType(TypeRoot.TINYINT),
    st.ShortType: AtomicType(TypeRoot.SMALLINT),
    st.IntegerType: AtomicType(TypeRoot.INT),
    st.LongType: AtomicType(TypeRoot.BIGINT),
    st.FloatType: AtomicType(TypeRoot.FLOAT),
    st.DoubleType: AtomicType(TypeRoot.DOUBLE),
    st.StringType: AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH),
    st.BinaryType: AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH),
    st.DateType: AtomicType(TypeRoot.DATE),
    st.TimestampNTZType: AtomicType(TypeRoot.TIMESTAMP, precision=_TIMESTAMP_PRECISION),
    st.TimestampType: AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=_TIMESTAMP_PRECISION),
    st.VariantType: AtomicType(TypeRoot.VARIANT),
}


def spark_schema(fields: Iterable[DataField]) -> st.StructType:
    """Return the Spark schema of the columns. Raises UnsupportedFeature naming a column that Spark cannot hold."""
    return st.StructType([st.StructField(field.name, _spark_type(field), True) for field in fields])


def spark_type(data_type: DataType) -> st.DataType:
    """Return Spark's counterpart of the type. Raises UnsupportedFeature for TIME and VARIANT."""
    match data_type:
        case AtomicType(TypeRoot.DECIMAL, precision=int(precision), scale=int(scale)):
            return st.DecimalType(precision, scale)
        case AtomicType(root):
            if root not in _TO_SPARK:
                raise UnsupportedFeature(
                    f"{type_to_sql(data_type)} has no counterpart in Spark: leave the column out, or read in this "
                    "process with `to_arrow()`."
                )
            return _TO_SPARK[root]
        case ArrayType(element):
            return st.ArrayType(spark_type(element), True)
        case MultisetType(element):
            return st.MapType(spark_type(element), st.IntegerType(), True)
        case MapType(key, value):
            return st.MapType(spark_type(key), spark_type(value), True)
        case RowType(fields):
            return spark_schema(fields)


def _spark_type(field: DataField) -> st.DataType:
    try:
        return spark_type(field.type)
    except UnsupportedFeature as error:
        raise UnsupportedFeature(f"Column {field.name!r}: {error}") from error


def exchange_schema(fields: Iterable[DataField]) -> pa.Schema:
    """Return the only Arrow schema in which Spark accepts the columns from a task.

    REQUIRES: `spark_schema(fields)` did not raise.
    """
    return pa.schema([pa.field(field.name, _exchange_type(field.type)) for field in fields])


def _exchange_type(data_type: DataType) -> pa.DataType:
    match data_type:
        case AtomicType(TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ):
            return arrow_type(replace(data_type, precision=_TIMESTAMP_PRECISION))
        case AtomicType():
            return arrow_type(data_type)
        case ArrayType(element):
            return pa.list_(pa.field("element", _exchange_type(element)))
        case MultisetType(element):
            return pa.map_(_exchange_type(element), pa.int32())
        case MapType(key, value):
            return pa.map_(_exchange_type(key), _exchange_type(value))
        case RowType(fields):
            return pa.struct([pa.field(field.name, _exchange_type(field.type)) for field in fields])


def fields_from_spark(schema: st.StructType) -> tuple[DataField, ...]:
    """Return the columns of a new table, ids UNASSIGNED, comments kept. Raises InvalidRequest naming the column."""
    return tuple(field_from_spark(field) for field in schema.fields)


def field_from_spark(field: st.StructField) -> DataField:
    """Return the column of a new table, id UNASSIGNED. Raises InvalidRequest naming it."""
    try:
        data_type = _type_from_spark(field.dataType)
    except InvalidRequest as error:
        raise InvalidRequest(f"Column {field.name!r}: {error}") from error
    metadata: dict[str, Any] = field.metadata or {}
    return DataField(UNASSIGNED, field.name, with_nullable(data_type, field.nullable), metadata.get("comment"))


def _type_from_spark(data_type: st.DataType) -> DataType:
    match data_type:
        case st.DecimalType():
            return AtomicType(TypeRoot.DECIMAL, precision=data_type.precision, scale=data_type.scale)
        case st.CharType():
            return AtomicType(TypeRoot.CHAR, length=data_type.length)
        case st.VarcharType():
            return AtomicType(TypeRoot.VARCHAR, length=data_type.length)
        case st.ArrayType():
            return ArrayType(with_nullable(_type_from_spark(data_type.elementType), data_type.containsNull))
        case st.MapType():
            value = with_nullable(_type_from_spark(data_type.valueType), data_type.valueContainsNull)
            return MapType(with_nullable(_type_from_spark(data_type.keyType), False), value)
        case st.StructType():
            return RowType(fields_from_spark(data_type))
    atomic = _FROM_SPARK.get(type(data_type))
    if atomic is None or data_type.simpleString().startswith("string collate"):
        raise InvalidRequest(
            f"Spark's {data_type.simpleString()} has no counterpart in a table: cast it first, for example to a string."
        )
    return atomic
