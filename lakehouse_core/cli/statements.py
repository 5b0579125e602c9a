"""The statements of one call of the verb sql, one after the other, or as they are typed.

Apart from the verb, because the parser of SQL takes as long to load as all else that a list of the verbs needs.
"""

import re
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Final

import click

from lakehouse_core.api.answer import Answer
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.cli.failures import error_text, print_failure
from lakehouse_core.cli.output import print_report
from lakehouse_core.cli.row_options import Output
from lakehouse_core.cli.rows import put_rows
from lakehouse_core.cli.session import is_json
from lakehouse_core.errors import InvalidRequest, LakehouseError, retell
from lakehouse_core.planning.sql.literals import is_at_text, read_text
from lakehouse_core.planning.sql.tokens import SqlText, TokenCursor, is_complete, split_statements

# As messages about a statement begin.
_PLACE: Final = re.compile(r"\bSQL, line (\d+), column (\d+)")
_PROMPT: Final = "sql> "
_MORE: Final = "  -> "
_HELP: Final = "A semicolon ends a statement, as in SHOW DATABASES; USE db; SHOW TABLES; exit or Ctrl-D leaves."


def creates(script: str) -> bool:
    """Return whether the first statement may be the first one of a new warehouse."""
    return any(TokenCursor(SqlText(each)).takes("CREATE") for _, each in split_statements(script)[:1])


class Session:
    """The statements of one call, and what USE and SET have said."""

    def __init__(
        self,
        context: click.Context,
        catalog: Catalog,
        *,
        database: str | None,
        parameters: dict[str, str],
        limit: int | None,
        output: Output,
    ) -> None:
        self._context = context
        self._catalog = catalog
        self._database = database
        self._parameters = parameters
        self._limit = limit
        self._output = output
        self._settings: dict[str, str] = {}

    def run_all(self, text: str) -> None:
        """Run the statements one after the other, until one fails."""
        statements = split_statements(text)
        if not statements:
            raise InvalidRequest("The SQL text has no statement. Write one, as in SELECT 1.")
        for place, statement in statements:
            try:
                self.run(statement)
            except LakehouseError as error:
                retell(error, partial(_in_whole, before=text[:place]))
                raise

    def run(self, statement: str) -> None:
        if self._takes_setting(statement):
            return
        answer = self._catalog.sql(
            statement, self._parameters, database=self._database, settings=self._settings or None
        )
        self._print(answer)

    def _takes_setting(self, statement: str) -> bool:
        cursor = TokenCursor(SqlText(statement))
        if cursor.takes("USE"):
            cursor.takes_one("DATABASE", "SCHEMA")
            self._database = cursor.part("the name of a database")
            cursor.end_statement()
            return True
        if cursor.takes("SET"):
            key = cursor.part("a setting")
            while (mark := cursor.takes_one(".", "-")) is not None:
                key += f"{mark}{cursor.part('a setting')}"
            cursor.expect("=")
            self._settings[key] = read_text(cursor) if is_at_text(cursor) else cursor.part("a value")
            cursor.end_statement()
            return True
        return False

    def _print(self, answer: Answer) -> None:
        schema = answer.schema()
        if answer.reports and not self._output.file:
            for report in answer.reports:
                print_report(report, as_json=is_json(self._context))
        elif schema.names:
            put_rows(answer.to_batches(), schema, limit=self._limit, output=self._output, context=self._context)
        elif not is_json(self._context):
            click.echo("done")


def _in_whole(told: str, before: str) -> str:
    """Return a message with the line and the column of the whole text, in which the statement follows `before`."""

    def moved(match: re.Match[str]) -> str:
        line, column = int(match[1]), int(match[2])
        if line == 1:
            column += len(before.rpartition("\n")[2])
        return f"SQL, line {line + before.count(chr(10))}, column {column}"

    return _PLACE.sub(moved, told, count=1)


def prompt(session: Session) -> None:
    # Where it is there, the arrow keys bring back earlier lines.
    with suppress(ImportError):
        import_module("readline")
    click.echo(f"Spark's SQL. {_HELP}", err=True)
    text = ""
    while True:
        try:
            line = input(_MORE if text.strip() else _PROMPT)
        except EOFError:
            click.echo("")
            return
        except KeyboardInterrupt:
            text = ""
            click.echo("")
            continue
        if not text.strip():
            match line.strip().rstrip(";").lower():
                case "exit" | "quit" | "\\q":
                    return
                case "help" | "?":
                    click.echo(_HELP, err=True)
                    continue
        text += line + "\n"
        if not is_complete(text):
            continue
        try:
            session.run_all(text)
        except LakehouseError as error:
            print_failure(error_text(error))
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
        text = ""
