"""Tables in a bucket of an S3 server, written and read by both sides: names in a SQL database, commits under its lock.

Java has its own file system for S3 there. `make ceph` runs the cases on Ceph's gateway, `make interop` the others:
on moto, and on our strict server, which checks signatures.
Java cannot make empty objects on Ceph 16 without TLS, and makes one for a new warehouse or database: we make those.
`INTEROP_COMMITS=200` lets each of the writers that race commit so often.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.bucket import Bucket
from tests.interop.dying_writer import DAYS, DyingWriter, commit_of
from tests.interop.judge import Judge
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.ceph_server import ceph_server
from tests.storage.s3_server import s3_server, storage_of
from tests.storage.s3_stub import S3Stub

pytestmark = pytest.mark.interop

FIELDS = {"dt": "DATE NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
WRITERS, COMMITS = 2, int(os.environ.get("INTEROP_COMMITS", "15"))
# How long the lock of a writer that died stays, and how long another writer may wait for its turn after that.
LOCK_SECONDS, TURN_SECONDS = 60, 60


SERVERS = [("1.4.2", "moto"), ("2.0.0", "strict"), pytest.param("2.0.0", "ceph", marks=pytest.mark.ceph)]


@pytest.fixture(scope="module")
def storage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    if request.param == "moto":
        with s3_server() as client:
            yield storage_of(client)
    elif request.param == "strict":
        with S3Stub() as stub:
            yield stub.storage
    else:
        with ceph_server(tmp_path_factory.mktemp("ceph")) as server:
            yield server.storage


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(request.param, has_s3=True) as java:
        yield java


class Lake(Bucket):
    """A bucket and the tables that the cases make in it."""

    def __init__(self, storage: Mapping[str, str], judge: Judge, names: Path | None) -> None:
        super().__init__(storage, names)
        self._judge = judge
        self.version = judge.version

    def dying_writer(self, table: str, *, commits: int) -> DyingWriter:
        assert self.names is not None
        return DyingWriter(self.warehouse, self.storage, self.names, table, commits)

    def java(self, verb: str, judge: Judge | None = None, **request: Any) -> Any:
        judge = judge or self._judge
        return judge.call(verb, **self.of_java(judge), **request)

    def java_creates(self, table: str, **options: str) -> None:
        fields = [{"name": name, "type": type_} for name, type_ in FIELDS.items()]
        keys = {"primaryKeys": ["dt", "k"], "partitionKeys": ["dt"]}
        self.java("create", table=table, fields=fields, **keys, options={"bucket": "2", **options})

    def we_create(self, table: str, **options: str) -> lc.Table:
        return self.ours.create_table(
            table, FIELDS, primary_keys=["dt", "k"], partition_keys=["dt"], options={"bucket": "2", **options}
        )

    def rows_of_java(self, table: str) -> list[tuple[str, int, str]]:
        return sorted((row["dt"], row["k"], row["v"]) for row in self.java("read", table=table)["rows"])

    def our_rows(self, table: str) -> list[tuple[str, int, str]]:
        rows = self.ours.table(table).scan().to_arrow().to_pylist()
        return sorted((f"{row['dt']}", row["k"], row["v"]) for row in rows)


@pytest.fixture
def lake(storage: Mapping[str, str], judge: Judge, tmp_path: Path) -> Lake:
    return Lake(storage, judge, tmp_path / "names.db")


def rows(first: int, value: str) -> list[dict[str, Any]]:
    return [{"dt": DAYS[key % 2], "k": key, "v": value} for key in range(first, first + 6)]


@pytest.mark.parametrize(("judge", "storage"), SERVERS, indirect=True)
@pytest.mark.parametrize("creator", ["java", "ours"])
def test_both_write_compact_and_expire_one_table_in_turn(lake: Lake, creator: str) -> None:
    options = {"changelog-producer": "lookup", "lakehouse.read.grace": "0 s"}
    lake.ours.create_database("db")
    lake.we_create("db.first")
    if creator == "java":
        lake.java_creates("db.t", **options)
    else:
        lake.we_create("db.t", **options)

    expected: dict[tuple[str, int], str] = {}
    for turn in range(3):
        for side in ("java", "ours"):
            written = rows(3 * turn, f"{side}-{turn}")
            expected |= {(row["dt"], row["k"]): row["v"] for row in written}
            if side == "java":
                lake.java("write", table="db.t", rows=written, mode="batch")
            else:
                lake.ours.table("db.t").write(written)
            told = sorted((*key, value) for key, value in expected.items())
            assert lake.our_rows("db.t") == lake.rows_of_java("db.t") == told
        if turn == 0:
            lake.java("compact", table="db.t", strategy="full")
            lake.ours.table("db.t").expire_snapshots(retain_max=2, retain_min=1)
        elif turn == 1:
            lake.ours.table("db.t").compact(full=True)
            lake.java("expire", table="db.t", retainMax=2, retainMin=1)
        assert lake.our_rows("db.t") == lake.rows_of_java("db.t") == told
        assert lake.ours.table("db.t").verify(data=True).findings == ()
    assert lake.sql("SELECT * FROM paimon_distributed_locks") == []


@pytest.mark.parametrize(("judge", "storage"), SERVERS[:2], indirect=True)
def test_names_of_either_side_are_the_others(lake: Lake) -> None:
    lake.java("database", op="create", database="java")
    lake.ours.create_database("ours")
    lake.java_creates("ours.t")
    lake.we_create("java.t").write(rows(0, "x"))

    ours = lake.ours
    assert (ours.databases(), lake.java("database")) == (["java", "ours"], ["java", "ours"])
    assert (ours.tables("ours"), lake.java("tables", database="java")) == (["t"], ["t"])
    assert (ours.tables("java"), lake.java("tables", database="ours"), ours.check()) == (["t"], ["t"], [])
    ours.drop_table("ours.t")
    lake.java("drop", table="java.t")
    assert (ours.tables("java"), lake.java("tables", database="ours")) == ([], [])
    # Where Java drops a table it leaves an empty object for the folder: no table, and in nobody's way.
    lake.we_create("java.t").write(rows(0, "again"))
    assert lake.rows_of_java("java.t") == sorted((row["dt"], row["k"], row["v"]) for row in rows(0, "again"))
    ours.drop_database("java", cascade=True)
    lake.java("database", op="drop", database="ours", cascade=True)
    assert (ours.databases(), lake.java("database")) == ([], [])


@pytest.mark.parametrize(("judge", "storage"), SERVERS, indirect=True)
def test_writers_of_both_engines_with_the_lock_lose_no_row_and_no_change(lake: Lake) -> None:
    lake.ours.create_database("db")
    # Java gives up after ten lost races: it prepares a commit without the lock, and more slowly than we do.
    options = {"write-only": "true", "bucket": "1", "changelog-producer": "input", "commit.max-retries": "10000"}
    lake.we_create("db.t", **options)

    def java_writes(writer: int, own: Judge) -> None:
        for number in range(COMMITS):
            row = {"dt": DAYS[0], "k": writer * 1000 + number, "v": "java"}
            lake.java("write", own, table="db.t", rows=[row], mode="batch")

    def we_write(writer: int) -> None:
        table = lake.ours.table("db.t")
        for number in range(COMMITS):
            table.write([{"dt": DAYS[0], "k": writer * 1000 + number, "v": "ours"}])

    with (
        Judge(lake.version, has_s3=True) as first,
        Judge(lake.version, has_s3=True) as second,
        ThreadPoolExecutor(2 * WRITERS) as pool,
    ):
        for each in (first, second):
            assert lake.java("tables", each, database="db") == ["t"]
        running = [pool.submit(java_writes, writer, own) for writer, own in enumerate((first, second))]
        running += [pool.submit(we_write, writer) for writer in range(WRITERS, 2 * WRITERS)]
        for done in running:
            done.result(timeout=HANGS_AFTER_SECONDS)

    expected = sorted(
        (DAYS[0], writer * 1000 + number, "java" if writer < WRITERS else "ours")
        for writer in range(2 * WRITERS)
        for number in range(COMMITS)
    )
    assert lake.our_rows("db.t") == lake.rows_of_java("db.t") == expected
    table = lake.ours.table("db.t")
    assert len(table.snapshots()) == 2 * WRITERS * COMMITS
    changes = [(f"{row['dt']}", row["k"], row["v"]) for row in table.changes(after=0).to_arrow().to_pylist()]
    told = lake.java("stream-read", table="db.t", **{"from": 1})["snapshots"]
    assert [(row["dt"], row["k"], row["v"]) for step in told for row in step["rows"]] == changes
    assert sorted(changes) == expected
    assert table.verify(data=True).findings == ()
    assert lake.sql("SELECT * FROM paimon_distributed_locks") == []


@pytest.mark.parametrize(("judge", "storage"), SERVERS[1:2], indirect=True)
def test_a_writer_that_is_killed_with_the_lock_stops_the_others_for_its_time_and_no_row_is_lost(lake: Lake) -> None:
    lake.ours.create_database("db")
    options = {"write-only": "true", "bucket": "1", "changelog-producer": "input", "commit.max-retries": "10000"}
    lake.we_create("db.t", **options)

    def java_writes(writer: int, own: Judge) -> None:
        for number in range(1, COMMITS + 1):
            row = {"dt": DAYS[0], "k": writer * 1000 + number, "v": "java"}
            lake.java("write", own, table="db.t", rows=[row], mode="batch")

    def we_write(user: str, writer: int, first: int = 1, last: int = COMMITS) -> None:
        table = lake.ours.table("db.t")
        for number in range(first, last + 1):
            commit_of(table, user, number, writer * 1000 + number)

    spawn, half = multiprocessing.get_context("spawn"), COMMITS // 2
    stopped = spawn.Event()
    dying = spawn.Process(target=lake.dying_writer("db.t", commits=half), args=(3000, stopped))
    with (
        Judge(lake.version, has_s3=True) as first,
        Judge(lake.version, has_s3=True) as second,
        ThreadPoolExecutor(2 * WRITERS) as pool,
    ):
        for each in (first, second):
            assert lake.java("tables", each, database="db") == ["t"]
        dying.start()
        running = [pool.submit(java_writes, writer, own) for writer, own in enumerate((first, second))]
        running.append(pool.submit(we_write, "living", 2))
        try:
            while not stopped.wait(1):
                assert dying.is_alive()
        finally:
            dying.kill()
            dying.join()
        killed = time.monotonic()
        left = lake.sql("SELECT acquired_at, expire_time_seconds FROM paimon_distributed_locks")
        assert [seconds for _, seconds in left] == [LOCK_SECONDS]
        # The successor begins with the commit whose answer nobody has. The next one needs the lock.
        we_write("dying", 3, half, half + 1)
        taken_over = time.monotonic() - killed
        we_write("dying", 3, half + 2)
        for done in running:
            done.result(timeout=HANGS_AFTER_SECONDS)

    assert taken_over < LOCK_SECONDS + TURN_SECONDS
    expected = sorted(
        (DAYS[0], writer * 1000 + number, "java" if writer < 2 else "ours")
        for writer in range(4)
        for number in range(1, COMMITS + 1)
    )
    assert lake.our_rows("db.t") == lake.rows_of_java("db.t") == expected
    table = lake.ours.table("db.t")
    assert len(table.snapshots()) == 4 * COMMITS
    changes = [(f"{row['dt']}", row["k"], row["v"]) for row in table.changes(after=0).to_arrow().to_pylist()]
    assert sorted(changes) == expected
    assert table.verify(data=True).findings == ()
    assert lake.sql("SELECT * FROM paimon_distributed_locks") == []


@pytest.mark.parametrize(("judge", "storage"), SERVERS[:2], indirect=True)
def test_folders_are_names_for_both_too(storage: Mapping[str, str], judge: Judge) -> None:
    lake = Lake(storage, judge, None)
    lake.java("database", op="create", database="java")
    lake.ours.create_database("ours")
    assert (lake.ours.databases(), lake.java("database")) == (["java", "ours"], ["java", "ours"])
    lake.java_creates("java.t")
    lake.java("write", table="java.t", rows=rows(0, "java"), mode="batch")
    lake.ours.table("java.t").write(rows(3, "ours"))

    assert lake.our_rows("java.t") == lake.rows_of_java("java.t")
    assert lake.ours.table("java.t").verify(data=True).findings == ()
    lake.java("drop", table="java.t")
    assert lake.ours.tables("java") == []
    with pytest.raises(lc.InvalidRequest, match=r"found the mark .*/java\.db/ of another engine, so its folder stays"):
        lake.ours.drop_database("java")
    lake.java("database", op="drop", database="java")
    assert (lake.ours.databases(), lake.java("database")) == (["ours"], ["ours"])
