"""Every verb, with the store failing at its calls: done or not, told truly, nothing damaged, and well when repeated.

Tasks have the same store, so data files, changelogs and indexes fail too. Here the calls that write of every second
verb, and for short verbs all; each call of each verb in each way is what `make test-long` and `make search` go through.
"""

from itertools import count

import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, MemoryStore
from tests.model.fault_verbs import FILE_VERBS, VERBS, catalog_of, make, seen
from tests.model.store_faults import KINDS, copied, sweep
from tests.pairs import each_with_one, in_turn

READS = {
    "scan": lambda table: table.scan().to_arrow().to_pylist(),
    "scan of a tag": lambda table: table.scan(at=lc.AtTag("kept")).to_arrow().to_pylist(),
    "count": lambda table: table.scan(where="v <> 'x'").count(),
    "lookup": lambda table: table.lookup([1, 2, 9], aligned=True).to_pylist(),
    "changes": lambda table: table.changes(after=0).to_arrow().to_pylist(),
    "diff": lambda table: table.diff(1, 2).to_arrow().to_pylist(),
    "files": lambda table: [file.path for file in table.files()],
}


def is_file_of_rows(call: Call) -> bool:
    """Whether it is a call for a data file, a changelog, or an index of one."""
    return "/bucket-" in call.key or "/index/" in call.key


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), each_with_one(VERBS, [FaultKind.DIE_AFTER, FaultKind.FAIL_AFTER, FaultKind.LOST_BEFORE], step=11)
)
def test_readers_see_before_or_after_whatever_write_fails(name, kind):
    assert sweep(name, kind, is_wanted=lambda call: call.writes) > 0


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), each_with_one(FILE_VERBS, [FaultKind.DIE_AFTER, FaultKind.FAIL_AFTER], step=8)
)
def test_readers_see_before_or_after_whatever_file_fails(name, kind):
    assert sweep(name, kind, is_wanted=lambda call: call.writes and is_file_of_rows(call)) > 0


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILE_VERBS)
def test_readers_see_before_or_after_whatever_fails_of_what_writes_files(name, kind):
    assert sweep(name, kind) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    in_turn(
        3, ["compact manifests", "tag", "untag", "alter", "create table", "drop table", "rename table", "drop database"]
    ),
)
def test_unavailable_means_not_applied_whatever_call_fails(name):
    assert sweep(name, FaultKind.FAIL_BEFORE) > 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["write", "overwrite", "compact", "compact, postponed buckets"])
def test_unavailable_means_nothing_left_behind(name, every):
    made = MemoryStore(clock=VirtualClock())
    make(made, VERBS[name])
    before = {info.key for info in made.list("")}
    for number in count(1, every):
        store = copied(made)
        faulty = FaultyStore(store, [Fault(at=number, kind=FaultKind.FAIL_BEFORE)])
        try:
            VERBS[name].run(catalog_of(faulty, 2))
        except lc.StorageUnavailable:
            assert {info.key for info in store.list("")} == before, f"call {number}"
        if len(faulty.calls) < number:
            break


@pytest.mark.parametrize(("name", "kind"), each_with_one(VERBS, [FaultKind.ENOSPC, FaultKind.EACCES], step=2))
def test_a_full_or_read_only_store_is_told_and_changes_nothing(name, kind):
    store = MemoryStore(clock=VirtualClock())
    make(store, VERBS[name])
    before = seen(catalog_of(store, 1))
    faulty = FaultyStore(store, [Fault(at=1, kind=kind, count=10_000)])

    with pytest.raises(lc.StorageUnavailable):
        VERBS[name].run(catalog_of(faulty, 2))

    assert seen(catalog_of(store, 3)) == before


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("read", "name"), each_with_one(READS, ["write", "write, marked", "write, indexed", "write, orc"])
)
def test_a_read_whose_store_fails_says_so_and_never_answers_wrong(name, read):
    verb = {**VERBS, **FILE_VERBS}[name]
    made = MemoryStore(clock=VirtualClock())
    make(made, verb)
    verb.run(catalog_of(made, 1))
    whole = FaultyStore(copied(made))
    right = READS[read](catalog_of(whole, 2).table("db.t"))
    assert read == "files" or any(is_file_of_rows(call) for call in whole.calls)
    for call in whole.calls:
        failing = FaultyStore(copied(made), [Fault(at=call.number, kind=FaultKind.FAIL_BEFORE)])
        with pytest.raises(lc.StorageUnavailable):
            READS[read](catalog_of(failing, 2).table("db.t"))
        flipped = Fault(at=call.number, kind=FaultKind.FLIP_BIT, position=7919 * call.number)
        try:
            answer = READS[read](catalog_of(FaultyStore(copied(made), [flipped]), 2).table("db.t"))
        except (lc.CorruptTable, lc.NotFound, lc.UnsupportedFeature):
            continue
        except lc.InvalidRequest:
            # A schema has no checksum; one that changed is that of another table.
            assert "/schema/" in call.key
            continue
        assert answer == right, call
