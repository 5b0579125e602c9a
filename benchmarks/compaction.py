"""Full compaction of one bucket: Parquet runs → sorted files of the top level, in this process and one thread.

Against decoding the same files and encoding the rows that are left, both with pyarrow (the floor). Also that memory
stays flat: see `memory`.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import _measure as measure
from benchmarks._shapes import Shape, floor_read, floor_write, make_shape
from lakehouse_core.clock import SystemClock
from lakehouse_core.storage import open_store
from lakehouse_core.tasks.compact import rewrite_bucket
from lakehouse_core.tasks.runtime import TaskRuntime

SHAPES = ("narrow", "wide", "composite")
RUNS = 4


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(2_000_000, arguments)
    measure.print_header("Compaction", data=f"{RUNS} runs of {rows:,} rows each, one bucket, zstd 1")
    bars = []
    for name in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            shape = make_shape(Path(folder) / name, name, runs=RUNS, rows=rows)
            left = _compacted_rows(shape)
            alternatives: dict[str, Callable[[], object]] = {
                "Parquet read": partial(floor_read, shape),
                "Parquet write": partial(floor_write, left, Path(folder) / "floor.parquet"),
                "compaction": partial(compact, shape),
            }
            series = measure.interleave(alternatives, rounds=arguments.rounds)
        measure.print_table(f"{name}, {shape.row_count:,} rows in, {left.num_rows:,} out", series)
        floor = series["Parquet read"].cpu_seconds + series["Parquet write"].cpu_seconds
        must, aim = (1.5, 1.25) if name != "composite" else (2.0, 1.5)
        bars.append(measure.Bar(f"{name} / (read + write)", series["compaction"].cpu_seconds / floor, must, aim))
    measure.print_bars(bars)


def compact(shape: Shape) -> int:
    """Compact and delete the result, so that the next round finds what this one found."""
    message = rewrite_bucket(shape.rewrite_task(), TaskRuntime(SystemClock(), open_store))
    before = {file.file_name for file in message.compact_before}
    for file in message.compact_after:
        if file.file_name not in before:
            (Path(shape.root) / "bucket-0" / file.file_name).unlink()
    return sum(file.row_count for file in message.compact_after)


def _compacted_rows(shape: Shape) -> pa.Table:
    message = rewrite_bucket(shape.rewrite_task(), TaskRuntime(SystemClock(), open_store))
    paths = [Path(shape.root) / "bucket-0" / file.file_name for file in message.compact_after]
    rows = pa.concat_tables([pq.read_table(path) for path in paths])
    for path in paths:
        path.unlink()
    return rows


if __name__ == "__main__":
    main()
