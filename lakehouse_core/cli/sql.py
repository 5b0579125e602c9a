"""sql: run statements of Spark's SQL, from the command line, a file, standard input or a prompt."""

import sys
from pathlib import Path
from typing import Final

import click

from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.options import ROW_COUNT, json_option
from lakehouse_core.cli.row_options import Output, output_options
from lakehouse_core.cli.session import open_catalog
from lakehouse_core.errors import InvalidRequest


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
@click.option("--limit", type=ROW_COUNT, metavar="N", help="At most this many rows of each answer.")
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
    from lakehouse_core.cli import statements  # noqa: PLC0415  # loads the parser, which a list of the verbs does without

    script = _script(text, file)
    session = statements.Session(
        context,
        open_catalog(context, may_be_new=script is None or statements.creates(script)),
        database=database,
        parameters=_parameters(parameters),
        limit=limit,
        output=output,
    )
    if script is None:
        statements.prompt(session)
    else:
        session.run_all(script)


def _script(text: str | None, file: Path | None) -> str | None:
    """Return the statements of the call, None if they are to be asked for."""
    if file is not None:
        return _read(file)
    if text == "-" or (text is None and not sys.stdin.isatty()):
        return sys.stdin.read()
    return text


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
    except OSError as error:
        raise InvalidRequest(
            f"{file}: cannot be read ({error.strerror or error}). Name a file of statements."
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{file}: cannot be read ({error}). Name a text file in UTF-8.") from error


COMMANDS: Final = {"sql": sql}
