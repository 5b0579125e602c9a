"""LATERAL VIEW: the types of the columns that explode makes, which the parser takes for the array itself, and its rows.

Source: docs/sql.md#without-spark.
"""

from typing import Any, Final

from sqlglot import exp

from lakehouse_core.execution.engines.duckdb.dialect.decimals import kind_of
from lakehouse_core.execution.engines.duckdb.dialect.fragments import fragment, needs_spark
from lakehouse_core.planning.sql.tokens import DIALECT

_EXPLODING: Final = (exp.Explode, exp.Posexplode)
# What has its own type, whatever that of its parts is.
_OF_OWN_TYPE: Final = (exp.Query, exp.Split, exp.RegexpSplit, exp.RegexpExtractAll)
# The columns that a function makes of an array or a map, in DuckDB's SQL.
_OF_ARRAYS: Final = ("unnest(:x)",)
_OF_PLACES: Final = ("unnest(range(len(:x)))", "unnest(:x)")
_OF_MAPS: Final = ("unnest(map_keys(:x))", "unnest(map_values(:x))")


def rewritten_view(node: Any) -> Any:
    """Return a query whose LATERAL VIEW is a join with rows of a query, unless DuckDB's own has the same rows.

    Raises UnsupportedFeature.
    """
    if not isinstance(node, exp.Select) or not node.args.get("laterals"):
        return node
    views = [(each, _texts(each)) for each in node.args["laterals"] if isinstance(each.this, _EXPLODING)]
    if all(texts == _OF_ARRAYS and not view.args.get("outer") for view, texts in views):
        return node
    # All of them become joins, for one may name the columns of those before it.
    for view, texts in views:
        names, is_outer = view.alias_column_names, view.args.get("outer")
        if len(names) != len(texts):
            raise needs_spark("LATERAL VIEW without a name for each column", "Write … AS key, value")
        columns = [
            exp.alias_(fragment(text, x=view.this.this), name, quoted=True)
            for text, name in zip(texts, names, strict=True)
        ]
        rows = exp.Lateral(this=exp.Select(expressions=columns).subquery(), alias=view.args["alias"].copy())
        join = exp.Join(this=rows, side="LEFT", on=exp.true()) if is_outer else exp.Join(this=rows, kind="CROSS")
        view.pop()
        node.append("joins", join)
    return node


def _texts(view: Any) -> tuple[str, ...]:
    if isinstance(view.this, exp.Posexplode):
        return _OF_PLACES
    is_map = kind_of(view.this.this) == "MAP" or len(view.alias_column_names) == len(_OF_MAPS)
    return _OF_MAPS if is_map else _OF_ARRAYS


def type_exploded(typed: Any) -> None:
    """Set the types of the columns of LATERAL VIEW explode and posexplode in a query whose nodes have types."""
    for lateral in typed.find_all(exp.Lateral):
        function = lateral.this
        if not isinstance(function, _EXPLODING) or function.this.type is None:
            continue
        wrong, kinds = function.this.type, list(function.this.type.expressions)
        if isinstance(function, exp.Posexplode):
            kinds.insert(0, exp.DataType.build("INT", dialect=DIALECT))
        of_columns = dict(zip(lateral.alias_column_names, kinds, strict=False))
        for column in list(typed.find_all(exp.Column)):
            # In ORDER BY a column of the answer has no table.
            if column.table in ("", lateral.alias) and column.type == wrong and column.name in of_columns:
                _set_type(column, wrong, of_columns[column.name])


def _set_type(column: Any, wrong: Any, kind: Any) -> None:
    """Set the type of a column, and of what has its type, such as the greatest of several."""
    node = column
    while node is not None and not isinstance(node, _OF_OWN_TYPE) and (node is column or node.type == wrong):
        node.type = kind.copy()
        node = node.parent
