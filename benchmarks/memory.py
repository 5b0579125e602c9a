"""Peak memory of a merge read and of a compaction, each in a fresh process, for a bucket and one of twice its size.

And of a write whose rows are ten and forty times its buffer.

Flat is what counts: the peak is that of chunks, pages and row groups, whatever the bucket holds.
"""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import _measure as measure
from benchmarks._shapes import Shape, columns_of, make_shape
from benchmarks.compaction import compact
from benchmarks.flush import flush_batches
from benchmarks.merge_read import merge_read

RUNS = 4
BATCH_ROWS = 16 * 1024
# So few that ten buffers fill more than a row group of each bucket: what is held of the files made is as much as ever.
_SPILLED_BUCKETS = 4


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(2_000_000, arguments)
    measure.print_header("Memory", data=f"{RUNS} runs of {rows:,} (and twice as many) rows each, one bucket, zstd 1")
    bars: list[measure.Bar] = []
    table: list[list[object]] = []
    for name, must, aim in (("narrow", 512, 345), ("wide", 800, 560)):
        with tempfile.TemporaryDirectory() as folder:
            # The makers need memory, too: each is a process of its own.
            shapes = [
                measure.fresh(
                    partial(make_shape, runs=RUNS, rows=rows * factor), Path(folder) / str(factor), name
                ).value
                for factor in (1, 2)
            ]
            for what, work in (("merge read", merge_read), ("compaction", compact)):
                single, double = (_peak_mb(work, shape) for shape in shapes)
                table.append([f"{name}: {what}", f"{single:.0f}", f"{double:.0f}"])
                if name == "narrow" or what == "merge read":
                    bars.append(measure.Bar(f"{name}: {what}, larger bucket", max(single, double), must, aim, "MB"))
                bars.append(measure.Bar(f"{name}: {what}, twice the rows", double / single, 1.05, 1.0))
    measure.print_rows("Peak resident set, MB", ["", "bucket", "twice the rows"], table)
    measure.print_bars(bars)
    _print_spilled(rows)


def _print_spilled(rows: int) -> None:
    table: list[list[object]] = []
    bars = []
    for name, engine in (("one version", "deduplicate"), ("all versions", "partial-update")):
        single, fourfold = (
            measure.fresh(spilled_flush, rows * factor, rows // 10, engine).peak_bytes / 1e6 for factor in (1, 4)
        )
        table.append([f"{name} of a key on disk", f"{single:.0f}", f"{fourfold:.0f}"])
        bars.append(measure.Bar(f"{name} of a key on disk, four times the rows", fourfold / single, 1.05, 1.0))
    measure.print_rows("Peak resident set of a write, MB", ["", "10 buffers", "40 buffers"], table)
    measure.print_bars(bars)


def spilled_flush(rows: int, buffer_rows: int, engine: str) -> int:
    """Write `rows` narrow rows that exist a batch at a time, through a buffer of about `buffer_rows`."""
    options = {"merge-engine": engine, "write-buffer-size": str(buffer_rows * _NARROW_ROW_BYTES)}
    with tempfile.TemporaryDirectory() as folder:
        return flush_batches(_narrow(rows), Path(folder) / "table", _SPILLED_BUCKETS, options)


# Key, text of nine digits with its offset, number, time.
_NARROW_ROW_BYTES = 37


def _narrow(rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    for first in range(0, rows, BATCH_ROWS):
        keys = random.integers(0, 2 * rows, min(BATCH_ROWS, rows - first))
        yield from columns_of("narrow", keys, random).to_batches()


def _peak_mb(work: Callable[[Shape], int], shape: Shape) -> float:
    return measure.fresh(work, shape).peak_bytes / 1e6


if __name__ == "__main__":
    main()
