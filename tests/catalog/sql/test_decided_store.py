"""Conditional writes that a database decides, over a store that ignores conditions: races, kills between the steps."""

import multiprocessing
import pickle
from itertools import count
from pathlib import Path

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
from lakehouse_core.errors import LakehouseError, UnsupportedFeature
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore, ProcessDied
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.contract import StoreContract
from tests.storage.s3_stub import S3Stub

SEEDS = count()


class Unconditional(FaultyStore):
    """A store without conditional writes: who asks for one has found a fault of ours."""

    def create_new(self, key: str, data: bytes) -> bool:
        raise UnsupportedFeature(f"{key}: this store has no conditional writes.")

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        raise UnsupportedFeature(f"{key}: this store has no conditional writes.")

    def at(self, prefix: str) -> "Unconditional":
        deeper = Unconditional(self._inner.at(prefix))
        deeper._prefix = "/".join(part for part in (self._prefix, prefix) if part)
        deeper._progress = self._progress
        return deeper


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
    made = MemoryStore()
    first = tmp_path / "first.db"
    before = catalog_on(Unconditional(made), first)
    before.create_database("db")
    before.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"}).write([{"k": 1}])
    start = {info.key: made.read(info.key) for info in made.list("")}
    applied = 0
    for at in count(1):
        inner, names = MemoryStore(), tmp_path / f"{at}.db"
        inner.write_all(start)
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
    dying = decided(Unconditional(inner, [Fault(at=2, kind=FaultKind.DIE_BEFORE)]), tmp_path / "names.db")
    with pytest.raises(ProcessDied):
        dying.create_new("t/snapshot/snapshot-1", b"first")
    assert [*inner.list("")] == []

    other = decided(Unconditional(inner), tmp_path / "names.db")
    assert not other.create_new("t/snapshot/snapshot-1", b"second")
    assert other.children("t/snapshot").files == ("snapshot-1",)
    assert inner.read("t/snapshot/snapshot-1") == b"first"


@pytest.mark.parametrize("expected", [b"new", None], ids=["replaced", "deleted"])
def test_a_writer_that_was_overtaken_leaves_the_file_as_the_last_one_wants_it(
    expected: bytes | None, tmp_path: Path
) -> None:
    """It sleeps between its row and its file, while another one replaces or deletes the object."""
    inner, names, acted = MemoryStore(), tmp_path / "names.db", list[str]()

    class Sleeping(Unconditional):
        def write(self, key: str, data: bytes, *, durable: bool = True) -> None:
            if not acted:
                acted.append(key)
                other = decided(Unconditional(inner), names)
                found = other.read_versioned(key)
                assert found is not None
                if expected is None:
                    other.delete([key])
                else:
                    assert other.replace(key, expected, if_version=found[1])
            super().write(key, data, durable=durable)

    assert decided(Sleeping(inner), names).create_new("tag/t", b"old")

    assert acted == ["tag/t"]
    assert inner.read_found(["tag/t"]) == ({} if expected is None else {"tag/t": expected})


def write_some(metastore: str, storage: dict[str, str], first: int) -> int:
    table = lc.connect("s3://lake/wh", storage=storage, metastore=metastore).table("db.t")
    for number in range(first, first + 8):
        table.write([{"k": number}])
    return 8


@pytest.mark.slow
def test_four_processes_on_a_server_that_ignores_conditions_lose_and_double_nothing(tmp_path: Path) -> None:
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

        with multiprocessing.get_context("spawn").Pool(4) as pool:
            running = [pool.apply_async(write_some, (metastore, storage, first)) for first in (0, 100, 200, 300)]
            assert sum(each.get(timeout=HANGS_AFTER_SECONDS) for each in running) == 32

        table = catalog.table("db.t")
        expected = sorted(first + number for first in (0, 100, 200, 300) for number in range(8))
        assert sorted(table.scan().to_arrow()["k"].to_pylist()) == expected
        assert len(table.snapshots()) == 32
        assert table.verify().findings == ()
        assert sorted(pickle.loads(pickle.dumps(table)).scan().to_arrow()["k"].to_pylist()) == expected
