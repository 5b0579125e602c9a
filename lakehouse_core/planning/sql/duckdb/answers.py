"""Names and types of the columns of answers: what ORDER BY names, what UNION and IN (SELECT …) put side by side, and
what types of Spark the answer has.

Rule: a name in ORDER BY is that of the answer first. Columns of two queries have one type before they meet.
Source: docs/sql.md#without-spark.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.sql.duckdb.casts import NUMBERS, TEXTS, UNKNOWN, WIDTHS
from lakehouse_core.planning.sql.duckdb.decimals import columns_of, decimal_text, kind_of, size_of
from lakehouse_core.planning.sql.duckdb.fragments import cast_to, needs_spark
from lakehouse_core.planning.sql.duckdb.widening import common_kind, is_widened

_UNNESTED: Final = (exp.Explode, exp.Posexplode)
_SIDE: Final = "side"
_RANKS: Final = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)


def write_out_orders(tree: Any) -> Any:
    """Write the expressions of the answer where ORDER BY computes with their names: DuckDB would take the columns of
    the tables. Return the tree. Raises InvalidRequest, and UnsupportedFeature for a name that several columns of the
    answer have.
    """
    # Those inside come first: a query around them is a copy.
    for select in reversed(list(tree.find_all(exp.Select))):
        order = select.args.get("order")
        if order is None:
            continue
        answers: dict[str, list[Any]] = {}
        for each in select.selects:
            answers.setdefault(each.alias_or_name, []).append(each.unalias())
        for ordered in order.expressions:
            _check_order(ordered)
        computed = [column for ordered in order.expressions for column in _computed(ordered, select, answers)]
        if any(answers[column.name][0].find(*_UNNESTED) is not None for column in computed):
            # Rows are ordered by what explode gives once they are there.
            outer = _ordered_outside(select, answers)
            tree = outer if select is tree else tree
            if outer is not tree:
                select.replace(outer)
            continue
        for column in computed:
            answer = answers[column.name][0]
            column.replace(answer.copy() if isinstance(answer, exp.Column) else exp.Paren(this=answer.copy()))
    return tree


def _check_order(ordered: Any) -> None:
    if ordered.find(exp.Window) is not None:
        raise InvalidRequest("SQL: ORDER BY takes no window function. Select it with a name, and order by the name.")


def _computed(ordered: Any, select: Any, answers: Mapping[str, Sequence[Any]]) -> Iterator[Any]:
    """Yield the names of the answer that an order computes with. Raises UnsupportedFeature."""
    for column in ordered.find_all(exp.Column):
        if column.table or column.name not in answers or column.parent_select is not select:
            continue
        answer = answers[column.name][0]
        if any(each != answer for each in answers[column.name]):
            raise needs_spark(
                f"an order by {column.name}, a name that several columns of the answer have,", "Rename one"
            )
        if column is not ordered.this and answer != column:
            yield column


def _ordered_outside(select: Any, answers: Mapping[str, Sequence[Any]]) -> Any:
    """Return a query that orders the rows of the query inside it, which has no order."""
    order = select.args["order"]
    if len(answers) < len(select.selects) or any(
        column.table or column.name not in answers for column in order.find_all(exp.Column)
    ):
        raise needs_spark(
            "an order that computes with what explode gives, and by a column that the answer does not have,",
            "Select the column",
        )
    inner = select.copy()
    outer = exp.Select(expressions=[_of_side(name) for name in answers])
    for key in ("with_", "order", "limit", "offset"):
        if (clause := inner.args.pop(key, None)) is not None:
            outer.set(key, clause)
    for column in list(outer.args["order"].find_all(exp.Column)):
        column.set("table", exp.to_identifier(_SIDE, quoted=True))
    return outer.from_(inner.subquery(_SIDE, copy=False), copy=False)


def _of_side(name: str) -> Any:
    return exp.alias_(exp.column(name, table=_SIDE, quoted=True), name, quoted=True)


def align_queries(nodes: Sequence[Any]) -> bool:
    """Cast columns of queries with types where DuckDB would choose another type than Spark, and return whether there
    were any; the types of the tree are to be found again then. `nodes`: of the tree, parts before what they are in.

    Raises InvalidRequest, UnsupportedFeature.
    """
    is_changed = False
    for node in nodes:
        if isinstance(node, exp.SetOperation):
            is_changed |= _align_sides(node)
        elif isinstance(node, exp.In) and node.args.get("query") is not None:
            is_changed |= _align_in(node)
    return is_changed


def type_answers(tree: Any) -> None:
    """Cast the columns of the answer that have another type in DuckDB than in Spark: ranks, and decimals that are
    computed. In the queries inside they stay as they are, which DuckDB computes faster.
    """
    sizes = [size_of(each) for each in columns_of(tree)]
    is_ranked = tree.find(*_RANKS) is not None
    is_of_tables = len(list(tree.find_all(exp.Select))) == 1
    for select in list(_answering(tree)):
        for column, size in zip(select.selects, sizes, strict=False):
            value = column.unalias()
            if size is not None and not (is_of_tables and isinstance(value, exp.Column)):
                kind = decimal_text(size)
            elif is_ranked and kind_of(value) == "INT":
                kind = "INT"
            else:
                continue
            if value.find(*_UNNESTED) is None:
                typed = cast_to(value, kind)
                if isinstance(value, exp.Subquery):
                    # The name of the column is that of the query in it.
                    typed.this.set("alias", None)
                column.replace(exp.alias_(typed, column.alias_or_name, quoted=True))


def _answering(query: Any) -> Iterator[Any]:
    """Yield the queries whose rows are those of the answer."""
    inner = query.unnest()
    if isinstance(inner, exp.SetOperation):
        yield from _answering(inner.this)
        yield from _answering(inner.expression)
    elif isinstance(inner, exp.Select):
        yield inner


def _align_sides(node: Any) -> bool:
    left, right = _types(node.this), _types(node.expression)
    if len(left) != len(right):
        return False
    common = [_common(one, other) for one, other in zip(left, right, strict=True)]
    changes = [_cast_columns(node, key, types, common) for key, types in (("this", left), ("expression", right))]
    return any(changes)


def _align_in(node: Any) -> bool:
    value = node.this.unnest()
    values = value.expressions if isinstance(value, exp.Tuple) else [node.this]
    right = _types(node.args["query"])
    if len(values) != len(right):
        return False
    common = [_common(one.type, other) for one, other in zip(values, right, strict=True)]
    is_changed = _cast_columns(node, "query", right, common)
    for one, kind in zip(values, common, strict=True):
        if is_widened(kind_of(one), kind):
            one.replace(cast_to(one, str(kind)))
            is_changed = True
    return is_changed


def _types(query: Any) -> list[Any]:
    """Return the types of the columns of a query."""
    inner = query.unnest()
    if not isinstance(inner, exp.SetOperation):
        return [each.type for each in inner.selects]
    left, right = _types(inner.this), _types(inner.expression)
    return [_wider(one, other) for one, other in zip(left, right, strict=False)]


def _wider(one: Any, other: Any) -> Any:
    kinds = (_name(one), _name(other))
    if kinds[0] in UNKNOWN:
        return other
    return other if set(kinds) <= NUMBERS and WIDTHS.index(kinds[1]) > WIDTHS.index(kinds[0]) else one


def _common(one: Any, other: Any) -> str | None:
    kinds = {_name(one), _name(other)}
    if kinds == {"STRUCT"} and one != other:
        raise needs_spark("columns of structs with other fields beside each other", "Select their fields")
    if (
        kinds == {"ARRAY"}
        and len({_name(each.expressions[0]) in TEXTS for each in (one, other) if each.expressions}) > 1
    ):
        raise needs_spark("columns of arrays of texts and of other values beside each other", "Cast one of them")
    if "" in kinds and kinds & (TEXTS | {"FLOAT"}):
        return None
    return common_kind(kinds)


def _name(kind: Any) -> str:
    return "" if kind is None else str(kind.this.name)


def _cast_columns(node: Any, key: str, types: Sequence[Any], common: Sequence[str | None]) -> bool:
    """Put a query around one side of a node, which casts some of its columns; return whether it was needed."""
    query = node.args[key]
    kinds = [kind if is_widened(_name(one), kind) else None for one, kind in zip(types, common, strict=True)]
    if not any(kinds):
        return False
    inner = query.unnest()
    names = [each.alias_or_name for each in inner.selects]
    if len(set(names)) < len(names):
        raise needs_spark("a query beside one of other types that has two columns of one name", "Give them names")
    columns = []
    for name, kind, one in zip(names, kinds, types, strict=True):
        column = exp.column(name, table=_SIDE, quoted=True)
        column.type = one
        made = exp.alias_(column if kind is None else cast_to(column, kind), name, quoted=True)
        made.type = made.this.type
        columns.append(made)
    select = exp.Select(expressions=columns).from_(inner.copy().subquery(_SIDE, copy=False), copy=False)
    node.set(key, exp.Subquery(this=select) if key == "query" else select)
    return True
