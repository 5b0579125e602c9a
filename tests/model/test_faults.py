"""Every verb, with the store failing at every call: readers see the state before or the one after, never between."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore, ProcessDied

KINDS = [FaultKind.DIE_BEFORE, FaultKind.DIE_AFTER, FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.LOST_BEFORE]


@dataclass(frozen=True)
class Verb:
    """What is done, and the rows that the table then has."""

    run: Callable[[lc.Table], object]
    after: list[tuple[int, str]]


BEFORE = [(1, "b"), (2, "a")]
VERBS = {
    "write": Verb(lambda table: table.write([{"k": 3, "v": "c"}]), [(1, "b"), (2, "a"), (3, "c")]),
    "overwrite": Verb(lambda table: table.overwrite([{"k": 9, "v": "z"}]), [(9, "z")]),
    "compact": Verb(lambda table: table.compact(full=True), BEFORE),
    "compact-manifests": Verb(lambda table: table.compact_manifests(), BEFORE),
    "alter": Verb(lambda table: table.alter(lc.SetOption("target-file-size", "1 mb")), BEFORE),
    "expire": Verb(lambda table: table.expire_snapshots(retain_max=1, older_than=timedelta(0)), BEFORE),
    "tag": Verb(lambda table: table.create_tag("t"), BEFORE),
    "untag": Verb(lambda table: table.delete_tag("kept"), BEFORE),
}


def make_table(clock: VirtualClock) -> MemoryStore:
    store = MemoryStore(clock=clock)
    catalog = Catalog(store, clock=clock)
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t",
        {"k": "INT NOT NULL", "v": "STRING"},
        primary_keys=["k"],
        options={"bucket": "1", "lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"},
    )
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "a"}])
    table.create_tag("kept")
    table.write([{"k": 1, "v": "b"}])
    return store


def rows(store: ObjectStore, clock: VirtualClock, at: lc.ReadPoint) -> list[tuple[int, str]]:
    found = Catalog(store, clock=clock).table("db.t").scan(at=at).to_arrow()
    return sorted((row["k"], row["v"]) for row in found.to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VERBS)
def test_readers_see_before_or_after_whatever_call_fails(name, kind):
    verb = VERBS[name]
    for number in count(1):
        clock = VirtualClock()
        store = make_table(clock)
        faulty = FaultyStore(store, [Fault(at=number, kind=kind)])
        ended = None
        try:
            verb.run(Catalog(faulty, clock=clock).table("db.t"))
        except (lc.LakehouseError, ProcessDied) as error:
            ended = error

        seen = rows(store, clock, lc.Latest())
        assert seen in (BEFORE, verb.after), f"call {number}"
        assert ended is not None or seen == verb.after, f"call {number} was acknowledged"
        again = Catalog(store, clock=clock).table("db.t")
        with suppress(lc.InvalidRequest, lc.NotFound):
            verb.run(again)
        assert rows(store, clock, lc.Latest()) == verb.after, f"call {number}, done again"
        assert again.verify().findings == (), f"call {number}"
        if len(faulty.calls) < number:
            break


@pytest.mark.parametrize("name", ["write", "overwrite", "compact"])
def test_unavailable_means_not_applied_and_nothing_left_behind(name):
    for number in count(1):
        clock = VirtualClock()
        store = make_table(clock)
        before = {info.key for info in store.list("")}
        faulty = FaultyStore(store, [Fault(at=number, kind=FaultKind.FAIL_BEFORE)])
        try:
            VERBS[name].run(Catalog(faulty, clock=clock).table("db.t"))
        except lc.StorageUnavailable:
            assert {info.key for info in store.list("")} == before, f"call {number}"
        if len(faulty.calls) < number:
            break


@pytest.mark.parametrize("kind", [FaultKind.ENOSPC, FaultKind.EACCES])
@pytest.mark.parametrize("name", VERBS)
def test_a_full_or_read_only_store_is_told_and_changes_nothing(name, kind):
    clock = VirtualClock()
    store = make_table(clock)
    faulty = FaultyStore(store, [Fault(at=1, kind=kind, count=10_000)])

    with pytest.raises(lc.StorageUnavailable):
        VERBS[name].run(Catalog(faulty, clock=clock).table("db.t"))

    assert rows(store, clock, lc.Latest()) == BEFORE
