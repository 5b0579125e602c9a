"""Expressions inside statements: their text → a tree whose columns are those of the tables in reach.

Rule: messages name the place in the whole statement. Source: docs/sql.md#queries.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import in_backquotes
from lakehouse_core.planning.sql.query import parse_query
from lakehouse_core.planning.sql.statement import Part, QueryText
from lakehouse_core.planning.sql.tokens import SqlText

# With this before it, an expression is a query, which the parser takes.
_BEFORE: Final = "SELECT "
# The functions that return another number of rows than they are given.
_NOT_OF_ONE_ROW: Final = (exp.AggFunc, exp.Window, exp.Explode, exp.ExplodeOuter, exp.Posexplode, exp.UDTF)


class PartText(SqlText):
    """A part of a statement as a text of its own, behind `before`; its places are those of the statement."""

    def __init__(self, part: Part, before: str = _BEFORE) -> None:
        self.part = part
        self._skipped = len(before)
        super().__init__(before + part.text)

    def place(self, start: int) -> str:
        return self.part.sql.place(self.part.start + max(start - self._skipped, 0))


class ArgumentText(SqlText):
    """The text of an argument; messages name the argument."""

    def __init__(self, what: str, text: object) -> None:
        if not isinstance(text, str):
            raise InvalidRequest(f"{what}: {shown(text)}: expected SQL text.")
        self._what = what
        super().__init__(text)

    def place(self, start: int) -> str:
        return f"{self._what}, {super().place(start)}"


def parse_part(
    part: Part,
    tables: Mapping[str, Sequence[str]],
    parameters: Mapping[str, Any],
    *,
    statement: str,
    queries: bool = False,
) -> Any:
    """Return the tree of an expression of one row. `tables`: by name, their columns; `queries`: it may have
    some inside.

    Each column of the tree that is not inside such a query has the name of its table, as `tables` spells both. Raises
    InvalidRequest and UnsupportedFeature with the place of the part that is not understood.
    """
    return parse_qualified(part, tables, parameters, statement=statement, queries=queries)[0]


def parse_qualified(
    part: Part,
    tables: Mapping[str, Sequence[str]],
    parameters: Mapping[str, Any],
    *,
    statement: str,
    queries: bool = False,
) -> tuple[Any, str]:
    """Return the tree of `parse_part`, and the text of the expression in which each of these columns has the name of
    its table before it, and no other. Raises as that does.
    """
    text = PartText(part)
    tree = parse_query(QueryText(text, 0, 0), parameters).tree
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or set(_clauses(tree)) - {"expressions"}:
        raise text.invalid(len(_BEFORE), f"{part.text.strip()!r} is not one expression")
    (found,) = tree.expressions
    for node in _outside(found):
        if isinstance(node, exp.Query) and not queries:
            raise text.unsupported(
                _start(node),
                f"a query inside {statement} is not carried out. Run the query first, and write its values as "
                "literals or parameters",
            )
        if isinstance(node, exp.Values):
            raise text.unsupported(
                _start(node), "VALUES by itself is not carried out here. Write SELECT * FROM VALUES (…)"
            )
        if isinstance(node, _NOT_OF_ONE_ROW):
            raise text.unsupported(_start(node), f"{node.sql_name().lower()} needs other rows, and has none here")
        if isinstance(node, exp.Star | exp.Alias):
            raise text.invalid(_start(node), f"{part.text.strip()!r} is not an expression")
    # The name of the table takes the place of the characters between start and end.
    named = []
    for column in list(columns_outside(found)):
        start, end, is_named = _before_name(column)
        _resolve(text, column, tables)
        if not is_named:
            _check_not_hidden(text, start, column)
            named.append((start - len(_BEFORE), end - len(_BEFORE), f"{in_backquotes(str(column.table))}."))
    qualified = part.text
    for start, end, prefix in sorted(named, reverse=True):
        qualified = qualified[:start] + prefix + qualified[end:]
    return found, qualified


def _check_not_hidden(text: PartText, start: int, column: Any) -> None:
    """Raise InvalidRequest for a column in a lambda, one of whose arguments has the name of the column's table."""
    table, node = str(column.table), column
    while (node := node.find_ancestor(exp.Lambda)) is not None:
        if any(str(each.name).casefold() == table.casefold() for each in node.expressions):
            raise text.invalid(
                start,
                f"{column.name} is a column of {table}, and {table} an argument of the function around it. Rename the "
                "argument",
            )


def _before_name(column: Any) -> tuple[int, int, bool]:
    """Return the place of what stands before the name of a column, and whether that is the name of its table alone."""
    database = column.args.get("catalog") or column.args.get("db")
    if database is not None:
        return database.meta["start"], column.this.meta["start"], False
    start = _start(column)
    return start, start, bool(column.table)


def columns_outside(tree: Any) -> Iterator[Any]:
    """Yield the columns of an expression, without those of the queries inside it."""
    return (node for node in _outside(tree) if isinstance(node, exp.Column))


def _outside(tree: Any) -> Iterator[Any]:
    yield from tree.walk(prune=lambda node: isinstance(node, exp.Query))


def _clauses(tree: Any) -> list[str]:
    return [name for name, value in tree.args.items() if value]


def _resolve(text: PartText, column: Any, tables: Mapping[str, Sequence[str]]) -> None:
    """Give the column the names of its table and of itself as they are spelled there."""
    name, table = str(column.name), str(column.table)
    start = _start(column)
    reach = {alias: names for alias, names in tables.items() if not table or alias.casefold() == table.casefold()}
    if not reach:
        raise text.invalid(start, f"{table} is not a table in reach. Tables: {', '.join(tables)}")
    found = [(alias, one) for alias, names in reach.items() for one in names if one.casefold() == name.casefold()]
    exact = [(alias, one) for alias, one in found if one == name]
    chosen = exact or found
    if len(chosen) == 1:
        alias, spelled = chosen[0]
        column.set("table", exp.to_identifier(alias, quoted=True))
        column.set("this", exp.to_identifier(spelled, quoted=True))
        column.set("db", None)
        column.set("catalog", None)
        return
    if chosen:
        raise text.invalid(start, f"column {name} is in several tables. Write the table before it, as in t.{name}")
    raise text.no_column(start, name, [one for each in reach.values() for one in each])


def _start(node: Any) -> int:
    for part in node.walk():
        start = part.meta.get("start")
        if start is not None:
            return int(start)
    return len(_BEFORE)


def without_case(name: str, known: Sequence[str]) -> list[str]:
    """Return the known names that a name of SQL may mean: itself, else those that differ from it by case alone."""
    return [one for one in known if one == name] or [one for one in known if one.casefold() == name.casefold()]


def check_column(sql: SqlText, start: int, name: str, known: Sequence[str]) -> str:
    """Return the column that a name means, without case where exactly one fits. Raises InvalidRequest."""
    if len(found := without_case(name, known)) == 1:
        return found[0]
    raise sql.no_column(start, name, known)
