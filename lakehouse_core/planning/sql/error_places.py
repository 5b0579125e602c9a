"""Places of errors: what an engine says of a statement, which names no place → the part of the text that is meant.

Rule: where several parts may be meant, no place is told. Source: docs/sql.md#queries.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from lakehouse_core.errors import shown
from lakehouse_core.planning.sql.tokens import DIALECT, SqlText

# The name of a table may stand before it, and the place of the part behind.
_OF_TEXT: Final = re.compile(r"([^:\s]+: )?SQL(, .*?line \d+, column \d+)?: (.*)", re.DOTALL)
# What Spark says is wrong, before its own words.
_QUOTED: Final = re.compile(r"in (.*?): (?=\[)", re.DOTALL)
# Finds nodes of a tree, or places, that a message may mean. The groups of its pattern are the last arguments.
_Finder = Callable[..., Iterable[Any]]
# A query right below one of these does not stand for one value.
_OF_ROWS: Final = (exp.From, exp.Join, exp.Subquery, exp.CTE, exp.Lateral, exp.SetOperation, exp.Exists, exp.In)
# The functions that need OVER.
_OVER_ONLY: Final = (
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.PercentRank,
    exp.CumeDist,
    exp.Ntile,
    exp.Lag,
    exp.Lead,
    exp.NthValue,
)
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul)
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Between, exp.In)
_OPERATIONS: Final[Mapping[str, type]] = {"addition": exp.Add, "subtraction": exp.Sub, "multiplication": exp.Mul}


def place_first(message: str) -> str:
    """Return a message about a part of a statement with the place before the name of the table."""
    said = _OF_TEXT.fullmatch(message)
    if said is None or said[1] is None or said[2] is None:
        return message
    return f"SQL{said[2]}: {said[1]}{said[3]}"


def has_no_place(message: str) -> bool:
    """Return whether a message is about a part of a statement, and does not say where that is."""
    said = _OF_TEXT.fullmatch(message)
    return said is not None and said[2] is None


def with_place(message: str, sql: SqlText, tree: Any) -> str:
    """Return a message that has no place with that of the part that it means, if one part of the tree fits."""
    said = _OF_TEXT.fullmatch(message)
    assert said is not None
    start = _place(said[3], sql, tree)
    return message if start is None else f"SQL, {sql.place(start)}: {said[1] or ''}{said[3]}"


def statement_tree(text: str) -> Any:
    """Return the tree of a statement that changes rows; None if the parser of queries cannot read it."""
    try:
        return parse_one(text, read=DIALECT)
    except (SqlglotError, RecursionError):
        return None


def place_of(node: Any) -> int | None:
    """Return where the text of a part begins; None if nothing in it has a place."""
    return min((int(part.meta["start"]) for part in node.walk() if "start" in part.meta), default=None)


def _place(message: str, sql: SqlText, tree: Any) -> int | None:
    if (quoted := _QUOTED.match(message)) is not None:
        if sql.text.count(quoted[1]) == 1:
            return sql.text.index(quoted[1])
        message = message[quoted.end() :]
    for pattern, find, is_any in _FINDERS:
        said = pattern.match(message)
        if said is None:
            continue
        places = (one if isinstance(one, int) else place_of(one) for one in find(tree, sql, *said.groups()))
        found = {start for start in places if start is not None}
        return min(found) if found and (is_any or len(found) == 1) else None
    return None


def _all(*kinds: type) -> _Finder:
    return lambda tree, sql, *_: tree.find_all(*kinds)


def _within(clause: type, *kinds: type) -> _Finder:
    """Find nodes in a clause of a query, without those of queries inside the clause."""

    def find(tree: Any, sql: SqlText, *_: str) -> Iterator[Any]:
        return (node for node in tree.find_all(*kinds) if isinstance(node.find_ancestor(clause, exp.Query), clause))

    return find


def _called(*names: str) -> _Finder:
    """Find calls of functions by their names in the text; without names, of the one that the message names."""

    def find(tree: Any, sql: SqlText, *said: str) -> Iterator[int]:
        wanted = {name.casefold() for name in (names or said)}
        for token, behind in pairwise(sql.tokens):
            if token.text.casefold() in wanted and behind.token_type is TokenType.L_PAREN:
                yield int(token.start)

    return find


def _not_grouped(tree: Any, sql: SqlText, name: str) -> Iterator[Any]:
    """Find the columns of a name that stand where a query with groups has one value a group, and are not a group."""
    for column in tree.find_all(exp.Column):
        above = column.find_ancestor(exp.Query, exp.AggFunc, exp.From, exp.Join, exp.Where, exp.Group)
        if str(column.name).casefold() != name.casefold() or not isinstance(above, exp.Select):
            continue
        group = above.args.get("group")
        if group is None and above.find(exp.AggFunc) is None:
            continue
        if group is None or name.casefold() not in {str(one.name).casefold() for one in group.expressions}:
            yield column
    yield from (one for one in _beside_aggregates(tree, sql) if one.is_star)


def _beside_aggregates(tree: Any, sql: SqlText) -> Iterator[Any]:
    """Find what a query with groups selects as it is in its rows."""
    for query in tree.find_all(exp.Select):
        if any(one.find(exp.AggFunc) is not None for one in query.expressions):
            yield from (
                one for one in query.expressions if one.find(exp.Column, exp.Star) and not one.find(exp.AggFunc)
            )


def _nested_aggregates(tree: Any, sql: SqlText) -> Iterator[Any]:
    for node in tree.find_all(exp.AggFunc):
        outer = node.find_ancestor(exp.AggFunc, exp.Query)
        if isinstance(outer, exp.AggFunc) and not isinstance(outer.parent, exp.Window):
            yield node


def _without_over(tree: Any, sql: SqlText) -> Iterator[Any]:
    for node in tree.find_all(*_OVER_ONLY):
        if not isinstance(node.find_ancestor(exp.Window, exp.Query), exp.Window):
            yield node


def _unequal_queries(tree: Any, sql: SqlText) -> Iterator[Any]:
    """Find what the right side of a UNION and the like selects, where it is not as many columns as on the left."""
    for node in tree.find_all(exp.SetOperation):
        sides = node.left.selects, node.right.selects
        if not any(one.is_star for side in sides for one in side) and len(sides[0]) != len(sides[1]):
            yield sides[1][0]


def _values_of_queries(tree: Any, sql: SqlText) -> Iterator[Any]:
    """Yield the queries that stand for one value."""
    for node in tree.find_all(exp.Subquery):
        if not isinstance(node.parent, _OF_ROWS):
            yield node.this


def _wide_queries(tree: Any, sql: SqlText, *_: str) -> Iterator[Any]:
    asked = [node.args["query"].unnest() for node in tree.find_all(exp.In) if node.args.get("query") is not None]
    for query in [*_values_of_queries(tree, sql), *asked]:
        if len(query.selects) > 1:
            yield query.selects[1]


def _negative_limits(tree: Any, sql: SqlText) -> Iterator[Any]:
    return (node for node in tree.find_all(exp.Limit, exp.Offset) if isinstance(node.expression, exp.Neg))


def _right_sides(tree: Any, sql: SqlText) -> Iterator[Any]:
    return (node.right for node in tree.find_all(exp.SetOperation))


def _orders(tree: Any, sql: SqlText, *name: str) -> Iterator[Any]:
    """Find what queries are ordered by: the columns of a name, without one all of it."""
    for order in tree.find_all(exp.Order):
        if isinstance(order.parent, exp.Query):
            yield from (one for one in order.find_all(exp.Column) if str(one.name) in name) if name else (order,)


def _texts(tree: Any, sql: SqlText, said: str) -> Iterator[Any]:
    """Find where a text may be read as another type: itself as a literal, or what may read texts of rows."""
    for node in tree.find_all(exp.Literal, exp.Cast, exp.Sum, exp.Avg, *_ARITHMETIC, *_COMPARISONS):
        if isinstance(node, exp.Literal):
            is_meant = node.is_string and shown(str(node.this)) == said and not isinstance(node.parent, exp.Query)
        else:
            # Beside a text that is written there, the other side is a text, or that text is the one.
            is_meant = not any(isinstance(part, exp.Literal) and part.is_string for part in node.iter_expressions())
            is_meant = is_meant and not isinstance(node.this, exp.Literal)
        if is_meant:
            yield node


def _spark_texts(tree: Any, sql: SqlText, said: str) -> Iterator[Any]:
    return _texts(tree, sql, shown(said))


def _divisions(tree: Any, sql: SqlText) -> Iterator[Any]:
    """Find the divisions but those by a number that is written there and is not zero."""
    for node in tree.find_all(exp.Div, exp.IntDiv, exp.Mod):
        by = node.expression.unnest()
        if not isinstance(by, exp.Literal) or by.is_string or not str(by.this).strip("0."):
            yield node


def _out_of_range(tree: Any, sql: SqlText, kind: str) -> Iterator[Any]:
    """Find what gives a value of a type: casts to it, and sums."""
    yield from tree.find_all(exp.Sum)
    for node in tree.find_all(exp.Cast):
        if node.to.sql(dialect=DIALECT).replace(" ", "").upper() == kind:
            yield node


def _operations(tree: Any, sql: SqlText, name: str) -> Iterable[Any]:
    kind = _OPERATIONS.get(name)
    return () if kind is None else tree.find_all(kind)


def _patterns(tree: Any, sql: SqlText) -> Iterator[Any]:
    for node in tree.find_all(exp.Func):
        if node.sql_name().startswith("REGEXP") or isinstance(node, exp.RegexpLike):
            yield node


def _fields(tree: Any, sql: SqlText, name: str) -> Iterator[Any]:
    return (node for node in tree.find_all(exp.Dot, exp.Column) if str(node.name).casefold() == name.casefold())


# What begins a message, what finds the parts that it may mean, and whether each part that is found is wrong.
_FINDERS: Final[tuple[tuple[re.Pattern[str], _Finder, bool], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), find, is_any)
    for pattern, find, is_any in (
        (r"column (.*) is neither in GROUP BY nor ", _not_grouped, True),
        (r"an aggregate function has no other one inside", _nested_aggregates, True),
        (r"WHERE takes no aggregate function", _within(exp.Where, exp.AggFunc), True),
        (r"WHERE takes no window function", _within(exp.Where, exp.Window), True),
        (r"GROUP BY takes no function of several rows", _within(exp.Group, exp.AggFunc, exp.Window), True),
        (r"ORDER BY takes no window function", _within(exp.Order, exp.Window), True),
        (r"a window function needs OVER", _without_over, True),
        (r"the queries of UNION, EXCEPT or INTERSECT ", _unequal_queries, True),
        (r"a query inside another one has \d+ columns", _wide_queries, True),
        (r"LIMIT and OFFSET take a number from 0 on", _negative_limits, True),
        (r"a query that stands for one value has several rows", _values_of_queries, False),
        (r"an order by (.*), a name that several columns", _orders, True),
        (r"an order that computes ", _orders, False),
        (r"columns of .* beside each other", _right_sides, False),
        (r"values of .* have no common type", _right_sides, False),
        (r"grouping takes a column ", _called("grouping", "grouping_id"), False),
        (r"The text (.*) cannot be read as ", _texts, False),
        (r"\[CAST_INVALID_INPUT\] The value '(.*?)' of the type", _spark_texts, False),
        (r"\[CAST_OVERFLOW\] .* cannot be cast to \"(\S+)\"", _out_of_range, False),
        (r"\[DIVIDE_BY_ZERO\]", _divisions, False),
        (r"\[ARITHMETIC_OVERFLOW\]", _all(*_ARITHMETIC, exp.Neg, exp.Sum), False),
        (r"\[DATETIME_FIELD_OUT_OF_BOUNDS\S*\]", _called("make_date", "make_timestamp"), False),
        (r"\[DUPLICATED_MAP_KEY\]", _all(exp.Map, exp.VarMap), False),
        (r"\[INVALID_PARAMETER_VALUE\.PATTERN\]", _patterns, False),
        (r"\[FIELD_NOT_FOUND\] No such struct field `(\w+)`", _fields, False),
        (r"\[INCOMPATIBLE_COLUMN_TYPE\]", _right_sides, False),
        (r"\[GROUPING_COLUMN_MISMATCH\]", _called("grouping"), False),
        (r"\[\S+\.SCALAR_SUBQUERY_RETURN_MORE_THAN_ONE_OUTPUT_COLUMN\]", _wide_queries, True),
        (r"\[\S+\.IN_SUBQUERY_LENGTH_MISMATCH\]", _wide_queries, True),
        (r"It is not allowed to use window functions inside WHERE", _within(exp.Where, exp.Window), True),
        (r"\[INVALID_ARRAY_INDEX", _all(exp.Bracket), False),
        (r"\[SCALAR_SUBQUERY_TOO_MANY_ROWS\]", _values_of_queries, False),
        (r"\[INVALID_WHERE_CONDITION\]", _within(exp.Where, exp.AggFunc, exp.Window), True),
        (r"\[WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE\]", _without_over, True),
        (r"\[NUM_COLUMNS_MISMATCH\]", _unequal_queries, True),
        (r"\[MISSING_GROUP_BY\]", _beside_aggregates, True),
        (r"\[MISSING_AGGREGATION\] The non-aggregating expression \"(\w+)\"", _not_grouped, True),
        (r"\[DATATYPE_MISMATCH\.FILTER_NOT_BOOLEAN\]", _all(exp.Where), False),
        (r"\[WRONG_NUM_ARGS\S*\] The `(\w+)` requires", _called(), False),
        (r"\S+ is not a date", _called("make_date"), False),
        (r"Division by zero", _divisions, False),
        (r"\S+ is out of the range of (\S+)\. Cast it", _out_of_range, False),
        (r".* is out of the range of \S+\. Cast a side", _all(*_ARITHMETIC, exp.Neg), False),
        (r"the (\w+) of decimals needs more than", _operations, False),
        (r"an index is outside of its array", _all(exp.Bracket), False),
        (r"an index of element_at is ", _called("element_at"), False),
        (r"the step of a sequence ", _called("sequence"), False),
        (r"slice counts from 1|the length of a slice ", _called("slice"), False),
        (r"a map has one key twice", _all(exp.Map, exp.VarMap), False),
        (r"a regular expression is not understood", _patterns, False),
        (r"the arguments of (\w+)\(", _called(), False),
        (r"ntile takes ", _called("ntile"), False),
        (r"a percentile is ", _called("percentile", "percentile_approx", "approx_percentile"), False),
        (r"explode takes ", _called("explode", "explode_outer", "posexplode"), False),
        (r"a value of type .* is not cast to ", _all(exp.Predicate, exp.Cast), False),
        (r".* is not a struct, and has no field (.*)\.", _fields, False),
        (r"a struct has no field (.*)\. Check the name", _fields, False),
    )
)
