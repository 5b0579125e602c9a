"""Compaction of an append table: a thousand small files → one, in this process and one thread.

Against decoding the same files and encoding their rows, both with pyarrow (the floor).
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks import _measure as measure
from benchmarks._shapes import COLUMNS, Shape, columns_of, floor_read, floor_write
from benchmarks.compaction import compact
from lakehouse_core.clock import SystemClock
from lakehouse_core.storage import LocalStore, open_store
from lakehouse_core.table.data_file import EMPTY_ROW, DataFile
from lakehouse_core.table.schema import new_schema
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.task import WriteTask, write_batches

SHAPES: Final = ("narrow", "wide")


def main() -> None:
    arguments = measure.arguments(__doc__)
    files, rows = measure.scaled(1_000, arguments), 5_000
    measure.print_header("Append compaction", data=f"{files:,} files of {rows:,} rows each, one bucket, zstd 1")
    bars = []
    for name in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            shape = make_append_shape(Path(folder) / name, name, files=files, rows=rows)
            whole = columns_of(name, np.arange(files * rows, dtype=np.int64), np.random.default_rng(1))
            alternatives: dict[str, Callable[[], object]] = {
                "Parquet read": partial(floor_read, shape),
                "Parquet write": partial(floor_write, whole, Path(folder) / "floor.parquet"),
                "compaction": partial(compact, shape),
            }
            series = measure.interleave(alternatives, rounds=arguments.rounds)
        measure.print_table(f"{name}, {shape.row_count:,} rows", series)
        floor = series["Parquet read"].cpu_seconds + series["Parquet write"].cpu_seconds
        bars.append(measure.Bar(f"{name} / (read + write)", series["compaction"].cpu_seconds / floor, 1.5, 1.2))
    measure.print_bars(bars)


def make_append_shape(root: Path, name: str, *, files: int, rows: int) -> Shape:
    """Write small files of a table without a key below `root`."""
    random = np.random.default_rng(1)
    options = {"bucket": "1", "bucket-key": "k", "target-file-size": "8 gb"}
    schema = new_schema(COLUMNS[name], options=options, now_millis=0)
    store = LocalStore(str(root))
    made: list[DataFile] = []
    for number in range(files):
        data = columns_of(name, np.arange(number * rows, (number + 1) * rows, dtype=np.int64), random)
        task = WriteTask(store=store.spec, schema=schema, next_sequence_numbers={(EMPTY_ROW, 0): number * rows})
        (message,) = write_batches(task, pa.Table.to_batches(data), TaskRuntime(SystemClock(), open_store))
        made += message.new_files
    return Shape(str(root), name, schema, tuple(made))


if __name__ == "__main__":
    main()
