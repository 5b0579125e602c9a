"""Runs to merge, written by the write task: the shapes that the benchmarks are about.

narrow: int64 key, string, double, timestamp · wide: 20 columns · sparse: wide, three of four values null · composite:
(string, int64) key · string: 21-byte key · edge: time-ordered runs that overlap by 2 % at their ends · late: the same,
and keys scattered over all earlier runs · falling: each run about half of the one before, the least 1/400 of the first.
Keys of a run are drawn from twice as many (falling: as the first run has), so each key is in half of the runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_core.clock import SystemClock
from lakehouse_core.planning.compaction.bucket import plan_bucket
from lakehouse_core.storage import LocalStore, open_store
from lakehouse_core.table.data_file import EMPTY_ROW, DataFile
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.schema import TableSchema, new_schema
from lakehouse_core.table.split import Split
from lakehouse_core.tasks.compact import RewriteTask
from lakehouse_core.tasks.read import ReadTask
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.task import WriteTask, write_batches

Keys = npt.NDArray[np.int64]

NARROW = {"k": "BIGINT", "s": "STRING", "x": "DOUBLE", "t": "TIMESTAMP(6)"}
WIDE = {"k": "BIGINT"} | {f"c{i}": ("INT", "BIGINT", "DOUBLE", "STRING", "TIMESTAMP(6)")[i % 5] for i in range(19)}
COLUMNS = {
    "narrow": NARROW,
    "wide": WIDE,
    "sparse": WIDE,
    "falling": NARROW,
    "composite": {"tenant": "STRING", **NARROW},
    "string": {**NARROW, "k": "STRING"},
    "edge": NARROW,
    "late": NARROW,
}
_KIND = "rowkind"
PRIMARY_KEYS = {"composite": ["tenant", "k"]}
_MAKERS: dict[str, Callable[[np.random.Generator, int], pa.Array]] = {
    "INT": lambda random, rows: pa.array(random.integers(0, 2**31, rows, dtype=np.int32)),
    "BIGINT": lambda random, rows: pa.array(random.integers(0, 2**40, rows)),
    "DOUBLE": lambda random, rows: pa.array(random.random(rows)),
    "STRING": lambda random, rows: pa.array(random.integers(0, 10**9, rows)).cast(pa.string()),
    "TIMESTAMP(6)": lambda random, rows: pa.array(random.integers(0, 2**50, rows)).cast(pa.timestamp("us")),
}


@dataclass(frozen=True)
class Shape:
    """A bucket of files on disk, oldest first."""

    root: str
    name: str
    schema: TableSchema
    files: tuple[DataFile, ...]

    @property
    def paths(self) -> list[str]:
        return [f"{self.root}/bucket-0/{file.file_name}" for file in self.files]

    @property
    def row_count(self) -> int:
        return sum(file.row_count for file in self.files)

    def with_options(self, options: Mapping[str, str]) -> "Shape":
        """Return the same files as those of a table with other options."""
        return replace(self, schema=schema_of(self.name, **{**self.schema.options, **options}))

    def read_task(self, *, raw: bool = False, deletions: Mapping[str, DeletionFile] | None = None) -> ReadTask:
        split = Split(
            snapshot_id=1,
            partition=EMPTY_ROW,
            bucket=0,
            total_buckets=1,
            folder="bucket-0",
            files=self.files,
            raw=raw,
            deletions=deletions or {},
        )
        store = LocalStore(self.root)
        return ReadTask(store=store.spec, schema=self.schema, split=split, columns=self.schema.column_names)

    def rewrite_task(self) -> RewriteTask:
        plan = plan_bucket(self.files, self.schema)
        assert plan is not None
        return RewriteTask(
            store=LocalStore(self.root).spec,
            schema=self.schema,
            file_schemas={},
            partition=EMPTY_ROW,
            bucket=0,
            total_buckets=1,
            folder="bucket-0",
            plan=plan,
        )


def make_shape(root: Path, name: str, *, runs: int, rows: int, deletes: float = 0, seed: int = 1) -> Shape:
    """Write `runs` runs of `rows` rows each below `root`; `deletes`: which share of them is -D."""
    random = np.random.default_rng(seed)
    chance = np.random.default_rng(seed + 1)
    schema = schema_of(name, **{"write-buffer-size": "1 gb", "target-file-size": "8 gb"})
    store = LocalStore(str(root))
    files: list[DataFile] = []
    next_number = 0
    for run in range(runs):
        data = columns_of(name, _keys(name, random, run, rows), random)
        kinds = np.where(chance.random(data.num_rows) < deletes, "-D", "+I")
        data = data.append_column(_KIND, pa.array(kinds)) if deletes else data
        task = WriteTask(
            store=store.spec,
            schema=schema,
            next_sequence_numbers={(EMPTY_ROW, 0): next_number},
            rowkind_column=_KIND if deletes else None,
        )
        (message,) = write_batches(task, data.to_batches(), TaskRuntime(SystemClock(), open_store))
        files += message.new_files
        next_number += rows
    return Shape(str(root), name, schema, tuple(files))


def schema_of(name: str, **options: str) -> TableSchema:
    return new_schema(
        COLUMNS[name],
        primary_keys=PRIMARY_KEYS.get(name, ["k"]),
        options={"bucket": "1", **options},
        now_millis=0,
    )


def columns_of(name: str, keys: Keys, random: np.random.Generator) -> pa.Table:
    """Return rows with these keys, in the order of a table of this shape."""
    columns = {}
    for column, kind in COLUMNS[name].items():
        if column == "tenant":
            columns[column] = pa.array([f"tenant-{number:04}" for number in range(1000)]).take(pa.array(keys % 1000))
        elif column == "k" and kind == "STRING":
            columns[column] = pa.array([f"user-{key:016}" for key in keys.tolist()])
        elif column == "k":
            columns[column] = pa.array(keys // 1000 if name == "composite" else keys)
        else:
            columns[column] = _MAKERS[kind](random, len(keys))
            if name == "sparse":
                absent = pa.array(random.random(len(keys)) < 0.75)
                columns[column] = pc.if_else(absent, pa.scalar(None, columns[column].type), columns[column])
    return pa.table(columns)


def floor_read(shape: Shape) -> int:
    """Decode the files, every column, and return the rows: what no reader of them can do without."""
    rows = 0
    for path in shape.paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            rows += sum(batch.num_rows for batch in file.iter_batches(batch_size=65536, use_threads=False))
    return rows


def floor_write(rows: pa.Table, path: Path) -> None:
    """Encode rows as a data file has them, once: what no compaction can do without."""
    pq.write_table(rows, path, compression="zstd", compression_level=1, use_dictionary=False, row_group_size=1 << 17)


def _keys(name: str, random: np.random.Generator, run: int, rows: int) -> Keys:
    if name == "falling":
        # Ten runs, the greatest of them 400 times the least.
        return random.choice(2 * rows, max(1, int(rows * 400 ** (-run / 9))), replace=False).astype(np.int64)
    if name not in ("edge", "late"):
        return random.choice(2 * rows, rows, replace=False).astype(np.int64)
    # Even numbers, so that late keys can be odd and new.
    begin = run * int(rows * 0.98)
    keys = 2 * np.arange(begin, begin + rows, dtype=np.int64)
    if name == "late" and run:
        keys[::1000] = 2 * random.choice(begin, len(keys[::1000]), replace=False) + 1
    return random.permutation(keys)
