"""The types that computed values have in Spark: of arithmetic, texts, times, aggregates, and of one of several values.

Rule: beside another type a text is read as that type, and a FLOAT beside another number is a DOUBLE.
Source: docs/sql.md#without-spark.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.planning.sql.duckdb.casts import (
    BYTES,
    FLOATS,
    INTEGERS,
    LOCAL_TIMES,
    NUMBERS,
    TEXTS,
    UNKNOWN,
    WIDTHS,
)
from lakehouse_core.planning.sql.duckdb.decimals import kind_of
from lakehouse_core.planning.sql.duckdb.fragments import aggregated
from lakehouse_core.planning.sql.duckdb.widening import common_kind
from lakehouse_core.planning.sql.tokens import DIALECT

_DAYS: Final = ("DAY", "WEEK", "MONTH", "YEAR")
_HOURS: Final = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
# Types of which values beside each other have the last one.
_WIDENED: Final = (
    WIDTHS,
    ("DATE", "TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPLTZ", "TIMESTAMPTZ"),
    ("CHAR", "NCHAR", "NVARCHAR", "VARCHAR", "TEXT"),
)


def is_of_days(node: Any) -> bool:
    """Return whether a date plus the interval is a date in Spark."""
    return _has_unit(node, _DAYS)


def is_of_hours(node: Any) -> bool:
    """Return whether a date plus the interval is an instant in Spark."""
    return _has_unit(node, _HOURS)


def _has_unit(node: Any, units: Sequence[str]) -> bool:
    while isinstance(node, exp.Neg | exp.Paren):
        node = node.this
    unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
    return isinstance(unit, exp.Var) and str(unit.this).upper().removesuffix("S") in units


def array_of(element: Any) -> Any:
    """Return the type of an array; None where that of its elements is not known."""
    return nested(exp.DType.ARRAY, element)


def nested(root: Any, *parts: Any) -> Any:
    """Return the type of an array or a map; None where a part of it is not known."""
    kinds = [part.into_expr() if isinstance(part, exp.DType) else part for part in parts]
    if any(kind is None or kind.is_type(exp.DType.UNKNOWN) for kind in kinds):
        return None
    return exp.DataType(this=root, expressions=[kind.copy() for kind in kinds], nested=True)


def _common(nodes: Sequence[Any]) -> Any:
    """Return the type of values that may be any of some nodes; None if it is not known. Raises InvalidRequest for a
    BOOLEAN beside another type.
    """
    types = [node.type for node in nodes if node is not None and kind_of(node) != "NULL"]
    if not types:
        return exp.DType.NULL
    if any(each is None or each.is_type(exp.DType.UNKNOWN) for each in types):
        return None
    kinds = {str(each.this.name) for each in types}
    if len(kinds) == 1:
        return types[0] if all(each == types[0] for each in types) else _of_one_kind(types)
    if (common := common_kind(kinds)) is not None:
        return exp.DataType.from_str(common, dialect=DIALECT)
    for some in _WIDENED:
        if kinds <= set(some):
            return [exp.DType[kind] for kind in some if kind in kinds][-1]
    return None


def _of_one_kind(types: Sequence[Any]) -> Any:
    """Return the type of values that differ in digits or parts alone."""
    if types[0].is_type(exp.DType.ARRAY):
        parts = [exp.Expression() for _ in types]
        for part, kind in zip(parts, types, strict=True):
            part.type = kind.expressions[0] if kind.expressions else exp.DType.UNKNOWN
        return array_of(_common(parts))
    return exp.DType.DECIMAL if types[0].is_type(exp.DType.DECIMAL) else types[0]


def _together(*keys: str) -> Callable[[Any, Any], None]:
    """Return what finds the type of a node that has one of the values under these keys."""

    def annotated(self: Any, node: Any) -> None:
        found = [node.args.get(key) for key in keys]
        self._set_type(node, _common([each for one in found for each in (one if isinstance(one, list) else [one])]))

    return annotated


def _chosen(self: Any, node: Any) -> None:
    self._set_type(node, _common([*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")]))


def _listed(self: Any, node: Any) -> None:
    self._set_type(node, array_of(_common(node.expressions) if node.expressions else exp.DType.NULL))


def _like_first(self: Any, node: Any) -> None:
    self._set_type(node, node.this.type)


def _calculated(self: Any, node: Any) -> None:
    sides = (node.this, node.expression)
    kinds = {kind_of(each) for each in sides}
    if kinds <= NUMBERS | TEXTS and len(kinds) > 1:
        is_double = isinstance(node, exp.Div) and (kinds <= INTEGERS or kinds & (TEXTS | FLOATS))
        self._set_type(node, exp.DType.DOUBLE if is_double else _without_digits(_common(sides)))
    elif isinstance(node, exp.Div):
        self._set_type(node, _without_digits(node.this.type) if kinds == {"DECIMAL"} else exp.DType.DOUBLE)
    elif isinstance(node, exp.Add | exp.Sub) and "DATE" in kinds and any(map(is_of_days, sides)):
        self._set_type(node, exp.DType.DATE)
    elif isinstance(node, exp.Add | exp.Sub) and "DATE" in kinds and any(map(is_of_hours, sides)):
        self._set_type(node, exp.DType.TIMESTAMPTZ)
    else:
        self._annotate_binary(node)


def _rounded(self: Any, node: Any) -> None:
    kind = kind_of(node.this)
    if isinstance(node, exp.Round):
        self._set_type(node, exp.DType.DOUBLE if kind in TEXTS else _without_digits(node.this.type))
    elif kind == "DECIMAL" or node.args.get("decimals") is not None:
        self._set_type(node, exp.DType.DECIMAL)
    else:
        self._set_type(node, None if kind in UNKNOWN else exp.DType.BIGINT)


def _without_digits(kind: Any) -> Any:
    is_decimal = isinstance(kind, exp.DataType) and kind.is_type(exp.DType.DECIMAL)
    return exp.DType.DECIMAL if is_decimal else kind


def _summed(self: Any, node: Any) -> None:
    """Find the type of a sum or an average."""
    value = aggregated(node)
    kind = kind_of(value)
    if kind in INTEGERS and isinstance(node, exp.Sum):
        self._set_type(node, exp.DType.BIGINT)
    elif kind in INTEGERS | FLOATS | TEXTS | {"NULL"}:
        self._set_type(node, exp.DType.DOUBLE)
    else:
        self._set_type(node, _without_digits(value.type))


def _percentile(self: Any, node: Any) -> None:
    """Find the type of a percentile, or of several."""
    is_list = kind_of(node.args["quantile"]) == "ARRAY"
    self._set_type(node, array_of(exp.DType.DOUBLE) if is_list else exp.DType.DOUBLE)


def _number(self: Any, node: Any) -> None:
    """Find the type of a number with or without its sign."""
    self._set_type(node, exp.DType.DOUBLE if kind_of(node.this) in TEXTS else node.this.type)


def _joined(self: Any, node: Any) -> None:
    """Find the type of texts, bytes or arrays behind each other."""
    values = node.expressions or [node.this, node.expression]
    kinds = {kind_of(each) for each in values} - {"NULL"}
    if kinds and kinds <= BYTES:
        self._set_type(node, exp.DType.BINARY)
    else:
        self._set_type(node, _common(values) if "ARRAY" in kinds else exp.DType.VARCHAR)


def _text_part(self: Any, node: Any) -> None:
    self._set_type(node, exp.DType.BINARY if kind_of(node.this) in BYTES else exp.DType.VARCHAR)


def _reversed(self: Any, node: Any) -> None:
    self._set_type(node, node.this.type if kind_of(node.this) in ("ARRAY", "UNKNOWN", "") else exp.DType.VARCHAR)


def _moved(self: Any, node: Any) -> None:
    self._set_type(node, exp.DType.TIMESTAMPNTZ if kind_of(node.this) in LOCAL_TIMES else exp.DType.TIMESTAMPTZ)


OF_COMPUTED_VALUES: Final = {
    **{kind: {"annotator": _text_part} for kind in (exp.Substring, exp.Left, exp.SplitPart)},
    **{kind: {"annotator": _calculated} for kind in (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)},
    **{kind: {"annotator": _rounded} for kind in (exp.Round, exp.Ceil, exp.Floor)},
    **{kind: {"annotator": _joined} for kind in (exp.Concat, exp.DPipe)},
    **{kind: {"annotator": _like_first} for kind in (exp.Lag, exp.Lead, exp.Nullif)},
    **{kind: {"annotator": _together("this", "expressions")} for kind in (exp.Coalesce, exp.Greatest, exp.Least)},
    **{kind: {"annotator": _together("true", "false")} for kind in (exp.If, exp.Nvl2)},
    **{kind: {"returns": exp.DType.DOUBLE} for kind in (exp.PercentileCont, exp.WithinGroup, exp.Median)},
    **{kind: {"annotator": _summed} for kind in (exp.Sum, exp.Avg)},
    **{kind: {"annotator": _number} for kind in (exp.Neg, exp.Abs)},
    exp.Quantile: {"annotator": _percentile},
    exp.Case: {"annotator": _chosen},
    exp.Array: {"annotator": _listed},
    exp.Reverse: {"annotator": _reversed},
    exp.TimestampAdd: {"annotator": _moved},
    exp.DateTrunc: {"returns": exp.DType.DATE},
}
