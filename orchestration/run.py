"""What `make run` executes: batches of flights into the tables, maintenance, and a summary of what came of it.

    python -m orchestration.run [--start 2013-02-01] [--batches 16] [--warehouse ./warehouse] [--source FOLDER]

A second run goes on where the last one ended, also when that one was killed.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import dagster as dg

import lakehouse_core as lc
from assets.flights.definitions import FLIGHTS
from assets.flights.events import FIRST_BATCH, LAST_BATCH
from assets.flights.feed import DEFAULT_START, FlightsFeed, begun_with, next_batches
from assets.lake import LAKE
from lakehouse_dagster import (
    TableSpec,
    TableState,
    changes_user,
    executed_here,
    last_identifier,
    open_table,
    read_state,
    unapplied,
)
from orchestration.definitions import defs
from orchestration.figures import answer_all
from orchestration.home import folder_of, given_warehouse, prepare_home
from orchestration.summary import Summary, summary_text

DEFAULT_BATCHES, DEFAULT_WAREHOUSE = 16, "warehouse"

# So that expiry shows its effect at once: a table of real readers keeps the default of an hour.
TABLE_DEFAULTS = {"lakehouse.read.grace": "0 s"}
RETENTION = {"retain_max": 3, "retain_min": 3, "older_than_hours": 0.0}
_TABLES_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run loads. `done_through`: the last batch that every table has; None: nothing is loaded yet."""

    start: date
    done_through: date | None
    batches: tuple[date, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the main job; return 0 when every answer agrees with the source, 1 when not, 2 for a wrong request.

    130 when interrupted.
    """
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        print("Interrupted. What is committed stays; the same command goes on from there.", file=sys.stderr)
        return 130


def _main(arguments: Sequence[str] | None) -> int:
    began = time.monotonic()
    asked = _parse(arguments)
    feed = FlightsFeed(start=asked.start.isoformat(), folder=asked.source)
    try:
        if folder_of(asked.warehouse) is None:
            # Nothing is made for an address that is wrong.
            lc.connect(asked.warehouse)
        prepare_home(asked.warehouse)
        plan = plan_run(lc.connect(asked.warehouse), feed, asked.batches)
    except OSError as error:
        print(f"WAREHOUSE={asked.warehouse}: no folder can be made there ({error}). Choose another.", file=sys.stderr)
        return 2
    except lc.LakehouseError as error:
        print(error, file=sys.stderr)
        return 2
    return _run(plan, asked.warehouse, FlightsFeed(start=plan.start.isoformat(), folder=asked.source), began)


def plan_run(catalog: lc.Catalog, feed: FlightsFeed, count: int) -> Plan:
    """Return which batches come next in this warehouse.

    A warehouse that was begun goes on from its own start. Raises InvalidRequest when another one than the default was
    asked for, or one without flights.
    """
    asked, begun = date.fromisoformat(feed.start), begun_with(catalog)
    if begun is None:
        if not FIRST_BATCH < asked < LAST_BATCH:
            first, last = FIRST_BATCH + timedelta(days=1), LAST_BATCH - timedelta(days=1)
            raise lc.InvalidRequest(f"START={asked}: the flights are of {first} to {last}. Choose one of these days.")
        return Plan(start=asked, done_through=None, batches=tuple(next_batches(asked, None, count)))
    if asked not in {begun, date.fromisoformat(DEFAULT_START)}:
        raise lc.InvalidRequest(
            f"{catalog.uri} was begun with START={begun}, and now START={asked} was asked for: "
            "leave START out to go on, or choose another WAREHOUSE."
        )
    done = _done_through(catalog, FlightsFeed(start=begun.isoformat(), folder=feed.folder))
    return Plan(start=begun, done_through=done, batches=tuple(next_batches(begun, done, count)))


def _done_through(catalog: lc.Catalog, feed: FlightsFeed) -> date | None:
    """Return the last batch that no table lacks: a run that was killed may have left some of them behind."""
    last: list[tuple[str, str | None]] = []
    for spec in LAKE.tables:
        if spec.feed is not None and spec.feed.batches:
            asset = "/".join(LAKE.table_key(spec).path)
            table = open_table(catalog, spec.identifier)
            identifier = None if table is None else last_identifier(table, asset)
            last.append((spec.feed.name, None if identifier is None else FLIGHTS.batch_key(identifier)))
    newest = max((date.fromisoformat(day) for _, day in last if day), default=None)
    while newest is not None and newest >= FIRST_BATCH:
        after = (newest + timedelta(days=1)).isoformat()
        if not any(feed.is_gap(name, day, after) for name, day in last):
            # The last batch again, which changes nothing in itself: its run takes the others along.
            return newest - timedelta(days=1) if any(_is_behind(catalog, spec) for spec in LAKE.tables) else newest
        newest -= timedelta(days=1)
    return None


def _is_behind(catalog: lc.Catalog, spec: TableSpec) -> bool:
    """Say whether a table that is kept from another's changes has not taken all of them."""
    followed = None if spec.changes_of is None else open_table(catalog, spec.changes_of.table)
    if followed is None:
        return False
    table = open_table(catalog, spec.identifier)
    return table is None or bool(unapplied(followed, table, commit_user=changes_user(followed, LAKE.table_key(spec))))


def _run(plan: Plan, warehouse: str, feed: FlightsFeed, began: float) -> int:
    catalog = lc.connect(warehouse)
    before = _states(catalog)
    runs: dict[str, str] = {}
    with dg.DagsterInstance.get() as instance:
        if plan.batches:
            print(_beginning(plan, warehouse))
            FLIGHTS.offer(instance, feed.delivered(plan.batches[-1].isoformat()))
            days = {
                "dagster/asset_partition_range_start": plan.batches[0].isoformat(),
                "dagster/asset_partition_range_end": plan.batches[-1].isoformat(),
            }
            for job, tags in (("observe_source", {}), ("ingest", days)):
                runs[job] = _execute(job, instance, _config(job, feed), tags)
        else:
            print(f"{warehouse} has every batch of the year already")
        loaded = _states(catalog)
        print("Maintaining the tables")
        runs["maintain"] = _execute("maintain", instance, _config("maintain", feed), {})
    after = _states(catalog)
    through = plan.batches[-1] if plan.batches else plan.done_through
    assert through is not None
    answers = answer_all(catalog, feed.source(), start=plan.start, through=through)
    summary = Summary(
        warehouse=warehouse,
        plan_text=f"flights from {plan.start} on, batches through {through}",
        runs=runs,
        rows=_rows(catalog, after),
        before=before,
        loaded=loaded,
        after=after,
        answers=answers,
        seconds=time.monotonic() - began,
    )
    print(summary_text(summary))
    return 0 if all(answer.agrees for answer in answers) else 1


def _beginning(plan: Plan, warehouse: str) -> str:
    days = f"batches {plan.batches[0]} to {plan.batches[-1]} of flights from {plan.start} on"
    if plan.done_through is None:
        return f"Loading {days} into {warehouse}"
    return f"{warehouse} has everything through {plan.done_through}; going on with {days}"


def _execute(name: str, instance: dg.DagsterInstance, config: Mapping[str, Any], tags: Mapping[str, str]) -> str:
    """Run a job in this process, and with it all others, one Spark session; return the run's id."""
    run_id, worker = executed_here(instance)
    result = defs.resolve_job_def(LAKE.scoped(name)).execute_in_process(
        run_config=config, instance=instance, tags={**tags, **worker}, raise_on_error=False, run_id=run_id
    )
    if not result.success:
        # Dagster takes an interrupt for one more way to fail, and says so in a tag of the run.
        run = instance.get_run_by_id(result.run_id)
        if run is not None and run.tags.get("dagster/failure_reason") == "UNEXPECTED_TERMINATION":
            raise KeyboardInterrupt
        raise SystemExit(
            f"The job {LAKE.scoped(name)} failed: see the lines above, or run {result.run_id} in `make ui`."
        )
    return result.run_id


def _config(job: str, feed: FlightsFeed) -> Mapping[str, Any]:
    config: dict[str, Any] = {"loggers": {"progress": {}}}
    source = {"start": feed.start, **({"folder": feed.folder} if feed.folder else {})}
    match job:
        case "observe_source":
            config["resources"] = {"flights": {"config": source}}
        case "ingest":
            # A resource's configuration is given whole or not at all.
            lakehouse = {"warehouse": {"env": "LAKEHOUSE_WAREHOUSE"}, "table_defaults": TABLE_DEFAULTS}
            config["resources"] = {"flights": {"config": source}, "lakehouse": {"config": lakehouse}}
        case "maintain":
            ops = ("__".join(LAKE.operation_key(spec, "expire").path) for spec in LAKE.tables)
            config["ops"] = {op: {"config": RETENTION} for op in ops}
    return config


def _states(catalog: lc.Catalog) -> dict[str, TableState]:
    """Return the state of each table that exists."""

    def state_of(spec: TableSpec) -> TableState | None:
        table = open_table(catalog, spec.identifier)
        return None if table is None else read_state(table)

    # Beside each other: in an object store most of the time is that of requests.
    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        found = zip(LAKE.tables, pool.map(state_of, LAKE.tables), strict=True)
        return {spec.identifier: state for spec, state in found if state is not None}


def _rows(catalog: lc.Catalog, names: Iterable[str]) -> dict[str, int]:
    """Return the number of rows of each table."""
    tables = list(names)
    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        return dict(zip(tables, pool.map(lambda name: catalog.table(name).scan().count(), tables), strict=True))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m orchestration.run", description=__doc__.split("\n")[0])
    environ = os.environ.get
    parser.add_argument("--start", type=_day, default=environ("START") or DEFAULT_START)
    parser.add_argument("--batches", type=_count, default=environ("BATCHES") or str(DEFAULT_BATCHES))
    parser.add_argument("--warehouse", type=given_warehouse, default=environ("WAREHOUSE") or DEFAULT_WAREHOUSE)
    parser.add_argument("--source", help="a folder of Parquet files instead of the installed package")
    return parser.parse_args(arguments)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a day such as {DEFAULT_START}") from error


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of batches, 1 at least")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
