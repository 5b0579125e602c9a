"""Parsing: the text of a statement → its value, for all that is carried out. Queries are parsed by sqlglot later.

Rule: a part of the text that no value holds is refused by name and place; nothing is skipped.
Source: docs/sql.md#changing-tables.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lakehouse_core.errors import LakehouseError, near_hint
from lakehouse_core.planning.alter.schema_change import (
    UpdateComment,
)
from lakehouse_core.planning.sql.clauses import (
    QUERIES,
    is_query,
    read_key,
    read_names,
    read_part,
    read_query,
)
from lakehouse_core.planning.sql.definitions import read_alter, read_create, read_drop
from lakehouse_core.planning.sql.literals import is_at_text, read_literal, read_map, read_text
from lakehouse_core.planning.sql.row_changes import read_delete, read_merge, read_truncate, read_update
from lakehouse_core.planning.sql.statement import (
    AlterDatabase,
    AlterTable,
    Argument,
    CallProcedure,
    CommentColumn,
    Describe,
    Explain,
    Insert,
    QueryText,
    Select,
    Show,
    Statement,
)
from lakehouse_core.planning.sql.tokens import SqlText, TokenCursor

# Statements that Spark knows and that are not carried out here, with what to do instead.
_REFUSED: Final[Mapping[str, str]] = {
    "TABLE": "SELECT * FROM …",
    "USE": "pass database= to sql()",
    "SET": "pass settings= to sql()",
    "RESET": "pass settings= to sql()",
    "ANALYZE": "statistics of files are written with each commit",
    "REFRESH": "each statement reads the newest snapshot",
    "CACHE": "keep the answer of a query in a variable",
    "UNCACHE": "keep the answer of a query in a variable",
    "CLEAR": "keep the answer of a query in a variable",
    "MSCK": "partitions are found in the snapshots",
    "REPAIR": "partitions are found in the snapshots",
    "LOAD": "write files with write(lc.RowFiles(…))",
    "ADD": "code is not loaded by SQL",
    "LIST": "code is not loaded by SQL",
    "GRANT": "rights are those of the store",
    "REVOKE": "rights are those of the store",
    "DECLARE": "pass values as parameters",
    "EXECUTE": "pass values as parameters",
    "BEGIN": "a statement is one commit",
    "COMMIT": "a statement is one commit",
    "ROLLBACK": "a statement is one commit",
    "OPTIMIZE": "CALL sys.compact(table => '…')",
    "VACUUM": "CALL sys.expire_snapshots(table => '…')",
    "COPY": "write files with write(lc.RowFiles(…))",
    "ATTACH": "a catalog has one warehouse",
    "DETACH": "a catalog has one warehouse",
    "INSTALL": "code is not loaded by SQL",
    "PRAGMA": "pass settings= to sql()",
    "EXPORT": "write the answer of a query to a file",
    "IMPORT": "write files with write(lc.RowFiles(…))",
    "UNDROP": "a dropped table is gone",
}


def parse_statement(sql: SqlText, parameters: Mapping[str, Any] | None = None) -> Statement:
    """Return the statement of a text. `parameters` are the values of `:name`.

    Raises InvalidRequest with line and column for text that is not SQL, UnsupportedFeature for a statement that is not
    carried out.
    """
    cursor = TokenCursor(sql)
    if any(cursor.is_at(word) for word in QUERIES):
        return Select(QueryText(sql, cursor.index, cursor.start))
    start = cursor.start
    parsed = next((read for word, read in _STATEMENTS.items() if cursor.takes(word)), None)
    if parsed is None:
        raise _unknown(cursor)
    found = parsed(cursor, start, dict(parameters or {}))
    if not isinstance(found, Explain | Insert) and getattr(found, "query", None) is None:
        cursor.end_statement()
    return found


def _unknown(cursor: TokenCursor) -> LakehouseError:
    token = cursor.token()
    word = "" if token is None else str(token.text).upper()
    if word in _REFUSED:
        return cursor.sql.unsupported(cursor.start, f"{word} is not carried out by sql(). Instead: {_REFUSED[word]}")
    known = [*QUERIES[:-1], *_STATEMENTS]
    otherwise = f"Statements begin with {', '.join(known)}."
    hint = near_hint(word, [*known, *_REFUSED], otherwise, most=2, cutoff=0.6)
    return cursor.sql.invalid(cursor.start, f"{cursor.found()} does not begin a statement. {hint}")


def _explain(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    for word in ("EXTENDED", "FORMATTED", "COST", "CODEGEN", "ANALYZE"):
        if cursor.is_at(word):
            raise cursor.sql.unsupported(cursor.start, f"EXPLAIN {word} is not carried out. Write EXPLAIN alone")
    if any(cursor.is_at(word) for word in QUERIES):
        return Explain(Select(read_query(cursor)))
    for word, read in (("INSERT", _insert), ("DELETE", read_delete), ("UPDATE", read_update), ("MERGE", read_merge)):
        if cursor.takes(word):
            found: Any = read(cursor, start, parameters)
            if word != "INSERT":
                cursor.end_statement()
            return Explain(found)
    raise cursor.expected("a query, INSERT, DELETE, UPDATE or MERGE")


def _insert(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    way = cursor.takes_one("INTO", "OVERWRITE")
    if way is None:
        raise cursor.expected("INTO or OVERWRITE")
    if cursor.is_at("DIRECTORY") or cursor.is_at("LOCAL"):
        raise cursor.sql.unsupported(cursor.start, "INSERT OVERWRITE DIRECTORY is not carried out. Write the answer")
    cursor.takes("TABLE")
    table = cursor.name("the name of a table")
    by_name, columns = cursor.takes("BY", "NAME"), None
    fixed: dict[str, Any] = {}
    dynamic: list[str] = []
    if cursor.takes("PARTITION"):
        cursor.expect("(")
        while True:
            column = cursor.part("a partition column")
            if cursor.takes("="):
                fixed[column] = read_literal(cursor, parameters)
            else:
                dynamic.append(column)
            if not cursor.takes(","):
                break
        cursor.expect(")")
        if cursor.is_at("IF"):
            raise cursor.sql.unsupported(cursor.start, "INSERT … IF NOT EXISTS is not carried out. Leave it out")
    if cursor.is_at("(") and not any(cursor.token(1) and is_query(cursor, 1, word) for word in QUERIES):
        if by_name:
            raise cursor.sql.invalid(cursor.start, "BY NAME and a list of columns are both given. Give one of them")
        columns = tuple(read_names(cursor, "a column"))
    by_name = by_name or cursor.takes("BY", "NAME")
    replaced = None
    if way == "INTO" and not (fixed or dynamic) and cursor.takes("REPLACE", "WHERE"):
        replaced = read_part(cursor, "a condition", "SELECT", "WITH", "VALUES", "FROM")
    if cursor.is_at("REPLACE", "WHERE"):
        other = "OVERWRITE" if way == "OVERWRITE" else "PARTITION (…)"
        raise cursor.sql.invalid(cursor.start, f"{other} and REPLACE WHERE are both given. Give one of them")
    if cursor.is_at("REPLACE") or cursor.is_at("WITH", "SCHEMA"):
        raise cursor.sql.unsupported(cursor.start, f"INSERT … {cursor.found()} is not carried out")
    return Insert(
        table=table,
        query=read_query(cursor),
        overwrites=way == "OVERWRITE",
        columns=columns,
        by_name=by_name,
        partition=fixed,
        dynamic=tuple(dynamic),
        replaced=replaced,
    )


def _show(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    if cursor.takes_one("DATABASES", "SCHEMAS", "NAMESPACES"):
        return Show(what="databases", like=_like(cursor))
    if cursor.takes("TABLES"):
        database = cursor.name("the name of a database") if cursor.takes_one("IN", "FROM") else None
        return Show(what="tables", name=database, like=_like(cursor))
    if cursor.takes("TBLPROPERTIES"):
        name = cursor.name("the name of a table")
        if not cursor.takes("("):
            return Show(what="tblproperties", name=name)
        key = read_key(cursor)
        cursor.expect(")")
        return Show(what="tblproperties", name=name, like=key)
    if cursor.takes("CREATE", "TABLE"):
        return Show(what="create", name=cursor.name("the name of a table"))
    if cursor.takes("COLUMNS"):
        if not cursor.takes_one("IN", "FROM"):
            raise cursor.expected("IN")
        return Show(what="columns", name=cursor.name("the name of a table"))
    if cursor.takes("TAGS"):
        return Show(what="tags", name=cursor.name("the name of a table"))
    if cursor.takes("PARTITIONS"):
        return Show(what="partitions", name=cursor.name("the name of a table"))
    for word in ("VIEWS", "FUNCTIONS", "USER", "TABLE", "CATALOGS", "CURRENT", "BRANCHES", "LOCKS", "ALL"):
        if cursor.is_at(word):
            raise cursor.sql.unsupported(cursor.start, f"SHOW {word} is not carried out. Query a system table instead")
    raise cursor.expected("DATABASES, TABLES, TBLPROPERTIES, CREATE TABLE, COLUMNS, PARTITIONS or TAGS")


def _like(cursor: TokenCursor) -> str | None:
    if cursor.takes("LIKE") or is_at_text(cursor):
        return read_text(cursor, "a pattern in quotes")
    return None


def _describe(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    if cursor.takes_one("DATABASE", "SCHEMA", "NAMESPACE"):
        extended = cursor.takes("EXTENDED")
        return Describe(what="database", name=cursor.name("the name of a database"), extended=extended)
    if cursor.is_at("HISTORY") and not cursor.is_at("HISTORY", "."):
        cursor.skip()
        return Describe(what="history", name=cursor.name("the name of a table"))
    for word in ("FUNCTION", "QUERY", "SELECT", "WITH", "VALUES"):
        if cursor.is_at(word) and not cursor.is_at(word, "."):
            raise cursor.sql.unsupported(cursor.start, f"DESCRIBE {word} is not carried out. Use EXPLAIN or schema()")
    if cursor.is_at("TABLE") and not cursor.is_at("TABLE", "."):
        cursor.skip()
    extended = cursor.takes_one("EXTENDED", "FORMATTED") is not None
    name = cursor.name("the name of a table")
    if cursor.is_at("PARTITION"):
        raise cursor.sql.unsupported(cursor.start, "DESCRIBE … PARTITION is not carried out. Query `t$partitions`")
    return Describe(what="table", name=name, extended=extended, column=None if cursor.is_done else cursor.part())


def _comment(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    cursor.expect("ON")
    if cursor.takes_one("DATABASE", "SCHEMA", "NAMESPACE"):
        database = cursor.name("the name of a database")
        return AlterDatabase(name=database, properties={"comment": _comment_text(cursor)})
    is_column = cursor.takes("COLUMN")
    if not is_column and not cursor.takes("TABLE"):
        raise cursor.sql.unsupported(
            cursor.start, f"COMMENT ON {cursor.found()} is not carried out: only ON DATABASE, ON TABLE and ON COLUMN"
        )
    name = cursor.name("the name of a column, behind that of its table" if is_column else "the name of a table")
    comment = _comment_text(cursor)
    if is_column:
        return CommentColumn(name=name, comment=comment)
    return AlterTable(name=name, changes=(UpdateComment(comment),))


def _comment_text(cursor: TokenCursor) -> str | None:
    cursor.expect("IS")
    return None if cursor.takes("NULL") else read_text(cursor)


def _call(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    procedure = cursor.name("the name of a procedure")
    cursor.expect("(")
    arguments: list[Argument] = []
    while not cursor.takes(")"):
        if arguments:
            cursor.expect(",")
        at, after = cursor.start, cursor.token(1)
        name = None
        if after is not None and after.text == "=>":
            name = cursor.part("the name of an argument")
            cursor.skip()
        value = read_map(cursor, parameters) if cursor.is_at("MAP", "(") else read_literal(cursor, parameters)
        arguments.append(Argument(name=name, value=value, start=at))
    return CallProcedure(sql=cursor.sql, procedure=procedure, arguments=tuple(arguments))


_STATEMENTS: Final[Mapping[str, Callable[[TokenCursor, int, dict[str, Any]], Statement]]] = {
    "EXPLAIN": _explain,
    "INSERT": _insert,
    "DELETE": read_delete,
    "UPDATE": read_update,
    "MERGE": read_merge,
    "TRUNCATE": read_truncate,
    "CREATE": read_create,
    "DROP": read_drop,
    "ALTER": read_alter,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "COMMENT": _comment,
    "CALL": _call,
}
