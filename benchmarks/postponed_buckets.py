"""A write to postponed buckets and its compaction against those of a table with as many fixed buckets; each a whole
verb with its commit, in process.

500,000 rows of BIGINT key, INT, STRING, DOUBLE in random order, from memory, in Parquet.
"""

import itertools
import tempfile

import numpy as np
import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure
from lakehouse_core.catalog.catalog import Catalog

BUCKETS = 4
COLUMNS = {"id": "BIGINT NOT NULL", "count": "INT", "name": "STRING", "price": "DOUBLE"}


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=5)
    rows = measure.scaled(500_000, arguments)
    measure.print_header("Postponed buckets", data=f"{rows:,} rows of 4 columns in random order")
    data = data_of(rows)
    bars = []
    with tempfile.TemporaryDirectory() as folder:
        catalog = lc.connect(folder)
        catalog.create_database("db")
        for what, compacts, must, aim in (("write", False, 0.67, 0.5), ("write and full compaction", True, 1.3, 1.2)):
            series = compared(catalog, data, arguments.rounds, compacts=compacts)
            measure.print_table(what, series, against="fixed")
            ratio = measure.cpu_ratio(series, "postponed", "fixed")
            bars.append(measure.Bar(f"{what}, postponed / fixed buckets (CPU)", ratio, must, aim))
    measure.print_bars(bars)


def data_of(rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "id": random.permutation(rows),
            "count": pa.array(random.integers(0, 1000, rows), pa.int32()),
            "name": pa.array([f"name {number % 1000}" for number in range(rows)]),
            "price": random.random(rows),
        }
    )


def compared(catalog: Catalog, data: pa.Table, rounds: int, *, compacts: bool) -> dict[str, measure.Series]:
    numbers = itertools.count()
    prepared: dict[str, lc.Table] = {}
    postponed = {"bucket": "-2", "postpone.default-bucket-num": str(BUCKETS)}

    def prepare() -> None:
        for name in catalog.tables("db"):
            catalog.drop_table(f"db.{name}")
        for name, options in (("fixed", {"bucket": str(BUCKETS), "write-only": "true"}), ("postponed", postponed)):
            prepared[name] = catalog.create_table(f"db.t{next(numbers)}", COLUMNS, primary_keys=["id"], options=options)

    def work(name: str) -> int:
        table = prepared[name]
        table.write(data)
        if compacts:
            table.compact(full=True)
        return len(table.files())

    return measure.interleave(
        {name: lambda name=name: work(name) for name in ("fixed", "postponed")}, rounds=rounds, before_each=prepare
    )


if __name__ == "__main__":
    main()
