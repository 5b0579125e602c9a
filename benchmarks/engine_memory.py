"""Peak memory of merge engines, changelogs, deletion vectors and compactions, for a bucket and one four times as large.

Each in a fresh process. Flat is what counts; how much it is at all: see `memory`.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import _measure as measure
from benchmarks._shapes import WIDE, Shape, make_shape
from benchmarks.append_compaction import make_append_shape
from benchmarks.changelog import TELLING, make_compacted_shape
from benchmarks.compaction import compact
from benchmarks.deletion_vectors import MarkedFiles, raw_read
from benchmarks.lookup_upsert import make_table, upsert, write_input
from benchmarks.merge_engines import DELETES, FIRST_ROW, PARTIAL_UPDATE, aggregation
from benchmarks.merge_read import merge_read

RUNS = 4


@dataclass(frozen=True)
class Case:
    """`make` writes below a folder what `work` is then given; both in processes of their own."""

    make: Callable[[Path, int], Any]
    work: Callable[[Any], object]


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(500_000, arguments)
    measure.print_header(
        "Memory of engines", data=f"{RUNS} runs of {rows:,} (and four times as many) rows each, one bucket, zstd 1"
    )
    engine = partial(partial, make_engine_shape)
    cases = {
        "partial-update read": Case(engine(name="sparse", options=PARTIAL_UPDATE), merge_read),
        "aggregation read": Case(engine(options=aggregation(WIDE)), merge_read),
        "aggregation read, 1 % retracts": Case(engine(options=aggregation(WIDE), deletes=DELETES), merge_read),
        "first-row read, 1 % ignored deletes": Case(engine(options=FIRST_ROW, deletes=DELETES), merge_read),
        "compaction with changelog": Case(make_told_shape, compact),
        "upsert with lookup": Case(make_upsert, do_upsert),
        "deletion-vector read": Case(make_marked, raw_read),
        "ten falling runs": Case(engine(name="falling", runs=10, options={}), merge_read),
        "append compaction": Case(make_append, compact),
    }
    bars: list[measure.Bar] = []
    table: list[list[object]] = []
    for name, case in cases.items():
        single, fourfold = (_peak_mb(case, rows * factor) for factor in (1, 4))
        table.append([name, f"{single:.0f}", f"{fourfold:.0f}"])
        bars.append(measure.Bar(f"{name}, four times the rows", fourfold / single, 1.05, 1.0))
    measure.print_rows("Peak resident set, MB", ["", "bucket", "four times the rows"], table)
    measure.print_bars(bars)


def make_engine_shape(
    root: Path,
    rows: int,
    *,
    name: str = "wide",
    options: Mapping[str, str],
    deletes: float = 0,
    runs: int = RUNS,
) -> Shape:
    """Write runs of a table with these options."""
    return make_shape(root, name, runs=runs, rows=rows, deletes=deletes).with_options(options)


def make_told_shape(root: Path, rows: int) -> Shape:
    """Write runs above a compacted one, whose compaction tells what it changes."""
    return make_compacted_shape(root, "wide", rows=rows).with_options(TELLING)


def make_upsert(root: Path, rows: int) -> Path:
    """Write a bucket as large as the runs together, and a file to upsert; it is as large whatever the bucket."""
    make_table(root / "warehouse", write_input(root / "whole.parquet", RUNS * rows, RUNS * rows))
    write_input(root / "new.parquet", RUNS * rows, 20_000)
    return root


def do_upsert(root: Path) -> None:
    """Write, commit, compact."""
    upsert(root / "warehouse", root / "new.parquet")


def make_marked(root: Path, rows: int) -> MarkedFiles:
    """Write files of which rows are marked as deleted."""
    return MarkedFiles.make(root, "wide", runs=RUNS, rows=rows)


def make_append(root: Path, rows: int) -> Shape:
    """Write small files of an append table: a thousand in full, as `append_compaction` has, which fill row groups."""
    return make_append_shape(root, "narrow", files=max(8, rows // 500), rows=2_500)


def _peak_mb(case: Case, rows: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        made = measure.fresh(case.make, Path(folder), rows).value
        return measure.fresh(case.work, made).peak_bytes / 1e6


if __name__ == "__main__":
    main()
