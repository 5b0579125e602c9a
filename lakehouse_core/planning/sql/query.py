"""Queries: the text of a query → its tree, with the tables that it names and the points in time that it asks for.

Time travel and the functions that read changes are taken out of the text first, because a parser of SQL reads them in
several ways; blanks keep the places of all that follows. Rule: a tree with a part that is not listed is refused.
Source: docs/sql.md#queries.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp, parse_one
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import TokenType

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.planning.read.read_point import AsOf, AtVersion, ReadPoint
from lakehouse_core.planning.sql.allowed import FUNCTIONS, NODES, refusal
from lakehouse_core.planning.sql.lambdas import check_lambdas
from lakehouse_core.planning.sql.literals import read_literal
from lakehouse_core.planning.sql.spellings import check_spellings
from lakehouse_core.planning.sql.statement import QueryText
from lakehouse_core.planning.sql.tokens import DIALECT, Name, SqlText, TokenCursor

# The functions of Java's Spark connector that read changes: the options of the scan, and how many values each has.
_INCREMENTS: Final[Mapping[str, tuple[str, int]]] = {
    "paimon_incremental_query": ("incremental-between", 2),
    "paimon_incremental_between_timestamp": ("incremental-between-timestamp", 2),
    "paimon_incremental_to_auto_tag": ("incremental-to-auto-tag", 1),
}
_TRAVELS: Final = ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A table that a query names at a place of its text, which ends at `end`. `title`: by which columns name it where
    it has no alias. `options`: the changes that an incremental function reads.
    """

    name: Name
    end: int
    title: str
    alias: str | None
    point: ReadPoint | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parsed query. `text`: that of the statement, without what was taken out; `references` by the place of the name.

    `tree` is sqlglot's, and is never changed: what changes works on a copy.
    """

    sql: SqlText
    text: str
    tree: Any
    references: Mapping[int, TableReference]


def parse_query(query: QueryText, parameters: Mapping[str, Any]) -> Query:
    """Return the query with its parameters as literals. Raises InvalidRequest with line and column for text that is not
    SQL, UnsupportedFeature for what is not carried out.
    """
    taken = _Taken(query, parameters)
    tree = _tree(query.sql, taken.text)
    _check(query.sql, tree)
    used = {str(node.this) for node in tree.find_all(exp.Placeholder)}
    for name in sorted(used):
        if name not in parameters:
            start = max(query.sql.text.find(f":{name}"), query.start)
            raise query.sql.invalid(start, f"parameter :{name} has no value. Pass it: sql(text, {{{name!r}: …}})")
    references = dict(_references(query.sql, tree, taken))
    return Query(sql=query.sql, text=taken.text, tree=_with_values(tree, parameters), references=references)


def check_without_spark(query: Query) -> None:
    """Raise UnsupportedFeature for a part that only Spark carries out."""
    for node in query.tree.find_all(exp.Lateral):
        if not node.args.get("view") and not isinstance(node.this, exp.Subquery):
            raise query.sql.unsupported(
                _place(query.sql, node.this, "lateral"),
                "without Spark LATERAL takes a query in parentheses. Write LATERAL (SELECT …) AS t, or LATERAL VIEW "
                "explode(…)",
            )


class _Taken:
    """The text of a query without time travel and incremental functions, and what they said, by place."""

    def __init__(self, query: QueryText, parameters: Mapping[str, Any]) -> None:
        sql = query.sql
        self.points: dict[int, ReadPoint] = {}
        self.increments: dict[int, tuple[Name, dict[str, str]]] = {}
        self._characters = [" " if index < query.start and one != "\n" else one for index, one in enumerate(sql.text)]
        self._parameters = dict(parameters)
        cursor = TokenCursor(sql, query.first)
        before = None
        while not cursor.is_done:
            token = cursor.token()
            assert token is not None
            if token.token_type is TokenType.PARAMETER and token.text == "$":
                raise sql.invalid(
                    token.start, "found '$'. Put the name of a system table in backquotes, as in db.`orders$files`"
                )
            if token.token_type is TokenType.PLACEHOLDER:
                raise sql.invalid(token.start, "found '?'. Name parameters, as in :since")
            if token.token_type in (TokenType.BLOCK_START, TokenType.L_BRACE, TokenType.PARAMETER):
                raise sql.invalid(token.start, f"found {cursor.found()}, which is not SQL")
            if cursor.is_at("WITH", "("):
                raise sql.unsupported(
                    token.start,
                    "options of a table in WITH (…) are not carried out. Write VERSION AS OF for a snapshot, or pass "
                    "the scan by name: tables={'t': table.scan(options={…})}",
                )
            if not self._takes_time(cursor, before) and not self._takes_increment(cursor, before):
                cursor.skip()
            before = token
        self.text = "".join(self._characters)

    def _takes_time(self, cursor: TokenCursor, before: Any) -> bool:
        start, index = cursor.start, cursor.index
        if before is None or before.token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
            return False
        ahead = int(cursor.is_at("FOR"))
        word = next((one for one in _TRAVELS if cursor.is_at(*("FOR",) * ahead, one, "AS", "OF")), None)
        if word is None:
            return False
        cursor.skip(ahead + 3)
        token = cursor.token()
        is_constant = token is not None and (
            token.token_type in (TokenType.NUMBER, TokenType.STRING, TokenType.RAW_STRING)
            or cursor.is_at(":")
            or any(cursor.is_at(one) for one in ("DATE", "TIMESTAMP"))
        )
        if not is_constant and not ahead:
            # A column that is named `version` or `timestamp`, and is called `of`.
            cursor.skip(index - cursor.index)
            return False
        if not is_constant:
            raise cursor.expected("a literal or a parameter: time travel takes no expressions")
        value = read_literal(cursor, self._parameters)
        self.points[int(before.end)] = _point(cursor.sql, start, word, value)
        self._blank(start, cursor.end)
        return True

    def _takes_increment(self, cursor: TokenCursor, before: Any) -> bool:
        token = cursor.token()
        name = "" if token is None else str(token.text).lower()
        if name not in _INCREMENTS or not cursor.is_at(name.upper(), "("):
            return False
        sql, start = cursor.sql, cursor.start
        option, count = _INCREMENTS[name]
        cursor.skip(2)
        table = read_literal(cursor, self._parameters, "the name of a table in quotes")
        values = []
        while cursor.takes(","):
            values.append(_plain(read_literal(cursor, self._parameters)))
        cursor.expect(")")
        if not isinstance(table, str) or len(values) != count:
            raise sql.invalid(start, f"{name} takes the name of a table and {count} value{'s' * (count > 1)}")
        self._blank(start, cursor.end)
        stand_in = f"increment_{len(self.increments)}"
        self._characters[start : start + len(stand_in)] = stand_in
        parts = tuple(table.replace("`", "").split("."))
        self.increments[start] = (Name(parts, start, cursor.end - 1), {option: ",".join(values)})
        return True

    def _blank(self, start: int, end: int) -> None:
        for index in range(start, end):
            if self._characters[index] != "\n":
                self._characters[index] = " "


def _plain(value: Any) -> str:
    match value:
        case datetime():
            return value.isoformat(sep=" ")
        case None:
            return "NULL"
    return str(value)


def _point(sql: SqlText, start: int, word: str, value: Any) -> ReadPoint:
    if word.endswith("VERSION"):
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            return AtVersion(str(value))
        raise sql.invalid(start, "VERSION AS OF takes the id of a snapshot, the name of a tag or 'watermark-<n>'")
    try:
        match value:
            # As in Spark, a number is in seconds.
            case bool() | None:
                pass
            case int() | Decimal():
                return AsOf(str(int(value * 1000)).rjust(10, "0"))
            case str() | datetime() | date():
                return AsOf(value)
    except InvalidRequest as error:
        raise sql.invalid(start, str(error).replace("AsOf(", "TIMESTAMP AS OF (").rstrip(".")) from error
    raise sql.invalid(start, "TIMESTAMP AS OF takes a time such as '2013-01-31 12:00:00', or seconds since 1970")


def _tree(sql: SqlText, text: str) -> Any:
    try:
        return parse_one(text, dialect=DIALECT)
    except ParseError as error:
        raise _not_sql(sql, error) from error
    except SqlglotError as error:
        raise InvalidRequest(f"SQL: the text cannot be parsed: {error}.") from error
    except RecursionError as error:
        raise InvalidRequest("SQL: the statement is nested too deeply. Use WITH, or IN for long lists.") from error


def _not_sql(sql: SqlText, error: Any) -> InvalidRequest:
    first = error.errors[0] if error.errors else {}
    found, column = str(first.get("highlight") or ""), int(first.get("col") or 0)
    if not found or not column:
        return InvalidRequest("SQL: the text is not a query. Check its clauses.")
    # The parser gives the position of the last character of a word.
    lines = sql.text.split("\n")[: int(first["line"]) - 1]
    place = sql.place(sum(len(line) + 1 for line in lines) + max(column - len(found), 0))
    why = str(first.get("description") or "").split(" but got <")[0].rstrip(".")
    if why.startswith("Required keyword"):
        return InvalidRequest(f"SQL, {place}: something is missing behind {shown(found)}. Complete the expression.")
    if why.startswith("Invalid expression"):
        return InvalidRequest(f"SQL, {place}: found {shown(found)}, which fits nothing before it.")
    return InvalidRequest(f"SQL, {place}: {shown(found)} is not understood here: {why}.")


def _check(sql: SqlText, tree: Any) -> None:
    """Raise unless each node of the tree is one that both engines carry out alike."""
    if not isinstance(tree, exp.Query | exp.Values):
        raise sql.unsupported(0, f"{type(tree).__name__.upper()} is not carried out by sql()")
    check_spellings(sql)
    check_lambdas(sql, tree)
    for node in tree.walk():
        kind = type(node).__name__
        if isinstance(node, exp.Table):
            _check_table(sql, node)
        for word in _refused_parts(node):
            raise sql.unsupported(_place(sql, node, word.lower()), f"{word} is not carried out")
        if isinstance(node, exp.Anonymous):
            name = str(node.this).lower()
            if name not in FUNCTIONS:
                raise sql.unsupported(_place(sql, node, name), refusal(name))
        elif kind not in NODES:
            name = node.sql_name().lower() if isinstance(node, exp.Func) else kind.upper()
            raise sql.unsupported(_place(sql, node, name), refusal(name))


def _refused_parts(node: Any) -> Iterator[str]:
    """Yield the settings of a node that no engine here carries out, each by its name in SQL."""
    match node:
        case exp.Join() if node.args.get("method"):
            yield f"{node.method} JOIN"
        case exp.Grouping() if len(node.expressions) != 1:
            yield "GROUPING of several columns"
        case exp.Window() if isinstance(node.this, exp.Filter):
            yield "FILTER with OVER"
        case exp.Any() | exp.All() if not isinstance(node.parent, exp.Like | exp.ILike):
            yield f"{node.key.upper()} of a query"
        case exp.With() if node.args.get("recursive"):
            yield "WITH RECURSIVE"
        case exp.SetOperation() if node.args.get("by_name") or node.args.get("side") or node.args.get("kind"):
            yield "BY NAME"
        case exp.Select() if not node.expressions:
            yield "SELECT without columns"
        case exp.Select() if node.args.get("kind") or node.args.get("into") or node.args.get("hint"):
            yield "SELECT AS, INTO or a hint"
        case exp.Cast() if node.args.get("format"):
            yield "FORMAT of CAST"
        case exp.DataType() if node.this == exp.DType.USERDEFINED or not isinstance(node.this, exp.DType):
            yield f"the type {node.sql(dialect=DIALECT)}"
        case exp.Var() if not _WORD.fullmatch(str(node.this)):
            yield f"the unit {shown(str(node.this))}"


def _check_table(sql: SqlText, node: Any) -> None:
    if isinstance(node.this, exp.Func):
        name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else node.this.sql_name().lower()
        raise sql.unsupported(
            _place(sql, node, name), f"the table function {name} is not carried out. Pass data by name: tables={{…}}"
        )
    if node.args.get("version"):
        raise sql.unsupported(_place(sql, node), "time travel takes a literal or a parameter, not an expression")
    for key, value in node.args.items():
        if value and key not in ("this", "db", "catalog", "alias", "joins", "laterals"):
            raise sql.unsupported(_place(sql, node), f"{key.upper().replace('_', ' ')} of a table is not carried out")
    if not isinstance(node.this, exp.Identifier):
        raise sql.unsupported(_place(sql, node), "the name of a table is a name, not an expression")


def _place(sql: SqlText, node: Any, word: str = "") -> int:
    for part in node.walk():
        start = part.meta.get("start")
        if start is not None:
            return int(start)
    # The parser gives no position for a function.
    return next((int(token.start) for token in sql.tokens if token.text.lower() == word), 0)


def _references(sql: SqlText, tree: Any, taken: _Taken) -> Iterator[tuple[int, TableReference]]:
    points = dict(taken.points)
    shared = _named_queries(tree)
    for node in tree.find_all(exp.Table):
        parts = [part for part in (node.args.get("catalog"), node.args.get("db"), node.this) if part is not None]
        start, end = int(parts[0].meta["start"]), int(parts[-1].meta["end"])
        alias = node.alias or None
        point = points.pop(end, None)
        if start in taken.increments:
            name, options = taken.increments[start]
            yield start, TableReference(name=name, end=end, title=str(node.name), alias=alias, options=options)
            continue
        name = Name(tuple(str(part.this) for part in parts), start, end)
        if id(node) not in shared:
            yield start, TableReference(name=name, end=end, title=name.parts[-1], alias=alias, point=point)
        elif point is not None:
            raise sql.invalid(start, f"time travel needs a table, and {name} is a query of WITH")
    if points:
        raise sql.invalid(min(points), "time travel stands behind something that is not the name of a table")


def _named_queries(tree: Any) -> frozenset[int]:
    """Return the ids of the nodes that name a query of WITH, not a table. Names match without case."""
    found = set()
    for node in tree.find_all(exp.Table):
        if node.args.get("db") is None and _is_named(node):
            found.add(id(node))
    return frozenset(found)


def _is_named(node: Any) -> bool:
    name, inside, above = str(node.name).lower(), node, node.parent
    while above is not None:
        clause = above.args.get("with_") or above.args.get("with")
        if clause is not None:
            for query in clause.expressions:
                # A query of WITH sees those before it only.
                if query is inside or (clause is inside and query is _query_of(node, clause)):
                    break
                if str(query.alias).lower() == name:
                    return True
        inside, above = above, above.parent
    return False


def _query_of(node: Any, clause: Any) -> Any:
    """Return the query of the WITH clause that the node is in."""
    while node is not None and node.parent is not clause:
        node = node.parent
    return node


def _with_values(tree: Any, parameters: Mapping[str, Any]) -> Any:
    def replaced(node: Any) -> Any:
        return literal(parameters[str(node.this)]) if isinstance(node, exp.Placeholder) else node

    return tree.transform(replaced, copy=True)


def literal(value: Any) -> Any:
    """Return a value of Python as a literal of a tree. Raises InvalidRequest for a type that has none."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            number = exp.Literal.number(str(abs(value)))
            return exp.Neg(this=number) if value < 0 else number
        case float():
            return exp.cast(exp.Literal.string(repr(value)), "DOUBLE")
        case Decimal() if value.is_finite():
            number = exp.Literal.number(f"{abs(value):f}")
            return exp.Neg(this=number) if value < 0 else number
        case str():
            return exp.Literal.string(value)
        case bytes():
            return exp.HexString(this=value.hex())
        case datetime() if value.tzinfo is not None:
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), exp.DType.TIMESTAMPTZ)
        case datetime():
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), exp.DType.TIMESTAMPNTZ)
        case date():
            return exp.cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)
    raise InvalidRequest(
        f"A parameter is {shown(value)}: expected text, a number, True or False, bytes, a date, a datetime or None."
    )
