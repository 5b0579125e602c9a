"""Lambdas: which arguments of which functions they are, and how many arguments of their own they have.

Rule: a lambda in another place is refused, as is a name that Spark takes for an argument and the parser for a column.
Source: docs/sql.md#queries.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.planning.sql.tokens import SqlText

# By function, its arguments that are lambdas: the key or the place, and how many arguments they have.
_NODES: Final[dict[type, tuple[tuple[str, tuple[int, ...]], ...]]] = {
    exp.Transform: (("expression", (1, 2)),),
    exp.ArrayFilter: (("expression", (1, 2)),),
    exp.Exists: (("expression", (1,)),),
    exp.ArraySort: (("expression", (2,)),),
    exp.Reduce: (("merge", (2,)), ("finish", (1,))),
}
_NAMED: Final = {
    "forall": (2, 1),
    "zip_with": (3, 2),
    "map_filter": (2, 2),
    "transform_values": (2, 2),
    "transform_keys": (2, 2),
}
LAMBDA_NAMES: Final = frozenset(_NAMED)
_EXAMPLES: Final = {
    "exists": "exists(a, x -> x > 1)",
    "forall": "forall(a, x -> x > 1)",
    "filter": "filter(a, x -> x > 1)",
    "aggregate": "aggregate(a, 0, (sum, x) -> sum + x)",
    "array_sort": "array_sort(a, (x, y) -> x - y)",
    "zip_with": "zip_with(a, b, (x, y) -> x + y)",
    "map_filter": "map_filter(m, (k, v) -> v > 1)",
    "transform_values": "transform_values(m, (k, v) -> v + 1)",
    "transform_keys": "transform_keys(m, (k, v) -> upper(k))",
}
_NAMES: Final = {exp.ArrayFilter: "filter", exp.Reduce: "aggregate", exp.ArraySort: "array_sort"}


def check_lambdas(sql: SqlText, tree: Any) -> None:
    """Raise InvalidRequest and UnsupportedFeature with the place of a lambda that is not understood."""
    known: set[int] = set()
    for node in tree.find_all(*_NODES, exp.Anonymous):
        for function, counts in _functions(node):
            known.add(id(function))
            if not isinstance(function, exp.Lambda) or len(function.expressions) not in counts:
                name = _name(node)
                example = _EXAMPLES.get(name, "transform(a, x -> x + 1)")
                raise sql.invalid(_start(sql, name), f"{name} takes a function, as in {example}")
    for function in tree.find_all(exp.Lambda):
        if id(function) not in known:
            raise sql.unsupported(_first(function), "a lambda is not carried out here")
        _check_names(sql, function)
        _check_of_one_row(sql, function)


def _functions(node: Any) -> Iterator[tuple[Any, Sequence[int]]]:
    """Yield the arguments of a function that are lambdas, with how many arguments each may have."""
    if isinstance(node, exp.Anonymous):
        if (name := str(node.this).lower()) in _NAMED:
            count, most = _NAMED[name]
            yield (node.expressions[-1] if len(node.expressions) == count else None), (most,)
        return
    for key, counts in _NODES[type(node)]:
        function = node.args.get(key)
        # Others than these need one.
        is_optional = _is_of_query(node) or isinstance(node, exp.ArraySort) or key == "finish"
        if function is not None or not is_optional:
            yield function, counts


def _is_of_query(node: Any) -> bool:
    return isinstance(node, exp.Exists) and isinstance(node.this, exp.Query | exp.Values)


def _check_names(sql: SqlText, function: Any) -> None:
    names = [each.name.casefold() for each in function.expressions]
    if len(set(names)) < len(names):
        raise sql.invalid(_first(function), f"{names[0]} is the name of two arguments. Rename one")
    for column in function.this.find_all(exp.Column):
        first = column.parts[0]
        if str(first.name).casefold() in names:
            raise sql.invalid(
                int(first.meta.get("start", 0)),
                f"{first.name} is an argument of the function, which spells it in another way. Spell it alike",
            )


def _check_of_one_row(sql: SqlText, function: Any) -> None:
    """Raise InvalidRequest for what other rows are needed for, as in Spark."""
    names = [each.name for each in function.expressions]
    for node in function.this.find_all(exp.Query, exp.AggFunc, exp.Window):
        used = [one.name for one in node.find_all(exp.Identifier) if not isinstance(one.parent, exp.Column)]
        if isinstance(node, exp.Query) or not set(names).isdisjoint(used):
            raise sql.invalid(
                _first(function),
                "a lambda has no query inside, and no aggregate of its arguments. Join with the query, or use explode",
            )


def _name(node: Any) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return _NAMES.get(type(node), str(node.sql_name()).lower())


def _first(function: Any) -> int:
    """Return the place of the first argument of a lambda."""
    return int(function.expressions[0].meta.get("start", 0))


def _start(sql: SqlText, name: str) -> int:
    # The parser gives no position for a function.
    return next((int(token.start) for token in sql.tokens if token.text.lower() == name), 0)
