"""A lost answer is found out by looking; what was found done is made to last before anybody builds on it."""

import pytest

from lakehouse_core.errors import NotFound, StorageFull, StorageUnavailable, WriteOutcomeUnknown
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore
from lakehouse_core.storage.outcomes import begun, clear_away, created, moved, named_by_nobody, replaced


def failing(kind: FaultKind, *, at: int = 1) -> tuple[MemoryStore, FaultyStore]:
    inner = MemoryStore()
    return inner, FaultyStore(inner, [Fault(at=at, kind=kind)])


def methods(store: FaultyStore) -> list[str]:
    return [call.method for call in store.calls]


def version(store: ObjectStore) -> str | None:
    found = store.read_versioned("a")
    return None if found is None else found[1]


def test_an_object_that_was_created_is_found_and_made_to_last() -> None:
    inner, store = failing(FaultKind.FAIL_AFTER)

    assert created(store, "a", b"mine")
    assert inner.read("a") == b"mine"
    assert methods(store) == ["create_new", "read", "make_last"]


@pytest.mark.parametrize(("there", "is_done"), [(b"theirs", False), (b"mine", True)])
def test_whose_an_object_is_shows_in_its_bytes(there: bytes, is_done: bool) -> None:
    inner, store = failing(FaultKind.LOST_BEFORE)
    inner.write({"a": there})

    assert created(store, "a", b"mine") is is_done
    assert inner.read("a") == there


def test_what_the_store_calls_anothers_is_ours_when_it_has_our_bytes() -> None:
    inner, store = failing(FaultKind.FAIL_BEFORE, at=99)
    inner.write({"a": b"mine"})

    assert created(store, "a", b"mine")
    assert methods(store) == ["create_new", "read", "make_last"]
    assert not created(store, "a", b"theirs")


def test_an_object_that_may_still_come_is_an_unknown_outcome() -> None:
    _, store = failing(FaultKind.LOST_BEFORE)

    with pytest.raises(WriteOutcomeUnknown):
        created(store, "a", b"mine")
    assert methods(store) == ["create_new", "read"]


@pytest.mark.parametrize("first", [FaultKind.FAIL_AFTER, FaultKind.LOST_BEFORE])
def test_an_effect_that_cannot_be_looked_for_is_an_unknown_outcome(first: FaultKind) -> None:
    def store(at: int) -> FaultyStore:
        inner = MemoryStore()
        inner.write({"from/a": b"mine"})
        faults = [Fault(at=at, kind=first), Fault(at=at + 1, kind=FaultKind.FAIL_BEFORE)]
        return FaultyStore(inner, faults)

    with pytest.raises(WriteOutcomeUnknown):
        created(store(1), "a", b"mine")
    with pytest.raises(WriteOutcomeUnknown):
        replaced(store(1), "a", b"mine", if_version=None)
    with pytest.raises(WriteOutcomeUnknown):
        moved(store(2), "from", "to", witness="a")


def test_an_object_that_may_not_last_is_an_unknown_outcome() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, [Fault(at=1, kind=FaultKind.FAIL_AFTER), Fault(at=3, kind=FaultKind.LOST_BEFORE)])

    with pytest.raises(WriteOutcomeUnknown):
        created(store, "a", b"mine")


def test_a_version_that_was_set_is_found_and_made_to_last() -> None:
    inner, store = failing(FaultKind.FAIL_AFTER)
    inner.write({"a": b"old"})

    assert replaced(store, "a", b"mine", if_version=version(inner))
    assert methods(store) == ["replace", "read_versioned", "make_last"]


def test_a_version_that_another_one_set_is_his() -> None:
    inner, store = failing(FaultKind.LOST_BEFORE)
    inner.write({"a": b"old"})
    old = version(inner)
    inner.write({"a": b"theirs"})

    assert not replaced(store, "a", b"mine", if_version=old)


@pytest.mark.parametrize("there", [b"old", None])
def test_a_version_that_may_still_be_set_is_an_unknown_outcome(there: bytes | None) -> None:
    inner, store = failing(FaultKind.LOST_BEFORE)
    if there is not None:
        inner.write({"a": there})

    with pytest.raises(WriteOutcomeUnknown):
        replaced(store, "a", b"mine", if_version=version(inner))


def test_a_folder_that_was_moved_is_known_by_what_lies_in_it() -> None:
    inner, store = failing(FaultKind.FAIL_AFTER, at=2)
    inner.write({"t/schema/schema-0": b"mine"})

    assert moved(store, "t", "u", witness="schema/schema-0")
    assert inner.read("u/schema/schema-0") == b"mine"
    assert methods(store)[-2:] == ["make_last", "make_last"]


@pytest.mark.parametrize("there", [None, b"theirs"])
def test_a_folder_that_may_still_be_moved_is_an_unknown_outcome(there: bytes | None) -> None:
    inner, store = failing(FaultKind.LOST_BEFORE, at=2)
    inner.write({"t/schema/schema-0": b"mine"})
    if there is not None:
        inner.write({"u/schema/schema-0": there})

    with pytest.raises(WriteOutcomeUnknown):
        moved(store, "t", "u", witness="schema/schema-0")
    assert inner.read("t/schema/schema-0") == b"mine"


def test_a_folder_that_is_not_there_or_taken_is_told() -> None:
    store = MemoryStore()
    with pytest.raises(NotFound):
        moved(store, "t", "u", witness="a")
    store.write({"t/a": b"", "u/a": b""})

    assert not moved(store, "t", "u", witness="a")


def test_what_nobody_names_may_stay_when_it_cannot_be_deleted() -> None:
    inner, store = failing(FaultKind.FAIL_BEFORE)
    inner.write({"a": b""})

    clear_away(store, ["a"])

    assert inner.read("a") == b""


def test_what_nobody_names_was_not_applied_and_what_has_begun_may_be() -> None:
    with pytest.raises(StorageUnavailable, match=r"lost\. No snapshot names the file") as raised, named_by_nobody():
        raise WriteOutcomeUnknown("lost.")
    assert not isinstance(raised.value, WriteOutcomeUnknown)
    with pytest.raises(StorageFull, match="full"), named_by_nobody():
        raise StorageFull("full")

    with pytest.raises(WriteOutcomeUnknown, match=r"full\. Call again\."), begun("Call again."):
        raise StorageFull("full.")
