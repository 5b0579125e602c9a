"""`lakehouse`: finds the verb, loads only its module, and turns errors into one line and an exit code.

Exit codes are promises: 0 done · 1 verify found something · 2 the request is wrong · 3 conflict, try again ·
4 storage did not answer · 5 stored bytes are corrupt · 6 feature not supported.
"""

import os
import sys
from importlib import import_module
from typing import Final

import click

from lakehouse_core.errors import (
    BackPressure,
    CommitConflict,
    CommitOutcomeUnknown,
    CommitTimeout,
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    TaskFailed,
    UnsupportedFeature,
)

# Each verb's module is loaded when it is called: a listing needs neither Parquet nor SQL.
_VERBS: Final = {
    "tables": "tables",
    "describe": "tables",
    "create": "tables",
    "drop": "tables",
    "write": "rows",
    "read": "rows",
    "changes": "rows",
    "snapshots": "records",
    "files": "records",
    "manifests": "records",
    "tags": "records",
    "schemas": "records",
    "compact": "maintenance",
    "compact-manifests": "maintenance",
    "expire": "maintenance",
    "tag": "maintenance",
    "verify": "maintenance",
}
_EXIT_CODES: Final[tuple[tuple[type[LakehouseError], int], ...]] = (
    (NotFound, 2),
    (InvalidRequest, 2),
    (CommitConflict, 3),
    (CommitTimeout, 3),
    (CommitOutcomeUnknown, 3),
    (BackPressure, 3),
    (StorageUnavailable, 4),
    (TaskFailed, 4),
    (CorruptTable, 5),
    (UnsupportedFeature, 6),
)
_INTERRUPTED: Final = 130


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module = import_module(f"lakehouse_core.cli.{_VERBS[cmd_name]}")
        command: click.Command = module.COMMANDS[cmd_name]
        return command


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-w",
    "--warehouse",
    envvar="LAKEHOUSE_WAREHOUSE",
    metavar="WAREHOUSE",
    help="Path or file:// URI of the warehouse; also from LAKEHOUSE_WAREHOUSE.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line on standard output.")
@click.pass_context
def cli(context: click.Context, warehouse: str | None, as_json: bool) -> None:
    """Tables in the Apache Paimon format: write, read and maintain them. Tasks run in this process."""
    context.obj = {"warehouse": warehouse, "json": as_json}


def main() -> None:
    """Run the program and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one verb and return the exit code; errors go to standard error, one line each."""
    try:
        code = cli.main(arguments, prog_name="lakehouse", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        click.echo("lakehouse: interrupted", err=True)
        return _INTERRUPTED
    except click.ClickException as error:
        click.echo(f"lakehouse: {_one_line(error.format_message())}", err=True)
        return 2
    except LakehouseError as error:
        click.echo(f"lakehouse: {_one_line(str(error))}", err=True)
        return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 2)
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain when it flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


def _one_line(text: str) -> str:
    return " ".join(text.split())
