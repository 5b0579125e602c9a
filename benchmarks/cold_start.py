"""Cold start of the shell to a finished full compaction of a small table: what a cron job or a curious user waits for.

Against the start of a bare interpreter, and one that imports the two libraries no table can do without (the floors).
Every call is a process of its own; no JVM starts.
"""

import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure

TABLE = "db.t"
RUNS = 5
ROWS = 1000


def main() -> None:
    arguments = measure.arguments(__doc__)
    measure.print_header(
        "Cold start", data=f"{RUNS} commits of {ROWS:,} rows, 2 buckets, rewritten by `compact --full`"
    )
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "template"
        _fill(template)
        copies = (template.with_name(f"copy-{number}") for number in itertools.count())
        shell = str(Path(sys.executable).with_name("lakehouse"))
        alternatives: dict[str, Callable[[], object]] = {
            "python -c pass": lambda: _command([sys.executable, "-c", "pass"]),
            "import numpy, pyarrow.parquet": lambda: _command([sys.executable, "-c", "import numpy, pyarrow.parquet"]),
            "lakehouse --help": lambda: _command([shell, "--help"]),
            "lakehouse snapshots": lambda: _command([shell, "-w", str(template), "snapshots", TABLE]),
            "lakehouse compact --full": lambda: _compact(shell, template, next(copies)),
        }
        series = measure.interleave(alternatives, rounds=arguments.rounds)
    measure.print_table("Cold start", series, against="import numpy, pyarrow.parquet")
    compaction = series["lakehouse compact --full"]
    measure.print_bars(
        [
            measure.Bar("start to finished compaction, best wall", compaction.best_wall_seconds, 2.5, 1.5, "s"),
            measure.Bar("start to finished compaction, best CPU", compaction.best_cpu_seconds, 2.5, 1.5, "s"),
        ]
    )


def _fill(warehouse: Path) -> None:
    catalog = lc.connect(str(warehouse))
    catalog.create_database("db")
    columns = {"k": "BIGINT NOT NULL", "v": "STRING"}
    table = catalog.create_table(TABLE, columns, primary_keys=["k"], options={"bucket": "2"})
    for run in range(RUNS):
        keys = np.arange(run, ROWS + run)
        table.write(pa.table({"k": keys, "v": pa.array(keys).cast(pa.string())}))


def _compact(shell: str, template: Path, warehouse: Path) -> measure.Sample:
    shutil.copytree(template, warehouse)
    return _command([shell, "-w", str(warehouse), "compact", TABLE, "--full"])


def _command(argv: list[str]) -> measure.Sample:
    taken = measure.command(argv)
    return measure.Sample(taken.wall_seconds, taken.cpu_seconds)


if __name__ == "__main__":
    main()
