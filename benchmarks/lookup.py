"""Lookups: random keys in one file of a bucket, from its local lookup file (warm) and with that to be built (cold).

The floor is decoding every column of the data file with pyarrow: a build cannot do without. Best of the rounds, as the
bars are in seconds. Memory of a cold and a warm lookup, in fresh processes, for a bucket and for one of four times its
size: the greatest resident set without mapped files, whose pages go when others need the room.
"""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks._shapes import COLUMNS, PRIMARY_KEYS, columns_of

SHAPES = ("narrow", "wide", "composite", "string")
SOUGHT = 20_000


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(2_000_000, arguments)
    measure.print_header("Lookup", data=f"one file of {rows:,} rows, zstd 1; {SOUGHT:,} keys, half of them there")
    bars: list[measure.Bar] = []
    with tempfile.TemporaryDirectory() as folder:
        tables = {name: make_table(Path(folder) / name, name, rows) for name in SHAPES}
        alternatives = {}
        for name, (table, keys) in tables.items():
            lookups = table.lookups(cache=f"{folder}/cache-{name}")
            lookups.get(keys)
            alternatives[f"{name}: Parquet read"] = partial(floor_read, table)
            alternatives[f"{name}: cold"] = partial(cold, table, keys)
            alternatives[f"{name}: warm"] = partial(lookups.get, keys)
        series = measure.interleave(alternatives, rounds=arguments.rounds)
        best = [
            [name, f"{one.best_wall_seconds * 1000:.1f}", f"{one.best_cpu_seconds * 1000:.0f}"]
            for name, one in series.items()
        ]
        measure.print_rows("Lookup, best of the rounds", ["", "wall ms", "CPU ms"], best)
        bars.append(measure.Bar("narrow, warm", series["narrow: warm"].best_wall_seconds * 1000, 15, 9, "ms"))
        bars.append(measure.Bar("narrow, cold", series["narrow: cold"].best_wall_seconds, 0.4, 0.25, "s"))
        single, fourfold = (peak_mb(Path(folder) / f"memory-{factor}", rows * factor) for factor in (1, 4))
        measure.print_rows(
            "Peak memory, MB",
            ["", "bucket", "four times the rows"],
            [["narrow: cold and warm", f"{single:.0f}", f"{fourfold:.0f}"]],
        )
        bars.append(measure.Bar("narrow: memory, four times the rows", fourfold / single, 1.05, 1.0))
    measure.print_bars(bars)


def make_table(folder: Path, name: str, rows: int) -> tuple[lc.Table, pa.Table]:
    """Return a table whose only file has `rows` rows, and keys of which every other one is there."""
    random = np.random.default_rng(1)
    catalog = lc.connect(folder)
    catalog.create_database("bench")
    options = {"bucket": "1", "write-buffer-size": "2 gb", "target-file-size": "8 gb"}
    primary_keys = PRIMARY_KEYS.get(name, ["k"])
    table = catalog.create_table("bench.t", COLUMNS[name], primary_keys=primary_keys, options=options)
    table.write(columns_of(name, 2 * np.arange(rows, dtype=np.int64), random))
    table.compact(full=True)
    sought = random.choice(2 * rows, SOUGHT, replace=False).astype(np.int64)
    return table, columns_of(name, sought, random).select(primary_keys)


def cold(table: lc.Table, keys: pa.Table) -> int:
    with tempfile.TemporaryDirectory() as cache:
        return int(table.lookup(keys, cache=cache).num_rows)


def floor_read(table: lc.Table) -> int:
    (file,) = table.files()
    with pq.ParquetFile(f"{table.uri.removeprefix('file://')}/{file.path}", pre_buffer=False) as parquet:
        return sum(batch.num_rows for batch in parquet.iter_batches(batch_size=65536, use_threads=False))


def peak_mb(folder: Path, rows: int) -> float:
    measure.fresh(partial(_write, folder, rows))
    return float(measure.fresh(partial(_look_up, folder, rows)).value)


def _write(folder: Path, rows: int) -> None:
    make_table(folder, "narrow", rows)


def _look_up(folder: Path, rows: int) -> float:
    keys = pa.table({"k": np.random.default_rng(2).choice(2 * rows, SOUGHT, replace=False).astype(np.int64)})
    table = lc.connect(folder).table("bench.t")
    with _watched() as seen, table.lookups() as lookups:
        lookups.get(keys)
        lookups.get(keys)
    return max(seen) / 1e3


@contextmanager
def _watched() -> Iterator[list[int]]:
    """Look at the resident set without mapped files, in KiB, all the time: the kernel keeps no peak of it."""
    seen, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.002):
            seen.append(_kib(Path("/proc/self/status").read_text(), "RssAnon"))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _kib(status: str, name: str) -> int:
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main()
