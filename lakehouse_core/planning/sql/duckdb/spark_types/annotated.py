"""The types that the nodes of a query have in Spark: as the parser finds them where that is right, and those that it
does not know: of values of several types, of lambdas, of values of maps, of the columns of LATERAL VIEW.

Rule: each node has its type when that of what it is in is found. Source: docs/sql.md#without-spark.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot import exp
from sqlglot.optimizer.annotate_types import TypeAnnotator
from sqlglot.schema import ensure_schema

from lakehouse_core.planning.sql.duckdb.casts import INTEGERS, TEXTS
from lakehouse_core.planning.sql.duckdb.decimals import kind_of
from lakehouse_core.planning.sql.duckdb.fragments import aggregated, cast_to, is_null
from lakehouse_core.planning.sql.duckdb.spark_types.computed import OF_COMPUTED_VALUES, array_of, nested
from lakehouse_core.planning.sql.tokens import DIALECT

# Functions that return INT, whatever they are given.
_INT_FUNCTIONS: Final = (
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
# What `extract` takes out of a time with its fraction.
SECONDS: Final = ("SECOND", "SECONDS", "S", "SEC", "SECS")
_INSTANT_FUNCTIONS: Final = (exp.StrToTime, exp.TimeStrToTime, exp.TimestampTrunc, exp.TimestampFromParts)


def with_types(tree: Any, schema: Any) -> Any:
    """Return the tree, whose nodes have types now. Lambdas have other names for each of their arguments."""
    for node in tree.find_all(exp.Cast):
        if node.to.this is exp.DType.TIMESTAMP:
            # The parser's form of `to_timestamp` without a pattern.
            node.set("to", exp.DataType.from_str("TIMESTAMP", dialect=DIALECT))
    return _Annotator(ensure_schema(schema, dialect=DIALECT)).annotate(tree)


def as_returned(node: Any, written: Any) -> Any:
    """Return what is written for a node as the type that its function returns in Spark.

    Ranks stay BIGINT: DuckDB finds the first rows of each group faster where no cast stands around a rank.
    """
    match node:
        case exp.Ceil() | exp.Floor() if kind_of(node.this) in INTEGERS and node.args.get("decimals") is None:
            return cast_to(node.this, "BIGINT")
        case exp.Sign():
            return cast_to(written, "DOUBLE")
        case exp.Sum() if is_null(node.this):
            return cast_to(written, "DOUBLE")
        case exp.Concat() | exp.DPipe() | exp.Repeat() if kind_of(node) in TEXTS and any(
            map(is_null, node.iter_expressions())
        ):
            return cast_to(written, "STRING")
    if isinstance(node, _INT_FUNCTIONS):
        return cast_to(written, "INT")
    return cast_to(written, "TIMESTAMP") if isinstance(node, _INSTANT_FUNCTIONS) else written


class _Annotator(TypeAnnotator):  # type: ignore[misc]
    def __init__(self, schema: Any) -> None:
        super().__init__(schema, {**schema.dialect.EXPRESSION_METADATA, **_ANNOTATORS})
        self._scope: Any = None

    def annotate(self, expression: Any, annotate_scope: bool = True) -> Any:
        self.hold(expression)
        return super().annotate(expression, annotate_scope)

    def annotate_scope(self, scope: Any) -> None:
        self._scope = scope
        super().annotate_scope(scope)

    def hold(self, expression: Any) -> None:
        """Leave lambdas to the functions that they are arguments of."""
        for function in expression.find_all(exp.Lambda):
            self._visited[id(function)] = function

    def body(self, function: Any, types: Sequence[Any]) -> Any:
        """Return the type of what a lambda gives for arguments of these types."""
        if not isinstance(function, exp.Lambda):
            return None
        by_name = {each.name: kind for each, kind in zip(function.expressions, types, strict=False)}
        body = function.this
        for node in body.walk():
            if not isinstance(node, exp.Column):
                self._visited.pop(id(node), None)
        self.hold(body)
        for node in body.find_all(exp.Identifier):
            if node.name in by_name and is_argument(node):
                self._set_type(node, by_name[node.name])
        self.annotate_expression(body, self._scope)
        return body.type

    def _get_source_scope_selects(self, source: Any) -> Any:
        view = source.expression
        if isinstance(view, exp.Lateral) and isinstance(view.this, exp.Explode | exp.Posexplode):
            return dict(zip(view.alias_column_names, _exploded(view.this), strict=False))
        return super()._get_source_scope_selects(source)


def is_argument(node: Any) -> bool:
    """Return whether an identifier may be the argument of a lambda, and not the name of a field or a column."""
    match node.parent:
        case exp.Dot():
            return bool(node.arg_key == "this")
        case exp.PropertyEQ():
            return bool(node.arg_key == "expression")
        case exp.Lambda():
            return bool(node.arg_key == "this")
        case exp.Column() | exp.ColumnDef() | exp.Alias() | exp.Table() | exp.TableAlias():
            return False
    return True


def _exploded(function: Any) -> list[Any]:
    kinds = _parts(function.this)
    return [exp.DType.INT, *kinds] if isinstance(function, exp.Posexplode) else kinds


def _parts(node: Any) -> list[Any]:
    """Return the types of the elements of an array, or of the keys and the values of a map."""
    kind = node.type
    if kind is None or not kind.is_type(exp.DType.ARRAY, exp.DType.MAP):
        return []
    return [each for each in kind.expressions if isinstance(each, exp.DataType)]


def _part(node: Any, number: int) -> Any:
    parts = _parts(node)
    return parts[number] if number < len(parts) else None


def _transformed(self: Any, node: Any) -> None:
    self._set_type(node, array_of(self.body(node.expression, [_part(node.this, 0), exp.DType.INT])))


def _filtered(self: Any, node: Any) -> None:
    self.body(node.expression, [_part(node.this, 0), exp.DType.INT])
    self._set_type(node, node.this.type)


def _tested(self: Any, node: Any) -> None:
    self.body(node.args.get("expression"), [_part(node.this, 0)])
    self._set_type(node, exp.DType.BOOLEAN)


def _reduced(self: Any, node: Any) -> None:
    start = node.args["initial"].type
    self.body(node.args["merge"], [start, _part(node.this, 0)])
    finish = node.args.get("finish")
    self._set_type(node, start if finish is None else self.body(finish, [start]))


def _element(self: Any, node: Any) -> None:
    if node.this.type is not None and node.this.type.is_type(exp.DType.MAP):
        self._set_type(node, _part(node.this, 1))
    else:
        self._annotate_bracket(node)


def _sequence(self: Any, node: Any) -> None:
    """A sequence has the widest type of its arguments, but for a step of time."""
    kinds = {each.type.this for each in node.args.values() if each.type is not None} - {exp.DType.NULL}
    widest = [kind for kind in _SEQUENCES if kind in kinds]
    is_known = kinds <= {*_SEQUENCES, exp.DType.INTERVAL}
    self._set_type(node, array_of(exp.DataType(this=widest[-1])) if widest and is_known else None)


def _collected(self: Any, node: Any) -> None:
    self._set_type(node, array_of(aggregated(node).type))


def _from_entries(self: Any, node: Any) -> None:
    entry = _part(node.this, 0)
    kinds = [each.args.get("kind") for each in entry.expressions] if entry is not None else []
    self._set_type(node, nested(exp.DType.MAP, *kinds) if len(kinds) == 2 else None)


def _literal(self: Any, node: Any) -> None:
    self._annotate_literal(node)
    if node.is_int and int(node.this) - isinstance(node.parent, exp.Neg) > _MOST_INT:
        self._set_type(node, exp.DType.BIGINT)
    elif not node.is_string and "." in node.this and "e" not in node.this.lower():
        self._set_type(node, exp.DType.DECIMAL)


def _extracted(self: Any, node: Any) -> None:
    is_decimal = str(node.this.this).upper() in SECONDS
    self._set_type(node, exp.DataType.from_str("DECIMAL(8, 6)", dialect=DIALECT) if is_decimal else exp.DType.INT)


def _named(self: Any, node: Any) -> None:
    """Find the type of a function that has no node of its own."""
    values, name = node.expressions, str(node.this).lower()
    function = values[-1] if values else None
    if name not in _NAMED or not function:
        self._set_type(node, None)
        return
    self._set_type(node, _NAMED[name](self, values, function))


def _signed(self: Any, values: Sequence[Any], function: Any) -> Any:
    return exp.DType.DOUBLE if values[0].is_type(*exp.DataType.TEXT_TYPES) else values[0].type


def _zipped(self: Any, values: Sequence[Any], function: Any) -> Any:
    return array_of(self.body(function, [_part(each, 0) for each in values[:2]]))


def _entries(values: Sequence[Any]) -> list[Any]:
    return [_part(values[0], 0), _part(values[0], 1)]


def _of_all(self: Any, values: Sequence[Any], function: Any) -> Any:
    self.body(function, [_part(values[0], 0)])
    return exp.DType.BOOLEAN


def _map_filtered(self: Any, values: Sequence[Any], function: Any) -> Any:
    self.body(function, _entries(values))
    return values[0].type


def _with_values(self: Any, values: Sequence[Any], function: Any) -> Any:
    return nested(exp.DType.MAP, _part(values[0], 0), self.body(function, _entries(values)))


def _with_keys(self: Any, values: Sequence[Any], function: Any) -> Any:
    return nested(exp.DType.MAP, self.body(function, _entries(values)), _part(values[0], 1))


_MOST_INT: Final = (1 << 31) - 1
# What sequences are made of, the wider type behind the narrower one.
_SEQUENCES: Final = (
    exp.DType.TINYINT,
    exp.DType.SMALLINT,
    exp.DType.INT,
    exp.DType.BIGINT,
    exp.DType.DATE,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ,
    exp.DType.TIMESTAMPTZ,
)
_NAMED: Final[dict[str, Callable[[Any, Sequence[Any], Any], Any]]] = {
    "forall": _of_all,
    "zip_with": _zipped,
    "map_filter": _map_filtered,
    "transform_values": _with_values,
    "transform_keys": _with_keys,
    "positive": _signed,
    "map_values": lambda self, values, function: array_of(_part(values[0], 1)),
}
_ANNOTATORS: Final = {
    **OF_COMPUTED_VALUES,
    exp.Transform: {"annotator": _transformed},
    exp.ArrayFilter: {"annotator": _filtered},
    exp.Exists: {"annotator": _tested},
    exp.Reduce: {"annotator": _reduced},
    exp.Bracket: {"annotator": _element},
    exp.Anonymous: {"annotator": _named},
    exp.Extract: {"annotator": _extracted},
    exp.GenerateSeries: {"annotator": _sequence},
    exp.Literal: {"annotator": _literal},
    **{
        kind: {"annotator": lambda self, node: self._set_type(node, _part(node.this, 0))}
        for kind in (exp.ArrayMax, exp.ArrayMin)
    },
    exp.ArrayPosition: {"returns": exp.DType.BIGINT},
    exp.TimestampDiff: {"returns": exp.DType.BIGINT},
    **{kind: {"returns": exp.DType.INT} for kind in _INT_FUNCTIONS},
    **{kind: {"returns": exp.DType.TIMESTAMPTZ} for kind in (*_INSTANT_FUNCTIONS, exp.CurrentTimestamp)},
    exp.MapKeys: {"annotator": lambda self, node: self._set_type(node, array_of(_part(node.this, 0)))},
    exp.Flatten: {"annotator": lambda self, node: self._set_type(node, _part(node.this, 0))},
    exp.ArrayUniqueAgg: {"annotator": _collected},
    exp.MapFromEntries: {"annotator": _from_entries},
    exp.ArrayContains: {"returns": exp.DType.BOOLEAN},
}
