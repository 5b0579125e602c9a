"""The same work in an object store where each request takes 20 ms, and on the local disk: commit, plan, merge read.

And there: a scan of many files, and an expiry that deletes many. The server is the strict one of the tests, on this
machine: what it computes is in the times.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import numpy as np
import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks._s3 import DELAY_SECONDS, s3_server

ROWS = 2_000_000
RUNS = 4
# Files of 1 MB, one in each partition, and the rows of one.
FILES = 200
ROWS_OF_FILE = 60_000
# Files that an expiry deletes: so many partitions, written so often.
PARTITIONS = 1_000
WRITES = 10
COLUMNS = {"k": "BIGINT NOT NULL", "s": "STRING", "x": "DOUBLE", "t": "TIMESTAMP(6)"}


@dataclass(frozen=True)
class Place:
    """A warehouse. `storage`: the settings that reach it."""

    warehouse: str
    storage: Mapping[str, str] | None = None

    def catalog(self) -> lc.Catalog:
        return lc.connect(self.warehouse, storage=self.storage)

    def make(self, rows: int, files: int) -> None:
        catalog = self.catalog()
        catalog.create_database("db")
        write_only = {"write-only": "true", "bucket": "1"}
        large = catalog.create_table("db.large", COLUMNS, primary_keys=["k"], options=write_only)
        for number in range(RUNS):
            large.write(narrow(number, rows))
        catalog.create_table("db.small", COLUMNS, primary_keys=["k"], options=write_only).write(narrow(0, 10))
        many = narrow(0, files * ROWS_OF_FILE)
        parts = pa.array(np.repeat(np.arange(files), ROWS_OF_FILE), pa.int32())
        partitioned = catalog.create_table("db.many", {"p": "INT", **COLUMNS}, partition_keys=["p"])
        partitioned.write(many.add_column(0, "p", parts))


def narrow(seed: int, rows: int) -> pa.Table:
    """Return rows whose keys are drawn from twice as many."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "k": random.integers(0, 2 * rows, rows),
            "s": pa.array(random.integers(0, 10**9, rows)).cast(pa.string()),
            "x": random.random(rows),
            "t": pa.array(random.integers(0, 2**50, rows)).cast(pa.timestamp("us")),
        }
    )


class Committer:
    """Commits ten rows at a time; staging them is not measured."""

    def __init__(self, place: Place) -> None:
        self._table = place.catalog().table("db.small")
        self._count = 0

    def __call__(self) -> measure.Sample:
        self._count += 1
        staged = self._table.stage(narrow(self._count, 10), commit_user="bench", commit_identifier=self._count)
        return measure.sample(lambda: self._table.commit(staged))


def plan(place: Place) -> int:
    return len(place.catalog().table("db.large").scan().plan().splits)


def merge_read(place: Place) -> int:
    return sum(batch.num_rows for batch in place.catalog().table("db.large").scan().to_batches())


def scan(place: Place) -> int:
    return int(place.catalog().table("db.many").scan().to_arrow().num_rows)


def expired(place: Place, partitions: int) -> tuple[int, float]:
    """Replace all files of a table and expire what is before; return the deleted data files and the seconds."""
    table = place.catalog().create_table(
        "db.old", {"p": "INT", "v": "INT"}, partition_keys=["p"], options={"lakehouse.read.grace": "0 s"}
    )
    for number in range(WRITES):
        table.write(pa.table({"p": range(partitions), "v": [number] * partitions}))
    table.overwrite([{"p": 0, "v": 0}])
    before = len(table.snapshots())
    taken = measure.sample(lambda: table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0)))
    assert (before, len(table.snapshots())) == (WRITES + 1, 1)
    return partitions * WRITES, taken.wall_seconds


def main() -> None:
    parsed = measure.arguments(__doc__)
    rows, partitions = measure.scaled(ROWS, parsed), measure.scaled(PARTITIONS, parsed)
    files = measure.scaled(FILES, parsed)
    data = f"{RUNS} runs of {rows:,} narrow rows; {files} files of 1 MB; {partitions * WRITES:,} files to delete"
    measure.print_header("Object store at 20 ms", data=data, packages=["obstore"])
    with tempfile.TemporaryDirectory() as folder, s3_server(delay_seconds=DELAY_SECONDS) as storage:
        places = {"disk": Place(f"{folder}/wh"), "store": Place("s3://lake/wh", storage)}
        alternatives: dict[str, Callable[[], object]] = {}
        for name, place in places.items():
            place.make(rows, files)
            alternatives[f"{name}: commit"] = Committer(place)
            alternatives[f"{name}: plan"] = partial(plan, place)
            alternatives[f"{name}: merge read"] = partial(merge_read, place)
            alternatives[f"{name}: scan of {files} files"] = partial(scan, place)
        series = measure.interleave(alternatives, rounds=parsed.rounds)
        deleted, seconds = expired(places["store"], partitions)
    measure.print_table("the same work", series)
    more = {
        verb: series[f"store: {verb}"].wall_seconds - series[f"disk: {verb}"].wall_seconds
        for verb in ("commit", "plan")
    }
    ratio = measure.wall_ratio(series, "store: merge read", "disk: merge read")
    measure.print_bars(
        [
            measure.Bar("commit, more than on disk", more["commit"], 0.25, 0.125, "s"),
            measure.Bar("plan, more than on disk", more["plan"], 0.15, 0.075, "s"),
            measure.Bar("merge read / on disk", ratio, 1.3, 1.15),
            measure.Bar(f"scan of {files} files", series[f"store: scan of {files} files"].wall_seconds, 2.0, 1.0, "s"),
            measure.Bar("files deleted a second", deleted / seconds, 1_000, 3_000, "", smaller_is_better=False),
        ]
    )


if __name__ == "__main__":
    main()
