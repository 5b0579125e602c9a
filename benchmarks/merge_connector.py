"""The same MERGE through Spark by us and by Apache Paimon's own released connector, local[2] on both sides.

100 k rows into 2 M: a BIGINT key, a BIGINT, a string of ten; bucket 2; once into one run in each bucket, once into four
that overlap. Half of the source's rows have keys that are there, and half are new, in any order. Only the statement is
measured, in a session that has run it before; each on a fresh copy of a table that its own side wrote. Afterwards both
tables must have the same rows. The connector is of Spark 3.5 and ours runs on Spark 4.1, so the ratio is that of the
whole, wall and CPU seconds of the process tree with its JVM; bars are on wall.

Needs Maven; PySpark 3.5.7 is installed into build/ the first time.
"""

import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import _measure as measure
from benchmarks.spark_connector import Side, times_faster
from lakehouse_dagster.resources.java_home import ensure_java
from tests.interop import connector_client

SHAPES = {"one run": 1, "four runs": 4}
ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
NUMBERS = itertools.count()


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=7)
    rows = measure.scaled(2_000_000, arguments)
    ensure_java()
    measure.print_header(
        "MERGE through Spark: ours and Paimon's connector",
        data=f"{rows // 20:,} rows into {rows:,}, half of them known, 2 buckets, zstd 1",
        packages=("pyspark",),
        notes=(f"{connector_client.ARTIFACT} with PySpark 3.5.7; both local[2], 4 GB heap",),
    )
    python, jar = connector_client.python(), connector_client.jar()
    bars = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        changes = write_changes(root / "changes.parquet", rows)
        with (
            Side("ours", Path(sys.executable), root / "ours", jar) as ours,
            Side("connector", python, root / "connector", jar) as connector,
        ):
            sides = {"ours": ours, "connector": connector}
            for shape, runs in SHAPES.items():
                files = [write_run(root / f"{runs}-{run}.parquet", run, runs, rows) for run in range(runs)]
                series = compared(sides, files, changes, arguments.rounds)
                measure.print_table(f"MERGE of {rows // 20:,} rows into {shape}", series, against="connector")
                check([rows_after(root / name, side, files, changes) for name, side in sides.items()], rows, changes)
                bars.append(times_faster(f"MERGE into {shape}", series, 2.5, 4))
            peaks = [[name, f"{side.peak_bytes / 2**20:,.0f}"] for name, side in sides.items()]
            measure.print_rows("Greatest resident sets of the process tree, summed", ["", "MB"], peaks)
    measure.print_bars(bars)


def compared(sides: dict[str, Side], files: list[Path], changes: Path, rounds: int) -> dict[str, measure.Series]:
    """Return the merges into tables with these files as runs."""
    for side in sides.values():
        side.call("create", f"runs{len(files)}")
        for file in files:
            side.call("write", f"runs{len(files)}", str(file))

    def merge(side: Side) -> measure.Sample:
        with copied(side, files) as table:
            return side.call("merge", table, str(changes))

    alternatives = {name: lambda side=side: merge(side) for name, side in sides.items()}
    return measure.interleave(alternatives, rounds=rounds, warm_rounds=2)


def rows_after(folder: Path, side: Side, files: list[Path], changes: Path) -> pa.Table:
    """Return the rows of such a table after the MERGE, by key."""
    export = folder / f"rows{len(files)}"
    with copied(side, files) as table:
        side.call("merge", table, str(changes))
        side.call("export", table, str(export))
    return pq.read_table(export, schema=ROWS).sort_by("k")


@contextmanager
def copied(side: Side, files: list[Path]) -> Iterator[str]:
    """Yield the name of a new copy of the table with these files as runs."""
    table = f"copy{next(NUMBERS)}"
    shutil.copytree(side.warehouse / "db.db" / f"runs{len(files)}", side.warehouse / "db.db" / table)
    yield table
    shutil.rmtree(side.warehouse / "db.db" / table)


def check(results: list[pa.Table], rows: int, changes: Path) -> None:
    """Both sides must have the same rows, of these every changed one."""
    ours, theirs = results
    assert ours.equals(theirs), f"{ours.num_rows} and {theirs.num_rows} rows, which differ"
    wanted = pq.read_table(changes, schema=ROWS).sort_by("k")
    assert ours.filter(pc.is_in(ours.column("k"), wanted.column("k"))).equals(wanted)
    assert ours.num_rows == rows + rows // 40


def write_run(file: Path, run: int, runs: int, rows: int) -> Path:
    """Write one of the runs, whose keys are in random order and together those below `rows`.

    Each has its share of them, and as many of the next one's, which that one replaces.
    """
    random = np.random.default_rng(run)
    own = np.arange(run, rows, runs)
    again = np.arange((run + 1) % runs, rows, runs) if run + 1 < runs else own[:0]
    return write_rows(file, random.permutation(np.concatenate([own, again])), random)


def write_changes(file: Path, rows: int) -> Path:
    """Write the source: a fortieth of the table's keys, and as many new ones."""
    random = np.random.default_rng(100)
    known = random.choice(rows, rows // 40, replace=False)
    return write_rows(file, random.permutation(np.concatenate([known, rows + np.arange(rows // 40)])), random)


def write_rows(file: Path, keys: "np.ndarray[tuple[int], np.dtype[np.int64]]", random: np.random.Generator) -> Path:
    words = pa.array(random.integers(10**9, 10**10, len(keys))).cast(pa.string())
    values = random.integers(0, 2**40, len(keys))
    table = pa.table([keys, values, words], schema=ROWS)
    # Row groups that two tasks can share.
    pq.write_table(table, file, compression="zstd", row_group_size=max(len(keys) // 4, 1))
    return file


if __name__ == "__main__":
    main()
