"""Peak memory of a merge read and of a compaction, each in a fresh process, for a bucket and one of twice its size.

Flat is what counts: the peak is that of chunks, pages and row groups, whatever the bucket holds.
"""

import tempfile
from functools import partial
from pathlib import Path

from benchmarks import _measure as measure
from benchmarks._shapes import Shape, make_shape
from benchmarks.compaction import compact
from benchmarks.merge_read import merge_read

RUNS = 4


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


def _peak_mb(work: measure.Callable[[Shape], int], shape: Shape) -> float:
    return measure.fresh(work, shape).peak_bytes / 1e6


if __name__ == "__main__":
    main()
