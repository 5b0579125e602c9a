"""Statements: the text of one statement → its answer, by the verbs of the catalog and its tables."""

from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never

from lakehouse_core.api.answer import Answer
from lakehouse_core.api.arguments import mapping_of, texts_of
from lakehouse_core.catalog.statements.definitions import define
from lakehouse_core.catalog.statements.explain import explain
from lakehouse_core.catalog.statements.inserts import insert
from lakehouse_core.catalog.statements.merged_schema import MERGES, WIDENS
from lakehouse_core.catalog.statements.names import StatementCall, Verbs
from lakehouse_core.catalog.statements.procedures import call_procedure
from lakehouse_core.catalog.statements.queries import error_of_query, placed_errors, query_tree, select
from lakehouse_core.catalog.statements.row_changes import change_rows
from lakehouse_core.catalog.statements.shows import describe, show
from lakehouse_core.errors import InvalidRequest, TaskFailed, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.engine import Engine
from lakehouse_core.planning.sql.error_places import statement_tree
from lakehouse_core.planning.sql.parse import parse_statement
from lakehouse_core.planning.sql.statement import (
    AlterDatabase,
    AlterTable,
    CallProcedure,
    ChangeTag,
    CommentColumn,
    CreateDatabase,
    CreateTable,
    DeleteRows,
    Describe,
    DropDatabase,
    DropPartitions,
    DropTable,
    Explain,
    Insert,
    MergeRows,
    QueryText,
    RenameTable,
    Select,
    Show,
    Statement,
    Truncate,
    UpdateRows,
)
from lakehouse_core.planning.sql.tokens import sql_text

_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "spark.sql.sources.partitionOverwriteMode": ("static", "dynamic"),
    MERGES: ("true", "false"),
    WIDENS: ("true", "false"),
}
# Before the name of a setting that is Paimon's, in Spark.
_PREFIX: Final = "spark.paimon."
_EXPLICIT: Final = f"{MERGES}.explicit-cast"
_WORDS: Final = {
    "Pass exist_ok=True to accept that": "Write IF NOT EXISTS to accept that",
    "pass cascade=True": "write CASCADE",
}


def run_statement(
    catalog: Verbs,
    text: str,
    *,
    context: Callable[[str], TableContext],
    opened: Callable[[str], TableContext],
    engine: Callable[[], Engine],
    parameters: Mapping[str, Any] | None,
    tables: Mapping[str, Any] | None,
    database: str | None,
    settings: Mapping[str, str] | None,
) -> Answer:
    """Run a statement. Raises as `Catalog.sql` says."""
    sql = sql_text(text)
    call = StatementCall(
        catalog=catalog,
        context=context,
        opened=opened,
        engine=engine,
        sql=sql,
        parameters=_named("parameters", parameters),
        tables=_named("tables", tables),
        database=_database(database),
        settings=_settings(settings),
    )
    statement = parse_statement(sql, call.parameters)
    try:
        with placed_errors(call, lambda: _tree(call, statement)):
            return _answer(call, statement)
    except InvalidRequest as error:
        # The verbs name the arguments of Python.
        for argument, words in _WORDS.items():
            error.args = tuple(str(each).replace(argument, words) for each in error.args)
        raise


def _answer(call: StatementCall, statement: Statement) -> Answer:
    try:
        return _run(call, statement)
    except TaskFailed as error:
        raise error_of_query(call, error) from error.__cause__


def _run(call: StatementCall, statement: Statement) -> Answer:
    match statement:
        case Select(query):
            return select(call, query)
        case Explain():
            return explain(call, statement)
        case Insert():
            return insert(call, statement)
        case DeleteRows() | UpdateRows() | MergeRows() | Truncate() | DropPartitions():
            return change_rows(call, statement)
        case Show():
            return show(call, statement)
        case Describe():
            return describe(call, statement)
        case CallProcedure():
            return call_procedure(call, statement)
        case (
            CreateTable()
            | CreateDatabase()
            | AlterDatabase()
            | DropTable()
            | DropDatabase()
            | AlterTable()
            | RenameTable()
            | CommentColumn()
            | ChangeTag()
        ):
            return define(call, statement)
        case _:
            assert_never(statement)


def _tree(call: StatementCall, statement: Statement) -> Any:
    """Return the tree of a statement with expressions or a query; None for others."""
    match statement:
        case Select(query) | Insert(query=query) | CreateTable(query=QueryText() as query):
            return query_tree(call, query)
        case Explain(explained):
            return _tree(call, explained)
        case DeleteRows() | UpdateRows() | MergeRows():
            return statement_tree(call.sql.text)
        case _:
            return None


def _named(name: str, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = mapping_of(name, given)
    for key in found:
        if not isinstance(key, str) or not key.isidentifier():
            raise InvalidRequest(f"{name}: {shown(key)} is not a name: expected letters, digits and '_'.")
    return found


def _database(database: str | None) -> str | None:
    if database is not None and (not isinstance(database, str) or not database):
        raise InvalidRequest(f"database={shown(database)}: expected the name of a database.")
    return database


def _settings(settings: Mapping[str, str] | None) -> dict[str, str]:
    found = {key.removeprefix(_PREFIX): value for key, value in texts_of("settings", settings).items()}
    for key, value in found.items():
        if key == _EXPLICIT:
            raise InvalidRequest(
                f"settings: {key} is not carried out: a write never makes the type of a column narrower. Change it by "
                "ALTER TABLE."
            )
        if key not in _SETTINGS:
            raise InvalidRequest(f"settings: {shown(key)} is not a setting of sql(): expected {', '.join(_SETTINGS)}.")
        if value.lower() not in _SETTINGS[key]:
            raise InvalidRequest(f"settings: {key} = {shown(value)}: expected {' or '.join(_SETTINGS[key])}.")
    return {key: value.lower() for key, value in found.items()}
