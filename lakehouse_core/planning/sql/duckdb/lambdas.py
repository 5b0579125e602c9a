"""Functions with a lambda, in a typed query: each as functions of DuckDB.

Rule: a place in an array counts from 0, as in Spark. The arguments of lambdas have names that nothing else has.
Source: docs/sql.md#without-spark.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.sql.duckdb.casts import UNKNOWN
from lakehouse_core.planning.sql.duckdb.decimals import kind_of
from lakehouse_core.planning.sql.duckdb.fragments import fragment, needs_spark
from lakehouse_core.planning.sql.duckdb.spark_types.annotated import is_argument
from lakehouse_core.planning.sql.tokens import DIALECT

_PREFIX: Final = "lakehouse_argument"


def rename_arguments(tree: Any) -> None:
    """Give the arguments of lambdas names that nothing else in the query has, so that no rewritten part hides them."""
    functions = list(tree.find_all(exp.Lambda))
    if not functions:
        return
    prefix = _PREFIX
    while any(prefix in each.name for each in tree.find_all(exp.Identifier)):
        prefix += "_"
    # Those inside come last: a name means the argument of the innermost lambda. By how deep each is inside others, two
    # expressions that are alike stay so.
    for function in reversed(functions):
        depth, names = _depth(function), [each.name for each in function.expressions]
        for node in list(function.this.find_all(exp.Identifier)):
            if node.name in names and is_argument(node):
                node.set("this", f"{prefix}_{depth}_{names.index(node.name)}")
        for place, each in enumerate(function.expressions):
            each.set("this", f"{prefix}_{depth}_{place}")


def _depth(function: Any) -> int:
    around = function.find_ancestor(exp.Lambda)
    return 0 if around is None else _depth(around) + 1


def rewritten_lambda(node: Any) -> Any:
    """Return a function of a lambda in DuckDB's terms; other nodes as they are. Raises InvalidRequest,
    UnsupportedFeature.
    """
    match node:
        case exp.Transform():
            return _listed("list_transform", node.this, node.expression)
        case exp.ArrayFilter():
            _check_gives_condition("filter", node.expression)
            return _listed("list_filter", node.this, node.expression)
        case exp.Exists() if node.args.get("expression") is not None:
            _check_gives_condition("exists", node.expression)
            return _tested("spark_any", node.this, node.expression)
        case exp.Reduce():
            return _reduced(node)
        case exp.Anonymous() if (rewrite := _NAMED.get(str(node.this).lower())) is not None:
            return rewrite(node.expressions)
    return node


def _listed(name: str, array: Any, function: Any) -> Any:
    _check_decimals(array)
    arguments = function.expressions
    if len(arguments) == 1:
        return _call(f"{name}(:x, lambda {arguments[0].name}: :body)", function, x=array)
    place = arguments[1].name
    _replace(function, place, fragment(f"CAST({place} - 1 AS INTEGER)"))
    return _call(f"{name}(:x, lambda {arguments[0].name}, {place}: :body)", function, x=array)


def _tested(name: str, array: Any, function: Any) -> Any:
    _check_decimals(array)
    return _call(f"{name}(list_transform(:x, lambda {function.expressions[0].name}: :body))", function, x=array)


def _reduced(node: Any) -> Any:
    start, merge, finish = node.args["initial"], node.args["merge"], node.args.get("finish")
    _check_decimals(node.this)
    kinds = [kind_of(start), kind_of(merge.this)]
    if "DECIMAL" in kinds or UNKNOWN & {*kinds} - {"NULL"}:
        raise needs_spark("aggregate of decimals, or of values whose type is not known,", "Cast the start to DOUBLE")
    first, next_one = (each.type.sql(dialect=DIALECT) for each in (start, merge.this))
    if first != next_one:
        raise InvalidRequest(
            f"SQL: aggregate begins with a value of type {first}, and its function gives {next_one}. Cast the first "
            "value to that type."
        )
    state, element = (each.name for each in merge.expressions)
    found = _call(f"list_reduce(:x, lambda {state}, {element}: :body, :start)", merge, x=node.this, start=start)
    if finish is None:
        return found
    # DuckDB has no name for a value but in a lambda.
    name = finish.expressions[0].name
    return fragment(
        f"CASE WHEN :x IS NOT NULL THEN list_transform([:found], lambda {name}: :body)[1] END",
        x=node.this,
        found=found,
        body=finish.this,
    )


def _of_all(values: Sequence[Any]) -> Any:
    _check_gives_condition("forall", values[1])
    return _tested("spark_all", *values)


def _zipped(values: Sequence[Any]) -> Any:
    left, right, function = values
    _check_decimals(left)
    _check_decimals(right)
    pair = f"{function.expressions[0].name}_pair"
    for place, each in enumerate(function.expressions, 1):
        _replace(function, each.name, fragment(f"struct_extract_at({pair}, {place})"))
    return _call(
        f"CASE WHEN :x IS NOT NULL AND :y IS NOT NULL THEN list_transform(list_zip(:x, :y), lambda {pair}: :body) END",
        function,
        x=left,
        y=right,
    )


def _of_entries(text: str) -> Callable[[Sequence[Any]], Any]:
    """Return what rewrites a function over the entries of a map. `text`: the function in DuckDB's SQL."""

    def rewrite(values: Sequence[Any]) -> Any:
        entries, function = values
        entry = f"{function.expressions[0].name}_entry"
        for part, each in zip(("key", "value"), function.expressions, strict=True):
            _replace(function, each.name, fragment(f"struct_extract({entry}, '{part}')"))
        return _call(text.replace("entry", entry), function, x=entries)

    return rewrite


def _map_filtered(values: Sequence[Any]) -> Any:
    _check_gives_condition("map_filter", values[1])
    return _of_entries("map_from_entries(list_filter(map_entries(:x), lambda entry: :body))")(values)


_NAMED: Final[dict[str, Callable[[Sequence[Any]], Any]]] = {
    "forall": _of_all,
    "zip_with": _zipped,
    "map_filter": _map_filtered,
    "transform_values": _of_entries(
        "map_from_entries(list_transform(map_entries(:x), lambda entry: "
        "struct_pack(key := struct_extract(entry, 'key'), value := :body)))"
    ),
    "transform_keys": _of_entries(
        "map_from_entries(list_transform(map_entries(:x), lambda entry: "
        "struct_pack(key := :body, value := struct_extract(entry, 'value'))))"
    ),
}


def _call(text: str, function: Any, **parts: Any) -> Any:
    return fragment(text, body=function.this, **parts)


def _replace(function: Any, name: str, instead: Any) -> None:
    """Put an expression in the place of an argument of a lambda."""
    for node in list(function.this.find_all(exp.Identifier)):
        if node.name == name and is_argument(node):
            made = instead.copy()
            made.type = node.type
            node.replace(made)


def _check_gives_condition(name: str, function: Any) -> None:
    if (kind := kind_of(function.this)) not in UNKNOWN | {"BOOLEAN"}:
        raise InvalidRequest(
            f"SQL: {name} takes a function that gives a condition, and it gives a value of type {kind}."
        )


def _check_decimals(array: Any) -> None:
    """Raise for an array of decimals that the query makes, whose sizes only Spark knows."""
    literals = [one for one in array.find_all(exp.Literal) if not isinstance(one.parent, exp.Cast)]
    kinds = [] if array.type is None else [str(each.this) for each in array.type.expressions]
    if not isinstance(array, exp.Column) and (
        any("DECIMAL" in kind for kind in kinds) or any(not one.is_string and "." in str(one.this) for one in literals)
    ):
        raise needs_spark("a lambda over decimals that the query makes", "Cast them to DOUBLE")
