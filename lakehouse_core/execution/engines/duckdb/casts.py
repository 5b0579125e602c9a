"""Casts in a typed query, those that the query does not write too: Spark's text forms, and what a text may hold.

Source: docs/sql.md#without-spark.
"""

import re
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.execution.engines.duckdb.decimals import kind_of
from lakehouse_core.execution.engines.duckdb.spark_functions import call, cast, needs_spark
from lakehouse_core.planning.sql.tokens import DIALECT

INTEGERS: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
FLOATS: Final = frozenset({"DOUBLE", "FLOAT"})
FRACTIONS: Final = FLOATS | {"DECIMAL"}
NUMBERS: Final = INTEGERS | FRACTIONS
TEXTS: Final = frozenset({"TEXT", "VARCHAR", "CHAR"})
INSTANTS: Final = frozenset({"TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMP"})
TIMES: Final = INSTANTS | {"TIMESTAMPNTZ"}
BYTES: Final = frozenset({"BINARY", "VARBINARY"})
_NESTED: Final = frozenset({"ARRAY", "MAP", "STRUCT"})
# Texts that both engines read alike, by the type that they become.
_PLAIN_TEXTS: Final = {
    "INTEGER": re.compile(r"[+-]?\d{1,18}"),
    "DATE": re.compile(r"\d{4}-\d\d-\d\d"),
    "TIME": re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?"),
}
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


def rewritten_cast(node: Any) -> Any:
    """Return a node with Spark's value; the node itself where DuckDB's is the same. Raises UnsupportedFeature."""
    match node:
        case exp.Cast():
            return _cast(node)
        case exp.TsOrDsToDate() if kind_of(node.this) in TEXTS and node.args.get("format") is None:
            return cast(_guarded(node.this, "DATE"), "DATE")
        case exp.Neg() if kind_of(node.this) in TEXTS:
            node.set("this", cast(_guarded(node.this, "DOUBLE"), "DOUBLE"))
        case exp.Between() | exp.In():
            _compare_all(node)
        case _ if isinstance(node, _COMPARISONS):
            _refuse_structs(node)
            _unify(node, _compared_as)
        case _ if isinstance(node, _ARITHMETIC):
            _unify(node, _computed_as)
    return node


def as_text(node: Any) -> Any:
    """Return a node as the text that Spark makes of it."""
    kind = kind_of(node)
    if kind in FLOATS:
        return call("spark_number_text", node)
    if kind in INSTANTS:
        return cast(cast(node, "TIMESTAMP_NTZ"), "STRING")
    return node


def _cast(node: Any) -> Any:
    source, target = kind_of(node.this), node.to.this.name
    match target:
        case _ if target in TEXTS:
            return _to_text(node, source)
        case "BINARY" | "VARBINARY" if source in TEXTS:
            return call("encode", node.this)
        case _ if source in TEXTS:
            node.set("this", _guarded(node.this, target))
        case _ if source in FRACTIONS and target in INTEGERS:
            # Spark cuts the digits behind the point, DuckDB rounds.
            node.set("this", call("trunc", node.this))
        case _ if source in INSTANTS and target in NUMBERS:
            name = "spark_whole_seconds" if target in INTEGERS else "spark_seconds"
            node.set("this", call(name, cast(node.this, "TIMESTAMP_NTZ")))
        case _ if source in NUMBERS and target in INSTANTS:
            return call("spark_instant", node.this)
    return node


def _to_text(node: Any, source: str) -> Any:
    if source in _NESTED:
        raise needs_spark(f"the cast of {source} to STRING", "Cast its elements")
    if source in BYTES:
        return call("decode", node.this)
    node.set("this", as_text(node.this))
    return node


def _guarded(node: Any, target: str) -> Any:
    """Return a text that DuckDB's cast reads as Spark's does, and refuses where Spark's does."""
    literal = str(node.this) if isinstance(node, exp.Literal) and node.is_string else None
    if target in INTEGERS:
        return _unless_plain(node, literal, "INTEGER", "spark_integer")
    if target == "DECIMAL":
        return call("spark_decimal", node)
    if target in FLOATS:
        return call("spark_double", node)
    if target == "DATE":
        return _unless_plain(node, literal, "DATE", "spark_date")
    if target in TIMES:
        return _unless_plain(node, literal, "TIME", "spark_time")
    return node


def _unless_plain(node: Any, literal: str | None, form: str, macro: str) -> Any:
    return node if literal is not None and _PLAIN_TEXTS[form].fullmatch(literal) else call(macro, node)


def _compared_as(text: Any, other: Any) -> str | None:
    """Return the type as which Spark compares a text with another value; None: as texts, or as DuckDB does."""
    kind = kind_of(other)
    if kind in INTEGERS:
        return "BIGINT"
    if kind in FRACTIONS:
        return "DOUBLE"
    if kind in ("DATE", "BOOLEAN"):
        return kind
    if kind in TIMES:
        return "TIMESTAMP_NTZ" if kind == "TIMESTAMPNTZ" else "TIMESTAMP"
    return None


def _computed_as(text: Any, other: Any) -> str | None:
    """Return the type as which Spark computes with a text; None where it does not."""
    kind = kind_of(other)
    if kind in INTEGERS:
        return "DOUBLE" if isinstance(text.parent, exp.Div) else "BIGINT"
    return "DOUBLE" if kind in FRACTIONS else None


def _unify(node: Any, kind_with: Any) -> None:
    """Cast the side that is a text to what the other side makes of it."""
    for one, other in (("this", "expression"), ("expression", "this")):
        text, value = node.args[one], node.args[other]
        if kind_of(text) in TEXTS and (kind := kind_with(text, value)) is not None:
            node.set(one, _converted(text, kind))


def _converted(text: Any, kind: str) -> Any:
    target = exp.DataType.from_str(kind, dialect=DIALECT).this.name
    return cast(_guarded(text, target), kind)


def _compare_all(node: Any) -> None:
    """Cast the texts of BETWEEN and IN to the type of what they are compared with."""
    _refuse_structs(node)
    for key in ("low", "high"):
        if (bound := node.args.get(key)) is not None and kind_of(bound) in TEXTS:
            kind = _compared_as(bound, node.this)
            if kind is not None:
                node.set(key, _converted(bound, kind))
    if isinstance(node, exp.In) and node.expressions:
        values = []
        for value in node.expressions:
            kind = _compared_as(value, node.this) if kind_of(value) in TEXTS else None
            values.append(value if kind is None else _converted(value, kind))
        node.set("expressions", values)
        if kind_of(node.this) in TEXTS:
            kinds = {found for value in values if (found := _compared_as(node.this, value)) is not None}
            if len(kinds) == 1:
                node.set("this", _converted(node.this, kinds.pop()))


def _refuse_structs(node: Any) -> None:
    sides = [each for each in node.args.values() if not isinstance(each, list)]
    if any(isinstance(each, exp.Struct) for each in sides):
        raise needs_spark("the comparison with a struct that is made in the query", "Compare its fields")
