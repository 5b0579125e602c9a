"""Flush: random rows in memory → sorted, deduplicated level-0 files of 16 buckets, in this process and one thread.

Against encoding the same rows, unsorted and unrouted, into as many files with pyarrow (the floor). And the same rows
through a buffer of a tenth of their size, which waits on local disk each time it is full, against one that holds all.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import _measure as measure
from benchmarks._shapes import columns_of, schema_of
from lakehouse_core.clock import SystemClock
from lakehouse_core.storage import LocalStore, open_store
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.task import WriteTask, write_batches

BUCKETS = 16


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(2_000_000, arguments)
    random = np.random.default_rng(1)
    data = columns_of("narrow", random.choice(2 * rows, rows, replace=False).astype(np.int64), random)
    measure.print_header("Flush", data=f"{rows:,} random narrow rows in memory, {BUCKETS} buckets, zstd 1")
    with tempfile.TemporaryDirectory() as folder:
        alternatives: dict[str, Callable[[], object]] = {
            "Parquet write": partial(_floor, _physical(data), Path(folder)),
            "flush, 16 buckets": partial(flush, data, Path(folder) / "many", BUCKETS),
            "flush, 1 bucket": partial(flush, data, Path(folder) / "one", 1),
        }
        series = measure.interleave(alternatives, rounds=arguments.rounds)
        # As a source would hand them over: no batch fills the small buffer alone.
        batches = data.to_batches(max_chunksize=rows // 80)
        small = {"write-buffer-size": str(data.nbytes // 10)}
        alternatives = {
            f"{name}: {size}": partial(flush_batches, batches, Path(folder) / "spilled", BUCKETS, {**engine, **buffer})
            for name, engine in (("one version", {}), ("all versions", {"merge-engine": "partial-update"}))
            for size, buffer in (("all in memory", {"write-buffer-size": "1 gb"}), ("spilled", small))
        }
        spilled = measure.interleave(alternatives, rounds=arguments.rounds)
    measure.print_table("Flush", series, against="Parquet write")
    measure.print_table("Spilled", spilled, against="one version: all in memory")
    share = rows / 2_000_000
    many = series["flush, 16 buckets"]
    measure.print_bars(
        [
            measure.Bar("flush, 16 buckets, best wall", many.best_wall_seconds, 0.9 * share, 0.55 * share, "s"),
            measure.Bar("flush, 16 buckets, best CPU", many.best_cpu_seconds, 0.9 * share, 0.55 * share, "s"),
            *(
                measure.Bar(
                    f"{name} of a key on disk, 10 times the buffer / all in memory",
                    measure.cpu_ratio(spilled, f"{name}: spilled", f"{name}: all in memory"),
                    2.0,
                    1.5,
                )
                for name in ("one version", "all versions")
            ),
        ]
    )


def flush(data: pa.Table, root: Path, buckets: int) -> int:
    return flush_batches(data.to_batches(max_chunksize=1 << 20), root, buckets, {})


def flush_batches(batches: Iterable[pa.RecordBatch], root: Path, buckets: int, options: Mapping[str, str]) -> int:
    """Write the batches, delete the files, and return how many there were."""
    schema = schema_of("narrow", **{"bucket": str(buckets), **options})
    task = WriteTask(store=LocalStore(str(root)).spec, schema=schema)
    messages = write_batches(task, batches, TaskRuntime(SystemClock(), open_store))
    shutil.rmtree(root)
    return sum(len(message.new_files) for message in messages)


def _physical(data: pa.Table) -> pa.Table:
    """The columns that a data file has."""
    numbers = pa.array(np.arange(data.num_rows))
    kinds = pa.array(np.zeros(data.num_rows, dtype=np.int8))
    names = ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", *data.column_names]
    return pa.table([data["k"], numbers, kinds, *data.columns], names=names)


def _floor(rows: pa.Table, folder: Path) -> None:
    share = rows.num_rows // BUCKETS
    for bucket in range(BUCKETS):
        part = rows.slice(bucket * share, share)
        pq.write_table(part, folder / "floor.parquet", compression="zstd", compression_level=1, use_dictionary=False)


if __name__ == "__main__":
    main()
