"""A verb is paused, and its table in an object store is dropped and created again. It goes on, creates a snapshot or
schema in the new table, and removes it when it looks. Before that, other verbs use the new table: they build nothing on
it.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from itertools import count, product

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, FaultyStore, ObjectStore
from lakehouse_core.storage.keys import joined
from lakehouse_core.table.schema import parse_schema, serialize_schema
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


def filled(writes: int, store: FlatStore | None = None) -> FlatStore:
    store = store or FlatStore(clock=VirtualClock(now_millis=NOW))
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
    found = list[int]()
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


@pytest.mark.parametrize("verb", ["write", "overwrite", "compact"])
def test_a_commit_that_is_refused_for_it_leaves_no_data_files(verb: str) -> None:
    store, is_over = filled(3), False

    def overtake(call: Call) -> None:
        nonlocal is_over
        if call.writes and "/bucket-0/" in call.key and not is_over:
            is_over = True
            create_foreign(store, snapshot_id=4)

    table = opened(FaultyStore(store, on_call=overtake), 1).table("db.t")
    before = {info.key for info in store.list("")}
    assert isinstance(error_of(OTHERS[verb], table), lc.CorruptTable)
    assert is_over
    # The record of commits that wait for their turn stays.
    left = {"db.db/t/snapshot/snapshot-4", "db.db/t/lakehouse/waiting"}
    assert {info.key for info in store.list("")} - before == left


def test_a_fast_forward_leaves_no_schema_in_a_table_that_was_created_again() -> None:
    store, is_over = filled(1), False
    branch = opened(store, 1).table("db.t").create_branch("b", at=lc.AtSnapshot(1)).branch
    assert branch is not None
    altered = opened(store, 2).table("db.t").branch(branch)
    altered.alter(lc.AddColumn("w", "STRING"))
    write(altered)

    def replace_table(call: Call) -> None:
        nonlocal is_over
        if not is_over and (call.method, call.key) == ("create_new", "db.db/t/schema/schema-1"):
            is_over = True
            catalog = opened(store, 3)
            catalog.drop_table("db.t")
            fill(catalog, "new", 1)

    table = opened(FaultyStore(store, on_call=replace_table), 4).table("db.t")
    with pytest.raises(lc.InvalidRequest, match="was dropped and created again"):
        table.fast_forward(branch)
    assert is_over
    found = opened(store, 5).table("db.t")
    write(found)
    assert len(found.schemas()) == 1
    assert found.verify().findings == ()


def create_foreign(store: ObjectStore, schema_id: int = 0, snapshot_id: int = 2) -> None:
    key = "db.db/t/snapshot/snapshot-1"
    snapshot = parse_snapshot(store.read(key), key)
    changed = {"id": snapshot_id, "schema_id": schema_id, "properties": {**snapshot.properties, SCHEMA_TIME: "1"}}
    store.write({f"db.db/t/snapshot/snapshot-{snapshot_id}": serialize_snapshot(snapshot.model_copy(update=changed))})


def test_a_snapshot_whose_schema_the_table_lacks_is_foreign() -> None:
    store = filled(1)
    create_foreign(store, schema_id=1)

    with pytest.raises(lc.CorruptTable, match="names schema 1 of the time 1, and there is no such schema here"):
        opened(store, 1).table("db.t").expire_snapshots(retain_max=1, older_than=timedelta(0))
    with pytest.raises(lc.CorruptTable, match="If that schema was lost, restore it from a copy"):
        opened(store, 1).table("db.t").scan().count()
    assert isinstance(error_of(write, opened(store, 1).table("db.t")), lc.CorruptTable)
    store.delete([NEXT])
    write(opened(store, 1).table("db.t"))


@pytest.mark.parametrize("removed", [(2, 3), (3, 2)])
@pytest.mark.parametrize(("writes", "other"), [(1, "write"), (1, "compact"), (1, "expire"), (0, "write")])
def test_no_verb_builds_on_two_snapshots_of_another_table(writes: int, other: str, removed: tuple[int, ...]) -> None:
    store = filled(1)
    for snapshot_id in removed:
        create_foreign(store, snapshot_id=snapshot_id)
    if not writes:
        store.delete([f"db.db/t/snapshot/{name}" for name in ("snapshot-1", "LATEST")])
    kept = opened(store, 1).table("db.t")

    for snapshot_id in removed:
        for process in (2, 3):
            error = error_of(OTHERS[other], opened(store, process).table("db.t"))
            assert error is None or "which was dropped, created it" in str(error)
        store.delete([f"db.db/t/snapshot/snapshot-{snapshot_id}"])
    for table in (kept, opened(store, 4).table("db.t")):
        table.write([{"k": 9, "v": "new"}])
        assert table.verify().findings == ()


# The ids of schemas that calls for the table that was dropped created.
SCHEMAS = ((1,), (3,), (1, 2), (1, 3))
USES_OF_SCHEMAS = {**OTHERS, "list the schemas": lambda table: table.schemas()}
QUICK_USES = [("write", (3,)), ("compact", (1, 2)), ("list the schemas", (3,)), ("alter", (1, 3))]


@pytest.mark.parametrize(
    ("other", "ids"),
    [
        pytest.param(*case, marks=[pytest.mark.long] * (case not in QUICK_USES))
        for case in product(USES_OF_SCHEMAS, SCHEMAS)
    ],
)
def test_no_verb_uses_a_schema_of_another_table(other: str, ids: tuple[int, ...]) -> None:
    store, verb = filled(3), USES_OF_SCHEMAS[other]
    for schema_id in ids:
        create_foreign_schema(store, schema_id)
    kept = opened(store, 1).table("db.t")

    for schema_id in reversed(ids):
        for table in (kept, opened(store, 2).table("db.t")):
            error = error_of(verb, table)
            assert isinstance(error, lc.CorruptTable), error
            assert "which was dropped, created it" in str(error)
        store.delete([f"db.db/t/schema/schema-{schema_id}"])
    for table in (kept, opened(store, 3).table("db.t")):
        assert table.schema.comment is None
        table.write([{"k": 9, "v": "old"}])
    assert opened(store, 1).table("db.t").verify().findings == ()


@pytest.mark.parametrize("removed", [1, 2])
def test_a_handle_that_was_opened_before_takes_no_schema_of_another_table(removed: int) -> None:
    store = filled(3)
    for schema_id in (1, 2):
        create_foreign_schema(store, schema_id)
    table = opened(store, 1).table("db.t")
    store.delete([f"db.db/t/schema/schema-{removed}"])

    assert "which was dropped, created it" in str(error_of(write, table))


def test_a_handle_of_the_dropped_table_takes_no_schema_of_the_later_one_for_foreign() -> None:
    store = filled(1)
    schemas = opened(store, 1)._context.table_context("db.t").schemas
    schemas.latest()
    catalog = opened(store, 2)
    catalog.drop_table("db.t")
    fill(catalog, "new", 1)
    catalog.table("db.t").alter(lc.AddColumn("w", "INT"))

    for read in (lambda: schemas.schema(1), schemas.all):
        with pytest.raises(lc.InvalidRequest, match="was dropped and created again"):
            read()


def test_a_branch_without_its_first_schemas_is_read() -> None:
    store = filled(1)
    table = opened(store, 1).table("db.t")
    for name in ("w", "x"):
        table.alter(lc.AddColumn(name, "INT"))
    table.create_branch("b")
    write(table.branch("b"))
    # Earlier versions of Java copied the newest schema only.
    store.delete([f"db.db/t/branch/branch-b/schema/schema-{each}" for each in (0, 1)])

    assert opened(store, 2).table("db.t").branch("b").scan().count() == 1


class SlowSchemas(FlatStore):
    """Answers several questions at once, those about schemas last."""

    requests_at_once = 4

    def at(self, prefix: str, *, is_table: bool = False) -> "SlowSchemas":
        return SlowSchemas(self._name, prefix=joined(self._prefix, prefix), is_table=is_table)

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        asked = list(keys)
        if any("schema/" in key for key in asked):
            time.sleep(0.02)
        return super().read_found(asked)


def test_no_tag_of_a_snapshot_of_another_table_is_created_before_a_schema_is_known() -> None:
    store = filled(1, SlowSchemas(clock=VirtualClock(now_millis=NOW)))
    create_foreign(store)

    for at in (None, lc.AtSnapshot(2)):
        with pytest.raises(lc.CorruptTable, match="which was dropped, created it"):
            opened(store, 1).table("db.t").create_tag("a", at=at)
    assert len(opened(store, 1).table("db.t").tags()) == 0


def test_no_copy_has_objects_of_another_table() -> None:
    for create in (create_foreign, lambda store: create_foreign_schema(store, 1)):
        store = filled(1)
        create(store)
        catalog = opened(store, 1)
        with pytest.raises(lc.CorruptTable, match="which was dropped, created it"):
            catalog.copy_table(catalog.table("db.t"), "db.u")
        assert catalog.tables("db") == ["t"]


def create_foreign_schema(store: ObjectStore, schema_id: int) -> None:
    key = "db.db/t/schema/schema-0"
    schema = replace(parse_schema(store.read(key), key), id=schema_id, time_millis=schema_id, comment="foreign")
    # The one before it was not the one that is here.
    data = serialize_schema(replace(schema, time_before_millis=1000 + schema_id))
    store.write({f"db.db/t/schema/schema-{schema_id}": data})
