"""A write to dynamic buckets against one to as many fixed buckets, of the same rows into an empty table and into one
that has all their keys; the whole verb with its commit, in process and on Spark.

2 M rows of BIGINT key, INT, STRING, DOUBLE in random order. In process they come from memory and one bucket takes all
keys, as with the default target; on Spark (local[2], from Parquet) each of the four assigners fills a bucket of its
own.
"""

import itertools
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks._connector_peer import session as new_session
from benchmarks.spark_write import COLUMNS, write_input
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_dagster.resources.java_home import ensure_java

SPARK_BUCKETS = 4


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=7)
    rows = measure.scaled(2_000_000, arguments)
    measure.print_header("Dynamic buckets", data=f"{rows:,} rows of 4 columns in random order", packages=("pyspark",))
    ensure_java()
    session = new_session({})
    bars = []
    with tempfile.TemporaryDirectory() as folder:
        source = write_input(Path(folder) / "input", rows)
        for engine, data, buckets in (
            ("in process", pq.read_table(source), 1),
            ("on Spark", session.read.parquet(str(source)), SPARK_BUCKETS),
        ):
            catalog = lc.connect(f"{folder}/{engine}", spark=session)
            catalog.create_database("db")
            for what, is_known in (("new keys", False), ("known keys", True)):
                series = compared(catalog, data, buckets, arguments.rounds, is_known=is_known)
                measure.print_table(f"{what}, {engine}", series, against="fixed")
                # With other files than those of fixed buckets the ratio would compare something else.
                assert {one.samples[0].value for one in series.values()} == {buckets}, series
                ratio = measure.cpu_ratio(series, "dynamic", "fixed")
                bars.append(measure.Bar(f"write of {what} {engine}, dynamic / fixed buckets (CPU)", ratio, 1.15, 1.08))
    session.stop()
    measure.print_bars(bars)


def compared(catalog: Catalog, data: Any, buckets: int, rounds: int, *, is_known: bool) -> dict[str, measure.Series]:
    """Return the writes of `data` to both kinds: each the first to its table, or the second one if `is_known`."""
    numbers = itertools.count()
    prepared: dict[str, lc.Table] = {}

    def table_of(count: int) -> lc.Table:
        options = {"bucket": str(count), "write-only": "true", "file.compression.zstd-level": "1"}
        return catalog.create_table(f"db.t{next(numbers)}", COLUMNS, primary_keys=["id"], options=options)

    def prepare() -> None:
        for name in catalog.tables("db"):
            catalog.drop_table(f"db.{name}")
        for name, count in (("fixed", buckets), ("dynamic", -1)):
            prepared[name] = table_of(count)
            if is_known:
                prepared[name].write(data)

    def write(name: str) -> int:
        return prepared[name].write(data).files_added

    return measure.interleave(
        {name: partial(write, name) for name in ("fixed", "dynamic")}, rounds=rounds, before_each=prepare
    )


if __name__ == "__main__":
    main()
