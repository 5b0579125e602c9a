"""The same work through Spark by us and by Apache Paimon's own released connector, local[2] on both sides.

Narrow rows: a BIGINT key, a BIGINT, a string of ten; bucket 2; four runs whose keys are drawn from twice as many. Each
side has a process and a JVM of its own and works on tables that it wrote itself. Wall and CPU seconds of the whole
process tree; bars are on wall. Commits of 100 rows: ours in this process, without Spark, the connector's through Spark.

Needs Maven; PySpark 3.5.7 is installed into build/ the first time.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import _measure as measure
from lakehouse_dagster.resources.java_home import ensure_java
from tests.interop import connector_client

HERE = Path(__file__).resolve().parent
RUNS = 4


class Side:
    """A process that carries out requests of `_connector_peer`."""

    def __init__(self, name: str, python: Path, warehouse: Path, jar: Path) -> None:
        # An inherited SPARK_HOME or PYTHONPATH would mix the two versions.
        environment = {key: value for key, value in os.environ.items() if key not in {"SPARK_HOME", "PYTHONPATH"}}
        self.warehouse = warehouse
        self.peak_bytes = 0
        self._log = warehouse.with_suffix(".log").open("w")
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks._connector_peer", name, str(warehouse), str(jar)],
            cwd=HERE.parent,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> "Side":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def call(self, verb: str, *values: Any) -> measure.Sample:
        """Return what the request took, as the other process saw it, and what it answered."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([verb, *values]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{verb} failed:\n{Path(self._log.name).read_text()[-4000:]}")
        answer = json.loads(line)
        self.peak_bytes = answer["peak"]
        return measure.Sample(answer["wall"], answer["cpu"], answer["value"])


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=5)
    rows = measure.scaled(2_000_000, arguments)
    ensure_java()
    measure.print_header(
        "Spark: ours and Paimon's connector",
        data=f"{RUNS} runs of {rows:,} rows, keys of {2 * rows:,}, 2 buckets, zstd 1; commits of 100 rows",
        packages=("pyspark",),
        notes=(f"{connector_client.ARTIFACT} with PySpark 3.5.7; both local[2], 4 GB heap",),
    )
    python, jar = connector_client.python(), connector_client.jar()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = [write_input(root / f"run-{run}.parquet", run, rows) for run in range(RUNS)]
        with (
            Side("ours", Path(sys.executable), root / "ours", jar) as ours,
            Side("connector", python, root / "connector", jar) as connector,
        ):
            bars = compare({"ours": ours, "connector": connector}, files, arguments.rounds)
            peaks = [
                [name, f"{side.peak_bytes / 2**20:,.0f}"] for name, side in (("ours", ours), ("connector", connector))
            ]
            measure.print_rows("Greatest resident sets of the process tree, summed", ["", "MB"], peaks)
    measure.print_bars(bars)


def compare(sides: dict[str, Side], files: list[Path], rounds: int) -> list[measure.Bar]:
    """Run the four steps and return their bars."""
    numbers = itertools.count()

    def write(side: Side) -> measure.Sample:
        table = f"w{next(numbers)}"
        side.call("create", table)
        taken = side.call("write", table, str(files[0]))
        shutil.rmtree(side.warehouse / "db.db" / table)
        return taken

    def compact(side: Side) -> measure.Sample:
        table = f"c{next(numbers)}"
        shutil.copytree(side.warehouse / "db.db" / "runs", side.warehouse / "db.db" / table)
        taken = side.call("compact", table)
        shutil.rmtree(side.warehouse / "db.db" / table)
        return taken

    def commits(side: Side) -> measure.Sample:
        taken = [side.call("commit", "small", 100 * next(numbers)) for _ in range(10)]
        count = len(taken)
        return measure.Sample(
            sum(one.wall_seconds for one in taken) / count, sum(one.cpu_seconds for one in taken) / count
        )

    for side in sides.values():
        side.call("create", "small")
        side.call("create", "runs")
        for file in files:
            side.call("write", "runs", str(file))
    counts = {name: side.call("count", "runs").value for name, side in sides.items()}
    assert len(set(counts.values())) == 1, counts

    def step(title: str, measured: Any) -> dict[str, measure.Series]:
        alternatives = {name: lambda side=side: measured(side) for name, side in sides.items()}
        series = measure.interleave(alternatives, rounds=rounds, warm_rounds=2)
        measure.print_table(title, series, against="connector")
        return series

    write_series = step(f"write of {pq.read_metadata(files[0]).num_rows:,} rows", write)
    read_series = step(f"merge read of {RUNS} runs to noop", lambda side: side.call("read", "runs"))
    compact_series = step("full compaction", compact)
    commit_series = step("commit of 100 rows, mean of 10", commits)
    return [
        times_faster("write", write_series, 2, 3),
        times_faster("merge read", read_series, 1.2, 1.5),
        times_faster("full compaction", compact_series, 2, 3),
        times_faster("commit of 100 rows", commit_series, 5, 10),
    ]


def times_faster(what: str, series: dict[str, measure.Series], must: float, aim: float) -> measure.Bar:
    ratio = measure.wall_ratio(series, "connector", "ours")
    return measure.Bar(f"{what}, connector / ours (wall)", ratio, must, aim, smaller_is_better=False)


def write_input(file: Path, run: int, rows: int) -> Path:
    """Write one run in random order: distinct keys drawn from twice as many."""
    random = np.random.default_rng(run)
    keys = random.choice(2 * rows, rows, replace=False).astype(np.int64)
    words = pa.array(random.integers(10**9, 10**10, rows)).cast(pa.string())
    table = pa.table({"k": keys, "v": random.integers(0, 2**40, rows), "s": words})
    # Row groups that two tasks can share.
    pq.write_table(table, file, compression="zstd", row_group_size=max(rows // 4, 1))
    return file


if __name__ == "__main__":
    main()
