"""A verb is paused, and its table in an object store is dropped and created again. It goes on, creates a snapshot or
schema in the new table, and removes it when it looks. Before that, other verbs use the new table: they build nothing on
it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import count, product

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, FaultyStore, ObjectStore
from lakehouse_core.table.snapshot import SCHEMA_TIME, parse_snapshot, serialize_snapshot
from tests.catalog.test_flat_store import FlatStore

NOW = 1_700_000_000_000
CREATED = re.compile("/(snapshot|schema)/")
NEXT = "db.db/t/snapshot/snapshot-2"
OPTIONS = {"bucket": "1", "write-only": "true", "lakehouse.read.grace": "0 s"}
# How many snapshots both tables have, so that the paused commit creates the next one of the new table.
LENGTHS = (0, 3)


def opened(store: ObjectStore, process: int) -> Catalog:
    return Catalog(store, clock=VirtualClock(seed=process, now_millis=NOW + 10_000 * process))


def fill(catalog: Catalog, text: str, writes: int) -> None:
    table = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=OPTIONS)
    for number in range(writes):
        table.write([{"k": number, "v": text}])


def filled(writes: int) -> FlatStore:
    store = FlatStore(clock=VirtualClock(now_millis=NOW))
    catalog = opened(store, 0)
    catalog.create_database("db")
    fill(catalog, "old", writes)
    return store


def write(table: lc.Table) -> object:
    return table.write([{"k": 8, "v": "paused"}])


PAUSED: dict[str, Callable[[lc.Table], object]] = {
    "write": write,
    "overwrite": lambda table: table.overwrite([{"k": 8, "v": "paused"}]),
    "compact": lambda table: table.compact(full=True),
    "compact manifests": lambda table: table.compact_manifests(),
    "roll back": lambda table: table.rollback_to(lc.AtSnapshot(1)),
    "alter": lambda table: table.alter(lc.AddColumn("w", "STRING")),
}
OTHERS: dict[str, Callable[[lc.Table], object]] = {
    "write": lambda table: table.write([{"k": 9, "v": "new"}]),
    "overwrite": lambda table: table.overwrite([{"k": 9, "v": "new"}]),
    "delete": lambda table: table.delete("k = 1"),
    "compact": lambda table: table.compact(full=True),
    "expire": lambda table: table.expire_snapshots(retain_max=1, older_than=timedelta(0)),
    "create a tag": lambda table: table.create_tag("a"),
    "create a tag of the next snapshot": lambda table: table.create_tag("a", at=lc.AtSnapshot(4)),
    "create a branch": lambda table: table.create_branch("b"),
    "roll back": lambda table: table.rollback_to(lc.AtSnapshot(1)),
    "alter": lambda table: table.alter(lc.AddColumn("w", "INT")),
    "read": lambda table: table.scan().to_arrow(),
}

# `make test` takes these, `make test-long` the others.
QUICK = [
    ("write", 0, "write"),
    ("overwrite", 0, "create a tag"),
    ("write", 3, "expire"),
    ("compact", 3, "create a tag of the next snapshot"),
    ("compact manifests", 3, "delete"),
    ("roll back", 3, "roll back"),
    ("alter", 0, "write"),
    ("alter", 3, "create a branch"),
]


@dataclass
class Overtaken:
    """Runs `verb`. Before its call `at` the table is dropped and created again, and if the verb creates a snapshot or
    schema in the new table, `other` runs before its next call.
    """

    store: ObjectStore
    verb: Callable[[lc.Table], object]
    writes: int
    at: int
    other: Callable[[lc.Table], object]
    is_over: bool = False
    creates: bool = False
    error: lc.LakehouseError | None = None
    other_error: lc.LakehouseError | None = None

    def run(self) -> "Overtaken":
        opens, calls = True, list[Call]()

        def interrupt(call: Call) -> None:
            if opens:
                return
            calls.append(call)
            if len(calls) == self.at:
                self.is_over = True
                catalog = opened(self.store, 1)
                catalog.drop_table("db.t")
                fill(catalog, "new", self.writes)
            elif self.is_over and calls[-2].method == "create_new" and CREATED.search(calls[-2].key):
                self.creates = True
                self.other_error = error_of(self.other, opened(self.store, 3).table("db.t"))

        table = opened(FaultyStore(self.store, on_call=interrupt), 2).table("db.t")
        assert len(table.schema.fields) == 2
        opens = False
        self.error = error_of(self.verb, table)
        return self


def error_of(verb: Callable[[lc.Table], object], table: lc.Table) -> lc.LakehouseError | None:
    try:
        verb(table)
    except lc.LakehouseError as error:
        return error
    return None


@cache
def calls_before_it_creates(verb: str, writes: int) -> tuple[int, ...]:
    """Return the calls of a verb before which a table must be replaced for it to create an object in the new one."""
    found = []
    for at in count(1):
        case = Overtaken(filled(writes), PAUSED[verb], writes, at, other=lambda table: None).run()
        if not case.is_over:
            return tuple(found)
        if case.creates:
            found.append(at)
    raise AssertionError("a verb ends")


@pytest.mark.parametrize(
    ("verb", "writes", "other"),
    [
        pytest.param(*case, marks=[pytest.mark.long] * (case not in QUICK))
        for case in product(PAUSED, LENGTHS, OTHERS)
        # Where there is no row these have nothing to do.
        if case[1] or case[0] in ("write", "overwrite", "alter")
    ],
)
def test_no_verb_builds_on_what_a_verb_of_the_table_before_created(verb: str, writes: int, other: str) -> None:
    ats = calls_before_it_creates(verb, writes)
    assert len(ats) >= 5
    for at in ats:
        case = Overtaken(filled(writes), PAUSED[verb], writes, at, other=OTHERS[other]).run()
        assert isinstance(case.error, lc.InvalidRequest), (at, case.error)
        assert "was dropped and created again" in str(case.error), at
        assert case.other_error is None or is_refusal(case.other_error), case.other_error

        table = opened(case.store, 4).table("db.t")
        found = [finding for finding in table.verify(data=True).findings if finding.object != "snapshot/LATEST"]
        assert found == [], (at, found)
        assert {*table.scan().to_arrow()["v"].to_pylist()} <= {"new"}, at
        table.write([{"k": 9, "v": "new"}])
        assert table.verify(data=True).findings == (), at


def is_refusal(error: lc.LakehouseError) -> bool:
    # Some ask for a snapshot that the table does not have.
    return "another table of this name, which was dropped, created it" in str(error) or isinstance(error, lc.NotFound)


def test_a_commit_waits_until_the_snapshot_of_another_table_is_removed() -> None:
    store, looks = filled(1), 0

    def remove_later(call: Call) -> None:
        nonlocal looks
        looks += call.key == NEXT
        if looks == 20:
            store.delete([NEXT])

    table = opened(FaultyStore(store, on_call=remove_later), 1).table("db.t")
    staged = table.stage([{"k": 9, "v": "new"}], commit_user="u", commit_identifier=1)
    create_foreign(store)

    assert table.commit(staged).snapshot_ids == (2,)
    assert looks > 20
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [0, 9]


def test_the_error_says_what_to_do_if_the_snapshot_stays() -> None:
    store = filled(1)
    table = opened(store, 1).table("db.t")
    staged = table.stage([{"k": 9, "v": "new"}], commit_user="u", commit_identifier=1)
    create_foreign(store)

    for verb in (write, lambda table: table.commit(staged)):
        with pytest.raises(lc.CorruptTable) as refused:
            verb(table)
        text = str(refused.value)
        assert f"{NEXT}: a commit to another table of this name, which was dropped, created it" in text
        assert "it names schema 0 of the time 1, and here that schema is of the time 1700000000000" in text
        assert "delete the object" in text
    store.delete([NEXT])
    table.commit(staged)
    assert table.scan().count() == 2


def create_foreign(store: ObjectStore) -> None:
    key = "db.db/t/snapshot/snapshot-1"
    snapshot = parse_snapshot(store.read(key), key)
    properties = {**snapshot.properties, SCHEMA_TIME: "1"}
    store.write(NEXT, serialize_snapshot(snapshot.model_copy(update={"id": 2, "properties": properties})))
