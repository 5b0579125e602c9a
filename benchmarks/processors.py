"""Work without Spark that uses several processors: a full compaction of four buckets, a rescale of these, a scan of an
append table, a DELETE that writes files anew; each with one processor of this machine and with all. The scan also
against pyarrow, which reads the same files in threads of its own.

Time on the wall is what matters here, so it is the ratio that is held against the bars; two processors are needed.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

import lakehouse_core as lc
from benchmarks import _measure as measure

ROWS = 4_000_000
WRITES = 4
COLUMNS = {"k": "BIGINT NOT NULL", "a": "INT", "s": "STRING", "x": "DOUBLE"}


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(ROWS, arguments)
    measure.print_header("Processors", data=f"{WRITES} writes of {rows // 2:,} rows, four columns, in each table")
    bars = []
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        fill(made, rows)
        work: dict[str, Callable[[Path], object]] = {
            "compaction": lambda root: table(root, "keyed").compact(full=True),
            "rescale": lambda root: table(root, "keyed").rescale(8),
            "scan": lambda root: table(root, "appended").scan().to_arrow(),
            "delete": lambda root: table(root, "appended").delete("a < 10"),
        }
        peer = partial(plain_read, made / "db.db" / "appended")
        for name, carry_out in work.items():
            alternatives: dict[str, Callable[[], object]] = {
                "one processor": partial(on_one, partial(on_a_copy, made, carry_out)),
                "all processors": partial(on_a_copy, made, carry_out),
                **({"pyarrow, in threads": peer} if name == "scan" else {}),
            }
            series = measure.interleave(alternatives, rounds=arguments.rounds)
            measure.print_table(name, series)
            one, every = series["one processor"].wall_seconds, series["all processors"].wall_seconds
            bars.append(measure.Bar(f"{name}: all processors / one, on the wall", every / one, 0.9, 0.65))
    measure.print_bars(bars)


def fill(root: Path, rows: int) -> None:
    random = np.random.default_rng(5)
    catalog = lc.connect(str(root))
    catalog.create_database("db")
    keyed = catalog.create_table("db.keyed", COLUMNS, primary_keys=["k"], options={"bucket": "4", "write-only": "true"})
    appended = catalog.create_table("db.appended", COLUMNS)
    for _ in range(WRITES):
        keys = random.permutation(rows)[: rows // 2]
        data = pa.table(
            {
                "k": keys,
                "a": pa.array(random.integers(0, 1_000, len(keys)), pa.int32()),
                "s": pa.array(random.integers(0, 10**9, len(keys))).cast(pa.string()),
                "x": random.random(len(keys)),
            }
        )
        keyed.write(data)
        appended.write(data)


def table(root: Path, name: str) -> lc.Table:
    return lc.connect(str(root)).table(f"db.{name}")


def on_a_copy(made: Path, carry_out: Callable[[Path], object]) -> object:
    """Carry out the work on a copy of links, which later rounds find as this one did."""
    root = made.with_name("copy")
    shutil.copytree(made, root, copy_function=os.link)
    try:
        return carry_out(root)
    finally:
        shutil.rmtree(root)


def on_one(work: Callable[[], object]) -> object:
    with one_processor():
        return work()


@contextmanager
def one_processor() -> Iterator[None]:
    """Let this thread, and those that it starts, use one processor in the block. Handles that are opened in it start
    no threads.
    """
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def plain_read(folder: Path) -> pa.Table:
    return ds.dataset([str(path) for path in folder.rglob("*.parquet")]).to_table()


if __name__ == "__main__":
    main()
