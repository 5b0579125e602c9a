"""Merge reads by the other engines than deduplicate, against a deduplicate read of the very same files.

Sparse files (three of four values null) by partial-update; full ones by aggregation, a third of the columns each with
sum, max and last; the same again where one row of a hundred is a delete; first-row with deletes that are ignored. In
this process and one thread. Memory: see `memory`; Java: see `peers`.
"""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import _measure as measure
from benchmarks._shapes import WIDE, Shape, floor_read, make_shape
from benchmarks.merge_read import merge_read

RUNS: Final = 4
DELETES: Final = 0.01
PARTIAL_UPDATE: Final = {"merge-engine": "partial-update"}
FIRST_ROW: Final = {"merge-engine": "first-row", "ignore-delete": "true"}
_FUNCTIONS: Final = {
    "INT": "max",
    "BIGINT": "sum",
    "DOUBLE": "sum",
    "STRING": "last_value",
    "TIMESTAMP(6)": "max",
}


def aggregation(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the options of an aggregation of these columns; a maximum ignores retracts, which it cannot take back."""
    options = {"merge-engine": "aggregation"}
    for name, kind in columns.items():
        if name != "k":
            options[f"fields.{name}.aggregate-function"] = _FUNCTIONS[kind]
            if _FUNCTIONS[kind] == "max":
                options[f"fields.{name}.ignore-retract"] = "true"
    return options


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(1_000_000, arguments)
    measure.print_header(
        "Merge engines", data=f"{RUNS} runs of {rows:,} rows of {len(WIDE)} columns each, one bucket, zstd 1"
    )
    with tempfile.TemporaryDirectory() as folder:
        make = partial(make_shape, runs=RUNS, rows=rows)
        sparse = make(Path(folder) / "sparse", "sparse")
        full = make(Path(folder) / "full", "wide")
        deleting = make(Path(folder) / "deleting", "wide", deletes=DELETES)
        aggregated = full.with_options(aggregation(WIDE))
        first = full.with_options(FIRST_ROW)
        compared = {
            "partial-update / deduplicate": (sparse.with_options(PARTIAL_UPDATE), sparse, 2.0, 1.5),
            "aggregation / deduplicate": (aggregated, full, 1.6, 1.3),
            "aggregation with 1 % retracts / none": (deleting.with_options(aggregation(WIDE)), aggregated, 1.3, 1.1),
            "first-row with 1 % ignored deletes / none": (deleting.with_options(FIRST_ROW), first, 1.3, 1.1),
        }
        bars = []
        for what, (shape, peer, must, aim) in compared.items():
            series = compare(what, shape, peer, arguments.rounds)
            bars.append(measure.Bar(what, measure.cpu_ratio(series, *what.split(" / ")), must, aim))
    measure.print_bars(bars)


def compare(what: str, shape: Shape, peer: Shape, rounds: int) -> dict[str, measure.Series]:
    """Measure two merge reads, `what` names them, beside decoding the files of the first."""
    name, peer_name = what.split(" / ")
    alternatives = {
        "Parquet read": partial(floor_read, shape),
        peer_name: partial(merge_read, peer),
        name: partial(merge_read, shape),
    }
    series = measure.interleave(alternatives, rounds=rounds)
    measure.print_table(what, series, against=peer_name)
    return series


if __name__ == "__main__":
    main()
