"""Merge read: Parquet runs of one bucket → Arrow batches, one row for each key, in this process and one thread.

Against decoding every column of the same files with pyarrow (the floor), and shapes against each other. Keys alone, as
a MERGE reads them of the rows that its source may match, against all columns.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import _measure as measure
from benchmarks._shapes import Shape, floor_read, make_shape
from lakehouse_core.clock import SystemClock
from lakehouse_core.storage import open_store
from lakehouse_core.tasks.read import read_split
from lakehouse_core.tasks.runtime import TaskRuntime

RUNS = {"narrow": 4, "wide": 4, "composite": 4, "string": 4, "edge": 4, "late": 4, "falling": 10}


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(2_000_000, arguments)
    measure.print_header("Merge read", data=f"4 runs of {rows:,} rows each (falling: ten), one bucket, zstd 1")
    with tempfile.TemporaryDirectory() as folder:
        shapes = {name: make_shape(Path(folder) / name, name, runs=runs, rows=rows) for name, runs in RUNS.items()}
        alternatives = {}
        for name, shape in shapes.items():
            alternatives[f"{name}: Parquet read"] = partial(floor_read, shape)
            alternatives[f"{name}: merge read"] = partial(merge_read, shape)
            if name in {"narrow", "wide"}:
                alternatives[f"{name}: keys"] = partial(merge_read, shape, ["k"])
        series = measure.interleave(alternatives, rounds=arguments.rounds)
    measure.print_table("Merge read", series)
    ratio = partial(measure.cpu_ratio, series)
    bars = [
        measure.Bar("narrow / Parquet read", ratio("narrow: merge read", "narrow: Parquet read"), 2.2, 1.5),
        measure.Bar("wide / Parquet read", ratio("wide: merge read", "wide: Parquet read"), 1.5, 1.2),
        measure.Bar("composite key / narrow", ratio("composite: merge read", "narrow: merge read"), 2.5, 2.0),
        measure.Bar("string key / narrow", ratio("string: merge read", "narrow: merge read"), 2.0, 1.5),
        measure.Bar("edges overlap / Parquet read", ratio("edge: merge read", "edge: Parquet read"), 1.5, 1.1),
        measure.Bar("late keys too / Parquet read", ratio("late: merge read", "late: Parquet read"), 1.5, 1.1),
        measure.Bar("ten falling runs / Parquet read", ratio("falling: merge read", "falling: Parquet read"), 2.0, 1.3),
        measure.Bar("narrow: keys / all 4 columns", ratio("narrow: keys", "narrow: merge read"), 0.8, 0.7),
        measure.Bar("wide: keys / all 20 columns", ratio("wide: keys", "wide: merge read"), 0.25, 0.2),
    ]
    measure.print_bars(bars)


def merge_read(shape: Shape, columns: Sequence[str] | None = None) -> int:
    task = shape.read_task()
    task = replace(task, columns=tuple(columns or task.columns))
    return sum(batch.num_rows for batch in read_split(task, TaskRuntime(SystemClock(), open_store)))


if __name__ == "__main__":
    main()
