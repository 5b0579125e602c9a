"""Conditional writes that a database decides, over a store that ignores conditions: races, kills between the steps."""

import multiprocessing
import pickle
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.decided_store import DecidedStore
from lakehouse_core.catalog.sql.metastore import SqlMetastore
from lakehouse_core.catalog.sql.tables import COMMITS
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import LakehouseError
from lakehouse_core.storage import Call, Fault, FaultKind, MemoryStore, ObjectStore, ProcessDied
from tests.limits import HANGS_AFTER_SECONDS
from tests.model.decided_lake import Unconditional
from tests.model.held_store import HeldStore
from tests.pairs import in_turn
from tests.storage.contract import StoreContract
from tests.storage.s3_stub import S3Stub

SEEDS = count()


def decided(inner: ObjectStore, names: Path) -> DecidedStore:
    return DecidedStore(
        inner, SqlDatabase(sql_address(f"sqlite:///{names}", {}), (COMMITS,)), VirtualClock(seed=next(SEEDS))
    )


class TestDecidedStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return decided(Unconditional(MemoryStore()), tmp_path / "names.db")


def catalog_on(inner: ObjectStore, names: Path) -> Catalog:
    store, clock = decided(inner, names), VirtualClock(seed=next(SEEDS))
    metastore = SqlMetastore(SqlDatabase(sql_address(f"sqlite:///{names}", {})), WarehouseFiles(store, clock), clock)
    return Catalog(store, clock=clock, metastore=metastore)


def keys_of(catalog: Catalog) -> list[int]:
    found: list[int] = sorted(catalog.table("db.t").scan().to_arrow()["k"].to_pylist())
    return found


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.DIE_BEFORE,
        pytest.param(FaultKind.DIE_AFTER, marks=pytest.mark.long),
        pytest.param(FaultKind.LOST_BEFORE, marks=pytest.mark.long),
    ],
)
def test_a_writer_that_dies_at_any_request_is_carried_on_by_the_next_one(kind: FaultKind, tmp_path: Path) -> None:
    made = HeldStore()
    first = tmp_path / "first.db"
    before = catalog_on(Unconditional(made), first)
    before.create_database("db")
    before.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"}).write([{"k": 1}])
    start = {info.key: made.read(info.key) for info in made.list("")}
    applied = 0
    for at in count(1):
        inner, names = HeldStore(), tmp_path / f"{at}.db"
        inner.write(start)
        names.write_bytes(first.read_bytes())
        faulty = Unconditional(inner, [Fault(at=at, kind=kind)])
        try:
            catalog_on(faulty, names).table("db.t").write([{"k": 2}])
            told = True
        except (ProcessDied, LakehouseError):
            told = False

        after = catalog_on(Unconditional(inner), names)
        found = keys_of(after)
        assert found in ([1, 2], [1]), at
        assert found == [1, 2] or not told, at
        after.table("db.t").write([{"k": 3}])
        assert keys_of(after) == [*found, 3], at
        assert after.table("db.t").verify().findings == (), at
        # Who has no database sees the same in the files.
        assert keys_of(Catalog(inner, clock=VirtualClock())) == [*found, 3], at
        applied += found == [1, 2]
        if len(faulty.calls) < at:
            break
    assert at > 10
    assert applied > 1


def test_a_row_without_its_file_is_read_and_its_file_is_written(tmp_path: Path) -> None:
    inner = MemoryStore()
    decided(Unconditional(inner), tmp_path / "names.db").create_new("t/made", b"")
    dying = decided(Unconditional(inner, [Fault(at=4, kind=FaultKind.DIE_BEFORE)]), tmp_path / "names.db")
    with pytest.raises(ProcessDied):
        dying.create_new("t/snapshot/snapshot-1", b"first")
    assert objects(inner) == {"t/made"}

    other = decided(Unconditional(inner), tmp_path / "names.db")
    assert not other.create_new("t/snapshot/snapshot-1", b"second")
    assert other.children("t/snapshot").files == ("snapshot-1",)
    assert inner.read("t/snapshot/snapshot-1") == b"first"


def test_a_table_that_has_rows_only_is_there(tmp_path: Path) -> None:
    """Its folder comes with its first file, which the next reader writes."""
    inner = MemoryStore()
    decided(Unconditional(inner), tmp_path / "names.db").create_new("other/schema/schema-0", b"")
    dying = decided(Unconditional(inner, [Fault(at=4, kind=FaultKind.DIE_BEFORE)]), tmp_path / "names.db")
    with pytest.raises(ProcessDied):
        dying.create_new("t/schema/schema-0", b"first")
    assert not inner.children("t").folders

    table = decided(Unconditional(inner), tmp_path / "names.db").at("t", is_table=True)
    assert table.read("schema/schema-0") == b"first"
    assert inner.read("t/schema/schema-0") == b"first"


@pytest.mark.parametrize("expected", [b"new", None], ids=["replaced", "deleted"])
def test_a_writer_that_was_overtaken_leaves_the_file_as_the_last_one_wants_it(
    expected: bytes | None, tmp_path: Path
) -> None:
    """It sleeps between its row and its file, while another one replaces or deletes the object."""
    inner, names, acted = MemoryStore(), tmp_path / "names.db", list[str]()

    class Sleeping(Unconditional):
        def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
            if not acted and "tag/t" in objects:
                acted.append("tag/t")
                other = decided(Unconditional(inner), names)
                found = other.read_versioned("tag/t")
                assert found is not None
                if expected is None:
                    other.delete(["tag/t"])
                else:
                    assert other.replace("tag/t", expected, if_version=found[1])
            super().write(objects, durable=durable)

    assert decided(Sleeping(inner), names).create_new("tag/t", b"old")

    assert acted == ["tag/t"]
    assert inner.read_found(["tag/t"]) == ({} if expected is None else {"tag/t": expected})


@pytest.mark.parametrize("before", ["there", "missing", "deleted"])
def test_a_deletion_that_was_overtaken_leaves_the_file_of_an_object_that_was_made_since(
    before: str, tmp_path: Path
) -> None:
    """It sleeps between its row and its file, while another one makes an object of the same key."""
    inner, names, acted = MemoryStore(), tmp_path / "names.db", list[str]()

    class Sleeping(Unconditional):
        def delete(self, keys: Iterable[str]) -> Sequence[str]:
            asked = list(keys)
            if not acted and asked == ["tag/t"]:
                acted.append("tag/t")
                assert decided(Unconditional(inner), names).create_new("tag/t", b"new")
            return super().delete(asked)

    if before != "missing":
        decided(Unconditional(inner), names).create_new("tag/t", b"old")
    if before == "deleted":
        decided(Unconditional(inner), names).delete(["tag/t"])

    assert decided(Sleeping(inner), names).delete(["tag/t"]) == []

    assert acted == ["tag/t"]
    assert inner.read_found(["tag/t"]) == {"tag/t": b"new"}
    assert decided(Unconditional(inner), names).children("tag").files == ("t",)


def test_a_file_that_came_after_its_object_was_deleted_goes_with_a_later_deletion(tmp_path: Path) -> None:
    inner = MemoryStore()
    store = decided(Unconditional(inner), tmp_path / "names.db")
    store.create_new("tag/t", b"old")
    store.delete(["tag/t"])
    # By a writer that was killed before its note.
    inner.write({"tag/t": b"old"})

    assert store.delete(["tag/t"]) == []

    assert inner.read_found(["tag/t"]) == {}


def test_a_deletion_after_which_the_database_does_not_answer_is_done(tmp_path: Path) -> None:
    inner, names, away = MemoryStore(), tmp_path / "names.db", tmp_path / "away.db"

    class Last(Unconditional):
        def delete(self, keys: Iterable[str]) -> Sequence[str]:
            left = super().delete(keys)
            names.rename(away)
            # No file that SQLite could open.
            names.mkdir()
            return left

    decided(Unconditional(inner), names).create_new("tag/t", b"old")

    assert decided(Last(inner), names).delete(["tag/t"]) == []

    names.rmdir()
    away.rename(names)
    assert decided(Unconditional(inner), names).read_found(["tag/t"]) == {}
    assert inner.read_found(["tag/t"]) == {}


# How often a deletion of an object without a row reads from the database.
READS = {
    "bucket-0/f": 0,
    "snapshot/LATEST": 0,
    "consumer/consumer-a": 1,
    "lakehouse/pending/u-1": 1,
    "lakehouse/queue/0000000001-a": 1,
    "tag/t": 2,
    "schema/schema-0": 2,
}


@pytest.mark.parametrize("key", READS)
def test_a_deletion_looks_again_only_for_objects_that_may_have_been_made_since(key: str, tmp_path: Path) -> None:
    class Counting(SqlDatabase):
        reads = 0

        def read(self, *arguments: Any, **more: Any) -> Any:
            self.reads += 1
            return super().read(*arguments, **more)

    database = Counting(sql_address(f"sqlite:///{tmp_path}/names.db", {}), (COMMITS,))
    store = DecidedStore(Unconditional(MemoryStore()), database, VirtualClock(seed=next(SEEDS)))
    store.create_new("tag/other", b"other")
    database.reads = 0

    store.delete([key])

    assert database.reads == READS[key]


def objects(store: MemoryStore) -> set[str]:
    return {info.key for info in store.list("") if not info.key.startswith(".lakehouse-decided/")}


def test_a_warehouse_is_refused_to_writers_of_another_database(tmp_path: Path) -> None:
    inner = MemoryStore()
    decided(inner, tmp_path / "first.db").create_new("a", b"1")
    before = {info.key for info in inner.list("")}

    other = decided(inner, tmp_path / "second.db")
    for write in (
        lambda: other.create_new("b", b"2"),
        lambda: other.replace("a", b"2", if_version="0"),
        lambda: other.write({"b": b"2"}),
        lambda: other.write({"t/bucket-0/f": b"2"}),
        lambda: other.at("t").open_write("bucket-0/f"),
        lambda: other.delete(["a"]),
    ):
        with pytest.raises(lc.InvalidRequest) as told:
            write()
    assert str(told.value) == (
        f"{inner.uri('')}: sqlite:///{tmp_path}/first.db decides here which writer wins, and this catalog asks "
        f"sqlite:///{tmp_path}/second.db, so commits could be lost. Nothing was written. Connect with "
        "storage={'conditional-writes': 'false'} and that database as metastore. If this is a copy of that warehouse, "
        f"remove what is below {inner.uri('.lakehouse-decided')}/ first."
    )
    assert {info.key for info in inner.list("")} == before
    assert other.read("a") == b"1"
    assert decided(inner, tmp_path / "first.db").create_new("b", b"2")
    inner.delete([key for key in before if key.startswith(".lakehouse-decided/")])
    assert decided(inner, tmp_path / "second.db").create_new("c", b"2")


@pytest.mark.parametrize("at", range(1, 4))
def test_of_two_databases_that_begin_at_once_one_at_most_writes(at: int, tmp_path: Path) -> None:
    inner, wrote = MemoryStore(), list[str]()

    def write(names: str, store: ObjectStore) -> None:
        with suppress(lc.InvalidRequest):
            decided(store, tmp_path / names).create_new(names, b"")
            wrote.append(names)

    def meanwhile(call: Call) -> None:
        if call.number == at:
            write("second.db", inner)

    write("first.db", Unconditional(inner, on_call=meanwhile))

    assert len(wrote) <= 1
    assert objects(inner) == set(wrote)


def test_a_database_decides_under_one_key_about_one_warehouse(tmp_path: Path) -> None:
    decided(MemoryStore("one"), tmp_path / "names.db").create_new("a", b"1")
    other = MemoryStore()

    with pytest.raises(lc.InvalidRequest, match="under the catalog key 'jdbc' it decides about memory://one, and this"):
        decided(other, tmp_path / "names.db").create_new("a", b"2")
    assert [*other.list("")] == []


def test_writers_that_ask_no_database_are_refused_where_one_decides() -> None:
    with S3Stub() as stub, tempfile.TemporaryDirectory() as folder:
        names = f"sqlite:///{folder}/names.db"
        decides = lc.connect("s3://lake/wh", storage={**stub.storage, "conditional-writes": "false"}, metastore=names)
        decides.create_database("db")
        decides.create_table("db.t", {"k": "INT"}).write([{"k": 1}])
        before = set(stub.lake.objects)

        told = []
        folders = lc.connect("s3://lake/wh", storage=stub.storage)
        names_only = lc.connect("s3://lake/wh", storage=stub.storage, metastore=names)
        unpickled = pickle.loads(pickle.dumps(folders.table("db.t")))
        for write in (
            lambda: folders.table("db.t").write([{"k": 2}]),
            lambda: folders.create_database("more"),
            lambda: folders.drop_table("db.t"),
            lambda: names_only.table("db.t").write([{"k": 2}]),
            lambda: unpickled.create_tag("t"),
        ):
            with pytest.raises(lc.InvalidRequest, match="and this catalog asks the store alone, so") as each:
                write()
            told.append(str(each.value).removeprefix("db.t: "))
        assert len(set(told)) == 1
        assert f"{names} decides here" in told[0]
        assert names_only.table("db.t").scan().count() == folders.table("db.t").scan().count() == 1
        assert set(stub.lake.objects) == before
        for key in before:
            if "/.lakehouse-decided/" in key:
                stub.lake.drop(key)
        folders.table("db.t").write([{"k": 2}])
        assert folders.table("db.t").scan().count() == 2


ROWS = 4


def write_some(metastore: str, storage: dict[str, str], first: int) -> int:
    """Commit some rows, each until it is done: on a busy machine the file of the database may be locked for long."""
    table = lc.connect("s3://lake/wh", storage=storage, metastore=metastore).table("db.t")
    for number in range(first, first + ROWS):
        staged = table.stage([{"k": number}], commit_user=f"writer {first}", commit_identifier=number)
        while True:
            try:
                table.commit(staged)
                break
            except (lc.StorageUnavailable, lc.CommitOutcomeUnknown, lc.CommitTimeout):
                continue
    return ROWS


@pytest.mark.program
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("writers", in_turn(2, [2, 4]))
def test_processes_on_a_server_that_ignores_conditions_lose_and_double_nothing(tmp_path: Path, writers: int) -> None:
    with S3Stub() as stub:
        stub.ignored = frozenset({"if-none-match", "if-match"})
        metastore = f"sqlite:///{tmp_path}/names.db"
        with pytest.raises(lc.UnsupportedFeature, match=r"give storage={'conditional-writes': 'false'} and a SQL cat"):
            lc.connect("s3://lake/wh", storage=stub.storage).create_database("db")
        storage = {**stub.storage, "conditional-writes": "false"}
        with pytest.raises(lc.UnsupportedFeature, match="Connect with metastore=, and write there"):
            lc.connect("s3://lake/wh", storage=storage).create_database("db")
        with pytest.raises(lc.InvalidRequest, match="which Java does not know"):
            lc.connect("s3://lake/wh", storage=storage, metastore=metastore, metastore_options={"lock.enabled": "true"})
        catalog = lc.connect("s3://lake/wh", storage=storage, metastore=metastore)
        catalog.create_database("db")
        catalog.create_table("db.t", {"k": "INT NOT NULL"}, options={"bucket": "-1"})

        firsts = [100 * number for number in range(writers)]
        with multiprocessing.get_context("spawn").Pool(writers) as pool:
            running = [pool.apply_async(write_some, (metastore, storage, first)) for first in firsts]
            assert sum(each.get(timeout=HANGS_AFTER_SECONDS) for each in running) == writers * ROWS

        table = catalog.table("db.t")
        expected = [first + number for first in firsts for number in range(ROWS)]
        assert sorted(table.scan().to_arrow()["k"].to_pylist()) == expected
        assert len(table.snapshots()) == writers * ROWS
        assert table.verify().findings == ()
        assert sorted(pickle.loads(pickle.dumps(table)).scan().to_arrow()["k"].to_pylist()) == expected
