"""Where the keys of a table are, if they move between partitions: what a write must read before it can place a row.

2 M and 20 M keys (BIGINT, with INT, STRING, DOUBLE) in ten partitions, once as one sorted run in each bucket and once
as two that must be merged; `--keys 100M` takes 100 M instead, which need 10 GB of disk, or with `--runs one` a third of
that. A write of one row keeps few of the keys, one of many rows all of them. Each runs in a new process; what the same
write takes in an empty table is taken off.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure
from lakehouse_core.tasks.write.keys import placer

COLUMNS = {"id": "BIGINT NOT NULL", "day": "INT", "name": "STRING", "price": "DOUBLE"}
# The bars are those of the design: by million keys, CPU seconds that a write must and should take; and MB in all.
SECONDS = {2: (1.5, 1.0), 20: (15, 10), 100: (90, 60)}
MUST_MEGABYTES, AIM_MEGABYTES = 512, 400
# By table, how often all keys are written to it, and what to call that.
RUNS = {"empty": (0, "none"), "one": (1, "one run"), "two": (2, "two runs")}
# Rows that are made and given at once; a prime by which row numbers become keys in another order.
BATCH_ROWS = 1_000_000
STEP = 2_654_435_761


def main() -> None:
    arguments = measure.arguments(
        __doc__,
        rounds=3,
        texts={
            "keys": "how many keys, of 2M, 20M and 100M (default 2M,20M)",
            "runs": "how many sorted runs the tables have, of one and two (default one,two)",
        },
    )
    millions = [int(number.removesuffix("M")) for number in (arguments.keys or "2M,20M").split(",")]
    tables = ["empty", *(arguments.runs or "one,two").split(",")]
    counts = {number: measure.scaled(number * 1_000_000, arguments) for number in millions}
    measure.print_header(
        "Keys that move between partitions", data=f"{', '.join(f'{n:,}' for n in counts.values())} keys, ten partitions"
    )
    bars: list[measure.Bar] = []
    for number, keys in counts.items():
        with tempfile.TemporaryDirectory() as folder:
            bars += compared(folder, tables, keys, SECONDS[number], arguments.rounds)
    measure.print_bars(bars)


def compared(
    folder: str, tables: Sequence[str], keys: int, seconds: tuple[float, float], rounds: int
) -> list[measure.Bar]:
    """Print what writes to tables of so many keys take, and return their bars."""
    rows, bars = [], []
    for name in tables:
        make(folder, name, keys)
        runs = RUNS[name][1]
        for keeps_all in (False, True):
            taken = [measure.fresh(write, folder, name, keeps_all) for _ in range(rounds)]
            cpu_seconds, growth = min(one.value[0] for one in taken), max(one.value[1] for one in taken) / 1e6
            megabytes = max(one.peak_bytes for one in taken) / 1e6
            kept = "all keys" if keeps_all else "few keys"
            rows.append((runs, kept, f"{cpu_seconds:.2f}", f"{growth:.0f}", f"{megabytes:.0f}"))
            if name == "empty":
                least = cpu_seconds
                continue
            what = f"{keys:,} keys, {runs}, {kept} kept"
            bars.append(measure.Bar(f"{what} (CPU)", cpu_seconds - least, *seconds, unit=" s"))
            bars.append(measure.Bar(f"{what} (memory)", megabytes, MUST_MEGABYTES, AIM_MEGABYTES, unit=" MB"))
    header = ("the table has", "it keeps", "CPU s", "MB more", "MB in all")
    measure.print_rows(f"a write of one row to {keys:,} keys", header, rows)
    return bars


def make(folder: str, name: str, keys: int) -> None:
    catalog = lc.connect(folder)
    catalog.create_database("db", exist_ok=True)
    table = catalog.create_table(
        f"db.{name}", COLUMNS, primary_keys=["id"], partition_keys=["day"], options={"write-only": "true"}
    )
    for _ in range(RUNS[name][0]):
        table.write(pa.RecordBatchReader.from_batches(batch_of(np.empty(0, np.int64), 0).schema, batches(keys)))


def batches(keys: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, keys, BATCH_ROWS):
        numbers = np.arange(first, min(first + BATCH_ROWS, keys), dtype=np.int64)
        yield batch_of(numbers * STEP % keys, first)


def batch_of(keys: Any, seed: int) -> pa.RecordBatch:
    names = pa.array([f"name {number}" for number in range(1000)])
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(keys, pa.int64()),
            "day": pa.array(keys % 10, pa.int32()),
            "name": names.take(pa.array(keys % 1000)),
            "price": np.random.default_rng(seed).random(len(keys)),
        }
    )


def write(folder: str, name: str, keeps_all: bool) -> tuple[float, int]:
    """Return the CPU seconds of a write of one row, and by how many bytes the greatest resident set grew."""
    if keeps_all:
        # A constant elsewhere; this process ends after the write.
        vars(placer)["_FIRST_BYTES"] = 0
    table = lc.connect(Path(folder)).table(f"db.{name}")
    row = pa.table({"id": [-1], "day": pa.array([0], pa.int32()), "name": ["x"], "price": [1.0]})
    before = measure.peak_bytes()
    taken = measure.sample(lambda: table.write(row))
    return taken.cpu_seconds, measure.peak_bytes() - before


if __name__ == "__main__":
    main()
