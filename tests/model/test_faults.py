"""Every verb, with the store failing at its calls: done or not, told truly, nothing damaged, and well when repeated.

Here the calls that write, and for short verbs all; each call in each way is what `make search` goes through.
"""

from itertools import count

import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore
from tests.model.fault_verbs import VERBS, catalog_of, make, seen
from tests.model.store_faults import copied, sweep


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FaultKind.DIE_AFTER, FaultKind.FAIL_AFTER, FaultKind.LOST_BEFORE])
@pytest.mark.parametrize("name", VERBS)
def test_readers_see_before_or_after_whatever_write_fails(name, kind):
    assert sweep(name, kind, is_wanted=lambda call: call.writes) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["compact manifests", "tag", "untag", "alter", "create table", "drop table", "rename table", "drop database"],
)
def test_unavailable_means_not_applied_whatever_call_fails(name):
    assert sweep(name, FaultKind.FAIL_BEFORE) > 0


@pytest.mark.parametrize("name", ["write", "overwrite", "compact"])
def test_unavailable_means_nothing_left_behind(name):
    made = MemoryStore(clock=VirtualClock())
    make(made, VERBS[name])
    before = {info.key for info in made.list("")}
    for number in count(1):
        store = copied(made)
        faulty = FaultyStore(store, [Fault(at=number, kind=FaultKind.FAIL_BEFORE)])
        try:
            VERBS[name].run(catalog_of(faulty, 2))
        except lc.StorageUnavailable:
            assert {info.key for info in store.list("")} == before, f"call {number}"
        if len(faulty.calls) < number:
            break


@pytest.mark.parametrize("kind", [FaultKind.ENOSPC, FaultKind.EACCES])
@pytest.mark.parametrize("name", VERBS)
def test_a_full_or_read_only_store_is_told_and_changes_nothing(name, kind):
    store = MemoryStore(clock=VirtualClock())
    make(store, VERBS[name])
    before = seen(catalog_of(store, 1))
    faulty = FaultyStore(store, [Fault(at=1, kind=kind, count=10_000)])

    with pytest.raises(lc.StorageUnavailable):
        VERBS[name].run(catalog_of(faulty, 2))

    assert seen(catalog_of(store, 3)) == before
