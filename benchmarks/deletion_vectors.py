"""Raw read of files with deletion vectors that mark one row of a hundred, in this process and one thread.

Against decoding every column of the same files with pyarrow (the floor), and against reading them without vectors.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import _measure as measure
from benchmarks._shapes import Shape, floor_read, make_shape
from lakehouse_core.clock import SystemClock
from lakehouse_core.data_files.deletion_vector_writer import IndexFolder, change_vectors
from lakehouse_core.storage import LocalStore, open_store
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.tasks.read import read_split
from lakehouse_core.tasks.runtime import TaskRuntime

SHAPES: Final = ("narrow", "wide")
MARKED: Final = 0.01


@dataclass(frozen=True)
class MarkedFiles:
    """Files of a bucket, and where the vectors of their rows lie."""

    shape: Shape
    deletions: Mapping[str, DeletionFile]

    @classmethod
    def make(cls, root: Path, name: str, *, runs: int, rows: int) -> "MarkedFiles":
        """Write files and mark rows of each by chance."""
        shape = make_shape(root, name, runs=runs, rows=rows)
        shape = shape.with_options({"deletion-vectors.enabled": "true"})
        random = np.random.default_rng(1)
        marks = {
            file.file_name: np.flatnonzero(random.random(file.row_count) < MARKED).astype(np.int64)
            for file in shape.files
        }
        options = shape.schema.table_options.deletion_vectors
        folder = IndexFolder(store=LocalStore(shape.root), options=options, has_buckets=True)
        (index,) = change_vectors(folder, (), SystemClock(), marks=marks).new
        deletions = {
            vector.data_file_name: DeletionFile(
                key=f"{INDEX_FOLDER}/{index.file_name}",
                offset=vector.offset,
                length=vector.length,
                cardinality=vector.cardinality,
            )
            for vector in index.deletion_vectors or ()
        }
        return cls(shape, deletions)


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(4_000_000, arguments)
    measure.print_header(
        "Deletion vectors", data=f"2 files of {rows:,} rows each (wide: a quarter), one row of a hundred marked, zstd 1"
    )
    bars = []
    for name in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            marked = MarkedFiles.make(Path(folder), name, runs=2, rows=rows // 4 if name == "wide" else rows)
            alternatives = {
                "Parquet read": partial(floor_read, marked.shape),
                "read without vectors": partial(raw_read, MarkedFiles(marked.shape, {})),
                "read": partial(raw_read, marked),
            }
            series = measure.interleave(alternatives, rounds=arguments.rounds)
        measure.print_table(f"{name}, {marked.shape.row_count:,} rows", series, against="Parquet read")
        bars.append(
            measure.Bar(f"{name} / Parquet read", measure.cpu_ratio(series, "read", "Parquet read"), 1.15, 1.05)
        )
    measure.print_bars(bars)


def raw_read(marked: MarkedFiles) -> int:
    """Read the files one by one, as no key were in two of them, and return the rows that are left."""
    task = marked.shape.read_task(raw=True, deletions=marked.deletions)
    return sum(batch.num_rows for batch in read_split(task, TaskRuntime(SystemClock(), open_store)))


if __name__ == "__main__":
    main()
