"""Writing a key table through Spark against the JVM's own way: shuffle by bucket, sort by key, write Parquet.

T4: 10 M rows of BIGINT key, INT, STRING, DOUBLE, random order, read from Parquet; 4 buckets; local[2]. Ours is the
whole verb, commit included, zstd 1; the JVM writes with its default, zstd 3, and once more with 1.
"""

import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks._connector_peer import session as new_session
from benchmarks._connector_peer import to_noop
from lakehouse_dagster.resources.java_home import ensure_java

BUCKETS = 4
COLUMNS = {"id": "BIGINT NOT NULL", "n": "INT", "s": "STRING", "x": "DOUBLE"}


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=3)
    rows = measure.scaled(10_000_000, arguments)
    measure.print_header(
        "Spark write",
        data=f"T4: {rows:,} rows of 4 columns in random order, {BUCKETS} buckets, from Parquet",
        packages=("pyspark",),
        notes=("local[2], 4 GB heap; CPU of the JVM and all Python workers",),
    )
    ensure_java()
    session = new_session({})
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        source = session.read.parquet(str(write_input(root / "input", rows)))
        catalog = lc.connect(str(root / "warehouse"), spark=session)
        catalog.create_database("db")
        numbers = itertools.count()

        def ours() -> int:
            options = {"bucket": str(BUCKETS), "file.compression.zstd-level": "1"}
            table = catalog.create_table(f"db.t{next(numbers)}", COLUMNS, primary_keys=["id"], options=options)
            return table.write(source).rows_added

        def jvm(level: int, *, is_sorted: bool = True) -> None:
            write_with_jvm(source, root / "jvm", level, is_sorted=is_sorted)

        def clean() -> None:
            shutil.rmtree(root / "jvm", ignore_errors=True)
            for name in catalog.tables("db"):
                catalog.drop_table(f"db.{name}")

        series = measure.interleave(
            {
                "ours": ours,
                "JVM sort + write, zstd 3": lambda: jvm(3),
                "JVM sort + write, zstd 1": lambda: jvm(1),
                "JVM write without sort, zstd 1": lambda: jvm(1, is_sorted=False),
                "read and shuffle only": lambda: to_noop(source.repartition(BUCKETS, "id")),
            },
            rounds=arguments.rounds,
            before_each=clean,
        )
        clean()
    session.stop()
    assert series["ours"].samples[0].value == rows
    measure.print_table("write", series, against="JVM sort + write, zstd 3")
    ratio = measure.cpu_ratio(series, "ours", "JVM sort + write, zstd 3")
    measure.print_bars([measure.Bar("write through Spark / JVM sort + JVM Parquet write (CPU)", ratio, 0.7, 0.55)])


def write_with_jvm(source: DataFrame, folder: Path, level: int, *, is_sorted: bool) -> None:
    """Route, sort and write as Spark does by itself. The bucket is cheap here: a plain remainder."""
    routed = source.selectExpr("*", f"cast(pmod(id, {BUCKETS}) as int) as bucket").repartitionById(BUCKETS, "bucket")
    ordered = routed.sortWithinPartitions("bucket", "id") if is_sorted else routed
    writer: Any = ordered.write.partitionBy("bucket").option("compression", "zstd")
    writer.option("parquet.compression.codec.zstd.level", str(level)).parquet(str(folder))


def write_input(folder: Path, rows: int) -> Path:
    """Write the rows as four Parquet files."""
    folder.mkdir()
    random = np.random.default_rng(4)
    keys = random.permutation(rows).astype(np.int64) * 7
    for part, ids in enumerate(np.array_split(keys, 4)):
        words = pa.array(random.integers(10**6, 10**8, len(ids))).cast(pa.string())
        numbers = random.integers(0, 10**6, len(ids), dtype=np.int32)
        table = pa.table({"id": ids, "n": numbers, "s": words, "x": random.random(len(ids))})
        pq.write_table(table, folder / f"part-{part}.parquet", compression="zstd")
    return folder


if __name__ == "__main__":
    main()
