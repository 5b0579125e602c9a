"""2,000 writes of one row each into one bucket that nobody compacts: the last hundred must cost what the first cost.

Each write stages a file of one row and commits it, on the local disk with all its syncs. The last hundred take turns
with the first hundred of another table, so that what the machine does meanwhile meets both alike.
"""

import statistics
import tempfile
from functools import partial

import lakehouse_core as lc
from benchmarks import _measure as measure

WRITES = 2_000
MEASURED = 100


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=1)
    writes = measure.scaled(WRITES, parsed)
    measure.print_header("Small writes", data=f"{writes:,} writes of one row, one bucket, write-only")
    with tempfile.TemporaryDirectory() as folder:
        catalog = lc.connect(folder)
        catalog.create_database("db")
        tables = {name: new_table(catalog, name) for name in ("last", "first")}
        for number in range(writes - MEASURED):
            write(tables["last"], number)
        samples: dict[str, list[measure.Sample]] = {name: [] for name in tables}
        for number in range(MEASURED):
            for name, table in tables.items():
                samples[name].append(measure.sample(partial(write, table, writes + number)))
    series = {name: measure.Series(f"{name} hundred", tuple(taken)) for name, taken in samples.items()}
    rows = [[one.name, *(f"{1000 * value:.1f}" for value in figures(one))] for one in (series["first"], series["last"])]
    measure.print_rows("milliseconds a write", ["", "CPU, mean", "wall, mean", "wall, median"], rows)
    first, last = figures(series["first"]), figures(series["last"])
    measure.print_bars(
        [
            measure.Bar("last / first hundred, CPU", last[0] / first[0], 1.3, 1.1),
            measure.Bar("last / first hundred, median wall", last[2] / first[2], 1.3, 1.1),
        ]
    )


def new_table(catalog: lc.Catalog, name: str) -> lc.Table:
    return catalog.create_table(
        f"db.{name}",
        {"k": "BIGINT NOT NULL", "v": "STRING"},
        primary_keys=["k"],
        options={"bucket": "1", "write-only": "true"},
    )


def write(table: lc.Table, number: int) -> None:
    table.write([{"k": number, "v": f"{number}"}])


def figures(series: measure.Series) -> tuple[float, float, float]:
    """Return the mean CPU seconds, the mean and the median seconds on the wall of one write."""
    cpu = statistics.fmean(sample.cpu_seconds for sample in series.samples)
    return cpu, statistics.fmean(sample.wall_seconds for sample in series.samples), series.wall_seconds


if __name__ == "__main__":
    main()
