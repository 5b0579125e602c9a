"""Upsert into a key table with the changelog producer lookup, commit and compaction included, by us and by Paimon.

A bucket of narrow rows takes a file of new versions, one per twenty rows, half of them of keys that are there. Ours in
this process, the rival is Paimon's own connector in Spark, local[2], a process and a JVM of its own: CPU seconds of the
whole process tree are compared. Each round starts from a copy of the same table, which each side wrote itself.

Needs Maven; PySpark 3.5.7 is installed into build/ the first time.
"""

import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks._connector_peer import COLUMNS
from benchmarks.spark_connector import Side
from lakehouse_dagster.resources.java_home import ensure_java
from tests.interop import connector_client

BASE: Final = "base"
OPTIONS: Final = {
    "bucket": "1",
    "file.format": "parquet",
    "file.compression": "zstd",
    "changelog-producer": "lookup",
}


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=5)
    rows = measure.scaled(2_000_000, arguments)
    ensure_java()
    measure.print_header(
        "Upsert with lookup",
        data=f"{rows // 20:,} rows into a bucket of {rows:,} narrow rows, zstd 1",
        packages=("pyspark",),
        notes=(f"{connector_client.ARTIFACT} with PySpark 3.5.7, local[2], 4 GB heap; ours in this process",),
    )
    python, jar = connector_client.python(), connector_client.jar()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        whole, new = (
            write_input(root / "whole.parquet", rows, rows),
            write_input(root / "new.parquet", rows, rows // 20),
        )
        with Side("connector", python, root / "connector", jar) as connector:
            connector.call("create", BASE, OPTIONS)
            connector.call("write", BASE, str(whole))
            alternatives = {
                "ours": ours(root / "ours", whole, new),
                "connector": theirs(connector, new),
            }
            series = measure.interleave(alternatives, rounds=arguments.rounds, warm_rounds=2)
    counts = {name: one.samples[0].value for name, one in series.items()}
    assert len(set(counts.values())) == 1, counts
    measure.print_table("upsert, its changelog and commit", series, against="connector")
    measure.print_bars(
        [
            measure.Bar(
                "upsert with lookup, connector / ours (CPU)",
                measure.cpu_ratio(series, "connector", "ours"),
                3,
                5,
                smaller_is_better=False,
            )
        ]
    )


def ours(warehouse: Path, whole: Path, new: Path) -> Callable[[], measure.Sample]:
    """Return what measures one upsert here."""
    make_table(warehouse, whole)

    def measured(name: str) -> measure.Sample:
        taken = measure.sample(lambda: upsert(warehouse, new, name))
        return measure.Sample(taken.wall_seconds, taken.cpu_seconds, upserted(warehouse, name))

    return lambda: on_copy(warehouse, measured)


def make_table(warehouse: Path, whole: Path) -> None:
    """Make the table and write the first rows."""
    catalog = lc.connect(str(warehouse))
    catalog.create_database("db")
    catalog.create_table(f"db.{BASE}", COLUMNS, primary_keys=["k"], options=OPTIONS).write(pq.read_table(whole))


def upsert(warehouse: Path, new: Path, name: str = BASE) -> None:
    """Write new versions; the commit brings the compaction along, and that the changelog."""
    lc.connect(str(warehouse)).table(f"db.{name}").write(pq.read_table(new))


def upserted(warehouse: Path, name: str) -> int:
    """Return how many rows there are. The changelog must have been told."""
    table = lc.connect(str(warehouse)).table(f"db.{name}")
    assert [snapshot.changelog_record_count for snapshot in table.snapshots()][-1]
    return int(table.scan().count())


def theirs(connector: Side, new: Path) -> Callable[[], measure.Sample]:
    """Return what measures one upsert by the connector."""

    def upsert(name: str) -> measure.Sample:
        taken = connector.call("write", name, str(new))
        count = connector.call("count", name).value
        return measure.Sample(taken.wall_seconds, taken.cpu_seconds, count)

    return lambda: on_copy(connector.warehouse, upsert)


_copies = itertools.count()


def on_copy(warehouse: Path, work: Callable[[str], measure.Sample]) -> measure.Sample:
    """Give a fresh copy of the table, whose name `work` is told, and remove it afterwards."""
    name = f"copy{next(_copies)}"
    folder = warehouse / "db.db"
    shutil.copytree(folder / BASE, folder / name)
    taken = work(name)
    shutil.rmtree(folder / name)
    return taken


def write_input(file: Path, key_count: int, rows: int) -> Path:
    """Write rows of distinct keys out of twice `key_count`, in random order."""
    random = np.random.default_rng(rows)
    keys = random.choice(2 * key_count, rows, replace=False).astype(np.int64)
    words = pa.array(random.integers(10**9, 10**10, rows)).cast(pa.string())
    pq.write_table(pa.table({"k": keys, "v": random.integers(0, 2**40, rows), "s": words}), file, compression="zstd")
    return file


if __name__ == "__main__":
    main()
