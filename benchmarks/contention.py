"""Processes that commit to one table as fast as they can: every commit must land, soon, and none may be lost.

Each commit is one new file on the local disk with all its syncs; the clock starts when all processes are ready.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _commits as commits
from benchmarks import _measure as measure
from benchmarks._crowd import crowd

PROCESSES = 8
COMMITS = 50
# A crowd that commits for some time: how evenly, and how much in all.
CROWD = 16
CROWD_SECONDS = 20
# What each of a crowd writes where all write the same keys of one bucket.
KEYS = 10


def work(
    number: int, ready: Callable[[], object], root: str, count: int
) -> tuple[Sequence[int], Sequence[float], float]:
    """Return attempts and seconds of each commit, and the seconds of all."""
    table = commits.CommitTable(root)
    ready()
    first = time.perf_counter()
    attempts, waits = [], []
    for identifier in range(count):
        staged = table.stage(f"writer-{number}", identifier, 1)
        begin = time.perf_counter()
        attempts.append(table.commit(staged).attempts)
        waits.append(time.perf_counter() - begin)
    return attempts, waits, time.perf_counter() - first


def work_for(number: int, ready: Callable[[], object], root: str, seconds: float) -> int:
    table = commits.CommitTable(root)
    ready()
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        table.commit(table.stage(f"writer-{number}", count, 1))
        count += 1
    return count


def upsert_for(
    number: int, ready: Callable[[], object], warehouse: str, seconds: float, storage: Mapping[str, str] | None = None
) -> int:
    table = lc.connect(warehouse, storage=storage).table("db.t")
    rows = pa.table({"k": range(KEYS), "v": [number] * KEYS})
    ready()
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        table.commit(table.stage(rows, commit_user=f"writer-{number}", commit_identifier=count))
        count += 1
    return count


def new_key_table(warehouse: str, storage: Mapping[str, str] | None = None) -> None:
    catalog = lc.connect(warehouse, storage=storage)
    catalog.create_database("db")
    columns = {"k": "BIGINT NOT NULL", "v": "BIGINT"}
    options = {"bucket": "1", "write-only": "true"}
    catalog.create_table("db.t", columns, primary_keys=["k"], options=options)


def counts_of_a_crowd(
    seconds: float, new_table: Callable[[str], Any], function: Callable[..., int]
) -> tuple[list[int], float]:
    """Return how often each process of a crowd committed, fewest first, and how many commits there were a second."""
    with tempfile.TemporaryDirectory(prefix="contention-") as root:
        new_table(root)
        counts, took = crowd(CROWD, function, root, seconds)
    return sorted(counts), sum(counts) / took


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=1)
    count = measure.scaled(COMMITS, parsed)
    measure.print_header(
        "Contention", data=f"{PROCESSES} processes, {count} commits each, one table, one file a commit"
    )
    root = tempfile.mkdtemp(prefix="contention-")
    table = commits.new_table(root)
    found, _ = crowd(PROCESSES, work, root, count)
    attempts = sorted(attempt for ones, _, _ in found for attempt in ones)
    waits = sorted(wait for _, ones, _ in found for wait in ones)
    ends = [seconds for _, _, seconds in found]
    latest = table.context.snapshots.latest()
    assert latest is not None
    landed = {(one.commit_user, one.commit_identifier) for one in table.context.snapshots.history()}
    live = table.context.manifests.live_entries(latest)
    shutil.rmtree(root)
    p95 = attempts[int(len(attempts) * 0.95)]
    measure.print_rows(
        f"{PROCESSES} x {count} commits",
        ["", "attempts", "milliseconds"],
        [
            ["median", statistics.median(attempts), f"{statistics.median(waits) * 1000:.0f}"],
            ["mean", f"{statistics.fmean(attempts):.2f}", f"{statistics.fmean(waits) * 1000:.0f}"],
            ["p95", p95, f"{waits[int(len(waits) * 0.95)] * 1000:.0f}"],
            ["greatest", attempts[-1], f"{waits[-1] * 1000:.0f}"],
        ],
    )
    seconds = measure.scaled(CROWD_SECONDS, parsed)
    counts, rate = counts_of_a_crowd(seconds, commits.new_table, work_for)
    keyed, keyed_rate = counts_of_a_crowd(seconds, new_key_table, upsert_for)
    measure.print_rows(
        f"{CROWD} processes for {seconds} s",
        ["", "commits a second", "fewest", "median", "most"],
        [
            ["appends", f"{rate:.1f}", counts[0], statistics.median(counts), counts[-1]],
            [f"the same {KEYS} keys", f"{keyed_rate:.1f}", keyed[0], statistics.median(keyed), keyed[-1]],
        ],
    )
    print(f"first process done after {min(ends):.1f} s, last after {max(ends):.1f} s\n")
    measure.print_bars(
        [
            measure.Bar("commits lost", PROCESSES * count - len(landed), 0, 0, ""),
            measure.Bar("files lost", PROCESSES * count - len(live), 0, 0, ""),
            measure.Bar("p95 attempts", p95, 3, 3, ""),
            measure.Bar(f"busiest over slowest of {CROWD}", counts[-1] / max(1, counts[0]), 1.5, 1.5, ""),
        ]
    )


if __name__ == "__main__":
    main()
