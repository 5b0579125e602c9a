"""The faulty store passes everything on but what its plan names, and counts every call."""

from pathlib import Path

import pytest

from lakehouse_core.errors import StorageFull, StorageUnavailable, WriteOutcomeUnknown
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, LocalStore, MemoryStore, ObjectStore, ProcessDied
from tests.storage.contract import FolderContract


class TestFaultyStoreWithoutFaults(FolderContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return FaultyStore(LocalStore(str(tmp_path)))


def faulty(kind: FaultKind, at: int = 1, position: int = 0) -> tuple[MemoryStore, FaultyStore]:
    inner = MemoryStore()
    return inner, FaultyStore(inner, [Fault(at=at, kind=kind, position=position)])


def store_at_once(store: ObjectStore) -> None:
    store.write({"a": b"x"})


def create(store: ObjectStore) -> None:
    store.create_new("a", b"x")


def stream(store: ObjectStore) -> None:
    with store.open_write("a") as sink:
        sink.write(b"x")


def names(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list("")]


def test_every_call_is_numbered_also_those_of_deeper_stores() -> None:
    store = FaultyStore(MemoryStore())
    table = store.at("db/t")
    table.write({"a": b""})
    store.infos(["db/t/a"])
    with table.open_write("b") as sink:
        sink.write(b"")
    table.delete(["a", "b"])

    assert [(call.number, call.method, call.key) for call in store.calls] == [
        (1, "write", "db/t/a"),
        (2, "infos", "db/t/a"),
        (3, "open_write", "db/t/b"),
        (4, "close", "db/t/b"),
        (5, "delete", "db/t/a"),
        (6, "delete", "db/t/b"),
    ]
    assert [call.number for call in store.calls if call.writes] == [1, 4, 5, 6]


@pytest.mark.parametrize(
    ("kind", "error", "applied"),
    [
        (FaultKind.FAIL_BEFORE, StorageUnavailable, False),
        (FaultKind.EACCES, StorageUnavailable, False),
        (FaultKind.ENOSPC, StorageFull, False),
        (FaultKind.LOST_BEFORE, WriteOutcomeUnknown, False),
        (FaultKind.FAIL_AFTER, WriteOutcomeUnknown, True),
        (FaultKind.DIE_BEFORE, ProcessDied, False),
        (FaultKind.DIE_AFTER, ProcessDied, True),
    ],
)
def test_a_write_is_applied_or_not_and_the_caller_learns_it_or_not(
    kind: FaultKind, error: type[BaseException], applied: bool
) -> None:
    for verb, at in ((store_at_once, 1), (create, 1), (stream, 2)):
        inner, store = faulty(kind, at=at)
        with pytest.raises(error):
            verb(store)

        assert names(inner) == (["a"] if applied else [])


def test_a_dead_process_does_nothing_more() -> None:
    inner, store = faulty(FaultKind.DIE_AFTER)
    with pytest.raises(ProcessDied):
        store.at("t").write({"a": b"x"})
    with pytest.raises(ProcessDied):
        store.write({"b": b"x"})
    with pytest.raises(ProcessDied):
        store.delete(["t/a"])

    assert names(inner) == ["t/a"]


def test_a_torn_write_leaves_its_first_bytes() -> None:
    inner, store = faulty(FaultKind.TORN, position=3)
    with pytest.raises(ProcessDied):
        store.write({"hint": b"12345"})

    assert inner.read("hint") == b"123"


def test_a_read_may_come_back_with_one_bit_changed() -> None:
    inner, store = faulty(FaultKind.FLIP_BIT, position=9)
    inner.write({"a": b"\0\0"})

    assert store.read("a") == b"\0\2"
    assert store.read("a") == b"\0\0"


def test_a_full_disk_does_not_hinder_reading() -> None:
    inner, store = faulty(FaultKind.ENOSPC)
    inner.write({"a": b"x"})

    assert store.read("a") == b"x"


def test_another_actor_may_move_before_each_call() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, on_call=lambda call: inner.write({f"seen-{call.number}": call.method.encode()}))
    store.write({"a": b""})
    store.read("a")

    assert [inner.read("seen-1"), inner.read("seen-2")] == [b"write", b"read"]
