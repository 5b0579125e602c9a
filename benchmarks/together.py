"""Batches that were staged in parallel: committed in one snapshot, or in one each.

Measured is the time from staged to committed, of one process on the local disk, and what a reader finds afterwards.
"""

import tempfile
import time
from functools import partial

import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure

BATCHES = 200
ROWS = 1_000
COLUMNS = {"day": "INT NOT NULL", "k": "BIGINT NOT NULL", "v": "BIGINT"}
# Partitions of their own share no key; in one bucket every batch has the keys of all others.
KINDS: dict[str, dict[str, list[str]]] = {
    "append": {"primary_keys": [], "partition_keys": []},
    "partitions of their own": {"primary_keys": ["day", "k"], "partition_keys": ["day"]},
    "the same keys": {"primary_keys": ["k"], "partition_keys": []},
}


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=1)
    batches = measure.scaled(BATCHES, parsed)
    measure.print_header("Batches together", data=f"{batches} batches of {ROWS:,} rows")
    found, bars = [], []
    for name, kind in KINDS.items():
        seconds = {}
        for how in ("each", "together"):
            with tempfile.TemporaryDirectory() as folder:
                seconds[how], table = commit(folder, kind, batches, together=how == "together")
                began = time.perf_counter()
                rows = table.scan().count()
                read = time.perf_counter() - began
                figures = (len(table.snapshots()), rows, f"{seconds[how]:.2f}", f"{1000 * read:.0f}")
                found.append([name, how, *map(str, figures)])
        bars.append(measure.Bar(f"together / each, {name}", seconds["together"] / seconds["each"], 1.0, 0.3, ""))
    measure.print_rows("Commit", ["batches", "committed", "snapshots", "rows", "seconds", "count in ms"], found)
    measure.print_bars(bars)


def commit(folder: str, kind: dict[str, list[str]], batches: int, *, together: bool) -> tuple[float, lc.Table]:
    catalog = lc.connect(folder)
    catalog.create_database("db")
    bucket = "1" if kind["primary_keys"] else "-1"
    table = catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=kind["primary_keys"],
        partition_keys=kind["partition_keys"],
        options={"bucket": bucket, "write-only": "true"},
    )
    stage = partial(table.stage, commit_user="stager")
    staged = [stage(data(number), commit_identifier=number) for number in range(batches)]
    began = time.perf_counter()
    if together:
        table.commit_together(staged, commit_user="committer", commit_identifier=0)
    else:
        for each in staged:
            table.commit(each)
    return time.perf_counter() - began, table


def data(number: int) -> pa.Table:
    schema = pa.schema([pa.field("day", pa.int32()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
    return pa.table({"day": [number] * ROWS, "k": range(ROWS), "v": [number] * ROWS}, schema=schema)


if __name__ == "__main__":
    main()
