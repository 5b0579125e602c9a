"""Dates and times in a typed query: functions that DuckDB computes in another way than Spark.

Source: docs/sql.md#without-spark.
"""

import re
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.planning.sql.duckdb.casts import (
    INSTANTS,
    INTEGERS,
    LOCAL_TIMES,
    NUMBERS,
    TEXTS,
    UNKNOWN,
    rewritten_cast,
)
from lakehouse_core.planning.sql.duckdb.decimals import kind_of
from lakehouse_core.planning.sql.duckdb.fragments import cast_to, is_null, needs_spark
from lakehouse_core.planning.sql.duckdb.spark_functions import call
from lakehouse_core.planning.sql.duckdb.spark_types.annotated import SECONDS
from lakehouse_core.planning.sql.duckdb.spark_types.computed import is_of_days, is_of_hours

_UNITS: Final = {
    "YEAR": ("YEAR", "YYYY", "YY"),
    "QUARTER": ("QUARTER",),
    "MONTH": ("MONTH", "MM", "MON"),
    "WEEK": ("WEEK",),
    "DAY": ("DAY", "DD"),
    "HOUR": ("HOUR",),
    "MINUTE": ("MINUTE",),
    "SECOND": ("SECOND",),
    "MILLISECOND": ("MILLISECOND",),
    "MICROSECOND": ("MICROSECOND",),
}
_UNIT_OF: Final = {word: unit for unit, words in _UNITS.items() for word in words}
_UNITS_OF_DATES: Final = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK"})
# The units of intervals: the function of DuckDB that makes one, and how many of its units it has.
_STEPS: Final = {
    "YEAR": ("to_months", 12),
    "QUARTER": ("to_months", 3),
    "MONTH": ("to_months", 1),
    "WEEK": ("to_days", 7),
    "DAY": ("to_days", 1),
    "DAYOFYEAR": ("to_days", 1),
    "HOUR": ("to_microseconds", 3_600_000_000),
    "MINUTE": ("to_microseconds", 60_000_000),
    "SECOND": ("to_microseconds", 1_000_000),
    "MILLISECOND": ("to_microseconds", 1_000),
    "MICROSECOND": ("to_microseconds", 1),
}
_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
# What Spark takes out of a date or a time.
_PART_WORDS: Final = """
YEAR Y YEARS YR YRS YEAROFWEEK QUARTER QTR MONTH MON MONS MONTHS WEEK W WEEKS DAY D DAYS DAYOFWEEK DOW DAYOFWEEK_ISO
DOW_ISO DOY HOUR H HOURS HR HRS MINUTE M MIN MINS MINUTES SECOND S SEC SECS SECONDS
"""
_PARTS: Final = frozenset(_PART_WORDS.split())
# In a pattern as the parser translates it: what both engines write alike, and a T in quotes.
_DIRECTIVE: Final = re.compile(r"%-?[A-Za-z](strict)?")
_QUOTED_T: Final = "'T'"
_LETTER: Final = re.compile(r"[A-Za-z']")


def rewritten_time(node: Any) -> Any:
    """Return a node with Spark's value; the node itself where DuckDB's is the same. Raises InvalidRequest,
    UnsupportedFeature.
    """
    match node:
        case exp.DayOfWeek():
            return _from_sunday(node)
        case exp.Extract():
            return _extracted(node)
        case exp.TimestampTrunc() | exp.DateTrunc():
            return _truncated(node)
        case exp.TimestampDiff() | exp.TimestampAdd():
            return _by_units(node)
        case exp.MonthsBetween():
            return _months_between(node)
        case exp.AddMonths():
            return cast_to(node, "DATE")
        case exp.Hour() | exp.Minute() | exp.Second() if kind_of(node.this) in TEXTS:
            node.set("this", _time(node.this))
        case exp.LastDay() if kind_of(node.this) in TEXTS:
            node.set("this", rewritten_cast(cast_to(node.this, "DATE")))
        case exp.TsOrDsToDate() if kind_of(node.this) in TEXTS and node.args.get("format") is None:
            return rewritten_cast(cast_to(node.this, "DATE"))
        case exp.TimeToStr() | exp.StrToTime() | exp.TsOrDsToDate() if node.args.get("format") is not None:
            node.set("format", _pattern(node.args["format"]))
        case exp.TsOrDsAdd() | exp.DateAdd() | exp.DateSub() if kind_of(node) == "DATE":
            return cast_to(node, "DATE")
        case exp.Sub() if kind_of(node.this) == kind_of(node.expression) == "DATE":
            return call("to_days", exp.Cast(this=node.copy(), to=exp.DataType.build("INT")))
        case exp.Add() | exp.Sub():
            return _another_day(node)
    return node


def _another_day(node: Any) -> Any:
    """Return a date and days or an interval, added or subtracted; other sums as they are."""
    sides = (node.this, node.expression)
    if "DATE" in map(kind_of, sides):
        if any(map(is_of_days, sides)):
            return cast_to(node, "DATE")
        if any(map(is_of_hours, sides)):
            return cast_to(node, "TIMESTAMP")
    if kind_of(node.this) == "DATE" and kind_of(node.expression) in INTEGERS:
        # DuckDB adds no BIGINT, which its own functions give.
        node.set("expression", cast_to(node.expression, "INT"))
    return node


def _from_sunday(node: Any) -> Any:
    """Return the day of the week; DuckDB counts from Sunday, 0."""
    return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))


def _extracted(node: Any) -> Any:
    value, part = node.expression, str(node.this.this).upper()
    if part not in _PARTS:
        raise InvalidRequest(
            f"SQL: {part} cannot be taken out of a date or a time. Parts: {', '.join(sorted(_PARTS))}."
        )
    if is_null(value):
        return cast_to(value, "INT")
    if kind_of(value) in INSTANTS | TEXTS:
        value = _time(value)
        node.set("expression", value)
    match part:
        case "DAYOFWEEK" | "DOW":
            found = _from_sunday(call("dayofweek", value))
        case "DAYOFWEEK_ISO" | "DOW_ISO":
            found = call("isodow", value)
        case _ if part in SECONDS:
            return call("spark_second", value)
        case _:
            found = node
    return cast_to(found, "INT")


def _truncated(node: Any) -> Any:
    unit = node.args.get("unit")
    if not isinstance(unit, exp.Literal | exp.Var):
        raise needs_spark("a time that is cut to a unit that is computed", "Write the unit as a text")
    found = _UNIT_OF.get(str(unit.this).upper())
    # `trunc`, unlike `date_trunc`, gives a date.
    is_date = isinstance(node, exp.DateTrunc)
    if found is None or (is_date and found not in _UNITS_OF_DATES):
        return cast_to(exp.Null(), "DATE" if is_date else "TIMESTAMP")
    kind = "TIMESTAMP" if kind_of(node.this) in INSTANTS else "TIMESTAMP_NTZ"
    return cast_to(call("date_trunc", exp.Literal.string(found.lower()), _time(node.this)), "DATE" if is_date else kind)


def _time(node: Any) -> Any:
    """Return a date or a text as a time without a zone, and a time as it is."""
    kind = kind_of(node)
    if kind in TEXTS:
        return rewritten_cast(cast_to(node, "TIMESTAMP_NTZ"))
    return node if kind == "TIMESTAMPNTZ" else cast_to(node, "TIMESTAMP_NTZ")


def _by_units(node: Any) -> Any:
    unit, is_difference = str(node.args["unit"].this), isinstance(node, exp.TimestampDiff)
    units = [each for each in _STEPS if each != "DAYOFYEAR" or not is_difference]
    if unit not in units:
        raise InvalidRequest(f"SQL: {unit} is not a unit of times. Units: {', '.join(units)}.")
    return _whole_units(node, unit) if is_difference else _later(node, unit)


def _later(node: Any, unit: str) -> Any:
    """Return a time so many units later, of the type of the time; of a date or a text, an instant."""
    kind = "TIMESTAMP_NTZ" if kind_of(node.this) in LOCAL_TIMES else "TIMESTAMP"
    count = node.expression
    if kind_of(count) in TEXTS | NUMBERS - INTEGERS:
        # Spark cuts the fraction off.
        count = rewritten_cast(cast_to(count, "BIGINT"))
    elif kind_of(count) not in INTEGERS | UNKNOWN:
        raise InvalidRequest(f"SQL: a number of units is a number, found a value of type {kind_of(count)}. Cast it.")
    function, factor = _STEPS[unit]
    steps = exp.Mul(this=cast_to(count, "BIGINT"), expression=exp.Literal.number(factor))
    if function != "to_microseconds":
        steps = cast_to(steps, "INT")
    return cast_to(exp.Add(this=_time(node.this).copy(), expression=call(function, steps)), kind)


def _whole_units(node: Any, unit: str) -> Any:
    """Return how many units have ended between two times."""
    later, earlier = _time(node.this), _time(node.expression)
    if unit in _MONTHS:
        months = call("spark_whole_months", later, earlier)
        return months if unit == "MONTH" else call("spark_truncated", months, exp.Literal.number(_MONTHS[unit]))
    return call("date_sub", exp.Literal.string(unit.lower()), earlier, later)


def _months_between(node: Any) -> Any:
    months = call("spark_months_between", _time(node.this), _time(node.expression))
    match node.args.get("roundoff"):
        case exp.Boolean() as is_rounded if not is_rounded.this:
            return months
        case None | exp.Boolean():
            return call("round", months, exp.Literal.number(8))
    raise needs_spark("months_between with a third value that is computed", "Write true or false")


def _pattern(format: Any) -> Any:
    """Return a pattern without quotes, whose letters are all known."""
    if not isinstance(format, exp.Literal):
        raise needs_spark("a pattern of a date or a time that is computed", "Write it as a text")
    # DuckDB's %g are milliseconds.
    text = str(format.this).replace(_QUOTED_T, "T").replace("SSS", "%g")
    if found := _LETTER.search(_DIRECTIVE.sub("", text.replace("T", ""))):
        raise needs_spark(
            f"{shown(found.group())} in a pattern of dates and times",
            "Use yyyy, yy, MM, M, MMM, MMMM, dd, d, E, EEEE, HH, H, hh, h, mm, m, ss, s, SSS, SSSSSS, a, D and 'T'",
        )
    return exp.Literal.string(text)
