"""The memory store keeps the contract, and shares its objects by name."""

import tracemalloc

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import NotFound
from lakehouse_core.storage import MemoryStore, ObjectStore, StoreSpec, open_store
from tests.storage.contract import FolderContract


class TestMemoryStore(FolderContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryStore()


def test_stores_of_one_name_share_and_others_do_not() -> None:
    one, other = MemoryStore("shared"), MemoryStore()
    one.write({"a": b"1"})

    assert MemoryStore("shared").read("a") == b"1"
    assert open_store(StoreSpec("memory", "shared")).read("a") == b"1"
    with pytest.raises(NotFound):
        other.read("a")


def test_the_objects_go_with_the_last_store_of_their_name() -> None:
    MemoryStore("short-lived").write({"a": b"1"})

    with pytest.raises(NotFound):
        MemoryStore("short-lived").read("a")


def test_objects_are_dated_by_the_clock() -> None:
    clock = VirtualClock(now_millis=5000)
    store = MemoryStore(clock=clock)
    store.write({"a": b""})
    clock.advance(1)

    assert next(store.list("")).modified_millis == 5000
    assert store.now_millis() == 6000


def test_a_write_to_a_table_of_many_objects_does_not_go_through_all_of_them() -> None:
    store = MemoryStore()
    store.write({f"t/{number}": b"" for number in range(10_000)})
    table = store.at("t", is_table=True)

    tracemalloc.start()
    try:
        table.write({"new": b""})
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # A list of the objects takes at least a pointer for each.
    assert most_bytes < 8 * 10_000
