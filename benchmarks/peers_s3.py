"""The same tables on the same S3 server, read and written by Java Paimon (through the judge), by pypaimon and by us.

Each request takes 20 ms. Bars in seconds on the wall, as callers wait; CPU seconds are those of the server too. Java
gets rows as JSON, so it writes few of them; its large write is a full compaction. Java and pypaimon commit without a
lock, since each is the only writer. The requests are counted where they take no time.
"""

import json
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks._s3 import DELAY_SECONDS, s3_server
from benchmarks.object_store import COLUMNS, narrow
from tests.interop import pypaimon_client
from tests.interop.judge import Judge
from tests.storage.s3_stub import REGION, S3Stub

JAVA = "2.0.0"
WAREHOUSE = "s3://lake/wh"
ROWS, RUNS = 1_000_000, 4
# pypaimon merges row by row: a share of the rows is enough to know its pace.
SHARE = 100_000
OPTIONS = {"bucket": "1", "write-only": "true", "target-file-size": "1 gb"}
LARGE, COMPACTED = "db.large", "db.compacted"


class Side(Protocol):
    """Who reads and writes a table, each time from opening the catalog; both return how many rows."""

    def read(self, name: str) -> int: ...

    def write(self, name: str, rows: pa.Table) -> int: ...


class Ours:
    def __init__(self, storage: Mapping[str, str]) -> None:
        self._storage = storage

    def make(self, name: str, rows: int) -> None:
        catalog = lc.connect(WAREHOUSE, storage=self._storage)
        catalog.create_database("db", exist_ok=True)
        table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options=OPTIONS)
        for number in range(RUNS if rows else 0):
            table.write(narrow(number, rows))

    def make_again(self, name: str, rows: int) -> None:
        lc.connect(WAREHOUSE, storage=self._storage).drop_table(name, missing_ok=True)
        self.make(name, rows)

    def compact(self, name: str) -> None:
        self._table(name).compact(full=True)

    def read(self, name: str) -> int:
        return sum(batch.num_rows for batch in self._table(name).scan().to_batches())

    def write(self, name: str, rows: pa.Table) -> int:
        return self._table(name).write(rows).rows_added

    def _table(self, name: str) -> lc.Table:
        return lc.connect(WAREHOUSE, storage=self._storage).table(name)


class Java:
    """Counts the rows that it reads, without making columns of them."""

    def __init__(self, judge: Judge, storage: Mapping[str, str]) -> None:
        self._judge = judge
        self._catalog = {f"s3.{name}": value for name, value in storage.items()} | {
            "s3.path.style.access": "true",
            # It would sign for another one, which the server refuses.
            "s3.endpoint.region": REGION,
        }

    def read(self, name: str) -> int:
        return int(self._call("read", table=name, countOnly=True)["count"])

    def write(self, name: str, rows: pa.Table) -> int:
        texts = [{**row, "t": f"{row['t']:%Y-%m-%dT%H:%M:%S.%f}"} for row in rows.to_pylist()]
        self._call("write", table=name, rows=texts, mode="batch")
        return len(texts)

    def compact(self, name: str) -> None:
        self._call("compact", table=name, strategy="full", options={"write-only": "false"})

    def _call(self, verb: str, **request: Any) -> Any:
        return self._judge.call(verb, warehouse=WAREHOUSE, catalog=self._catalog, **request)


class PyPaimon:
    """One process for all calls, as ours: that its interpreter starts does not count."""

    def __init__(self, client: pypaimon_client.PyPaimon, storage: Mapping[str, str]) -> None:
        settings = {f"s3.{name}": value for name, value in storage.items()}
        self._client = client
        self._catalog = json.dumps({"warehouse": WAREHOUSE, "s3.path-style-access": "true", **settings})

    def read(self, name: str) -> int:
        return int(self._client.read(self._catalog, name).num_rows)

    def write(self, name: str, rows: pa.Table) -> int:
        self._client.write(self._catalog, name, rows)
        return int(rows.num_rows)


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=3)
    rows, share = measure.scaled(ROWS, parsed), measure.scaled(SHARE, parsed)
    measure.print_header(
        f"Peers on an object store at {DELAY_SECONDS * 1000:.0f} ms",
        data=f"{RUNS} runs of {rows:,} narrow rows, one bucket; pypaimon {share:,} rows a run; commits of 10 rows",
        packages=["obstore"],
        notes=[f"Java Paimon {JAVA}, pypaimon {pypaimon_client.VERSION}"],
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        s3_server() as storage,
        Judge(JAVA, memory="4g", for_speed=True, has_s3=True) as judge,
        pypaimon_client.PyPaimon(Path(folder)) as client,
    ):
        ours, java, pypaimon = Ours(storage), Java(judge, storage), PyPaimon(client, storage)
        ours.make(LARGE, rows)
        ours.make("db.share", share)
        large = measure.interleave(
            {"ours": lambda: ours.read(LARGE), "java": lambda: java.read(LARGE)}, rounds=parsed.rounds
        )
        less = measure.interleave(
            {"ours": lambda: ours.read("db.share"), "pypaimon": lambda: pypaimon.read("db.share")}, rounds=1
        )
        sides: dict[str, Side] = {"ours": ours, "java": java, "pypaimon": pypaimon}
        for name in ("ours", "pypaimon"):
            ours.make(f"db.written_by_{name}", 0)
        batch = narrow(9, share)
        writes = measure.interleave(
            {name: partial(sides[name].write, f"db.written_by_{name}", batch) for name in ("ours", "pypaimon")},
            rounds=1,
        )
        ten = narrow(1, 10)
        for name in sides:
            ours.make(f"db.small_{name}", 0)
        commits = measure.interleave(
            {name: partial(side.write, f"db.small_{name}", ten) for name, side in sides.items()},
            rounds=parsed.rounds,
        )
        compactions = measure.interleave(
            {"ours": lambda: ours.compact(COMPACTED), "java": lambda: java.compact(COMPACTED)},
            rounds=parsed.rounds,
            before_each=lambda: ours.make_again(COMPACTED, rows),
        )
        counted = requests(judge, client)
    measure.print_table("merge read", large, against="java")
    measure.print_table("full compaction", compactions, against="java")
    measure.print_table(f"merge read, {share:,} rows a run", less, against="pypaimon")
    measure.print_table(f"write, {share:,} rows", writes, against="pypaimon")
    measure.print_table("write of 10 rows, from opening the catalog", commits, against="ours")
    measure.print_rows(
        "requests, from opening the catalog", ["", "write of 10 rows", f"merge read of {RUNS} files"], counted
    )
    measure.print_bars(bars(large, compactions, less, writes, commits))


def requests(judge: Judge, client: pypaimon_client.PyPaimon) -> list[tuple[str, int, int]]:
    """Return how many requests each side makes for a small write, and for a small read."""
    counted = []
    with S3Stub() as stub:
        ours = Ours(stub.storage)
        ours.make(LARGE, 10)
        sides: dict[str, Side] = {
            "ours": ours,
            "java": Java(judge, stub.storage),
            "pypaimon": PyPaimon(client, stub.storage),
        }
        for name, side in sides.items():
            ours.make(f"db.small_{name}", 0)
            before = len(stub.requests)
            side.write(f"db.small_{name}", narrow(1, 10))
            written = len(stub.requests)
            side.read(LARGE)
            counted.append((name, written - before, len(stub.requests) - written))
    return counted


def bars(
    large: Mapping[str, measure.Series],
    compactions: Mapping[str, measure.Series],
    less: Mapping[str, measure.Series],
    writes: Mapping[str, measure.Series],
    commits: Mapping[str, measure.Series],
) -> list[measure.Bar]:
    return [
        _times_faster("merge read, Java / ours", large, "java", 2, 3),
        _times_faster("full compaction, Java / ours", compactions, "java", 2, 3),
        _times_faster("merge read, pypaimon / ours", less, "pypaimon", 20, 35),
        _times_faster("write, pypaimon / ours", writes, "pypaimon", 20, 50),
        _times_faster("write of 10 rows, Java / ours", commits, "java", 1, 2),
        _times_faster("write of 10 rows, pypaimon / ours", commits, "pypaimon", 1, 2),
    ]


def _times_faster(what: str, series: Mapping[str, measure.Series], peer: str, must: float, aim: float) -> measure.Bar:
    return measure.Bar(what, measure.wall_ratio(series, peer, "ours"), must, aim, smaller_is_better=False)


if __name__ == "__main__":
    main()
