"""A write to postponed buckets, the compaction that moves its rows, and both, against a table with as many fixed
buckets; each a whole verb with its commit, in process.

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
BARS = (
    ("postponed: write", "fixed: write", 0.67, 0.5),
    ("postponed: compact", "fixed: write", 1.3, 1.2),
    ("postponed: both", "fixed: both", 1.3, 1.2),
)
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
        series = compared(catalog, data, arguments.rounds)
    measure.print_table("postponed buckets", series, against="fixed: write")
    for name, against, must, aim in BARS:
        ratio = measure.cpu_ratio(series, name, against)
        bars.append(measure.Bar(f"{name} / {against} (CPU)", ratio, must, aim))
    # Rows a second: 1.5 times as many, and twice as many.
    wall = measure.wall_ratio(series, "postponed: write", "fixed: write")
    bars.append(measure.Bar("postponed: write / fixed: write (wall)", wall, 0.67, 0.5))
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


def compared(catalog: Catalog, data: pa.Table, rounds: int) -> dict[str, measure.Series]:
    numbers = itertools.count()
    prepared: dict[str, lc.Table] = {}
    postponed = {"bucket": "-2", "postpone.default-bucket-num": str(BUCKETS)}

    def prepare() -> None:
        for name in catalog.tables("db"):
            catalog.drop_table(f"db.{name}")
        for name, options in (("fixed", {"bucket": str(BUCKETS), "write-only": "true"}), ("postponed", postponed)):
            for verb in ("write", "compact", "both"):
                table = catalog.create_table(f"db.t{next(numbers)}", COLUMNS, primary_keys=["id"], options=options)
                prepared[f"{name}: {verb}"] = table
            prepared[f"{name}: compact"].write(data)

    def work(name: str) -> int:
        table = prepared[name]
        if not name.endswith("compact"):
            table.write(data)
        if not name.endswith("write"):
            table.compact(full=True)
        return table.scan().count() if name.endswith("both") else 0

    names = ("fixed: write", "fixed: both", "postponed: write", "postponed: compact", "postponed: both")
    works = {name: lambda name=name: work(name) for name in names}
    return measure.interleave(works, rounds=rounds, before_each=prepare)


if __name__ == "__main__":
    main()
