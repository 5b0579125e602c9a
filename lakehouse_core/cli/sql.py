"""sql: run statements of Spark's SQL, from the command line, a file, standard input or a prompt."""

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from lakehouse_core.api.answer import Answer
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.cli.failures import error_text, print_failure
from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.options import json_option
from lakehouse_core.cli.output import print_report
from lakehouse_core.cli.row_options import Output, output_options
from lakehouse_core.cli.rows import put_rows
from lakehouse_core.cli.session import is_json, open_catalog
from lakehouse_core.errors import InvalidRequest, LakehouseError
from lakehouse_core.planning.sql.tokens import SqlText, TokenCursor, is_complete, split_statements

_PROMPT: Final = "sql> "
_MORE: Final = "  -> "
_HELP: Final = "A semicolon ends a statement, as in SHOW DATABASES; USE db; SHOW TABLES; exit or Ctrl-D leaves."


@click.command(
    "sql",
    cls=Verb,
    epilog='lakehouse sql "SELECT status, count(*) FROM sales.orders GROUP BY status"\n'
    "lakehouse sql -f nightly.sql\n"
    "lakehouse sql --database sales",
)
@click.argument("text", required=False)
@click.option("-f", "file", type=click.Path(path_type=Path), metavar="FILE", help="Run the statements of a file.")
@click.option("--database", metavar="NAME", help="Where names without a database are looked up.")
@click.option(
    "--parameter", "parameters", multiple=True, metavar="K=V", help="The text that :K stands for. May be repeated."
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most this many rows of each answer.")
@output_options
@json_option
@click.pass_context
def sql(
    context: click.Context,
    *,
    text: str | None,
    file: Path | None,
    database: str | None,
    parameters: tuple[str, ...],
    limit: int | None,
    output: Output,
) -> None:
    """Run statements of Spark's SQL, which a semicolon separates; - reads them from standard input.

    Queries run in this process, by DuckDB. Without TEXT there is a prompt: a semicolon ends a statement, and exit or
    Ctrl-D leaves it. USE and SET last until the end of the call.
    """
    if text is not None and file is not None:
        raise InvalidRequest("TEXT and -f are both given, expected one of them. Leave one out.")
    script = _script(text, file)
    session = _Session(
        context,
        open_catalog(context, may_be_new=script is None or _creates(script)),
        database=database,
        parameters=_parameters(parameters),
        limit=limit,
        output=output,
    )
    if script is None:
        _prompt(session)
    else:
        session.run_all(script)


def _script(text: str | None, file: Path | None) -> str | None:
    """Return the statements of the call, None if they are to be asked for."""
    if file is not None:
        return _read(file)
    if text == "-" or (text is None and not sys.stdin.isatty()):
        return sys.stdin.read()
    return text


def _creates(script: str) -> bool:
    """Return whether the first statement may be the first one of a new warehouse."""
    return any(TokenCursor(SqlText(each)).takes("CREATE") for each in split_statements(script)[:1])


class _Session:
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
        for statement in statements:
            self.run(statement)

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
            while cursor.takes("."):
                key += f".{cursor.part('a setting')}"
            cursor.expect("=")
            self._settings[key] = cursor.string() if cursor.is_text() else cursor.part("a value")
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


def _prompt(session: _Session) -> None:
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


def _parameters(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and key) or key in found:
            raise InvalidRequest(f"--parameter {text!r}: expected K=V, each K once, as in since=2013-01-05.")
        found[key] = value
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file}: cannot be read ({error}). Name a text file in UTF-8.") from error


COMMANDS: Final = {"sql": sql}
