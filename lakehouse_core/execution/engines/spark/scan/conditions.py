"""A bound condition as a Spark column that is true for the same rows as in Arrow.

Spark pushes the column down into the files that it reads itself. In Spark, NaN equals itself and is greater than every
number; a condition compares NaN by IEEE 754.
"""

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import reduce
from typing import Any, assert_never

from pyspark.sql import Column
from pyspark.sql import functions as sf

from lakehouse_core.execution.engines.spark.types import spark_type
from lakehouse_core.format.data_types import FLOAT_ROOTS, MILLIS_PER_DAY, AtomicType, DataType, TypeRoot, in_backquotes
from lakehouse_core.table.predicate import And, Compare, Comparison, In, IsNull, Not, Or, Predicate, StartsWith


def condition(predicate: Predicate, types: Mapping[str, DataType]) -> Column:
    """Return a column that is true for the rows that satisfy `predicate`, which is bound to columns of `types`."""
    match predicate:
        case Compare(column, comparison, value):
            return _comparison(column, comparison, value, atomic(types[column]))
        case In(column, values):
            kind = atomic(types[column])
            options = [constant(value, kind) for value in values if not _is_nan(value)]
            return sf.col(in_backquotes(column)).isin(options) if options else _unless_null(column, False)
        case IsNull(column):
            return sf.col(in_backquotes(column)).isNull()
        case StartsWith(column, prefix):
            return sf.col(in_backquotes(column)).startswith(prefix)
        case Not(part):
            return ~condition(part, types)
        case And(parts):
            return reduce(Column.__and__, (condition(part, types) for part in parts), sf.lit(True))
        case Or(parts):
            return reduce(Column.__or__, (condition(part, types) for part in parts), sf.lit(False))
        case _:
            assert_never(predicate)


def _comparison(name: str, comparison: Comparison, value: Any, kind: AtomicType) -> Column:
    column = sf.col(in_backquotes(name))
    if _is_nan(value):
        return _unless_null(name, comparison is Comparison.NOT_EQUAL)
    literal = constant(value, kind)
    match comparison:
        case Comparison.EQUAL:
            return column == literal
        case Comparison.NOT_EQUAL:
            return column != literal
        case Comparison.LESS:
            return column < literal
        case Comparison.LESS_OR_EQUAL:
            return column <= literal
        case Comparison.GREATER:
            found = column > literal
        case Comparison.GREATER_OR_EQUAL:
            found = column >= literal
        case _:
            assert_never(comparison)
    return found & ~sf.isnan(column) if kind.root in FLOAT_ROOTS else found


def _unless_null(name: str, answer: bool) -> Column:
    return sf.when(sf.col(in_backquotes(name)).isNotNull(), sf.lit(answer))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def constant(value: Any, kind: AtomicType) -> Column:
    """Return a comparable value as a constant of the column's Spark type, which Spark folds before it reads."""
    if value is None:
        return sf.lit(None).cast(spark_type(kind))
    match kind.root:
        case TypeRoot.DATE:
            return sf.date_from_unix_date(sf.lit(value))
        case TypeRoot.TIMESTAMP_LTZ:
            return sf.timestamp_micros(sf.lit(_micros(value)))
        case TypeRoot.TIMESTAMP:
            # A cast from text stops at the year 9999, one from an instant depends on the session's zone.
            days, micros = divmod(_micros(value), MILLIS_PER_DAY * 1000)
            day = sf.date_from_unix_date(sf.lit(days)).cast("timestamp_ntz")
            return day + sf.make_dt_interval(secs=sf.lit(Decimal(micros).scaleb(-6)))
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return sf.lit(bytearray(value))
        case _:
            return sf.lit(value).cast(spark_type(kind))


def _micros(value: tuple[int, int]) -> int:
    """Return a timestamp in microseconds. Spark itself reads no column of a finer unit."""
    millis, nanos = value
    return millis * 1000 + nanos // 1000


def atomic(kind: DataType) -> AtomicType:
    """Return the type. REQUIRES: that of a column which conditions or partitions may name, so one without parts."""
    assert isinstance(kind, AtomicType), kind
    return kind
