"""`lakehouse`: find the verb, load only its module, and turn errors into one line and an exit code."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Final

import click
from click.shell_completion import shell_complete

from lakehouse_core.cli.failures import error_text, exit_code, print_failure
from lakehouse_core.cli.help import VerbGroup
from lakehouse_core.errors import LakehouseError, near_names

PROGRAM: Final = "lakehouse"
# A completing shell sets it when it calls the program to be told what fits.
COMPLETION_VARIABLE: Final = "_LAKEHOUSE_COMPLETE"

# Each verb's module is loaded when it is called: a listing needs neither Parquet nor SQL.
_VERBS: Final = {
    "tables": "tables",
    "describe": "tables",
    "create": "tables",
    "alter": "alter",
    "rename": "tables",
    "copy": "copying",
    "drop": "tables",
    "write": "rows",
    "read": "rows",
    "count": "rows",
    "lookup": "rows",
    "changes": "rows",
    "diff": "rows",
    "sql": "sql",
    "delete": "row_changes",
    "update": "row_changes",
    "truncate": "row_changes",
    "drop-partitions": "row_changes",
    "expire-partitions": "row_changes",
    "snapshots": "records",
    "partitions": "records",
    "files": "records",
    "manifests": "records",
    "tags": "records",
    "branches": "branches",
    "schemas": "records",
    "trace": "trace",
    "report": "report",
    "fleet": "fleet",
    "compact": "maintenance",
    "compact-manifests": "maintenance",
    "rescale": "maintenance",
    "rewrite-file-index": "maintenance",
    "expire": "maintenance",
    "tag": "maintenance",
    "branch": "branches",
    "rollback": "maintenance",
    "orphans": "maintenance",
    "pending": "pending",
    "verify": "maintenance",
    "completion": "completion",
}
_INTERRUPTED: Final = 130


class _Verbs(VerbGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        with _collector_paused():
            module = import_module(f"lakehouse_core.cli.{_VERBS[cmd_name]}")
        command: click.Command = module.COMMANDS[cmd_name]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _VERBS and (near := near_names(args[0], _VERBS, most=1)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="lakehouse -w warehouse read sales.orders --where 'amount > 10'",
)
@click.option(
    "-w",
    "--warehouse",
    envvar="LAKEHOUSE_WAREHOUSE",
    metavar="WAREHOUSE",
    help="Path, file:// URI, s3://bucket/prefix or az://container/prefix. Default: LAKEHOUSE_WAREHOUSE.",
)
@click.option(
    "--profile",
    envvar="LAKEHOUSE_PROFILE",
    metavar="NAME",
    help="Name in ~/.lakehouse.yaml of what is not given here: warehouse, storage, metastore. Default: "
    "LAKEHOUSE_PROFILE.",
)
@click.option(
    "--metastore",
    envvar="LAKEHOUSE_METASTORE",
    metavar="URL",
    help="SQL database with the names of tables, such as sqlite:////data/catalog.db. Default: LAKEHOUSE_METASTORE, "
    "else the folders of the warehouse are the names.",
)
@click.option(
    "--metastore-option",
    "metastore_options",
    multiple=True,
    envvar="LAKEHOUSE_METASTORE_OPTIONS",
    metavar="KEY=VALUE",
    help="catalog-key, lock.enabled, … Default: LAKEHOUSE_METASTORE_OPTIONS, separated by blanks.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line on standard output.")
@click.version_option(package_name="paimon-lakehouse")
@click.pass_context
def cli(
    context: click.Context,
    /,
    *,
    warehouse: str | None,
    as_json: bool,
    **_: object,
) -> None:
    """Read, write and maintain tables in the Apache Paimon format. Tasks run in this process.

    Exit codes: 0 done, 1 verify found something, 2 the request is wrong, 3 conflict: try again, 4 storage did not
    answer, 5 stored bytes are corrupt, 6 not supported.
    """
    context.obj = {"warehouse": warehouse, "json": as_json}


@contextmanager
def _collector_paused() -> Iterator[None]:
    # What a module makes when it is loaded stays: Python's collector would look through all of it and free nothing.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def main() -> None:
    """Run the program and exit with its code."""
    _open_closed_streams()
    if instruction := os.environ.get(COMPLETION_VARIABLE):  # noqa: TID251
        sys.exit(shell_complete(cli, {}, PROGRAM, COMPLETION_VARIABLE, instruction))
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one verb and return the exit code. Errors go to standard error, one line each."""
    try:
        # Not `cli.main`: it answers a closed pipe with 1, which is verify's to say.
        with cli.make_context(PROGRAM, arguments) as context:
            code = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("lakehouse: interrupted", err=True)
        return _INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _refused(_usage(error), 2)
    except LakehouseError as error:
        return _refused(error_text(error), exit_code(error))
    except BrokenPipeError:
        # The reader of our output has closed the pipe, which is no error.
        _let_go_of_output()
        return 0
    except OSError as error:
        _let_go_of_output()
        return _refused(str(LakehouseError(f"{error.filename or 'standard output'}: {error.strerror or error}")), 4)
    return code if isinstance(code, int) else 0


def _usage(error: click.ClickException) -> str:
    # click echoes a wrong word in full, so its message is shortened.
    text = str(LakehouseError(" ".join(error.format_message().rstrip(".").split())))
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.NoSuchOption) and error.option_name in ("-w", "--warehouse"):
        text = f"{error.option_name} comes before the verb, as in 'lakehouse -w lake tables'"
    if text.endswith("?"):
        return text if context is None else f"{text} Try '{context.command_path} --help'."
    return f"{text}." if context is None else f"{text}. Try '{context.command_path} --help'."


def _refused(text: str, code: int) -> int:
    print_failure(text)
    return code


def _let_go_of_output() -> None:
    # Otherwise Python reports an error when it flushes the remaining output.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Open standard streams that are closed, so that no table file gets their descriptors, to which libraries write."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
