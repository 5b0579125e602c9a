"""Functions of Spark that the parser of queries does not know, in terms of those that it knows.

Source: docs/sql.md#queries.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks

_WITH_UNIT: Final = 3


def _is_null(values: Sequence[Any]) -> Any:
    return exp.Paren(this=exp.Is(this=_one(values), expression=exp.Null()))


def _is_not_null(values: Sequence[Any]) -> Any:
    return exp.Paren(this=exp.Not(this=exp.Is(this=_one(values), expression=exp.Null())))


def _one(values: Sequence[Any]) -> Any:
    """Return the only argument, as the side of an operator."""
    (value,) = values
    return exp.Paren(this=value) if isinstance(value, exp.Binary | exp.Unary | exp.Between | exp.In) else value


def _date_part(values: Sequence[Any]) -> Any:
    part = values[0] if len(values) == 2 else None
    if isinstance(part, exp.Literal) and part.is_string:
        return exp.Extract(this=exp.var(str(part.this).upper()), expression=values[1])
    return exp.Anonymous(this="date_part", expressions=list(values))


def _weekday(values: Sequence[Any]) -> Any:
    """Return the day of the week; Monday is 0."""
    of_week = exp.Extract(this=exp.var("DAYOFWEEK_ISO"), expression=values[0])
    return exp.Paren(this=exp.Sub(this=of_week, expression=exp.Literal.number(1)))


def _with_unit(name: str, kind: Any) -> Any:
    """Return what reads a function that takes a unit before two values, or two arguments of another meaning."""

    def read(values: Sequence[Any]) -> Any:
        has_unit = len(values) == _WITH_UNIT
        if (
            has_unit
            and isinstance(values[0], exp.Column)
            and not values[0].table
            and not values[0].this.args.get("quoted")
        ):
            unit, value, time = values
            return kind(this=time, expression=value, unit=exp.var(str(unit.name).upper()))
        if has_unit or name.startswith("TIMESTAMP"):
            return exp.Anonymous(this=name.lower(), expressions=list(values))
        return Databricks.Parser.FUNCTIONS[name](values)

    return read


def unsigned(parser: Any) -> Any:
    """Return a value behind the sign +, which is the function `positive`; a number that is written stays as it is."""
    value = parser._parse_unary()
    if value is None or (isinstance(value, exp.Literal) and not value.is_string):
        return value
    return exp.Anonymous(this="positive", expressions=[value])


SECOND_NAMES: Final = {
    "EVERY": exp.LogicalAnd.from_arg_list,
    "SOME": exp.LogicalOr.from_arg_list,
    "MEAN": exp.Avg.from_arg_list,
    "STD": exp.Stddev.from_arg_list,
    "ISNULL": _is_null,
    "ISNOTNULL": _is_not_null,
    "DATE_PART": _date_part,
    "DATEPART": _date_part,
    "WEEKDAY": _weekday,
    "MAKE_DATE": exp.DateFromParts.from_arg_list,
    "CARDINALITY": exp.ArraySize.from_arg_list,
    # Whole units between two times; of two dates without a unit, the days.
    **{name: _with_unit(name, exp.TimestampDiff) for name in ("DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF")},
    **{name: _with_unit(name, exp.TimestampAdd) for name in ("DATEADD", "DATE_ADD", "TIMESTAMPADD")},
}
