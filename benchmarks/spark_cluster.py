"""Spark on a standalone cluster of two workers of one core, against local[2]: what the way over processes costs.

A key table of 4 buckets with BIGINT key, INT, STRING, DOUBLE on the local disk. Write: 2 M rows in random order from
Parquet, a new table each time. Merge read: two such writes of the same keys, all columns. Compaction: those two, in
full. Both sides run on the same two cores, in turn. Each
executor is a JVM that sees half of the rows, so it compiles its code late: the first rounds do not count.
"""

import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks.spark_write import write_input
from lakehouse_dagster.resources.java_home import ensure_java
from tests.spark.standalone import cluster

Ask = Callable[[str, str], Any]
HERE, THERE = "local[2]", "two workers"
_WARM_ROUNDS = 5


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=5)
    rows = measure.scaled(2_000_000, arguments)
    measure.print_header(
        "Spark on a cluster",
        data=f"{rows:,} rows of 4 columns in random order, 4 buckets; merge read and compaction of two such writes",
        packages=("pyspark",),
        notes=("CPU of drivers, executors, their Python workers and the daemons of the cluster",),
    )
    ensure_java()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = Path(folder)
        source = str(write_input(root / "input", rows))
        lc.connect(root / "lake").create_database("db")
        master = stack.enter_context(cluster(root, memory="1g"))
        sides = {
            HERE: stack.enter_context(driver("local[2]", root / "lake", source)),
            THERE: stack.enter_context(driver(master, root / "lake", source)),
        }
        for _ in range(2):
            assert sides[HERE]("write", "runs") == rows
        series = {
            "write": interleaved(sides, "write", arguments.rounds, lambda name: None),
            "merge read": interleaved(sides, "read", arguments.rounds, lambda name: copied(root, name)),
            "compaction": interleaved(sides, "compact", arguments.rounds, lambda name: copied(root, name)),
        }
    bars = []
    for name, both in series.items():
        measure.print_table(name, both, against=HERE)
        bars.append(
            measure.Bar(f"{name} on two workers / {HERE} (wall)", measure.wall_ratio(both, THERE, HERE), 1.25, 1.1)
        )
        bars.append(
            measure.Bar(f"{name} on two workers / {HERE} (CPU)", measure.cpu_ratio(both, THERE, HERE), 1.25, 1.1)
        )
    measure.print_bars(bars)


def interleaved(
    sides: dict[str, Ask], verb: str, rounds: int, prepare: Callable[[str], None]
) -> dict[str, measure.Series]:
    """Let both sides do the same to tables of their own, each of which is new."""
    numbers = itertools.count()
    name = ""

    def before() -> None:
        nonlocal name
        name = f"{verb}_{next(numbers)}"
        prepare(name)

    def call(ask: Ask) -> Any:
        return ask(verb, name)

    return measure.interleave(
        {side: partial(call, ask) for side, ask in sides.items()},
        rounds=rounds,
        warm_rounds=_WARM_ROUNDS,
        before_each=before,
    )


def copied(root: Path, name: str) -> None:
    for old in (root / "lake" / "db.db").glob("*_*"):
        shutil.rmtree(old)
    shutil.copytree(root / "lake" / "db.db" / "runs", root / "lake" / "db.db" / name)


@contextmanager
def driver(master: str, warehouse: Path, source: str) -> Iterator[Ask]:
    """Start a driver; yield the function that asks it for a verb and returns its answer."""
    command = [sys.executable, "-m", "benchmarks._cluster_side", master, str(warehouse)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def told() -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"The driver of {master} ended: {process.communicate()[1][-4000:]}")
        return line

    def ask(verb: str, table: str) -> Any:
        assert process.stdin is not None
        process.stdin.write(json.dumps([verb, table, source]) + "\n")
        process.stdin.flush()
        return json.loads(told())

    try:
        assert told().strip() == "ready"
        yield ask
    finally:
        process.communicate()


if __name__ == "__main__":
    main()
