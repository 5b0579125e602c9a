"""Types of the columns that explode makes of an array or a map, which the parser takes for the array itself."""

from typing import Any

from sqlglot import exp

from lakehouse_core.planning.sql.tokens import DIALECT


def type_exploded(typed: Any) -> None:
    """Set the types of the columns of LATERAL VIEW explode and posexplode in a query whose nodes have types."""
    for lateral in typed.find_all(exp.Lateral):
        function = lateral.this
        if not isinstance(function, exp.Explode | exp.Posexplode) or function.this.type is None:
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
    while node is not None and not isinstance(node, exp.Query) and (node is column or node.type == wrong):
        node.type = kind.copy()
        node = node.parent
