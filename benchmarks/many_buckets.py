"""Many small buckets: 1 M rows into 1,000 partitions of 4 buckets; three such writes read merged; compacted in full.

Here each file holds some 250 rows, so the time is what a file, a bucket and a folder cost, not what rows cost. Against
decoding the same files and encoding as many with pyarrow, each synced (the floors). In this process, on the local disk.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakehouse_core as lc
from benchmarks import _measure as measure

ROWS = 1_000_000
PARTITIONS = 1_000
BUCKETS = 4
WRITES = 3
COLUMNS = {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "s": "STRING", "x": "DOUBLE", "t": "TIMESTAMP(6)"}
OPTIONS = {"bucket": str(BUCKETS), "write-only": "true"}


@dataclass(frozen=True)
class Lake:
    """Tables of one warehouse, each of so many rows a write in so many partitions."""

    root: Path
    rows: int
    partitions: int

    def new_table(self, name: str) -> lc.Table:
        catalog = lc.connect(str(self.root))
        catalog.create_database("db", exist_ok=True)
        catalog.drop_table(f"db.{name}", missing_ok=True)
        return catalog.create_table(
            f"db.{name}", COLUMNS, partition_keys=["p"], primary_keys=["p", "k"], options=OPTIONS
        )

    def data(self, seed: int) -> pa.Table:
        """Return rows in no order, of keys that are drawn from twice as many."""
        random = np.random.default_rng(seed)
        keys = random.choice(2 * self.rows, self.rows, replace=False)
        return pa.table(
            {
                "p": pa.array(keys % self.partitions, pa.int32()),
                "k": keys,
                "s": pa.array(random.integers(0, 10**9, self.rows)).cast(pa.string()),
                "x": random.random(self.rows),
                "t": pa.array(random.integers(0, 2**50, self.rows)).cast(pa.timestamp("us")),
            }
        )

    def files(self, name: str) -> list[Path]:
        return sorted((self.root / "db.db" / name).glob("*/*/data-*.parquet"))

    def copied(self, source: str, target: str) -> None:
        """Make another table of the same files."""
        database = self.root / "db.db"
        shutil.copytree(database / source, database / target, copy_function=os.link)


def write(lake: Lake, data: pa.Table) -> measure.Sample:
    table = lake.new_table("written")
    return measure.sample(lambda: table.write(data))


def read(lake: Lake) -> int:
    return int(lc.connect(str(lake.root)).table("db.kept").scan().to_arrow().num_rows)


def compact(lake: Lake) -> measure.Sample:
    catalog = lc.connect(str(lake.root))
    catalog.drop_table("db.compacted", missing_ok=True)
    lake.copied("kept", "compacted")
    return measure.sample(lambda: catalog.table("db.compacted").compact(full=True))


def floor_write(folder: Path, parts: Sequence[pa.Table]) -> measure.Sample:
    """Encode each part as a file, synced."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    def put() -> None:
        for number, part in enumerate(parts):
            with (folder / f"{number}.parquet").open("wb") as file:
                pq.write_table(part, file, compression="zstd", compression_level=1, use_dictionary=False)
                file.flush()
                os.fsync(file.fileno())

    return measure.sample(put)


def floor_read(paths: Sequence[Path]) -> int:
    """Decode the files, every column."""
    rows = 0
    for path in paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            rows += file.read(use_threads=False).num_rows
    return rows


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=3)
    rows, partitions = measure.scaled(ROWS, parsed), measure.scaled(PARTITIONS, parsed)
    files = partitions * BUCKETS
    measure.print_header(
        "Many small buckets", data=f"{WRITES} writes of {rows:,} narrow rows, {partitions:,} partitions x {BUCKETS}"
    )
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder) / "warehouse", rows, partitions)
        kept = lake.new_table("kept")
        for seed in range(WRITES):
            kept.write(lake.data(seed))
        paths = lake.files("kept")
        assert len(paths) == WRITES * files, len(paths)
        parts = [pq.read_table(path) for path in paths[:files]]
        first = lake.data(0)
        alternatives: dict[str, Callable[[], object]] = {
            f"Parquet write of {files:,} files": partial(floor_write, Path(folder) / "floor", parts),
            "write": partial(write, lake, first),
            f"Parquet read of {len(paths):,} files": partial(floor_read, paths),
            "merge read": partial(read, lake),
            "full compaction": partial(compact, lake),
        }
        series = measure.interleave(alternatives, rounds=parsed.rounds)
    measure.print_table("many small buckets", series)
    share = rows / ROWS
    limits = {"write": (5.0, 3.5), "merge read": (4.0, 3.0), "full compaction": (10.0, 7.0)}
    measure.print_bars(
        [
            measure.Bar(f"{name}, best wall", series[name].best_wall_seconds, must * share, aim * share, "s")
            for name, (must, aim) in limits.items()
        ]
    )


if __name__ == "__main__":
    main()
