"""Store assignment on Spark: the columns of a frame as those of a table.

Rule: Spark casts; which types a column takes, and what is too long for it, is said where this process says it.
Source: docs/decisions/0033-lengths-hold-in-sql.md.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructField, StructType

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.engines.spark.failures import task_error
from lakehouse_core.execution.engines.spark.sql.answers import answer_type
from lakehouse_core.execution.engines.spark.types import fields_from_spark, spark_type
from lakehouse_core.format.data_types import (
    MAX_LENGTH,
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    in_backquotes,
    type_from_arrow,
)
from lakehouse_core.format.store_assignment import as_map, can_store, is_kept
from lakehouse_core.tasks.change_rows.assigned import (
    equal_keys,
    has_limit,
    is_text,
    length_limit,
    nulls_typed,
    out_of_range,
    too_long,
)


def named_frame(frame: DataFrame, fields: Sequence[DataField], constants: Mapping[DataField, Any]) -> DataFrame:
    """Return the rows as they are stored under the names of the fields, with constant columns behind them."""
    named = assigned_frame(frame.toDF(*(field.name for field in fields)), {field.name: field for field in fields})
    columns = [
        _assigned(F.lit(value).cast(spark_type(field.type)), spark_type(field.type), field).alias(field.name)
        for field, value in constants.items()
    ]
    return named.select("*", *columns)


def assigned_frame(frame: DataFrame, stored: Mapping[str, DataField]) -> DataFrame:
    """Return rows whose columns of these names have the values that Spark stores in the fields, as
    `tasks/change_rows/assigned` makes them in this process.
    """
    columns = [(frame[in_backquotes(each.name)], each) for each in frame.schema]
    return frame.select(
        *(
            _assigned(column, each.dataType, stored[each.name]).alias(each.name) if each.name in stored else column
            for column, each in columns
        )
    )


def _assigned(column: Column, given: SparkType, field: DataField) -> Column:
    arrow = answer_type(given)
    typed = nulls_typed(arrow, field.type)
    if typed != arrow:
        given = spark_type(type_from_arrow(typed))
        column = column.cast(given)
    try:
        (source,) = fields_from_spark(StructType([StructField(field.name, given)]))
    except InvalidRequest:
        return column
    if not can_store(source.type, field.type):
        return column
    found = _typed(column, source.type, field.type, field)
    if not has_limit(field.type):
        return found
    refused = _failing(too_long(field)).cast(spark_type(field.type))
    is_long, limit = _is_long(found, field.type), length_limit(field.type)
    if limit is None or not is_text(field.type):
        return F.when(F.coalesce(is_long, F.lit(False)), refused).otherwise(found)
    behind = F.rtrim(F.substring(found, limit + 1, MAX_LENGTH))
    cut = F.when(behind == "", F.substring(found, 1, limit)).otherwise(refused)
    return F.when(F.coalesce(is_long, F.lit(False)), cut).otherwise(found)


def _failing(error: InvalidRequest) -> Column:
    return F.raise_error(F.lit(task_error(error)))


def _typed(column: Column, source: DataType, target: DataType, field: DataField) -> Column:
    """Return values, or a part of them, in the type of a field or of its part; an error for those that it has not."""
    if is_kept(source, target):
        return column
    match as_map(source), as_map(target):
        case ArrayType(element), ArrayType(other):
            return F.transform(column, lambda one: _typed(one, element, other, field))
        case MapType(key, value), MapType(other_key, other_value):
            keyed = F.transform_keys(column, lambda one, _: _typed(one, key, other_key, field))
            maps = F.transform_values(keyed, lambda _, one: _typed(one, value, other_value, field))
            if is_kept(key, other_key):
                return maps
            keys = F.transform(F.map_keys(column), lambda one: _typed(one, key, other_key, field))
            refused = _failing(equal_keys(field)).cast(spark_type(target))
            return F.when(F.size(F.array_distinct(keys)) < F.size(keys), refused).otherwise(maps)
        case RowType(fields), RowType(others):
            parts = [
                _typed(column[one.name], one.type, other.type, field).alias(other.name)
                for one, other in zip(fields, others, strict=True)
            ]
            return F.when(column.isNotNull(), F.struct(*parts))
    wanted = spark_type(target)
    # Whatever the session says of casts that fail.
    found = column.try_cast(wanted)
    refused = _failing(out_of_range(field)).cast(wanted)
    return F.when(column.isNotNull() & found.isNull(), refused).otherwise(found)


def _is_long(column: Column, data_type: DataType) -> Column:
    """Return whether a value, or a part of one, is longer than its type says; null for a null."""
    limit = length_limit(data_type)
    if limit is not None:
        return F.length(column) > limit
    match as_map(data_type):
        case ArrayType(element) if has_limit(element):
            return F.exists(column, lambda one: F.coalesce(_is_long(one, element), F.lit(False)))
        case MapType(key, value):
            return _is_long(F.map_keys(column), ArrayType(key)) | _is_long(F.map_values(column), ArrayType(value))
        case RowType(fields):
            parts = [F.coalesce(_is_long(column[field.name], field.type), F.lit(False)) for field in fields]
            return reduce(or_, parts, F.lit(False))
    return F.lit(False)
