"""The types that functions return in Spark, where DuckDB's functions return wider ones, or times without a zone.

Rule: ranks stay BIGINT. DuckDB finds the first rows of each group faster where no cast stands around a rank.
Source: docs/sql.md#without-spark.
"""

from typing import Any, Final

from sqlglot import exp

from lakehouse_core.execution.engines.duckdb.dialect.fragments import cast_to

# Functions that return INT, whatever they are given.
INT_FUNCTIONS: Final = (
    exp.Year,
    exp.Month,
    exp.Day,
    exp.DayOfMonth,
    exp.DayOfWeek,
    exp.DayOfYear,
    exp.WeekOfYear,
    exp.Quarter,
    exp.Hour,
    exp.Minute,
    exp.Second,
    exp.DateDiff,
    exp.UnixDate,
    exp.Length,
    exp.BitLength,
    exp.StrPosition,
    exp.Ascii,
)
_INSTANTS: Final = (exp.StrToTime, exp.TimeStrToTime, exp.TimestampTrunc, exp.TimestampFromParts)
_SECONDS: Final = ("SECOND", "SECONDS", "S", "SEC", "SECS")


def as_returned(node: Any, written: Any) -> Any:
    """Return what is written for a node as the type that Spark returns."""
    match node:
        case exp.Extract() if str(node.this.this).upper() not in _SECONDS:
            return cast_to(written, "INT")
        case _ if isinstance(node, INT_FUNCTIONS):
            return cast_to(written, "INT")
        case _ if isinstance(node, _INSTANTS):
            return cast_to(written, "TIMESTAMP")
    return written
