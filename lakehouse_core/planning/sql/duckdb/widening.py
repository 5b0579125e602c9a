"""Values of several types beside each other, for which DuckDB would choose another common type than Spark.

Rule: beside another type a text is read as that type, and a FLOAT beside another number is a DOUBLE, before anything is
compared or computed. What Spark does not put beside each other is an error. Source: docs/sql.md#without-spark.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.sql.duckdb.casts import (
    BYTES,
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
from lakehouse_core.planning.sql.tokens import DIALECT

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_NARROW: Final = frozenset({"TINYINT", "SMALLINT"})
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
# Functions that read a text as a DOUBLE.
_OF_NUMBERS: Final = (
    exp.Sum,
    exp.Avg,
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.Variance,
    exp.VariancePop,
    exp.Median,
    exp.Corr,
    exp.CovarPop,
    exp.CovarSamp,
    exp.Neg,
    exp.Abs,
    exp.Round,
    exp.Ceil,
    exp.Floor,
    exp.Sqrt,
    exp.Cbrt,
    exp.Exp,
    exp.Ln,
    exp.Log,
    exp.Pow,
    exp.Sign,
    exp.Sin,
    exp.Cos,
    exp.Tan,
    exp.Atan,
    exp.Atan2,
    exp.Degrees,
    exp.Radians,
    exp.IsNan,
)


def rewritten_operands(node: Any) -> Any:
    """Return a node whose operands have Spark's common type; the node itself where that is DuckDB's.

    The parts of the node are rewritten, and types are known. Raises InvalidRequest, UnsupportedFeature.
    """
    rule = _RULES.get(type(node))
    return node if rule is None else rule(node)


def common_kind(kinds: set[str]) -> str | None:
    """Return the type as which Spark takes texts and FLOATs among values of these types; None where DuckDB takes them
    alike. Raises InvalidRequest for a BOOLEAN beside another type.
    """
    others = kinds - TEXTS - UNKNOWN
    if "BOOLEAN" in others and len(others) > 1:
        raise _incompatible(others)
    if others == kinds:
        return "DOUBLE" if "FLOAT" in kinds and kinds != {"FLOAT"} and kinds <= NUMBERS else None
    if kinds & UNKNOWN:
        return "DOUBLE" if "FLOAT" in others and not kinds & TEXTS else None
    if others <= INTEGERS:
        return "BIGINT" if others else None
    if others <= NUMBERS:
        return "DOUBLE"
    for some, kind in ((INSTANTS, "TIMESTAMP"), (LOCAL_TIMES, "TIMESTAMP_NTZ"), (BYTES, "BINARY")):
        if others <= some:
            return kind
    return next(iter(others)) if others in ({"DATE"}, {"BOOLEAN"}) else None


def is_widened(kind: str, common: str | None) -> bool:
    """Return whether a value of a type is cast to the common type of those beside it."""
    return common is not None and (kind in TEXTS or (kind == "FLOAT" and common == "DOUBLE"))


def _widen(parts: Sequence[Any], kind: str | None = None) -> None:
    """Cast the texts and FLOATs among values of several types: to their common type, or to the one given."""
    known = [part for part in parts if part is not None and not is_null(part)]
    kinds = {kind_of(part) for part in known}
    common = common_kind(kinds) if len(kinds) > 1 else None
    if common is None:
        return
    for part in known:
        if is_widened(kind_of(part), kind or common):
            part.replace(rewritten_cast(cast_to(part, kind or common)))


def _coalesced(node: Any) -> Any:
    _widen([node.this, *node.expressions])
    return node


def _chosen(node: Any) -> Any:
    _widen([node.args["true"], node.args.get("false")])
    return node


def _calculated(node: Any) -> Any:
    kinds = [kind_of(node.this), kind_of(node.expression)]
    if set(kinds) & TEXTS and set(kinds) <= TEXTS | {"NULL"}:
        raise InvalidRequest("SQL: arithmetic takes a number on one side at least, found texts. Cast one of them.")
    if kinds[0] != kinds[1] and set(kinds) <= INTEGERS and _NARROW & set(kinds):
        # A number that is written in the query would take the narrow type in DuckDB.
        for key, kind, other in zip(("this", "expression"), kinds, reversed(kinds), strict=True):
            if kind in _NARROW and other != "TINYINT":
                node.set(key, cast_to(node.args[key], other))
    _widen([node.this, node.expression], "DOUBLE" if isinstance(node, exp.Div) else None)
    return node


def _extreme(node: Any) -> Any:
    _check_no_text(node.sql_name().lower(), [node.this, *node.expressions])
    return _coalesced(node)


def _array(node: Any) -> Any:
    _widen(node.expressions)
    return node


def _rows(node: Any) -> Any:
    """Return VALUES, whose columns have one type each."""
    for cells in zip(*(row.expressions for row in node.expressions), strict=False):
        _check_no_text("VALUES", cells)
        # Unlike elsewhere, a FLOAT beside integers stays one.
        if not {kind_of(cell) for cell in cells} <= INTEGERS | {"FLOAT"}:
            _widen(cells)
    return node


def _listed(node: Any) -> Any:
    if node.args.get("query") is None:
        _check_comparable([node.this, *node.expressions])
        _widen([node.this, *node.expressions])
    return node


def _compared(node: Any) -> Any:
    _check_comparable([node.this, node.expression])
    _widen([node.this, node.expression])
    if isinstance(node.this, _COMPARISONS):
        # DuckDB wants brackets around the first of two comparisons.
        node.set("this", exp.Paren(this=node.this.copy()))
    return node


def _check_comparable(parts: Sequence[Any]) -> None:
    kinds = {kind_of(part) for part in parts}
    if kinds <= NUMBERS or kinds <= TEXTS:
        return
    if any(isinstance(part, exp.Struct) for part in parts):
        raise needs_spark("the comparison with a struct that is made in the query", "Compare its fields")
    if "MAP" in kinds:
        raise InvalidRequest("SQL: maps cannot be compared. Compare their keys or values.")
    if kinds == {"ARRAY"}:
        elements = {kind_of_element(part) for part in parts} - UNKNOWN
        if elements & TEXTS and elements - TEXTS:
            raise _incompatible({f"ARRAY<{each}>" for each in elements})


def kind_of_element(array: Any) -> str:
    """Return the name of the type of the elements of a typed array; an empty text if it is not known."""
    found = [] if array.type is None else list(array.type.expressions)
    return str(found[0].this.name) if len(found) == 1 and isinstance(found[0], exp.DataType) else ""


def _between(node: Any) -> Any:
    """Return a BETWEEN as Spark's two comparisons, where their types differ."""
    low, high = node.args["low"], node.args["high"]
    parts = [node.this, low, high]
    kinds = {kind_of(part) for part in parts}
    if len(kinds) == 1 or not kinds & (TEXTS | {"FLOAT", "BOOLEAN"}):
        _check_comparable(parts)
        return node
    least = _compared(exp.GTE(this=_operand(node.this), expression=_operand(low)))
    return exp.paren(
        exp.And(this=least, expression=_compared(exp.LTE(this=_operand(node.this), expression=_operand(high))))
    )


def _operand(node: Any) -> Any:
    """Return a copy of a node as the side of an operator."""
    if not isinstance(node, exp.Binary | exp.Unary | exp.Between | exp.In | exp.Is):
        return node.copy()
    made = exp.Paren(this=node.copy())
    made.type = node.type
    return made


def _nullif(node: Any) -> Any:
    """Return NULLIF, whose result has the type of its first value, and whose values are compared as elsewhere."""
    kinds = {kind_of(each) for each in (node.this, node.expression) if not is_null(each)}
    if common_kind(kinds) is None:
        return node
    equal = _compared(exp.EQ(this=_operand(node.this), expression=_operand(node.expression)))
    made = exp.Case(ifs=[exp.If(this=equal, true=exp.Null())], default=node.this.copy())
    made.type = node.this.type
    return made


def _case(node: Any) -> Any:
    """Return a CASE; the values that it compares have common types pair by pair."""
    branches, operand = node.args["ifs"], node.this
    if operand is not None and len({kind_of(operand), *(kind_of(each.this) for each in branches)}) > 1:
        for each in branches:
            each.set("this", _compared(exp.EQ(this=_operand(operand), expression=_operand(each.this))))
        node.set("this", None)
    _widen([*(each.args["true"] for each in branches), node.args.get("default")])
    return node


def _if(node: Any) -> Any:
    """Return an IF, or a branch of a CASE, whose values are those of the CASE."""
    is_branch = isinstance(node.parent, exp.Case)
    if not is_branch or node.parent.this is None:
        _check_condition(node.this)
    return node if is_branch else _chosen(node)


def _searched(node: Any) -> Any:
    """Return a search of an array for a value, which has the type of its elements."""
    kinds = {kind_of_element(node.this), kind_of(node.expression)} - UNKNOWN
    if kinds & TEXTS and kinds - TEXTS:
        raise _incompatible(kinds)
    if common_kind(kinds) == "DOUBLE":
        for key, kind in (("this", "ARRAY<DOUBLE>"), ("expression", "DOUBLE")):
            node.set(key, rewritten_cast(cast_to(node.args[key], kind)))
    return node


def _shifted(node: Any) -> Any:
    if kind_of(node.this) in TEXTS:
        node.set("this", rewritten_cast(cast_to(node.this, "INT")))
    return node


def _signed(node: Any) -> Any:
    """Return a value behind the sign +: a text as a number."""
    if str(node.this).lower() != "positive":
        return node
    if len(node.expressions) != 1:
        raise InvalidRequest(f"SQL: positive takes one number, found {len(node.expressions)} values.")
    (value,) = node.expressions
    kind = kind_of(value)
    if kind in TEXTS:
        return rewritten_cast(cast_to(value, "DOUBLE"))
    if kind not in NUMBERS | UNKNOWN | {"INTERVAL"}:
        raise InvalidRequest(f"SQL: the sign + takes a number, found a value of type {kind}. Cast it.")
    return exp.Paren(this=value)


def _of_numbers(node: Any) -> Any:
    values = [each for key in ("this", "expression") if isinstance(each := node.args.get(key), exp.Expression)]
    for value in [part for each in values for part in (each.expressions if isinstance(each, exp.Distinct) else [each])]:
        kind = kind_of(value)
        if kind in TEXTS:
            value.replace(rewritten_cast(cast_to(value, "DOUBLE")))
        elif kind == "BOOLEAN":
            name = node.sql_name().lower() if isinstance(node, exp.Func) else "the sign -"
            raise InvalidRequest(f"SQL: {name} takes a number, found a BOOLEAN. Cast it to INT.")
    return node


def _filter(node: Any) -> Any:
    _check_condition(node.args.get("on") if isinstance(node, exp.Join) else node.this)
    return node


def _logical(node: Any) -> Any:
    """Return AND, OR or NOT, which take texts for conditions."""
    for part in node.iter_expressions():
        _check_condition(part, TEXTS)
    return node


def _check_condition(node: Any, also: frozenset[str] = frozenset()) -> None:
    """Raise unless a node is a condition. `also`: types that are read as conditions."""
    kind = kind_of(node)
    if kind in NUMBERS or (kind in TEXTS and kind not in also):
        raise InvalidRequest(
            f"SQL: {node.sql(dialect=DIALECT)} is a value of type {kind}, not a condition. Compare it, as in "
            f"{node.sql(dialect=DIALECT)} <> 0."
        )


def _check_no_text(name: str, parts: Sequence[Any]) -> None:
    """Raise for texts beside other types where Spark does not cast them."""
    kinds = {kind_of(part) for part in parts if not is_null(part)}
    if kinds & TEXTS and kinds - TEXTS - UNKNOWN:
        raise InvalidRequest(f"SQL: {name} takes values of one type, found {', '.join(_shown(kinds))}. Cast the texts.")


def _shown(kinds: set[str]) -> list[str]:
    return sorted("STRING" if kind in TEXTS else kind for kind in kinds)


def _incompatible(kinds: set[str]) -> InvalidRequest:
    return InvalidRequest(f"SQL: values of {' and '.join(_shown(kinds))} have no common type. Cast one of them.")


_RULES: Final[dict[type, Callable[[Any], Any]]] = {
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(_ARITHMETIC, _calculated),
    **dict.fromkeys(_OF_NUMBERS, _of_numbers),
    **dict.fromkeys((exp.And, exp.Or, exp.Not, exp.LogicalAnd, exp.LogicalOr), _logical),
    **dict.fromkeys((exp.Where, exp.Join), _filter),
    **dict.fromkeys((exp.Greatest, exp.Least), _extreme),
    exp.Coalesce: _coalesced,
    exp.Nvl2: _chosen,
    exp.If: _if,
    exp.Case: _case,
    exp.Nullif: _nullif,
    exp.Between: _between,
    exp.In: _listed,
    exp.Array: _array,
    exp.ArrayContains: _searched,
    exp.ArrayPosition: _searched,
    exp.BitwiseLeftShift: _shifted,
    exp.BitwiseRightShift: _shifted,
    exp.Values: _rows,
    exp.Anonymous: _signed,
}
