"""fleet plan, fleet run: spend a budget of maintenance on many tables."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lakehouse_core.api.fleet.page import maintenance_page
from lakehouse_core.api.fleet.plan import MaintenancePlan
from lakehouse_core.api.fleet.run import MaintenanceOutcome, MaintenanceReport
from lakehouse_core.cli.arguments import TableArgument
from lakehouse_core.cli.failures import error_text, exit_code, print_failure, worst
from lakehouse_core.cli.help import VerbGroup
from lakehouse_core.cli.options import AGE, json_option
from lakehouse_core.cli.output import print_json
from lakehouse_core.cli.session import catalog_of, catalog_of_plan, is_json, open_catalog, progress_bar
from lakehouse_core.display import count_text
from lakehouse_core.errors import InvalidRequest, LakehouseError, shown
from lakehouse_core.options.units import parse_size
from lakehouse_core.planning.fleet.cost import NOTHING, RATES, Budget, Rates
from lakehouse_core.planning.fleet.operations import OPERATIONS, Operation

F = TypeVar("F", bound=Callable[..., Any])

# As many lines of refusals as people read; a page and the JSON have all.
_MOST_REFUSALS: Final = 20
# The exit code where some of a plan is left: try again.
_LEFT: Final = 3
# The shell names verbs with a hyphen.
_WORDS: Final = {operation.replace("_", "-"): operation for operation in OPERATIONS}


def _planning(command: F) -> F:
    """Take the tables and what a plan is made of."""
    options = (
        click.argument("tables", type=TableArgument(many=True, system=False), default="*"),
        click.option("--budget", metavar="SIZE", help="The most bytes to rewrite, as in 50gb."),
        click.option("--requests", type=int, metavar="N", help="The most requests to the store."),
        click.option("--time", "duration", type=AGE, help="The most time, as in 2h, estimated from the others."),
        click.option(
            "--reads",
            multiple=True,
            metavar="TABLE=N",
            help="How often a day a table is read. Repeat for each table. Default: 1.",
        ),
        click.option(
            "--operation",
            "operations",
            multiple=True,
            type=click.Choice(list(_WORDS)),
            help="An operation to choose from. Repeat for more. Default: all.",
        ),
        click.option(
            "--request-time",
            type=AGE,
            help="How long a request to the store takes, as in 20ms for an object store. Default: 0.2 ms.",
        ),
        click.option("--only-urgent", is_flag=True, help="Only what should not wait."),
        click.option(
            "--also", multiple=True, metavar="WAREHOUSE", help="Another warehouse whose tables share the budget."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _checked_output(context: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    """Return the file to write, None for none. Raises InvalidRequest before anything is done."""
    if value is None or str(value) == "json":
        context.find_root().obj["json"] |= value is not None
        return None
    if not value.parent.is_dir() or value.is_dir():
        raise _unwritable(value, "it is a folder" if value.is_dir() else "its folder does not exist")
    return value


def _output_option(what: str) -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        callback=_checked_output,
        help=f"Also write {what} to this file: as JSON if its name ends with .json, else as an HTML page. `json` alone "
        "prints JSON, as --json does.",
    )


@click.group("fleet", cls=VerbGroup, epilog="lakehouse fleet plan --budget 50gb -o plan.html")
def fleet() -> None:
    """Plan the maintenance of many tables under a budget, and carry it out."""


@fleet.command(
    "plan",
    epilog="lakehouse fleet plan --budget 50gb --reads sales.orders=200 -o plan.html\n"
    "lakehouse fleet plan 'sales.*' --time 2h --json > plan.json",
)
@_planning
@_output_option("the plan")
@json_option
@click.pass_context
def plan(context: click.Context, /, *, output: Path | None, **arguments: Any) -> None:
    """Print which maintenance of TABLES (all, one or a pattern) pays most within the budget. Changes nothing."""
    made = _made(context, **arguments)
    if output is not None:
        _write(output, made, made.to_dict(), ())
        click.echo(f"{output}: {count_text(len(made.choices), 'operation')}", err=True)
    if is_json(context):
        print_json(made.to_dict())
        return
    click.echo(str(made))
    for choice in made.choices:
        click.echo(f"  {choice}")
    for refusal in made.refusals[:_MOST_REFUSALS]:
        click.echo(f"  not {refusal}")
    if len(made.refusals) > _MOST_REFUSALS:
        click.echo(f"  … {len(made.refusals) - _MOST_REFUSALS:,} more refused; --json and -o list all")


@fleet.command(
    "run",
    epilog="lakehouse fleet run --budget 50gb -o done.html\nlakehouse fleet run --plan plan.json --json",
)
@_planning
@click.option(
    "--plan", "stored", type=click.Path(path_type=Path), help="Carry out this plan, as `fleet plan --json` printed it."
)
@_output_option("what was done")
@json_option
@click.pass_context
def run(context: click.Context, /, *, stored: Path | None, output: Path | None, **arguments: Any) -> int:
    """Plan as `fleet plan` does, or take a stored plan, and carry it out until the budget is spent.

    A table that fails does not stop the others. The exit code is the most severe; 3 if some of the plan is left because
    the budget was spent or tables changed since: plan again.
    """
    if stored is None:
        made = _made(context, **arguments)
    elif any(value is not None and value is not False and value not in ((), "*") for value in arguments.values()):
        raise InvalidRequest("--plan is given, and the plan has its tables and its budget. Leave the others out.")
    else:
        made = _stored(stored)
        _check_warehouse(context, made)
    codes, left = [0], made
    reports: list[MaintenanceReport] = []
    for warehouse in made.warehouses:
        try:
            with progress_bar(context) as progress:
                done = catalog_of_plan(context, warehouse).maintain(left, progress=progress)
        except LakehouseError as error:
            # The other lakes need not wait for one that is away.
            codes.append(exit_code(error))
            print_failure(f"{warehouse}: {error_text(error)}")
            left = left.after(warehouse, NOTHING)
            continue
        left = left.after(done.warehouse, done.cost)
        reports.append(done)
        if is_json(context):
            print_json(done.to_dict())
        else:
            click.echo(f"{warehouse}: {done}" if len(made.warehouses) > 1 else str(done))
            for each in done.outcomes:
                click.echo(f"  {each}")
        codes += [_LEFT for each in done.outcomes if each.is_left]
        for each in done.outcomes:
            if each.error is not None:
                codes.append(exit_code(each.error))
                print_failure(error_text(each.error))
    if output is not None:
        outcomes = [each for done in reports for each in done.outcomes]
        try:
            _write(output, made, {"reports": [done.to_dict() for done in reports]}, outcomes)
        except InvalidRequest as error:
            # The work is done and told.
            codes.append(exit_code(error))
            print_failure(error_text(error))
    return worst(codes)


def _check_warehouse(context: click.Context, plan: MaintenancePlan) -> None:
    """Raise InvalidRequest for a warehouse that the plan does not have."""
    given = context.find_root().obj["warehouse"]
    if given and (uri := open_catalog(context).uri) not in plan.warehouses:
        raise InvalidRequest(
            f"The plan is for {', '.join(plan.warehouses)}, and the warehouse given is {uri}. Name one of the plan's, "
            "or plan again."
        )


def _stored(path: Path) -> MaintenancePlan:
    try:
        return MaintenancePlan.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRequest(f"{path}: cannot be read ({error.strerror or error}). Name a file with a plan.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path}: cannot be read ({error}). Name a file with a plan.") from error


def _made(
    context: click.Context,
    *,
    tables: str,
    budget: str | None,
    requests: int | None,
    duration: timedelta | None,
    reads: Sequence[str],
    operations: Sequence[str],
    request_time: timedelta | None,
    only_urgent: bool,
    also: Sequence[str],
) -> MaintenancePlan:
    """Return the plan that the options ask for. Raises InvalidRequest."""
    if budget is None and requests is None and duration is None:
        raise InvalidRequest("No budget is given. Pass --budget, --requests or --time, as in --budget 50gb.")
    limits = Budget(
        bytes=None if budget is None else parse_size("--budget", budget),
        requests=requests,
        seconds=None if duration is None else duration.total_seconds(),
    )
    chosen: list[Operation] = [_WORDS[word] for word in operations] or list(OPERATIONS)
    catalog = open_catalog(context)
    others = [catalog_of(warehouse) for warehouse in also]
    with progress_bar(context) as progress:
        return catalog.plan_maintenance(
            tables,
            budget=limits,
            reads=_reads(reads),
            operations=chosen,
            only_urgent=only_urgent,
            rates=RATES if request_time is None else Rates(request_seconds=request_time.total_seconds()),
            also=others,
            progress=progress,
        )


def _reads(texts: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in texts:
        table, _, count = text.partition("=")
        try:
            found[table] = float(count)
        except ValueError as error:
            raise InvalidRequest(
                f"--reads {shown(text)}: expected a table and a number, as in t.orders=200."
            ) from error
    return found


def _write(
    output: Path, made: MaintenancePlan, document: Mapping[str, Any], outcomes: Sequence[MaintenanceOutcome]
) -> None:
    """Write `document` as JSON, or the page of the plan, as the name of the file says. Raises InvalidRequest."""
    is_document = output.suffix.lower() == ".json"
    text = json.dumps(document, ensure_ascii=False, default=str) if is_document else maintenance_page(made, outcomes)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(output, error.strerror or str(error)) from error


def _unwritable(output: Path, why: str) -> InvalidRequest:
    return InvalidRequest(f"{output}: cannot be written ({why}). Name a file in a folder that exists.")


COMMANDS: Final = {"fleet": fleet}
