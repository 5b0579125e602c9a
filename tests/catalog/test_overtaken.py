"""A table is renamed, dropped, or dropped and created again, between any two calls of a verb to the store: what the
verb acknowledges is in the table, what it refuses is not, and the name can be used again. "fill again": another process
fills the new table, in which the first one changes nothing. "do again": it carries out the same verb there, too.

Each case is a verb, a kind of store and what another process does. It is run once for each call of the verb.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.metastore import SqlMetastore
from lakehouse_core.catalog.sql.tables import ALL
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, FaultyStore, LocalStore, MemoryStore, ObjectStore
from lakehouse_core.table.layout import is_late
from tests.catalog.test_flat_store import FlatStore

COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}
OPTIONS = {"bucket": "1", "lakehouse.read.grace": "0 s", "num-sorted-run.compaction-trigger": "3"}
NOW = 1_700_000_000_000
UNKNOWN = (lc.CommitOutcomeUnknown, lc.WriteOutcomeUnknown)
ROW = [{"k": 9, "v": "late"}]


def catalog_over(store: ObjectStore, process: int, names: Path | None = None) -> Catalog:
    """Open the catalog as another process does. `names`: the file of a SQL database that keeps the names."""
    clock = VirtualClock(seed=process, now_millis=NOW + 10_000 * process)
    if names is None:
        return Catalog(store, clock=clock)
    database = SqlDatabase(sql_address(f"sqlite:///{names}", {}), ALL)
    return Catalog(store, clock=clock, metastore=SqlMetastore(database, WarehouseFiles(store, clock), clock))


def fill(catalog: Catalog) -> None:
    """Make a table of four snapshots, with a tag, a branch of two snapshots and a consumer."""
    catalog.create_database("db", exist_ok=True)
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={**OPTIONS, "write-only": "true"})
    for number in range(4):
        table.write([{"k": number, "v": "a"}])
    table.create_tag("a")
    table.create_branch("b", at=lc.AtTag("a"))
    for number in range(2):
        table.branch("b").write([{"k": number, "v": "b"}])
    table.set_consumer("c", 2)


@cache
def objects() -> Mapping[str, bytes]:
    store = MemoryStore(clock=VirtualClock(now_millis=NOW))
    fill(catalog_over(store, 0))
    return {info.key: store.read(info.key) for info in store.list("")}


def of_k9(table: lc.Table) -> int:
    return table.scan(where="k = 9").count()


@dataclass(frozen=True)
class Verb:
    """`run` on the table, or on its branch; `is_done`: whether it was carried out, None where that does not show.
    `of_one_look`: the calls of the look and of the one request after it, in which each object is a call here.
    """

    run: Callable[[lc.Table], object]
    is_done: Callable[[lc.Table], bool] | None = None
    branch: str | None = None
    of_one_look: int = 2

    def on(self, table: lc.Table) -> lc.Table:
        return table if self.branch is None else table.branch(self.branch)


def write(table: lc.Table) -> object:
    return table.write(ROW)


def has_row(table: lc.Table) -> bool:
    return of_k9(table) == 1


def staged(table: lc.Table) -> lc.StagedCommit:
    return table.stage(ROW, commit_user="u", commit_identifier=1)


def keep(table: lc.Table) -> None:
    table.keep_pending(staged(table))


def forget(table: lc.Table) -> None:
    commit = staged(table)
    table.keep_pending(commit)
    table.forget_pending(commit)


def is_kept(table: lc.Table) -> bool:
    return table.pending("u", 1) is not None


def verify(table: lc.Table) -> None:
    # Objects of a table that is gone are not missing.
    assert table.verify(data=True).findings == ()


def has_tag(name: str) -> Callable[[lc.Table], bool]:
    return lambda table: name in [tag.name for tag in table.tags()]


def has_branch(name: str) -> Callable[[lc.Table], bool]:
    return lambda table: name in [branch.name for branch in table.branches()]


def lacks(has: Callable[[lc.Table], bool]) -> Callable[[lc.Table], bool]:
    return lambda table: not has(table)


def has_consumer(name: str) -> Callable[[lc.Table], bool]:
    return lambda table: name in table.system("consumers").to_arrow()["consumer_id"].to_pylist()


VERBS: dict[str, Verb] = {
    "write": Verb(write, has_row),
    "write to a branch": Verb(write, has_row, branch="b"),
    "open a branch and write": Verb(
        lambda table: table.branch("b").write(ROW), lambda table: has_row(table.branch("b"))
    ),
    "stage and commit": Verb(lambda table: table.commit(staged(table)), has_row),
    "keep a staged commit": Verb(keep, is_kept),
    "forget a staged commit": Verb(forget),
    "overwrite": Verb(lambda table: table.overwrite(ROW), lambda table: table.scan().count() == of_k9(table) == 1),
    "delete rows": Verb(lambda table: table.delete("k = 1"), lambda table: table.scan(where="k = 1").count() == 0),
    "compact": Verb(lambda table: table.compact(full=True), lambda table: len(table.snapshots()) == 5),
    "compact a branch": Verb(
        lambda table: table.compact(full=True), lambda table: table.snapshots()[-1].commit_kind == "COMPACT", branch="b"
    ),
    "expire": Verb(
        lambda table: table.expire_snapshots(retain_max=1, older_than=timedelta(0)),
    ),
    "verify": Verb(verify),
    "scan": Verb(lambda table: table.scan().to_arrow()),
    "scan a tag": Verb(lambda table: table.scan(at=lc.AtTag("a")).count()),
    "scan a branch": Verb(lambda table: table.scan().to_arrow(), branch="b"),
    "read changes": Verb(lambda table: table.changes(after=1).to_arrow()),
    "read a system table": Verb(lambda table: table.system("files").to_arrow()),
    "expire in a branch": Verb(lambda table: table.expire_snapshots(retain_max=1, older_than=timedelta(0)), branch="b"),
    "remove orphans": Verb(lambda table: table.remove_orphans(older_than=timedelta(hours=1))),
    "create a tag": Verb(lambda table: table.create_tag("new"), has_tag("new")),
    "create a tag in a branch": Verb(lambda table: table.create_tag("new"), has_tag("new"), branch="b"),
    "delete a tag": Verb(lambda table: table.delete_tag("a"), lacks(has_tag("a"))),
    "rename a tag": Verb(lambda table: table.rename_tag("a", "new"), has_tag("new")),
    "replace a tag": Verb(lambda table: table.replace_tag("a", at=lc.AtSnapshot(2))),
    "alter": Verb(lambda table: table.alter(lc.AddColumn("w", "INT")), lambda table: "w" in table.schema.column_names),
    "alter a branch": Verb(
        lambda table: table.alter(lc.AddColumn("w", "INT")), lambda table: "w" in table.schema.column_names, branch="b"
    ),
    "roll back": Verb(lambda table: table.rollback_to(lc.AtSnapshot(2)), lambda table: table.scan().count() == 2),
    "rescale": Verb(lambda table: table.rescale(2), lambda table: table.snapshots()[-1].commit_kind == "OVERWRITE"),
    "compact manifests": Verb(lambda table: table.compact_manifests(), lambda table: len(table.snapshots()) == 5),
    "create a branch at a tag": Verb(lambda table: table.create_branch("new", at=lc.AtTag("a")), has_branch("new")),
    "create a branch": Verb(lambda table: table.create_branch("new"), has_branch("new")),
    "rename a branch": Verb(lambda table: table.rename_branch("b", "new"), has_branch("new"), of_one_look=6),
    "delete a branch": Verb(lambda table: table.delete_branch("b"), lacks(has_branch("b")), of_one_look=6),
    "fast-forward": Verb(lambda table: table.fast_forward("b"), lambda table: len(table.snapshots()) == 5),
    "set a consumer": Verb(lambda table: table.set_consumer("new", 2), has_consumer("new")),
    "reset a consumer": Verb(lambda table: table.set_consumer("c", 3)),
    "delete a consumer": Verb(lambda table: table.delete_consumer("c"), lacks(has_consumer("c"))),
}


COMMITS = [
    VERBS[name]
    for name in (
        "write",
        "write to a branch",
        "open a branch and write",
        "stage and commit",
        "delete rows",
        "compact",
        "overwrite",
    )
]


@dataclass
class Case:
    """One run of a verb, which `act` overtakes before the call `at`. `there`: all objects after that. `written`: at
    which call the verb first wrote or deleted each key after it.
    """

    store: ObjectStore
    names: Path | None
    verb: Verb
    act: str
    at: int
    has_acted: bool = False
    there: Mapping[str, bytes] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    opened: int | None = None
    error: lc.LakehouseError | None = None

    def run(self) -> "Case":
        faulty = FaultyStore(self.store, on_call=self._interrupt)
        table = self.verb.on(catalog_over(faulty, 2, self.names).table("db.t"))
        assert len(table.schema.fields) == 2
        self.opened = len(faulty.calls)
        try:
            self.verb.run(table)
        except lc.LakehouseError as error:
            self.error = error
        return self

    def _interrupt(self, call: Call) -> None:
        if self.opened is not None and call.number == self.opened + self.at and not self.has_acted:
            self.has_acted = True
            catalog = catalog_over(self.store, 1, self.names)
            if self.act == "do again":
                fill_again(catalog)
                self.verb.run(self.verb.on(catalog.table("db.t")))
            else:
                ACTS[self.act](catalog)
            self.there = contents(self.store)
        if self.has_acted and call.writes:
            self.written.setdefault(call.key, call.number)

    def left(self) -> set[str]:
        return {info.key.removeprefix("db.db/t/") for info in self.store.list("db.db/t")}

    def check(self) -> None:
        catalog = catalog_over(self.store, 3, self.names)
        # The same verb in the new table may be refused for what the first one did there.
        if self.error is not None and self.act != "do again":
            check_error(self.error)
            # The outcome of one commit is known.
            assert not (self.verb in COMMITS and isinstance(self.error, UNKNOWN)), self.error
        match self.act:
            case "rename":
                table = catalog.table("db.new")
                assert table.verify(data=True).findings == ()
                self._check_effect(table)
                assert self.left() == set()
                assert "t" not in self.store.children("db.db").folders
            case "drop":
                if self.store.folders is not None:
                    assert [key for key in keys(self.store) if not key.endswith(".lakehouse-database")] == []
                    assert "t" not in self.store.children("db.db").folders
                assert {key for key in self.left() if not is_late(key)} == set()
            case "create again":
                self._check_new(catalog.table("db.t"))
                return
            case "fill again":
                assert len(self._lost()) == 0, self._lost()
                table = catalog.table("db.t")
                is_done = self.verb.is_done
                assert self.verb not in COMMITS or is_done is None or not is_done(self.verb.on(table))
                return
            case "do again":
                table = catalog.table("db.t")
                assert self.verb.is_done is None or self.verb.is_done(self.verb.on(table))
                assert table.verify(data=True).findings == ()
                return
        assert catalog.create_table("db.t", COLUMNS).snapshots() == []
        assert self.left() == {"schema/schema-0"}

    def _check_new(self, table: lc.Table) -> None:
        """The verb has done nothing to the new table, and nothing needs what it left there."""
        findings = {finding.object for finding in table.verify(data=True).findings}
        assert findings <= {"snapshot/LATEST", "snapshot/EARLIEST"}, table.verify(data=True).findings
        assert [*table.snapshots(), *table.tags(), *table.branches(), *table.changelogs()] == []
        # One that was set for the old table does no harm, and one for the new table would have the same bytes.
        is_consumer = self.verb in (VERBS["set a consumer"], VERBS["reset a consumer"])
        assert table.system("consumers").to_arrow().num_rows == 0 or is_consumer
        orphans = ("bucket-0/", "manifest/", *(["consumer/"] if is_consumer else []))
        others = [key for key in self.left() - {"schema/schema-0"} if not is_late(key) and not key.startswith(orphans)]
        assert others == []
        table.write([{"k": 1}])
        table.expire_snapshots(retain_max=1)
        assert table.scan().count() == 1
        assert table.verify(data=True).findings == ()

    def _lost(self) -> list[str]:
        """Return what the verb changed in the filled table, but for hints. No store compares an object while it deletes
        it: what it changed in the last look and the request after it is left out.
        """
        now, acted = contents(self.store), (self.opened or 0) + self.at
        return [
            key
            for key, data in self.there.items()
            if now.get(key) != data
            and not key.endswith(("/LATEST", "/EARLIEST"))
            and self.written[key] - acted > self.verb.of_one_look
        ]

    def _check_effect(self, table: lc.Table) -> None:
        if self.verb.is_done is None or isinstance(self.error, UNKNOWN):
            return
        assert self.verb.is_done(self.verb.on(table)) == (self.error is None)


def contents(store: ObjectStore) -> dict[str, bytes]:
    return {info.key: store.read(info.key) for info in store.list("")}


def keys(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list("")]


def check_error(error: lc.LakehouseError) -> None:
    assert "db.t" in str(error), error
    assert isinstance(error, (*UNKNOWN, lc.NotFound, lc.InvalidRequest)), repr(error)
    if not isinstance(error, UNKNOWN):
        assert "dropped" in str(error), error
        assert "Open it again" in str(error), error


def rename(catalog: Catalog) -> None:
    catalog.rename_table("db.t", "db.new")


def drop(catalog: Catalog) -> None:
    catalog.drop_table("db.t")


def create_again(catalog: Catalog) -> None:
    catalog.drop_table("db.t")
    catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=OPTIONS)


def fill_again(catalog: Catalog) -> None:
    catalog.drop_table("db.t")
    fill(catalog)


ACTS: dict[str, Callable[[Catalog], object]] = {
    "rename": rename,
    "drop": drop,
    "create again": create_again,
    "fill again": fill_again,
}


def made_store(kind: str, folder: Path) -> ObjectStore:
    if kind == "disk":
        for key, data in objects().items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return LocalStore(str(folder))
    clock = VirtualClock(now_millis=NOW + 5_000)
    store = FlatStore(clock=clock) if kind == "objects" else MemoryStore(clock=clock)
    for key, data in objects().items():
        store.write({key: data})
    return store


# Verbs that look at their end whether they changed the table that they began with.
AGAIN = (
    "write",
    "stage and commit",
    "keep a staged commit",
    "delete rows",
    "compact",
    "expire",
    "create a tag",
    "alter",
    "create a branch",
    "create a branch at a tag",
    "delete a branch",
    "set a consumer",
)
CASES = [
    (verb, store, act)
    for verb in VERBS
    for store in ("disk", "memory", "objects")
    for act in (*ACTS, *(["do again"] if verb in AGAIN else []))
    # On a disk a table is replaced as it is in memory.
    if (store, act) not in [("objects", "rename"), ("disk", "fill again")]
]
# `make test` takes these, `make test-long` the others.
QUICK = [
    ("write", "memory", "drop"),
    ("write to a branch", "memory", "rename"),
    ("open a branch and write", "objects", "fill again"),
    ("expire", "memory", "create again"),
    ("create a tag", "objects", "drop"),
    ("alter", "disk", "rename"),
    ("alter", "memory", "do again"),
    ("delete a branch", "memory", "fill again"),
    ("create a branch", "objects", "do again"),
    ("verify", "objects", "drop"),
    ("scan", "objects", "drop"),
    ("create a branch", "memory", "drop"),
]


@pytest.mark.parametrize(
    ("verb", "store", "act"),
    [pytest.param(*case, id=", ".join(case), marks=[pytest.mark.long] * (case not in QUICK)) for case in CASES],
)
def test_a_verb_that_is_overtaken_acknowledges_what_it_did_and_leaves_nothing(
    verb: str, store: str, act: str, every: int, tmp_path: Path
) -> None:
    for at in range(1, 1_000, every):
        case = Case(made_store(store, tmp_path / str(at)), None, VERBS[verb], act, at).run()
        if not case.has_acted:
            assert case.error is None
            return
        case.check()
    raise AssertionError("the verb took more calls than were tried")


@pytest.mark.long
@pytest.mark.parametrize("act", ["rename", "drop"])
@pytest.mark.parametrize("verb", ["write", "write to a branch", "expire", "create a tag", "alter", "create a branch"])
def test_a_verb_is_overtaken_in_the_same_way_where_a_database_keeps_the_names(
    verb: str, act: str, every: int, tmp_path: Path
) -> None:
    whole = MemoryStore(clock=VirtualClock(now_millis=NOW))
    fill(catalog_over(whole, 0, tmp_path / "whole"))
    for at in range(1, 1_000, every):
        names = tmp_path / str(at)
        shutil.copy(tmp_path / "whole", names)
        store = MemoryStore(clock=VirtualClock(now_millis=NOW + 5_000))
        for info in whole.list(""):
            store.write({info.key: whole.read(info.key)})
        case = Case(store, names, VERBS[verb], act, at).run()
        if not case.has_acted:
            assert case.error is None
            return
        case.check()
    raise AssertionError("the verb took more calls than were tried")


def branch_commit(store: ObjectStore, act: Callable[[lc.Table], object], at: int) -> tuple[bool, object]:
    """Write to the branch, while another process acts on it before the call `at`; return whether it did, and the
    error.
    """
    acted: list[Call] = []
    opened: list[int] = []

    def interrupt(call: Call) -> None:
        if opened and call.number == opened[0] + at:
            acted.append(call)
            act(catalog_over(store, 1).table("db.t"))

    faulty = FaultyStore(store, on_call=interrupt)
    table = catalog_over(faulty, 2).table("db.t").branch("b")
    assert len(table.schema.fields) == 2
    opened.append(len(faulty.calls))
    try:
        table.write(ROW)
    except (lc.CommitConflict, lc.NotFound) as error:
        return bool(acted), error
    return bool(acted), None


@pytest.mark.parametrize("kind", ["memory", pytest.param("objects", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "act", ["rename", *(pytest.param(act, marks=pytest.mark.long) for act in ("delete", "forward"))]
)
def test_a_commit_whose_branch_is_overtaken_is_in_it_or_is_refused(
    act: str, kind: str, every: int, tmp_path: Path
) -> None:
    acts: dict[str, Callable[[lc.Table], object]] = {
        "delete": lambda table: table.delete_branch("b"),
        "rename": lambda table: table.rename_branch("b", "new"),
        "forward": lambda table: table.fast_forward("b"),
    }
    for at in range(1, 100, every):
        store = made_store(kind, tmp_path)
        has_acted, error = branch_commit(store, acts[act], at)
        if not has_acted:
            return
        table = catalog_over(store, 3).table("db.t")
        rows = {branch.name: of_k9(table.branch(branch.name)) for branch in table.branches()}
        assert rows == {"delete": {}, "rename": {"new": int(error is None)}, "forward": {"b": 1}}[act], at
        assert table.verify(data=True).findings == (), at
        assert act != "forward" or error is None, at
    raise AssertionError("the commit took more calls than were tried")
