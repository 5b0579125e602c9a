"""Reads with deletion vectors: one file, no merge, without the rows that its vector marks.

Against decoding every column of the same file with pyarrow (the floor), and against reading it without a vector.
"""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import _measure as measure
from benchmarks._shapes import Shape, floor_read, make_shape
from lakehouse_core.execution.tasks.freed_memory import keep_freed_memory
from lakehouse_core.execution.tasks.read import ReadTask, read_split
from lakehouse_core.format.deletion_vector import encode_index_file, encode_vector
from lakehouse_core.table.deletion_file import DeletionFile

SHAPES = ("narrow", "wide")
# One row in so many is marked, at random places.
MARKED = (1000, 100, 10)


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(2_000_000, arguments)
    keep_freed_memory()
    measure.print_header("Deletion vectors", data=f"one file of {rows:,} rows, zstd 1")
    with tempfile.TemporaryDirectory() as folder:
        alternatives = {}
        for name in SHAPES:
            shape = make_shape(Path(folder) / name, name, runs=1, rows=rows)
            alternatives[f"{name}: Parquet read"] = partial(floor_read, shape)
            alternatives[f"{name}: none marked"] = partial(read, raw_task(shape))
            for marked in MARKED:
                alternatives[f"{name}: 1 in {marked} marked"] = partial(read, marked_task(shape, marked))
        series = measure.interleave(alternatives, rounds=arguments.rounds)
    measure.print_table("Deletion vectors", series)
    ratio = partial(measure.cpu_ratio, series)
    measure.print_bars(
        [
            measure.Bar(
                f"{name}, 1 in {marked} / Parquet read",
                ratio(f"{name}: 1 in {marked} marked", f"{name}: Parquet read"),
                1.15,
                1.05,
            )
            for name in SHAPES
            for marked in MARKED
        ]
    )


def raw_task(shape: Shape) -> ReadTask:
    task = shape.read_task()
    return replace(task, split=replace(task.split, raw=True))


def marked_task(shape: Shape, marked: int) -> ReadTask:
    """Mark one row in `marked` of the shape's file."""
    task, (file,) = raw_task(shape), shape.files
    rows = np.random.default_rng(marked).choice(file.row_count, file.row_count // marked, replace=False)
    data, (span,) = encode_index_file([encode_vector(rows, bits64=False)])
    key = f"index/index-{marked}"
    path = Path(shape.root) / key
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    deletion = DeletionFile(key=key, offset=span.offset, length=span.length, cardinality=len(rows))
    return replace(task, split=replace(task.split, deletions={file.file_name: deletion}))


def read(task: ReadTask) -> int:
    return sum(batch.num_rows for batch in read_split(task))


if __name__ == "__main__":
    main()
