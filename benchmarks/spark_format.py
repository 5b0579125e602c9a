"""Batch reads by `format("lakehouse")` against `scan().to_spark()` of the same tables.

2 M rows of BIGINT key, INT, STRING, DOUBLE: an append table, which Spark reads by itself in `to_spark`, and a key table
of two overlapping runs in four buckets, which Python tasks merge in both. local[2]; each read goes to a sink that takes
everything and does nothing.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks._connector_peer import session as new_session
from benchmarks._connector_peer import to_noop
from lakehouse_dagster.resources.java_home import ensure_java

COLUMNS = {"id": "BIGINT NOT NULL", "n": "INT", "s": "STRING", "x": "DOUBLE"}


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=3)
    rows = measure.scaled(2_000_000, arguments)
    measure.print_header(
        "Spark data source",
        data=f"{rows:,} rows of 4 columns; an append table, and a key table of two runs in 4 buckets",
        packages=("pyspark",),
        notes=("local[2], 4 GB heap; CPU of the JVM and all Python workers",),
    )
    ensure_java()
    session = new_session({})
    lc.register(session)
    with tempfile.TemporaryDirectory() as folder:
        warehouse = str(Path(folder) / "warehouse")
        catalog = lc.connect(warehouse)
        catalog.create_database("db")
        random = np.random.default_rng(4)
        data = pa.table(
            {
                "id": random.permutation(rows),
                "n": random.integers(0, 10**6, rows, dtype=np.int32),
                "s": pa.array(random.integers(10**6, 10**8, rows)).cast(pa.string()),
                "x": random.random(rows),
            }
        )
        catalog.create_table("db.append", COLUMNS, options={"write-only": "true"}).write(data)
        options = {"bucket": "4", "write-only": "true"}
        keyed = catalog.create_table("db.key", COLUMNS, primary_keys=["id"], options=options)
        keyed.write(data)
        keyed.write(data.slice(0, rows // 2))

        def load(table: str, **options: str) -> DataFrame:
            return session.read.format("lakehouse").options(warehouse=warehouse, **options).load(table)

        def reads(table: str) -> dict[str, Callable[[], None]]:
            return {
                "format": lambda: to_noop(load(table)),
                "to_spark": lambda: to_noop(catalog.table(table).scan().to_spark(session)),
                "format, columns id": lambda: to_noop(load(table, columns="id")),
                "format, select id": lambda: to_noop(load(table).select("id")),
            }

        bars = []
        for name, must, aim in (("append", 3, 2.5), ("key", 1.8, 1.5)):
            table = f"db.{name}"
            assert load(table).count() == rows
            series = measure.interleave(reads(table), rounds=arguments.rounds)
            measure.print_table(f"read of the {name} table", series, against="to_spark")
            ratio = measure.cpu_ratio(series, "format", "to_spark")
            bars.append(measure.Bar(f"format / to_spark, {name} table (CPU)", ratio, must, aim))
        measure.print_bars(bars)
    session.stop()


if __name__ == "__main__":
    main()
