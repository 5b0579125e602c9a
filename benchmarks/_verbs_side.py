"""One side of `before_after`: a process that carries out verbs of the checkout that PYTHONPATH names.

python benchmarks/_verbs_side.py WAREHOUSE SCALE

It imports nothing of this folder, and calls only what the first releases have too. Each verb is a generator: what comes
before its `yield` is preparation, what comes after it is measured, and what it returns must be alike on both sides.
"""

import gc
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import lakehouse_core as lc

NARROW = {"k": "BIGINT NOT NULL", "s": "STRING", "x": "DOUBLE", "t": "TIMESTAMP(6)"}
QUIET = {"write-only": "true"}
SPARK_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "4",
}
Work = Generator[None, None, int]


class Lake:
    """The tables of one side. What only is read is made once; a verb that changes a table gets a copy of its files."""

    def __init__(self, root: Path, scale: float) -> None:
        self.root = root
        self._scale = scale
        self._number = itertools.count()
        self.catalog = lc.connect(str(root))
        self.catalog.create_database("db")

    def rows(self, count: int) -> int:
        return max(10, int(count * self._scale))

    def table(self, options: Mapping[str, str], *, partitions: bool = False, keys: bool = True) -> lc.Table:
        columns = {"p": "INT NOT NULL", **NARROW} if partitions else NARROW
        by = ["p"] if partitions else []
        return self.catalog.create_table(
            f"db.t{next(self._number)}",
            columns,
            partition_keys=by,
            primary_keys=[*by, "k"] if keys else [],
            options={**QUIET, **options},
        )

    def kept(self, name: str, make: Callable[[], lc.Table]) -> lc.Table:
        """Return the table of that name; `make` makes it the first time."""
        if name not in self.catalog.tables("db"):
            table = make()
            self.catalog.rename_table(_name(table), f"db.{name}")
        return self.catalog.table(f"db.{name}")

    def copy(self, table: lc.Table) -> lc.Table:
        name = f"t{next(self._number)}"
        database = self.root / "db.db"
        shutil.copytree(database / Path(table.uri).name, database / name, copy_function=os.link)
        return self.catalog.table(f"db.{name}")

    def drop(self) -> None:
        """Drop every table that was made for one run."""
        for name in self.catalog.tables("db"):
            if name.removeprefix("t").isdigit():
                self.catalog.drop_table(f"db.{name}")

    @cached_property
    def session(self) -> SparkSession:
        session = SparkSession.builder.master("local[2]").config(map=SPARK_SETTINGS).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session

    @property
    def on_spark(self) -> lc.Catalog:
        return lc.connect(str(self.root), spark=self.session)


def rows_of(rows: int, seed: int, *, partitions: int = 0) -> pa.Table:
    """Return rows in no order; their keys are drawn from twice as many."""
    random = np.random.default_rng(seed)
    keys = random.choice(2 * rows, rows, replace=False)
    columns = {
        "k": keys,
        "s": pa.array(random.integers(0, 10**9, rows)).cast(pa.string()),
        "x": random.random(rows),
        "t": pa.array(random.integers(0, 2**50, rows)).cast(pa.timestamp("us")),
    }
    if partitions:
        columns = {"p": pa.array(keys % partitions, pa.int32()), **columns}
    return pa.table(columns)


def runs(lake: Lake, options: Mapping[str, str], *, rows: int = 500_000, count: int = 4) -> lc.Table:
    """Return a table of so many overlapping runs."""
    table = lake.table(options)
    for seed in range(count):
        table.write(rows_of(lake.rows(rows), seed))
    return table


def history(lake: Lake, commits: int) -> lc.Table:
    """Return a table with so many commits of one row."""
    table = lake.table({"bucket": "1"})
    for number in range(commits):
        table.write([{"k": number, "s": f"{number}", "x": 1.0, "t": None}])
    return table


def write_keys(lake: Lake) -> Work:
    table, data = lake.table({"bucket": "4"}), rows_of(lake.rows(1_000_000), 0)
    yield
    return sum(table.write(data).rows_added for _ in range(4))


def write_append(lake: Lake) -> Work:
    table, data = lake.table({"bucket": "-1"}, keys=False), rows_of(lake.rows(2_000_000), 0)
    yield
    return sum(table.write(data).rows_added for _ in range(4))


def write_many_buckets(lake: Lake) -> Work:
    table, data = lake.table({"bucket": "4"}, partitions=True), rows_of(lake.rows(250_000), 0, partitions=250)
    yield
    return table.write(data).rows_added


def write_one_row(lake: Lake) -> Work:
    table = lake.table({"bucket": "1"})
    yield
    for number in range(lake.rows(100)):
        table.write([{"k": number, "s": f"{number}", "x": 1.0, "t": None}])
    return number


def write_and_compact(lake: Lake) -> Work:
    table = lake.table({"bucket": "2", "write-only": "false"})
    data = [rows_of(lake.rows(200_000), seed) for seed in range(8)]
    yield
    return sum(table.write(one).rows_added for one in data)


def write_changelog(lake: Lake) -> Work:
    table = lake.table({"bucket": "2", "write-only": "false", "changelog-producer": "lookup"})
    data = [rows_of(lake.rows(100_000), seed) for seed in range(5)]
    yield
    return sum(table.write(one).rows_added for one in data)


def overwrite(lake: Lake) -> Work:
    table = lake.copy(lake.kept("four_runs", lambda: runs(lake, {"bucket": "4"})))
    data = rows_of(lake.rows(500_000), 9)
    yield
    return sum(table.overwrite(data).rows_added for _ in range(7))


def read_merged(lake: Lake) -> Work:
    table = lake.kept("four_runs", lambda: runs(lake, {"bucket": "4"}))
    yield
    return sum(table.scan().to_arrow().num_rows for _ in range(5))


def read_partial_update(lake: Lake) -> Work:
    options = {"bucket": "2", "merge-engine": "partial-update"}
    table = lake.kept("partial", lambda: runs(lake, options, rows=250_000))
    yield
    return sum(table.scan().to_arrow().num_rows for _ in range(8))


def read_aggregation(lake: Lake) -> Work:
    options = {"bucket": "2", "merge-engine": "aggregation", "fields.x.aggregate-function": "sum"}
    table = lake.kept("sums", lambda: runs(lake, options, rows=250_000))
    yield
    return sum(table.scan().to_arrow().num_rows for _ in range(8))


def read_where(lake: Lake) -> Work:
    table = lake.kept("four_runs", lambda: runs(lake, {"bucket": "4"}))
    condition = f"k >= {lake.rows(100_000)} AND k < {lake.rows(200_000)}"
    yield
    return sum(table.scan(columns=["k", "x"], where=condition).to_arrow().num_rows for _ in range(8))


def read_many_buckets(lake: Lake) -> Work:
    def make() -> lc.Table:
        table = lake.table({"bucket": "4"}, partitions=True)
        for seed in range(2):
            table.write(rows_of(lake.rows(250_000), seed, partitions=250))
        return table

    table = lake.kept("many_buckets", make)
    yield
    return int(table.scan().to_arrow().num_rows)


def read_append(lake: Lake) -> Work:
    def make() -> lc.Table:
        table = lake.table({"bucket": "-1"}, keys=False)
        table.write(rows_of(lake.rows(4_000_000), 0))
        return table

    table = lake.kept("appended", make)
    yield
    return sum(table.scan().to_arrow().num_rows for _ in range(4))


def plan(lake: Lake) -> Work:
    kept = lake.kept("history", lambda: history(lake, lake.rows(1_000)))
    yield
    # Each time a handle that has read nothing yet.
    return sum(lake.catalog.table(_name(kept)).scan(where="k = 3").to_arrow().num_rows for _ in range(20))


def open_and_read(lake: Lake) -> Work:
    kept = lake.kept("small", lambda: history(lake, 3))
    yield
    return sum(lake.catalog.table(_name(kept)).scan().to_arrow().num_rows for _ in range(200))


def compact(lake: Lake) -> Work:
    kept = lake.kept("four_runs", lambda: runs(lake, {"bucket": "4"}))
    tables = [lake.copy(kept) for _ in range(2)]
    yield
    return sum(table.compact(full=True).buckets_rewritten for table in tables)


def compact_vectors(lake: Lake) -> Work:
    options = {"bucket": "4", "deletion-vectors.enabled": "true"}
    kept = lake.kept("vectors", lambda: runs(lake, options, rows=250_000))
    tables = [lake.copy(kept) for _ in range(3)]
    yield
    return sum(table.compact(full=True).buckets_rewritten for table in tables)


def compact_many_buckets(lake: Lake) -> Work:
    next(read_many_buckets(lake))
    table = lake.copy(lake.catalog.table("db.many_buckets"))
    yield
    return table.compact(full=True).buckets_rewritten


def lookup(lake: Lake) -> Work:
    table = lake.kept("four_runs", lambda: runs(lake, {"bucket": "4"}))
    keys = pa.table({"k": np.arange(0, lake.rows(1_000_000), 50)})
    yield
    return sum(table.lookup(keys).num_rows for _ in range(30))


def expire(lake: Lake) -> Work:
    table = lake.copy(lake.kept("history", lambda: history(lake, lake.rows(1_000))))
    table.compact(full=True)
    yield
    return table.expire_snapshots(retain_max=1, older_than=timedelta(0)).snapshots_expired


def changes(lake: Lake) -> Work:
    options = {"bucket": "2", "changelog-producer": "input"}
    table = lake.kept("inputs", lambda: runs(lake, options, rows=250_000))
    yield
    return sum(table.changes(0).to_arrow().num_rows for _ in range(12))


def verify(lake: Lake) -> Work:
    table = lake.kept("history", lambda: history(lake, lake.rows(1_000)))
    yield
    return len(table.verify().findings)


def spark_write(lake: Lake) -> Work:
    table = lake.on_spark.table(_name(lake.table({"bucket": "4"})))
    folder = lake.root / "rows.parquet"
    if not folder.exists():
        pq.write_table(rows_of(lake.rows(1_000_000), 0), folder)
    frame = lake.session.read.parquet(str(folder))
    yield
    return table.write(frame).rows_added


def spark_read(lake: Lake) -> Work:
    lake.kept("four_runs", lambda: runs(lake, {"bucket": "4"}))
    table = lake.on_spark.table("db.four_runs")
    yield
    table.scan().to_spark(lake.session).write.format("noop").mode("overwrite").save()
    return 0


def spark_compact(lake: Lake) -> Work:
    copied = lake.copy(lake.kept("four_runs", lambda: runs(lake, {"bucket": "4"})))
    table = lake.on_spark.table(_name(copied))
    yield
    return table.compact(full=True).buckets_rewritten


VERBS: dict[str, Callable[[Lake], Work]] = {
    verb.__name__: verb
    for verb in (
        write_keys,
        write_append,
        write_many_buckets,
        write_one_row,
        write_and_compact,
        write_changelog,
        overwrite,
        read_merged,
        read_partial_update,
        read_aggregation,
        read_where,
        read_many_buckets,
        read_append,
        plan,
        open_and_read,
        compact,
        compact_vectors,
        compact_many_buckets,
        lookup,
        expire,
        changes,
        verify,
        spark_write,
        spark_read,
        spark_compact,
    )
}


def _name(table: lc.Table) -> str:
    return f"db.{Path(table.uri).name}"


def _lines() -> Iterator[str]:
    return (line.strip() for line in sys.stdin)


def main() -> None:
    warehouse, scale = sys.argv[1:]
    lake = Lake(Path(warehouse), float(scale))
    print(lc.__file__, flush=True)
    lines = _lines()
    for verb in lines:
        work = VERBS[verb](lake)
        next(work)
        gc.collect()
        print("prepared", flush=True)
        assert next(lines) == "run"
        began = time.perf_counter()
        try:
            next(work)
        except StopIteration as end:
            told = end.value
        print(json.dumps([time.perf_counter() - began, told]), flush=True)
        lake.drop()


if __name__ == "__main__":
    main()
