"""Writers of the same keys of one table at once, and what must be true of it afterwards."""

from __future__ import annotations

import random
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakehouse_core as lc

KEYS = 12
VECTORS = {"deletion-vectors.enabled": "true"}
# Every changelog producer, with and without deletion vectors; and writers that leave compaction to another process.
TABLES: dict[str, dict[str, str]] = {
    "none": {},
    "none, vectors": VECTORS,
    "input": {"changelog-producer": "input"},
    "input, vectors": {"changelog-producer": "input", **VECTORS},
    "lookup": {"changelog-producer": "lookup"},
    "lookup, vectors": {"changelog-producer": "lookup", **VECTORS},
    "full compaction": {"changelog-producer": "full-compaction"},
    "none, compacted by another": {"write-only": "true"},
    "lookup, vectors, compacted by another": {"changelog-producer": "lookup", "write-only": "true", **VECTORS},
}

Row = dict[str, Any]


@dataclass(frozen=True)
class Written:
    """One acknowledged commit: the snapshot of its rows, and the rows with their kinds."""

    snapshot_id: int
    rows: list[Row]


def race(pool: Executor, folder: Path, options: Mapping[str, str], *, writers: int, rounds: int, seed: int) -> lc.Table:
    """Let `writers` of the pool commit `rounds` times each, and return the table.

    Raises AssertionError where a promise is broken. Where writers leave compaction to another, the pool needs a worker
    more.
    """
    catalog = lc.connect(str(folder))
    catalog.create_database("db", exist_ok=True)
    columns = {"k": "INT NOT NULL", "v": "STRING"}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": "1", **options})
    over = folder / "over"
    compactor = pool.submit(_compact, folder, over) if "write-only" in options else None
    try:
        running = [pool.submit(_write, folder, writer, rounds, seed) for writer in range(writers)]
        written = [one for each in running for one in each.result()]
    finally:
        over.touch()
    if compactor is not None:
        compactor.result()
    table.compact(full=True)
    check(table, written)
    return table


def check(table: lc.Table, written: list[Written]) -> None:
    """The last commit of each key wins, and the changelog leads to the rows."""
    expected: dict[int, Row] = {}
    for one in sorted(written, key=lambda one: one.snapshot_id):
        for row in one.rows:
            if row["op"] == "-D":
                expected.pop(row["k"], None)
            else:
                expected[row["k"]] = {"k": row["k"], "v": row["v"]}
    rows = {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
    assert rows == expected
    assert replayed(table) == expected
    assert table.verify().findings == ()


def replayed(table: lc.Table) -> dict[int, Row]:
    """Apply the changelog from the first snapshot on. What a producer says was there before must have been there."""
    tells_before = table.schema.options.get("changelog-producer") in ("lookup", "full-compaction")
    state: dict[int, Row] = {}
    for change in table.changes(after=0).to_arrow().to_pylist():
        kind = change.pop("rowkind")
        if kind in ("-U", "-D"):
            before = state.pop(change["k"], None)
            assert not tells_before or before == change, f"before: {before}, told: {change}"
        else:
            assert not tells_before or change["k"] not in state, f"{change} comes where {state[change['k']]} is"
            state[change["k"]] = change
    return state


def _write(folder: Path, writer: int, rounds: int, seed: int) -> list[Written]:
    chance = random.Random(seed * 1000 + writer)
    table = lc.connect(str(folder)).table("db.t")
    written = []
    for number in range(rounds):
        keys = chance.sample(range(KEYS), chance.randint(1, 6))
        rows = [
            {"k": key, "v": f"{writer}-{number}-{place}", "op": chance.choice(["+I", "+I", "+I", "-D"])}
            for place, key in enumerate(keys)
        ]
        report = table.write(rows, rowkind_column="op")
        assert report.compaction_failure is None, report.compaction_failure
        written.append(Written(report.snapshot_ids[0], rows))
    return written


def _compact(folder: Path, over: Path) -> None:
    table = lc.connect(str(folder)).table("db.t")
    while not over.exists():
        with suppress(lc.CommitConflict):
            table.compact()
