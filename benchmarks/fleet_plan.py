"""The plan of a fleet: one pass over the metadata of many tables, in a process of its own, its time and its memory.

Metadata are real, data files are not there: a plan never opens one. The tables are copies of a few that were written,
compacted and tagged commit by commit, and one table has very many files. A second lake has tables of many partitions,
each of which is a candidate of its own.
"""

import shutil
import tempfile
from datetime import date, timedelta
from pathlib import Path

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks.planning import make_table

TABLES = 1_500
FILES_OF_THE_LARGEST = 100_000
SNAPSHOTS = 40
PARTITIONS = 12
# The tables of the second lake: each has a partition a day, with some sorted runs.
WIDE_TABLES, DAYS, RUNS = 150, 365, 3
_COLUMNS = {"dt": "DATE NOT NULL", "k": "BIGINT NOT NULL", "a": "DOUBLE", "b": "STRING"}


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=2)
    tables, files = measure.scaled(TABLES, parsed), measure.scaled(FILES_OF_THE_LARGEST, parsed)
    root = tempfile.mkdtemp(prefix="fleet-")
    # In processes of their own, so that the pass finds no cache of theirs.
    measure.fresh(make_lake, root, tables - 1)
    measure.fresh(make_table, f"{root}/large", files, 0)
    shutil.move(f"{root}/large/db.db/t", f"{root}/lake/db.db/largest")
    taken = [measure.fresh(plan, f"{root}/lake") for _ in range(parsed.rounds)]
    best = min(taken, key=lambda one: one.wall_seconds)
    found = best.value
    measure.print_header(
        "Plan of a fleet",
        data=f"{found['tables']} tables with {found['files']} files, {SNAPSHOTS} snapshots each; the largest has "
        f"{files} files",
    )
    peak = max(one.peak_bytes for one in taken) / 2**20
    rows = [
        ["wall s", f"{best.wall_seconds:.1f}"],
        ["CPU s", f"{best.cpu_seconds:.1f}"],
        ["ms a table", f"{best.wall_seconds / found['tables'] * 1000:.0f}"],
        ["peak MB", f"{peak:.0f}"],
        ["choices", f"{found['choices']}"],
        ["refusals", f"{found['refusals']}"],
        ["budget spent", f"{found['spent']:.0%}"],
    ]
    measure.print_rows("One pass", ["", "measured"], rows)
    shutil.rmtree(root)
    bars = [
        measure.Bar(f"{found['tables']} tables, plan", best.wall_seconds, 300, 120, "s"),
        measure.Bar(f"{found['tables']} tables, plan: peak", peak, 700, 400, "MB"),
    ]
    _print_wide(measure.scaled(WIDE_TABLES, parsed), parsed.rounds)
    measure.print_bars(bars)


def _print_wide(tables: int, rounds: int) -> None:
    """Plan tables of many partitions, and print what TABLES of them would take, by extrapolation."""
    root = tempfile.mkdtemp(prefix="fleet-")
    measure.fresh(make_wide_lake, root, tables)
    few, all_of_them = (
        min((measure.fresh(plan, f"{root}/{folder}") for _ in range(rounds)), key=lambda one: one.cpu_seconds)
        for folder in ("few", "lake")
    )
    shutil.rmtree(root)
    found = all_of_them.value
    more, left = found["tables"] - few.value["tables"], TABLES - found["tables"]
    seconds = (all_of_them.cpu_seconds - few.cpu_seconds) / more
    megabytes = (all_of_them.peak_bytes - few.peak_bytes) / 2**20 / more
    rows = [
        ["wall s", f"{all_of_them.wall_seconds:.1f}"],
        ["CPU s", f"{all_of_them.cpu_seconds:.1f}"],
        ["CPU ms a table", f"{seconds * 1000:.0f}"],
        ["peak MB", f"{all_of_them.peak_bytes / 2**20:.0f}"],
        ["MB a table", f"{megabytes:.2f}"],
        ["choices", f"{found['choices']}"],
        ["refusals", f"{found['refusals']}"],
        [f"{TABLES} tables: CPU s", f"{all_of_them.cpu_seconds + left * seconds:.0f}"],
        [f"{TABLES} tables: peak MB", f"{all_of_them.peak_bytes / 2**20 + left * megabytes:.0f}"],
    ]
    measure.print_rows(
        f"{found['tables']} tables of {DAYS} partitions, {RUNS} sorted runs each", ["", "measured"], rows
    )


def plan(root: str) -> dict[str, float]:
    """Plan the maintenance of all tables for a budget that is too small for all of it, and return its figures."""
    catalog = lc.connect(root)
    reads = {name: 1_000.0 * (number % 50) for number, name in enumerate(catalog.matching())}
    budget = lc.Budget(bytes=100_000_000)
    made = catalog.plan_maintenance(budget=budget, reads=reads)
    return {
        "tables": made.tables,
        "files": made.files,
        "choices": len(made.choices),
        "refusals": len(made.refusals),
        "spent": budget.share(made.cost),
    }


def make_lake(root: str, tables: int) -> None:
    """Make the tables: appended to, updated, compacted, tagged; each kind once, and then copied without its rows."""
    catalog = lc.connect(f"{root}/made")
    catalog.create_database("db")
    kinds = [_appended(catalog), _updated(catalog), _compacted(catalog), _tagged(catalog)]
    for number in range(tables):
        kind = kinds[number % len(kinds)]
        shutil.copytree(
            Path(root, "made", "db.db", kind),
            Path(root, "lake", "db.db", f"{kind}_{number:04}"),
            ignore=shutil.ignore_patterns("bucket-*"),
        )


def make_wide_lake(root: str, tables: int) -> None:
    """Make tables of many partitions, and a lake with a tenth of them."""
    catalog = lc.connect(f"{root}/made")
    catalog.create_database("db")
    table = _key_table(catalog, "wide")
    days = [f"{date(2013, 1, 1) + timedelta(days=number)}" for number in range(DAYS)]
    for _ in range(RUNS):
        table.write([{"dt": day, "k": key, "a": 0.5, "b": "text"} for day in days for key in range(5)])
    for folder, count in (("lake", tables), ("few", max(1, tables // 10))):
        for number in range(count):
            shutil.copytree(
                Path(root, "made", "db.db", "wide"),
                Path(root, folder, "db.db", f"wide_{number:04}"),
                ignore=shutil.ignore_patterns("bucket-*"),
            )


def _appended(catalog: lc.Catalog) -> str:
    table = catalog.create_table("db.appended", _COLUMNS, partition_keys=["dt"], options={"write-only": "true"})
    _write(table)
    return "appended"


def _updated(catalog: lc.Catalog) -> str:
    _write(_key_table(catalog, "updated"))
    return "updated"


def _compacted(catalog: lc.Catalog) -> str:
    table = _key_table(catalog, "compacted")
    _write(table)
    table.compact(full=True)
    table.compact_manifests()
    return "compacted"


def _tagged(catalog: lc.Catalog) -> str:
    table = _key_table(catalog, "tagged")
    _write(table)
    table.create_tag("kept", at=SNAPSHOTS // 2)
    table.compact(full=True)
    _write(table, commits=5)
    return "tagged"


def _key_table(catalog: lc.Catalog, name: str) -> lc.Table:
    options = {"bucket": "2", "write-only": "true", "snapshot.time-retained": "1 ms"}
    return catalog.create_table(
        f"db.{name}", _COLUMNS, partition_keys=["dt"], primary_keys=["dt", "k"], options=options
    )


def _write(table: lc.Table, commits: int = SNAPSHOTS) -> None:
    """Commit rows of three days each time."""
    for number in range(commits):
        days = [f"2013-01-{1 + (number // 3 + day) % PARTITIONS:02}" for day in range(3)]
        table.write([{"dt": day, "k": key, "a": 0.5, "b": "text"} for day in days for key in range(20)])


if __name__ == "__main__":
    main()
