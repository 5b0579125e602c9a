"""Copies of tables in another warehouse: what they have, what is refused, and what an interrupted copy leaves."""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import SystemClock, VirtualClock
from lakehouse_core.execution import copying
from lakehouse_core.storage import (
    Call,
    Fault,
    FaultKind,
    FaultyStore,
    MemoryStore,
    ObjectStore,
    ProcessDied,
    open_store,
    parse_location,
)
from lakehouse_core.tasks import copy as copy_task
from lakehouse_core.tasks.runtime import TaskRuntime
from tests.catalog.test_flat_store import FlatStore
from tests.pairs import in_turn

NUMBERS = count()
CHANGELOGS = {"changelog-producer": "input", "changelog.num-retained.max": "100", "changelog.time-retained": "100 d"}
OPTIONS: dict[str, dict[str, str]] = {
    "keys": {"bucket": "1", "write-only": "true", **CHANGELOGS},
    "partitions": {"bucket": "2", "file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    "rows": {"bucket": "-1", "file.format": "orc"},
}


def catalog_on(store: ObjectStore) -> Catalog:
    # Each has a clock of its own, which draws the names of files.
    catalog = Catalog(store, clock=VirtualClock(seed=next(NUMBERS)))
    catalog.create_database("db", exist_ok=True)
    return catalog


def made(catalog: Catalog, kind: str = "keys") -> lc.Table:
    """Return a table of five snapshots, the first two expired, with two tags and two schemas."""
    table = catalog.create_table(
        "db.t",
        {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"},
        primary_keys=[] if kind == "rows" else ["p", "k"],
        partition_keys=["p"] if kind == "partitions" else [],
        options={"lakehouse.read.grace": "0 s", **OPTIONS[kind]},
    )
    for number in range(5):
        table.write([{"p": number % 2, "k": 0, "v": f"{number}"}, {"p": 0, "k": number, "v": "a"}])
        if number in (1, 3):
            table.create_tag(f"after-{number}")
        if number == 2:
            table.alter(lc.AddColumn("w", "INT"))
    newest = table.snapshots()[-1].id
    table.expire_snapshots(retain_max=newest - 2, retain_min=newest - 2, older_than=timedelta(0))
    return table


def answers(table: lc.Table) -> Mapping[str, Any]:
    """Return what readers see."""

    def told(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except lc.LakehouseError as error:
            return type(error)

    ids = [snapshot.id for snapshot in table.snapshots()]
    points = [*(lc.AtSnapshot(id) for id in ids), *(lc.AtTag(tag.name) for tag in table.tags())]
    return {
        "schemas": list(table.schemas()),
        "states": {str(point): table.scan(at=point).to_arrow().to_pylist() for point in points},
        "changes": [told(lambda after=id: table.changes(after=after).to_arrow().to_pylist()) for id in range(ids[-1])],
        "files": sorted(file.path for file in table.files()),
    }


@pytest.mark.parametrize("kind", in_turn(2, OPTIONS))
def test_a_copy_answers_as_its_table_does_and_goes_on_by_itself(kind: str) -> None:
    source, target = catalog_on(MemoryStore()), catalog_on(FlatStore())
    table = made(source, kind)
    before = answers(table)

    report = target.copy_table(table, data=True)

    copy = target.table("db.t")
    assert report.findings == ()
    assert answers(copy) == before
    copy.write([{"p": 0, "k": 0, "v": "new"}])
    copy.compact(full=True)
    copy.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    copy.delete_tag("after-3")
    assert copy.verify(data=True).findings == ()
    assert answers(table) == before


@pytest.mark.parametrize("kind", in_turn(2, OPTIONS))
def test_a_table_whose_warehouse_was_moved_answers_as_before_and_goes_on(kind: str) -> None:
    source, target = MemoryStore(), FlatStore()
    before = answers(made(catalog_on(source), kind))
    keys = [info.key for info in source.list("")]
    target.write({key: source.read(key) for key in keys})
    source.delete(keys)

    moved = catalog_on(target).table("db.t")
    assert answers(moved) == before
    moved.write([{"p": 0, "k": 0, "v": "new"}])
    moved.compact(full=True)
    moved.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert moved.verify(data=True).findings == ()
    assert moved.scan(where="v = 'new'").count() == 1


# What is chosen; the snapshots, tags and first readable change of the copy.
CHOICES: dict[str, tuple[dict[str, Any], list[int], list[str], int]] = {
    "everything": ({}, [3, 4, 5], ["after-1", "after-3"], 1),
    "the newest snapshot": ({"snapshots": 1}, [5], ["after-1", "after-3"], 4),
    "more snapshots than there are": ({"snapshots": 9, "tags": []}, [3, 4, 5], [], 1),
    "two snapshots and a tag": ({"snapshots": 2, "tags": ["after-1"]}, [4, 5], ["after-1"], 3),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_leaves_the_rest_out_as_if_it_had_expired(choice: str) -> None:
    given, ids, tags, first = CHOICES[choice]
    target = catalog_on(MemoryStore())

    target.copy_table(made(catalog_on(MemoryStore())), "db.part", **given)

    copy = target.table("db.part")
    assert [snapshot.id for snapshot in copy.snapshots()] == ids
    assert [tag.name for tag in copy.tags()] == tags
    assert copy.changes(after=first).to_arrow().num_rows > 0
    with pytest.raises(lc.SnapshotExpired):
        copy.changes(after=first - 1).to_arrow()
    assert copy.write([{"p": 0, "k": 0, "v": "new"}]).snapshot_id == 6
    assert copy.verify(data=True).findings == ()


def test_branches_are_copied_by_name(tmp_path: Path) -> None:
    source, target = catalog_on(MemoryStore()), catalog_on(MemoryStore())
    table = made(source)
    store = MemoryStore(source._context.store.spec.root).at("db.db/t")
    for name in ("a", "b"):
        for folder in ("schema", "snapshot"):
            keys = [info.key for info in store.list(folder)]
            store.write({f"branch/branch-{name}/{key}": store.read(key) for key in keys})

    assert target.copy_table(table, "db.one", branches=["b"]).branches == 1
    assert target.copy_table(table, "db.none", branches=[]).branches == 0
    assert target.copy_table(table).branches == 2
    assert target.table("db.one").verify(data=True).findings == ()
    copied = {info.key for info in target._context.store.list("db.db/one/branch")}
    assert {key.split("/")[3] for key in copied} == {"branch-b"}


def test_an_empty_table_is_copied_too() -> None:
    source, target = catalog_on(MemoryStore()), catalog_on(MemoryStore())
    table = source.create_table("db.t", {"k": "INT"})

    assert target.copy_table(table).snapshot_ids == ()
    target.table("db.t").write([{"k": 1}])
    assert target.table("db.t").scan().count() == 1


def interrupted(target: ObjectStore, table: lc.Table, at: Callable[[Call], bool]) -> None:
    """Let the process that copies die before the first call of that kind."""
    whole = FaultyStore(FlatStore())
    catalog_on(whole).copy_table(table)
    number = next(call.number for call in whole.calls if at(call))
    with pytest.raises(ProcessDied):
        catalog_on(FaultyStore(target, [Fault(at=number, kind=FaultKind.DIE_BEFORE)])).copy_table(table)


def is_first_schema(call: Call) -> bool:
    return call.method == "create_new" and call.key.endswith("schema/schema-0")


def test_an_interrupted_copy_is_no_table_and_goes_on_without_copying_twice() -> None:
    table, target = made(catalog_on(MemoryStore())), FlatStore()
    interrupted(target, table, is_first_schema)
    catalog = catalog_on(target)

    assert catalog.tables("db") == []
    with pytest.raises(lc.NotFound):
        catalog.table("db.t")
    with pytest.raises(lc.InvalidRequest, match=r"an unfinished copy .* Copy that table again to finish it, drop this"):
        catalog.create_table("db.t", {"k": "INT"})
    report = catalog.copy_table(table)
    assert (report.files > 0, report.files_added) == (True, 0)
    assert answers(catalog.table("db.t")) == answers(table)
    assert not catalog._context.store.at("db.db/t").infos(["lakehouse/copying"])


def test_what_the_source_expired_since_an_interruption_is_not_in_the_copy() -> None:
    table, target = made(catalog_on(MemoryStore())), FlatStore()
    interrupted(target, table, is_first_schema)
    table.delete_tag("after-3")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    catalog = catalog_on(target)

    catalog.copy_table(table)

    assert answers(catalog.table("db.t")) == answers(table)
    assert catalog.table("db.t").verify(data=True).findings == ()
    catalog.drop_database("db", cascade=True)
    assert list(target.list("")) == []


def test_an_unfinished_copy_can_be_dropped_and_another_table_is_not_copied_over_it() -> None:
    sources = [catalog_on(MemoryStore()), catalog_on(MemoryStore())]
    tables, target = [made(source) for source in sources], FlatStore()
    interrupted(target, tables[0], is_first_schema)
    catalog = catalog_on(target)

    with pytest.raises(lc.InvalidRequest, match=r"an unfinished copy of memory://.* is there"):
        catalog.copy_table(tables[1])
    catalog.drop_table("db.t")
    assert catalog.copy_table(tables[1]).files_added > 0
    with pytest.raises(lc.NotFound):
        catalog.drop_table("db.other")


def test_files_that_are_deleted_while_they_are_copied_are_left_out_when_all_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, target = made(catalog_on(MemoryStore())), catalog_on(MemoryStore())
    copy_file, calls = copy_task._copy_file, []

    def copy_slowly(*arguments: Any) -> int:
        calls.append(1)
        if len(calls) == 3:
            table.compact(full=True)
            table.delete_tag("after-1")
            table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
        return copy_file(*arguments)

    monkeypatch.setattr(copy_task, "_copy_file", copy_slowly)
    target.copy_table(table)

    assert answers(target.table("db.t")) == answers(table)
    assert target.table("db.t").verify(data=True).findings == ()


def test_a_file_that_is_gone_for_good_is_told_and_nothing_is_visible() -> None:
    source, target = catalog_on(MemoryStore()), catalog_on(MemoryStore())
    table = made(source)
    table._context.store.delete([next(iter(table.files())).path])

    with pytest.raises(lc.SnapshotExpired, match="`lakehouse verify` names it"):
        target.copy_table(table)
    assert target.tables("db") == []


def test_two_calls_at_once_do_not_publish_two_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    table, store = made(catalog_on(MemoryStore())), MemoryStore()
    write_roots, others = copying._write_roots, []

    def overtaken(*arguments: Any) -> None:
        write_roots(*arguments)
        if not others:
            others.append(1)
            catalog_on(store).copy_table(table)

    monkeypatch.setattr(copying, "_write_roots", overtaken)
    with pytest.raises(lc.CommitConflict, match="another call has gone on with this copy"):
        catalog_on(store).copy_table(table)
    assert answers(catalog_on(store).table("db.t")) == answers(table)


def test_a_call_that_was_overtaken_deletes_nothing_of_the_table_that_the_copy_has_become(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, store = made(catalog_on(MemoryStore())), MemoryStore()
    copy_file, others = copy_task._copy_file, []

    def overtaken(*arguments: Any) -> int:
        if not others:
            others.append(1)
            catalog_on(store).copy_table(table)
            catalog_on(store).table("db.t").write([{"p": 7, "k": 7, "v": "new"}])
            raise lc.NotFound("the source has expired it")
        return copy_file(*arguments)

    monkeypatch.setattr(copy_task, "_copy_file", overtaken)
    with pytest.raises(lc.CommitConflict, match="another call has gone on with this copy"):
        catalog_on(store).copy_table(table)
    assert catalog_on(store).table("db.t").scan(where="k = 7").count() == 1
    assert catalog_on(store).table("db.t").verify(data=True).findings == ()


def fill_another(catalog: Catalog) -> None:
    catalog.drop_table("db.new")
    another = catalog.create_table("db.new", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
    another.write([{"k": 50}])
    another.create_tag("after-3")


def copy_again(catalog: Catalog) -> None:
    catalog.drop_table("db.new")
    catalog.copy_table(catalog.table("db.t"), "db.new")
    catalog.table("db.new").write([{"p": 7, "k": 7, "v": "new"}])


def looks(calls: Sequence[Call]) -> list[int]:
    """Return the calls in which a copy looks at its mark, lists its folder, writes its first root and schema 0, and
    ends its mark.
    """
    roots = [call.number for call in calls if call.writes and call.key.startswith("db.db/new/snapshot/")]
    others = {
        ("read", "db.db/new/lakehouse/copying"),
        ("list", "db.db/new"),
        ("create_new", "db.db/new/schema/schema-0"),
        ("delete", "db.db/new/lakehouse/copying"),
    }
    return [*(call.number for call in calls if (call.method, call.key) in others), *roots[:1]]


def all_but_files(calls: Sequence[Call]) -> list[int]:
    """Return all calls but those in which files are copied: other threads go on with that."""
    return [call.number for call in calls if call.method not in ("open_write", "close")]


ACTS: dict[str, Callable[[Catalog], None]] = {
    "drop": lambda catalog: catalog.drop_table("db.new"),
    "fill": fill_another,
    "copy again": copy_again,
}


def copied(store: ObjectStore, on_call: Callable[[Call], None]) -> FaultyStore:
    """Copy db.t to db.new, which another process may keep from it."""
    faulty = FaultyStore(store, on_call=on_call)
    with suppress(lc.LakehouseError):
        Catalog(faulty, clock=VirtualClock(seed=next(NUMBERS))).copy_table(catalog_on(store).table("db.t"), "db.new")
    return faulty


@pytest.mark.parametrize("takes", [looks, pytest.param(all_but_files, marks=pytest.mark.long)])
@pytest.mark.parametrize("act", ACTS)
def test_a_copy_that_is_dropped_meanwhile_keeps_no_name_and_harms_no_table(
    act: str, takes: Callable[[Sequence[Call]], Sequence[int]]
) -> None:
    def copied(store: ObjectStore, on_call: Callable[[Call], None]) -> FaultyStore:
        faulty = FaultyStore(store, on_call=on_call)
        with suppress(lc.LakehouseError):
            Catalog(faulty, clock=VirtualClock(seed=next(NUMBERS))).copy_table(
                catalog_on(store).table("db.t"), "db.new"
            )
        return faulty

    made(catalog_on(whole := FlatStore()))
    for at in takes(copied(whole, lambda call: None).calls):
        store, paused = FlatStore(), list[Call]()
        made(catalog_on(store))

        def interrupt(call: Call, at: int = at, store: FlatStore = store, paused: list[Call] = paused) -> None:
            if call.number == at and store.infos(["db.db/new/lakehouse/copying"]):
                paused.append(call)
                ACTS[act](catalog_on(store))

        copied(store, interrupt)
        # No store compares an object while it replaces it.
        if not paused or (paused[0].method in ("write", "replace") and paused[0].key.startswith("db.db/new/")):
            continue
        catalog = catalog_on(store)
        if act == "drop":
            catalog.drop_table("db.new", missing_ok=True)
            assert catalog.create_table("db.new", {"k": "INT"}).snapshots() == [], at
            continue
        table = catalog.table("db.new")
        assert table.verify(data=True).findings == (), at
        if act == "fill":
            assert table.scan().to_arrow()["k"].to_pylist() == [50], at
        else:
            assert table.scan(where="k = 7").count() == 1, at


def test_a_copy_that_was_dropped_deletes_nothing_of_a_later_copy_that_begins_at_any_call_after_that() -> None:
    for late in count(1):
        store, after = FlatStore(), list[Call]()
        table = made(catalog_on(store))

        def interrupt(call: Call, late: int = late, store: FlatStore = store, after: list[Call] = after) -> None:
            # All files are copied, and its mark is looked at.
            is_dropped = bool(after) or (
                (call.method, call.key) == ("read", "db.db/new/lakehouse/copying")
                and bool(store.children("db.db/new/bucket-0").files)
            )
            if is_dropped:
                after.append(call)
                if len(after) == 1:
                    catalog_on(store).drop_table("db.new")
                if len(after) == late:
                    catalog_on(store).copy_table(catalog_on(store).table("db.t"), "db.new")

        copied(store, interrupt)
        if len(after) < late:
            return
        assert answers(catalog_on(store).table("db.new")) == answers(table), late
        assert catalog_on(store).table("db.new").verify(data=True).findings == (), late


REFUSED: dict[str, tuple[Callable[[Catalog, lc.Table], object], type[lc.LakehouseError], str]] = {
    "a name that is taken": (lambda target, table: target.copy_table(table, "db.there"), lc.InvalidRequest, "exists"),
    "an unknown database": (lambda target, table: target.copy_table(table, "no.t"), lc.NotFound, "Database 'no'"),
    "an unknown tag": (lambda target, table: target.copy_table(table, tags=["x"]), lc.NotFound, "has after-1, after-3"),
    "an unknown branch": (lambda target, table: target.copy_table(table, branches=["x"]), lc.NotFound, "has none"),
    "no snapshots": (lambda target, table: target.copy_table(table, snapshots=0), lc.InvalidRequest, "1 or more"),
    "a text of tags": (lambda target, table: target.copy_table(table, tags="x"), lc.InvalidRequest, "a list of names"),
    "a name as the source": (lambda target, table: target.copy_table("db.t"), lc.InvalidRequest, "expected a table"),
    "a bad name": (lambda target, table: target.copy_table(table, "db.a/b"), lc.InvalidRequest, "a/b"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_copied_is_refused_and_leaves_nothing(name: str) -> None:
    call, error, message = REFUSED[name]
    store = FlatStore()
    target = catalog_on(store)
    target.create_table("db.there", {"k": "INT"})
    before = {info.key for info in store.list("")}

    with pytest.raises(error, match=message):
        call(target, made(catalog_on(MemoryStore())))
    assert {info.key for info in store.list("")} == before


def test_a_copy_is_listed_by_a_sql_catalog_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(catalog_on(MemoryStore()))
    target = lc.connect(str(tmp_path / "lake"), metastore=f"sqlite:///{tmp_path}/names.db")
    target.create_database("db")
    with monkeypatch.context() as patch:
        patch.setattr(type(target._context.metastore), "adopt", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            target.copy_table(table)
    assert target.tables("db") == []
    assert len(target.check()) == 1

    report = target.copy_table(table)

    assert report.noop_reason == "an earlier call had copied everything"
    assert (target.tables("db"), target.check()) == (["t"], [])
    assert answers(target.table("db.t")) == answers(table)
    with pytest.raises(lc.InvalidRequest, match="exists already"):
        target.copy_table(table)


def test_tables_that_match_are_copied_one_after_the_other_and_a_failed_one_stops_no_other() -> None:
    source, target = catalog_on(MemoryStore()), catalog_on(MemoryStore())
    source.create_database("sales")
    for name in ("sales.a", "sales.b", "sales.c", "db.other"):
        table = source.create_table(name, {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
        table.write([{"k": 1}])
        table.write([{"k": 2}])
    target.create_database("sales")
    target.create_table("sales.b", {"k": "INT"}, options={"bucket": "-1"})

    reports = target.copy_tables(source, "sales.*", snapshots=1)

    assert [report.table for report in reports] == ["sales.a", "sales.b", "sales.c"]
    assert [str(report.error) for report in reports if report.error] == [
        "Table 'sales.b' exists already. Copy to another name."
    ]
    assert [report.snapshot_ids for report in reports] == [(2,), (), (2,)]
    assert target.table("sales.c").scan().count() == 2
    assert target.tables("db") == []

    (again, _, _) = target.copy_tables(source, database="sales")
    assert again.error is not None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"snapshots": 0}, "copy_tables: snapshots=0: expected 1 or more"),
        ({"tags": "x"}, "copy_tables: tags='x': expected a list of names"),
        ({"tables": "none*"}, "No table matches 'none*'"),
        ({"source": "lake"}, "copy_tables: found 'lake' as the source, expected a catalog"),
    ],
)
def test_wrong_arguments_of_copy_tables_are_refused_once(arguments: dict[str, Any], told: str) -> None:
    source, target = catalog_on(MemoryStore()), catalog_on(MemoryStore())
    made(source)

    with pytest.raises(lc.LakehouseError) as refused:
        target.copy_tables(**{"source": source, **arguments})

    assert str(refused.value).startswith(told)
    assert target.tables("db") == []


class Elsewhere:
    """An engine in other processes, as far as this process can tell: tasks open stores by their addresses."""

    is_remote = True
    tasks_at_once = 1

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def run(self, task: Callable[[Any, TaskRuntime], str], inputs: Sequence[Any]) -> Iterator[str]:
        self.tasks += inputs
        for each in inputs:
            yield task(each, TaskRuntime(SystemClock(), open_store))

    def run_at_once(
        self,
        task: Callable[[Any, TaskRuntime], str],
        inputs: Sequence[Any],
        take: Callable[[str], None],
        *,
        most: int | None = None,
    ) -> None:
        raise AssertionError

    def write(self, task: Any, data: Any, watch: Any = None) -> Any:
        raise AssertionError


def test_an_engine_in_other_processes_copies_the_files_unless_they_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_TASK_BYTES", 8 << 20)
    source = lc.connect(tmp_path / "here")
    source.create_database("db")
    table = made(source)
    there = open_store(parse_location(str(tmp_path / "there")))
    engine = Elsewhere()
    target = Catalog(there, engine=lambda: engine, clock=SystemClock())
    target.create_database("db")

    target.copy_table(table, "db.few")
    assert engine.tasks == []

    monkeypatch.setattr(copying, "_FEW_BYTES", 1)
    report = target.copy_table(table, data=True)

    assert len(engine.tasks) > 1
    assert sum(len(task.files) for task in engine.tasks) == report.files == report.files_added
    assert report.findings == ()
    assert answers(target.table("db.t")) == answers(table)
    assert pickle.loads(pickle.dumps(engine.tasks)) == engine.tasks
