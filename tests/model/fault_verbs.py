"""Every verb that changes something, and what it must be like when its store fails: done or not, and told truly.

What happened shows in `Seen`; `check` compares it with what the verb said, and does the verb again.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import ObjectStore, ProcessDied

Rows = tuple[tuple[Any, ...], ...]

OPTIONS = {"bucket": "1", "lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"}
WAITING = {"lakehouse.read.grace": "1 h"}
CHANGELOGS = {"changelog-producer": "input", "changelog.num-retained.max": "100", "changelog.time-retained": "100 d"}


@dataclass(frozen=True)
class Verb:
    """What is done to the catalog. `in_steps`: some of it may be done without the rest, which is done the next time.

    `prepare`: what was done before, and did not fail.
    """

    run: Callable[[Catalog], object]
    options: Mapping[str, str] = field(default_factory=dict)
    in_steps: bool = False
    prepare: Callable[[lc.Table], object] = lambda table: None


def _on_table(run: Callable[[lc.Table], object], **more: Any) -> Verb:
    return Verb(lambda catalog: run(catalog.table("db.t")), **more)


def _expire(table: lc.Table) -> object:
    return table.expire_snapshots(retain_max=1, older_than=timedelta(0))


def _staged_commit(table: lc.Table) -> object:
    """As a pipeline does it: what was kept is committed, however often it is done."""
    staged = table.pending("pipeline", 7)
    if staged is None:
        rows = [{"k": 3, "v": "c"}, {"k": 1, "v": "d"}]
        staged = table.stage(rows, commit_user="pipeline", commit_identifier=7)
        table.keep_pending(staged)
    return table.commit(staged)


def _overtaken(table: lc.Table) -> None:
    staged = table.stage([{"k": 1, "v": "late"}], commit_user="late", commit_identifier=1)
    table.keep_pending(staged)
    table.write([{"k": 1, "v": "early"}])


def _late_commit(table: lc.Table) -> object:
    staged = table.pending("late", 1)
    assert staged is not None
    return table.commit(staged)


VERBS = {
    "write": _on_table(lambda table: table.write([{"k": 3, "v": "c"}])),
    "commit": _on_table(_staged_commit),
    "commit, overtaken": _on_table(_late_commit, prepare=_overtaken),
    "overwrite": _on_table(lambda table: table.overwrite([{"k": 9, "v": "z"}])),
    "compact": _on_table(lambda table: table.compact(full=True)),
    "compact manifests": _on_table(lambda table: table.compact_manifests()),
    "write, compact": _on_table(
        lambda table: table.write([{"k": 3, "v": "c"}]),
        options={"num-sorted-run.compaction-trigger": "2"},
        in_steps=True,
    ),
    "expire": _on_table(_expire),
    "expire, wait": _on_table(_expire, options=WAITING),
    "expire, changelogs stay": _on_table(_expire, options=CHANGELOGS),
    "tag": _on_table(lambda table: table.create_tag("t")),
    "untag": _on_table(lambda table: table.delete_tag("kept")),
    "alter": _on_table(lambda table: table.alter(lc.AddColumn("w", "INT"))),
    "create table": Verb(lambda catalog: catalog.create_table("db.new", {"a": "INT"})),
    "drop table": Verb(lambda catalog: catalog.drop_table("db.t")),
    "rename table": Verb(lambda catalog: catalog.rename_table("db.t", "db.other")),
    "create database": Verb(lambda catalog: catalog.create_database("more")),
    "drop database": Verb(lambda catalog: catalog.drop_database("db", cascade=True), in_steps=True),
}
UNKNOWN = (lc.WriteOutcomeUnknown, lc.CommitOutcomeUnknown, ProcessDied)


@dataclass(frozen=True)
class Seen:
    """What users see, and how far the histories reach: first and last snapshot.

    Of a table: columns, rows, rows by tag, changes where they outlive their snapshots.
    """

    tables: Mapping[str, tuple[list[str], Rows, Mapping[str, Rows], Rows]]
    databases: tuple[str, ...]
    history: Mapping[str, tuple[int, int]]

    def is_like(self, other: "Seen") -> bool:
        """Return whether users see the same."""
        return (self.tables, self.databases) == (other.tables, other.databases)


def catalog_of(store: ObjectStore, process: int) -> Catalog:
    """Open the warehouse as another process does, each a minute after the one before."""
    return Catalog(store, clock=VirtualClock(seed=process, now_millis=1_700_000_000_000 + process * 60_000))


def make(store: ObjectStore, verb: Verb) -> None:
    """Make a database with one table: two snapshots, the first of them tagged, and what the verb needs."""
    catalog = catalog_of(store, 0)
    catalog.create_database("db")
    columns = {"k": "INT NOT NULL", "v": "STRING"}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options={**OPTIONS, **verb.options})
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "a"}])
    table.create_tag("kept")
    table.write([{"k": 1, "v": "b"}])
    verb.prepare(table)


def seen(catalog: Catalog) -> Seen:
    tables, history = {}, {}
    for name in (f"{database}.{table}" for database in catalog.databases() for table in catalog.tables(database)):
        table = catalog.table(name)
        tags = {tag.name: _rows(table, lc.AtTag(tag.name)) for tag in table.tags()}
        tables[name] = (list(table.schema.column_names), _rows(table, lc.Latest()), tags, _changes(table))
        ids = [snapshot.id for snapshot in table.snapshots()]
        history[name] = (min(ids, default=0), max(ids, default=0))
    return Seen(tables=tables, databases=tuple(catalog.databases()), history=history)


def check(verb: Verb, store: ObjectStore, before: Seen, after: Seen, told: BaseException | None) -> None:
    """Check that what the verb told is what happened, that nothing is damaged, and that doing it again ends well."""
    found = seen(catalog_of(store, 3))
    if told is None:
        assert found.is_like(after)
        assert verb.in_steps or found.history == after.history
    elif isinstance(told, UNKNOWN):
        assert verb.in_steps or found.is_like(before) or found.is_like(after)
    else:
        assert isinstance(told, lc.StorageUnavailable | lc.CommitConflict | lc.CommitTimeout)
        assert found == before
    check_sound(catalog_of(store, 4))
    with suppress(lc.InvalidRequest, lc.NotFound):
        verb.run(catalog_of(store, 5))
    assert seen(catalog_of(store, 6)).is_like(after)
    check_sound(catalog_of(store, 7))


def check_sound(catalog: Catalog) -> None:
    for name in (f"{database}.{table}" for database in catalog.databases() for table in catalog.tables(database)):
        assert catalog.table(name).verify(data=True).findings == ()


def check_nothing_left(store: ObjectStore) -> None:
    """Drop everything: no file stays that some failure left behind."""
    catalog = catalog_of(store, 8)
    for database in catalog.databases():
        catalog.drop_database(database, cascade=True)
    assert list(store.list("")) == []
    assert catalog.databases() == []


def _changes(table: lc.Table) -> Rows:
    if "changelog-producer" not in table.schema.options:
        return ()
    return tuple(tuple(change.values()) for change in table.changes(after=0).to_arrow().to_pylist())


def _rows(table: lc.Table, at: lc.ReadPoint) -> Rows:
    found: Iterable[Mapping[str, Any]] = table.scan(at=at).to_arrow().to_pylist()
    return tuple(sorted(tuple(row.values()) for row in found))
