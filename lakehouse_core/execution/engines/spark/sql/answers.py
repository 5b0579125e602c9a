"""Answers of Spark as Arrow: also arrays and maps without values, as of `array()`, whose parts have no type.

Rule: a part without a type may be NULL in Arrow, which takes no other one; PySpark says that it may not.
"""

from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, MapType, NullType, StructField, StructType
from pyspark.sql.types import DataType as SparkType

# PySpark 4.1 has instants in UTC; newer versions have to be told.
_IN_UTC: Final[dict[str, Any]] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


def answer_schema(schema: StructType) -> pa.Schema:
    """Return the schema of the rows in Arrow."""
    return pa.schema([_part(field.name, field.dataType, field.nullable) for field in schema.fields])


def answer_type(kind: SparkType) -> pa.DataType:
    """Return the type of values in Arrow."""
    match kind:
        case MapType(keyType=NullType(), valueType=value):
            # Written as a type, Arrow refuses it.
            return pa.MapArray.from_arrays(pa.array([0], pa.int32()), pa.nulls(0), pa.nulls(0, answer_type(value))).type
        case MapType(keyType=key, valueType=value):
            return pa.map_(answer_type(key), _part("value", value, kind.valueContainsNull))
        case ArrayType(elementType=element):
            return pa.list_(_part("element", element, kind.containsNull))
        case StructType(fields=fields):
            return pa.struct([_part(field.name, field.dataType, field.nullable) for field in fields])
    return to_arrow_schema(StructType([StructField("one", kind)]), **_IN_UTC).field(0).type


def collected(frame: DataFrame) -> pa.Table:
    """Return all rows of a frame, whose schema is `answer_schema`. Raises the errors of Spark."""
    schema = answer_schema(frame.schema)
    table = _sent(frame).toArrow()
    return pa.table([_received(*pair) for pair in zip(table.columns, schema.types, strict=True)], schema=schema)


def _part(name: str, kind: SparkType, nullable: bool) -> pa.Field:
    found = answer_type(kind)
    return pa.field(name, found, nullable or pa.types.is_null(found))


def _received(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return column.cast(kind)
    except pa.ArrowNotImplementedError:
        return pa.chunked_array([_typed(chunk, kind) for chunk in column.chunks], kind)


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values with the types of all their parts. Arrow has no cast of maps to keys without a type."""
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if pa.types.is_struct(kind):
        parts = [_typed(values.field(number), part.type) for number, part in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    if pa.types.is_map(kind):
        return _nested(values, kind, _typed(values.values, pa.struct([kind.key_field, kind.item_field])))
    if pa.types.is_list(kind):
        return _nested(values, kind, _typed(values.values, kind.value_type))
    return values.cast(kind)


def _nested(values: pa.Array, kind: pa.DataType, items: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), values.buffers()[:2], offset=values.offset, children=[items])


def _sent(frame: DataFrame) -> DataFrame:
    """Return the frame with types that PySpark knows in Arrow."""
    kinds = [field.dataType for field in frame.schema.fields]
    if all(map(_is_known, kinds)):
        return frame
    numbered = frame.toDF(*map(str, range(len(kinds))))
    return numbered.select(*(_known(numbered[str(number)], kind) for number, kind in enumerate(kinds)))


def _is_known(kind: SparkType) -> bool:
    try:
        to_arrow_schema(StructType([StructField("one", kind)]), **_IN_UTC)
    except ValueError:
        return False
    return True


def _known(column: Column, kind: SparkType) -> Column:
    match kind:
        case NullType():
            return F.lit(None)
        case _ if _is_known(kind):
            return column
        case ArrayType(elementType=element):
            return F.transform(column, lambda one: _known(one, element))
        case MapType(keyType=key, valueType=value):
            texts = isinstance(key, NullType)
            keyed = F.transform_keys(column, lambda one, _: F.lit("") if texts else _known(one, key))
            return F.transform_values(keyed, lambda _, one: _known(one, value))
        case StructType(fields=fields):
            parts = [_known(column[field.name], field.dataType).alias(field.name) for field in fields]
            return F.when(column.isNotNull(), F.struct(*parts))
    return column
