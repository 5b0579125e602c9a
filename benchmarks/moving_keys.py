"""Where the keys of a table are, if they move between partitions: what a write must read before it can place a row.

2 M keys (BIGINT, with INT, STRING, DOUBLE) in ten partitions, once as one sorted run in each bucket and once as two
that must be merged. A write of one row keeps few of the keys, one of many rows all of them. Each runs in a new process;
what the same write takes in an empty table is taken off.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure
from lakehouse_core.execution.tasks.write.keys import placer

COLUMNS = {"id": "BIGINT NOT NULL", "day": "INT", "name": "STRING", "price": "DOUBLE"}
# The bars are those of the design: CPU seconds for 2 M keys, and MB in all.
MUST_SECONDS, AIM_SECONDS, MUST_MEGABYTES, AIM_MEGABYTES = 1.5, 1.0, 512, 400


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=3)
    keys = measure.scaled(2_000_000, arguments)
    measure.print_header("Keys that move between partitions", data=f"{keys:,} keys in ten partitions")
    rows, bars = [], []
    with tempfile.TemporaryDirectory() as folder:
        make(folder, keys)
        for name, runs in (("empty", "none"), ("one", "one run"), ("two", "two runs")):
            for keeps_all in (False, True):
                taken = [measure.fresh(write, folder, name, keeps_all) for _ in range(arguments.rounds)]
                seconds = min(one.value for one in taken)
                megabytes = max(one.peak_bytes for one in taken) / 1e6
                kept = "all keys" if keeps_all else "few keys"
                rows.append((runs, kept, f"{seconds:.2f}", f"{megabytes:.0f}"))
                if name == "empty":
                    least = seconds
                    continue
                what = f"{runs}, {kept} kept"
                bars.append(measure.Bar(f"{what} (CPU)", seconds - least, MUST_SECONDS, AIM_SECONDS, unit=" s"))
                bars.append(measure.Bar(f"{what} (memory)", megabytes, MUST_MEGABYTES, AIM_MEGABYTES, unit=" MB"))
    measure.print_rows("a write of one row", ("the table has", "it keeps", "CPU s", "MB"), rows)
    measure.print_bars(bars)


def make(folder: str, keys: int) -> None:
    catalog = lc.connect(folder)
    catalog.create_database("db")
    for name, writes in (("empty", 0), ("one", 1), ("two", 2)):
        table = catalog.create_table(
            f"db.{name}", COLUMNS, primary_keys=["id"], partition_keys=["day"], options={"write-only": "true"}
        )
        for _ in range(writes):
            table.write(data_of(keys))


def data_of(keys: int) -> pa.Table:
    random = np.random.default_rng(1)
    numbers = random.permutation(keys)
    return pa.table(
        {
            "id": numbers,
            "day": pa.array(numbers % 10, pa.int32()),
            "name": pa.array([f"name {number % 1000}" for number in range(keys)]),
            "price": random.random(keys),
        }
    )


def write(folder: str, name: str, keeps_all: bool) -> float:
    """Return the CPU seconds of a write of one row."""
    if keeps_all:
        placer._FIRST_BYTES = 0
    table = lc.connect(Path(folder)).table(f"db.{name}")
    row = pa.table({"id": [-1], "day": pa.array([0], pa.int32()), "name": ["x"], "price": [1.0]})
    return measure.sample(lambda: table.write(row)).cpu_seconds


if __name__ == "__main__":
    main()
