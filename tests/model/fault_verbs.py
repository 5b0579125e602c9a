"""Every verb that changes something, and what it must be like when its store fails: done or not, and told truly.

What happened shows in `Seen`; `check` compares it with what the verb said, and does the verb again.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.expiry.orphans import remove_orphans
from lakehouse_core.format.avro_file import read_avro
from lakehouse_core.metadata.drop_mark import HELD_MILLIS
from lakehouse_core.storage import ObjectStore, ProcessDied
from tests.model.decided_lake import NamedStore

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")

Rows = tuple[tuple[Any, ...], ...]

OPTIONS = {"bucket": "1", "lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"}
WAITING = {"lakehouse.read.grace": "1 h"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "write-only": "true"}
MOVING = {"keys": ("k",), "partitions": ("v",), "options": DYNAMIC}
POSTPONED = {"bucket": "-2", "postpone.default-bucket-num": "2"}
CHANGELOGS = {"changelog-producer": "input", "changelog.num-retained.max": "100", "changelog.time-retained": "100 d"}


@dataclass(frozen=True)
class Verb:
    """What is done to the catalog. `in_steps`: some of it may be done without the rest, which is done the next time.

    `waits`: readers see it after a compaction, or as a tag, whose failure is told in the report and fails no commit.
    `resumes`: files that nobody sees stay for the next time. `prepare`: what was done before, and did not fail. `keys`:
    the table's primary key. `partitions`: its partition columns. `again`: what a user does after a failure, if it is
    not the same.
    """

    run: Callable[[Catalog], object]
    options: Mapping[str, str] = field(default_factory=dict)
    in_steps: bool = False
    waits: bool = False
    resumes: bool = False
    prepare: Callable[[lc.Table], object] = lambda table: None
    keys: tuple[str, ...] = ("k",)
    partitions: tuple[str, ...] = ()
    again: Callable[[Catalog], object] | None = None


def _on_table(run: Callable[[lc.Table], object], **more: Any) -> Verb:
    return Verb(lambda catalog: run(catalog.table("db.t")), **more)


def _expire(table: lc.Table) -> object:
    return table.expire_snapshots(retain_max=1, older_than=timedelta(0))


def _staged_commit(table: lc.Table) -> object:
    return _kept_commit(table, [{"k": 3, "v": "c"}, {"k": 1, "v": "d"}], "pipeline")


def _kept_commit(table: lc.Table, rows: Sequence[Mapping[str, Any]], user: str) -> object:
    """As a pipeline does it: what was kept is committed, however often it is done."""
    staged = table.pending(user, 7)
    if staged is None:
        staged = table.stage(rows, commit_user=user, commit_identifier=7)
        table.keep_pending(staged)
    return table.commit(staged)


def _overtaken(table: lc.Table) -> None:
    staged = table.stage([{"k": 1, "v": "late"}], commit_user="late", commit_identifier=1)
    table.keep_pending(staged)
    table.write([{"k": 1, "v": "early"}])


def _overtaken_by_new_keys(table: lc.Table) -> None:
    staged = table.stage([{"k": 1, "v": "late"}, {"k": 8, "v": "late"}], commit_user="late", commit_identifier=1)
    table.keep_pending(staged)
    table.write([{"k": 1, "v": "early"}, {"k": 9, "v": "early"}])


def _overtaken_beside(table: lc.Table) -> None:
    """Others bring another key, and delete one that the staged rows move."""
    staged = table.stage([{"k": 1, "v": "late"}, {"k": 8, "v": "late"}], commit_user="late", commit_identifier=1)
    table.keep_pending(staged)
    table.write([{"k": 9, "v": "early"}])
    table.delete("k = 1")


def _late_commit(table: lc.Table) -> object:
    staged = table.pending("late", 1)
    assert staged is not None
    return table.commit(staged)


def _two_staged(table: lc.Table) -> None:
    for user in ("first", "second"):
        table.keep_pending(table.stage([{"k": 1, "v": user}], commit_user=user, commit_identifier=1))
    table.write([{"k": 1, "v": "early"}])


def _joint_commit(table: lc.Table) -> object:
    staged = [part for user in ("first", "second") for part in table.all_pending(user)]
    return table.commit_together(staged, commit_user="both", commit_identifier=1)


def _copy(catalog: Catalog) -> object:
    return catalog.copy_table(catalog.table("db.t"), "db.copy")


def _change_schema(table: lc.Table) -> None:
    table.alter(lc.AddColumn("w", "INT"))
    table.write([{"k": 4, "v": "d", "w": 1}])
    _expire(table)


def _keep_by_tag(table: lc.Table) -> None:
    """Leave files that the tag alone needs."""
    table.compact(full=True)
    _expire(table)


def _expire_tags(table: lc.Table) -> object:
    # The clocks of stores and processes differ here.
    return table.expire_tags(older_than=datetime(2200, 1, 1))


def _stage_and_forget(table: lc.Table) -> None:
    table.stage([{"k": 3, "v": "c"}], commit_user="gone", commit_identifier=1)


def _remove_orphans(table: lc.Table) -> object:
    # Of any age: the verb of users takes none below an hour, and the clocks of stores and processes differ here.
    return remove_orphans(table._context, min_age_millis=0)


def _compact_and_append(table: lc.Table) -> None:
    """Leave rows in buckets, and others that wait for them."""
    table.compact(full=True)
    table.write([{"k": 1, "v": "p"}, {"k": 7, "v": "p"}])


def _branch_off(table: lc.Table) -> None:
    table.create_branch("old", at=table.snapshots()[-1].id)
    table.branch("old").write([{"k": 7, "v": "b"}])


def _create_again(catalog: Catalog) -> None:
    """What a killed creation left is removed; its name stays used."""
    table = catalog.table("db.t")
    if "new" in {branch.name for branch in table.branches() if branch.work is None}:
        return
    with suppress(lc.NotFound):
        table.delete_branch("new")
    table.create_branch("newer", at=1)


def _rename_again(catalog: Catalog) -> None:
    """What a killed call left is finished by the same call, or removed by one with a further name."""
    table = catalog.table("db.t")
    try:
        table.rename_branch("old", "new")
    except lc.InvalidRequest:
        table.rename_branch("old", "newer")


def _forward_altered(table: lc.Table) -> None:
    _branch_off(table)
    table.branch("old").alter(lc.AddColumn("w", "INT"))
    table.branch("old").write([{"k": 8, "v": "b", "w": 1}])


def _write_old(table: lc.Table) -> None:
    table.write([{"k": 5, "v": "2001-01-01"}, {"k": 6, "v": "2001-01-02"}])


VERBS = {
    "write": _on_table(lambda table: table.write([{"k": 3, "v": "c"}])),
    "commit": _on_table(_staged_commit),
    "commit, overtaken": _on_table(_late_commit, prepare=_overtaken),
    "commit together, overtaken": _on_table(_joint_commit, prepare=_two_staged, options={"write-only": "true"}),
    "overwrite": _on_table(lambda table: table.overwrite([{"k": 9, "v": "z"}])),
    "write, dynamic buckets": _on_table(
        lambda table: table.write([{"k": key, "v": "c"} for key in range(1, 6)]), options=DYNAMIC
    ),
    "commit, overtaken, dynamic buckets": _on_table(_late_commit, prepare=_overtaken_by_new_keys, options=DYNAMIC),
    "overwrite, dynamic buckets": _on_table(lambda table: table.overwrite([{"k": 9, "v": "z"}]), options=DYNAMIC),
    "write, moving keys": _on_table(lambda table: table.write([{"k": 1, "v": "c"}, {"k": 3, "v": "a"}]), **MOVING),
    "commit, overtaken, moving keys": _on_table(_late_commit, prepare=_overtaken_beside, **MOVING),
    "write, postponed buckets": _on_table(lambda table: table.write([{"k": 3, "v": "c"}]), options=POSTPONED),
    "write, placed": _on_table(
        lambda table: table.write([{"k": 3, "v": "c"}]),
        options={**POSTPONED, "postpone.batch-write-fixed-bucket": "true"},
        prepare=lambda table: table.compact(),
    ),
    "merge, postponed buckets": _on_table(
        lambda table: table.merge(
            [{"k": 1, "v": "m"}, {"k": 9, "v": "n"}],
            "t.k = s.k",
            lc.WhenMatched(update={"v": "s.v"}),
            lc.WhenNotMatched(insert="*"),
        ),
        options=POSTPONED,
        prepare=lambda table: table.compact(),
    ),
    "compact, postponed buckets": _on_table(
        lambda table: table.compact(full=True), options=POSTPONED, prepare=_compact_and_append
    ),
    "truncate": _on_table(lambda table: table.truncate()),
    "truncate, dynamic buckets": _on_table(lambda table: table.truncate(), options=DYNAMIC),
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
    "replace tag": _on_table(lambda table: table.replace_tag("kept"), prepare=_keep_by_tag),
    "rename tag": _on_table(lambda table: table.rename_tag("kept", "other"), in_steps=True),
    "expire tags": _on_table(_expire_tags, prepare=_keep_by_tag),
    "roll back": _on_table(lambda table: table.rollback_to(1)),
    "roll back to a tag": _on_table(lambda table: table.rollback_to(lc.AtTag("kept")), prepare=_keep_by_tag),
    "create branch": _on_table(lambda table: table.create_branch("new", at=1), again=_create_again, in_steps=True),
    "rename branch": _on_table(
        lambda table: table.rename_branch("old", "new"), again=_rename_again, prepare=_branch_off, in_steps=True
    ),
    "delete branch": _on_table(lambda table: table.delete_branch("old"), prepare=_branch_off, in_steps=True),
    "fast forward": _on_table(lambda table: table.fast_forward("old"), prepare=_branch_off),
    "fast forward, altered": _on_table(
        lambda table: table.fast_forward("old"), prepare=_forward_altered, in_steps=True
    ),
    "remove orphans": _on_table(_remove_orphans, prepare=_stage_and_forget, resumes=True),
    "expire partitions": _on_table(
        lambda table: table.expire_partitions(),
        options={"partition.expiration-time": "1 d"},
        keys=("k", "v"),
        partitions=("v",),
        prepare=_write_old,
    ),
    "mark partitions done": _on_table(
        lambda table: table.mark_partitions_done([{"v": "a"}, {"v": "b"}]),
        keys=("k", "v"),
        partitions=("v",),
        in_steps=True,
    ),
    "rescale": _on_table(lambda table: table.rescale(3), in_steps=True),
    "alter": _on_table(lambda table: table.alter(lc.AddColumn("w", "INT"))),
    "alter, postponed buckets": _on_table(
        lambda table: table.alter(lc.SetOption("bucket", "2")),
        options=POSTPONED,
        prepare=lambda table: table.compact(),
        in_steps=True,
    ),
    "create table": Verb(
        lambda catalog: catalog.create_table("db.new", {"a": "INT"}),
        again=lambda catalog: catalog.create_table("db.new", {"a": "INT"}, exist_ok=True),
    ),
    "drop table": Verb(lambda catalog: catalog.drop_table("db.t")),
    "rename table": Verb(lambda catalog: catalog.rename_table("db.t", "db.other")),
    "copy table": Verb(_copy, resumes=True),
    "create database": Verb(lambda catalog: catalog.create_database("more")),
    "drop database": Verb(lambda catalog: catalog.drop_database("db", cascade=True), in_steps=True),
}

INPUT = {"changelog-producer": "input"}
IN_FULL = {"changelog-producer": "full-compaction"}
VECTORS = {"deletion-vectors.enabled": "true"}
MARKED = {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"}
INDEXED = {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}
# The compaction makes the tag of the day before the first snapshot.
TAGGED = {"tag.automatic-creation": "process-time", "tag.create-success-file": "true", "write-only": "true"}
CHANGED = [{"k": 1, "v": "c"}, {"k": 3, "v": "c"}]
MANY_ROWS = [{"k": k, "v": f"{k * 2654435761 % 2**32:x}"} for k in range(1, 5000)]


def _once(rows: Sequence[Mapping[str, Any]], options: Mapping[str, str], **more: Any) -> Verb:
    """A write that is kept until it is committed: repeated, it tells each row once."""

    def run(table: lc.Table) -> object:
        return _kept_commit(table, rows, "once")

    return _on_table(run, options=options, **more)


def _compact(table: lc.Table) -> object:
    return table.compact(full=True)


def _append(table: lc.Table) -> None:
    table.write([{"k": 7, "v": "p"}])


def _delete(table: lc.Table) -> object:
    return table.delete("k = 1")


def _update(table: lc.Table) -> object:
    return table.update({"v": "'new'"}, "k = 1")


def _merge(table: lc.Table) -> object:
    """Repeated, it changes nothing more."""
    return table.merge(
        [{"k": 1, "v": "new"}, {"k": 7, "v": "new"}],
        "t.k = s.k",
        lc.WhenMatched(update={"v": "s.v"}, where="t.v <> s.v"),
        lc.WhenNotMatched(insert="*"),
    )


def _replace(table: lc.Table) -> object:
    return table.overwrite([{"k": 1, "v": "b"}, {"k": 7, "v": "b"}], where="v = 'b'")


def _replace_and_move(table: lc.Table) -> object:
    """Replace a key, and bring it to another partition."""
    return table.overwrite([{"k": 1, "v": "c"}, {"k": 7, "v": "b"}], where="k IN (1, 7)")


def _add_a_number(table: lc.Table) -> None:
    """Add a column that is not in the key and parts no rows."""
    table.alter(lc.AddColumn("w", "INT"))


def _ask_for_indexes(table: lc.Table) -> None:
    table.alter(*(lc.SetOption(key, value) for key, value in INDEXED.items()))


def _rewrite_file_index(table: lc.Table) -> object:
    return table.rewrite_file_index()


def _outdate(table: lc.Table) -> None:
    """Leave files that old snapshots alone need."""
    table.delete_tag("kept")
    table.compact(full=True)


PLACED: Mapping[str, Any] = {"options": POSTPONED, "prepare": lambda table: table.compact()}
WAITING_ROWS: Mapping[str, Any] = {
    "options": {**POSTPONED, "postpone.merge-on-read": "true"},
    "prepare": _compact_and_append,
}
# What writes more kinds of files than the verbs above do.
FILE_VERBS = {
    "write, changelog joined": _once(CHANGED, {**INPUT, "precommit-compact": "true", "bucket": "2"}),
    "write, marked": _once(CHANGED, MARKED, in_steps=True, waits=True),
    "write, told in full": _once(CHANGED, {**IN_FULL, "full-compaction.delta-commits": "1"}, in_steps=True, waits=True),
    "write, indexed": _once(CHANGED, INDEXED),
    "compact, tagged": _on_table(_compact, options=TAGGED, prepare=_append, in_steps=True, waits=True),
    "write, many files": _once(MANY_ROWS, {**INPUT, "target-file-size": "16 kb", "write-buffer-size": "64 kb"}),
    "write, avro": _once(CHANGED, {**INPUT, "file.format": "avro"}),
    "write, orc": _once(CHANGED, {**INPUT, "file.format": "orc"}),
    "append": _once(CHANGED, {"bucket": "-1"}, keys=()),
    "append, packed": _on_table(
        lambda table: table.compact(),
        options={"bucket": "-1", "compaction.min.file-num": "2", "write-only": "true"},
        keys=(),
        prepare=_append,
    ),
    "compact, marked": _on_table(_compact, options={**MARKED, "write-only": "true"}, prepare=_append),
    "compact, told": _on_table(_compact, options={**IN_FULL, "write-only": "true"}, prepare=_append),
    "write, postponed": _once(CHANGED, POSTPONED),
    "compact, postponed and told": _on_table(_compact, options={**POSTPONED, **INPUT}, prepare=_compact_and_append),
    "compact, postponed and marked": _on_table(_compact, options={**POSTPONED, **MARKED}, prepare=_compact_and_append),
    "expire, marked": _on_table(_expire, options={**CHANGELOGS, **MARKED}, prepare=_outdate),
    "copy, altered": Verb(_copy, options=CHANGELOGS, resumes=True, prepare=_change_schema),
    "copy, marked": Verb(_copy, options={**MARKED, **INDEXED}, resumes=True, prepare=_append),
    "rescale, told": _on_table(
        lambda table: table.rescale(3), options={**IN_FULL, "write-only": "true"}, prepare=_append, in_steps=True
    ),
    "rescale, dynamic buckets": _on_table(lambda table: table.rescale(), options=DYNAMIC, prepare=_append),
    "rescale, marked": _on_table(lambda table: table.rescale(3), options=MARKED, prepare=_append, in_steps=True),
    "rewrite file index": _on_table(_rewrite_file_index, prepare=_ask_for_indexes),
    "rewrite file index, append": _on_table(
        _rewrite_file_index, options={"bucket": "-1", **VECTORS}, keys=(), prepare=_ask_for_indexes
    ),
    "expire, indexed": _on_table(_expire, options=INDEXED, prepare=_outdate),
    "delete": _on_table(_delete),
    "delete, marked": _on_table(_delete, options={"bucket": "-1", **VECTORS}, keys=()),
    "delete, files": _on_table(_delete, options={"bucket": "-1"}, keys=()),
    "delete, buckets": _on_table(_delete, options={"ignore-delete": "true"}),
    "update": _on_table(_update),
    "update, dynamic buckets": _on_table(_update, options=DYNAMIC),
    "update, marked": _on_table(_update, options={"bucket": "-1", **VECTORS}, keys=()),
    "update, files": _on_table(_update, options={"bucket": "-1"}, keys=()),
    "merge": _on_table(_merge),
    "merge, dynamic buckets": _on_table(_merge, options=DYNAMIC),
    "merge, marked": _on_table(_merge, options={"bucket": "-1", **VECTORS}, keys=()),
    "merge, files": _on_table(_merge, options={"bucket": "-1"}, keys=()),
    "replace": _on_table(_replace),
    "replace, dynamic buckets": _on_table(_replace, options=DYNAMIC),
    "replace, buckets": _on_table(_replace, options={"sequence.field": "v"}),
    "replace, marked": _on_table(_replace, options={"bucket": "-1", **VECTORS}, keys=()),
    "replace, files": _on_table(_replace, options={"bucket": "-1"}, keys=()),
    "replace, partitions": _on_table(_replace, keys=("k", "v"), partitions=("v",)),
    "replace, partitions, dynamic buckets": _on_table(_replace, options=DYNAMIC, keys=("k", "v"), partitions=("v",)),
    "delete, moving keys": _on_table(_delete, **MOVING),
    "update, moving keys": _on_table(lambda table: table.update({"w": 1}, "k > 0"), prepare=_add_a_number, **MOVING),
    "merge, moving keys": _on_table(_merge, **MOVING),
    "replace, moving keys": _on_table(_replace_and_move, **MOVING),
    "replace, partitions, moving keys": _on_table(_replace, **MOVING),
    "overwrite, moving keys": _on_table(
        lambda table: table.overwrite([{"k": 1, "v": "a"}, {"k": 9, "v": "z"}], dynamic=False), **MOVING
    ),
    "rescale, moving keys": _on_table(lambda table: table.rescale(), prepare=_append, **MOVING),
    "delete, postponed": _on_table(_delete, **PLACED),
    "update, postponed": _on_table(_update, **PLACED),
    "replace, postponed": _on_table(_replace, **PLACED),
    "delete, waiting": _on_table(_delete, **WAITING_ROWS),
    "update, waiting": _on_table(lambda table: table.update({"v": "'new'"}, "v <> 'new'"), **WAITING_ROWS),
    "merge, waiting": _on_table(_merge, **WAITING_ROWS),
    "replace, waiting": _on_table(
        lambda table: table.overwrite([{"k": 1, "v": "p"}, {"k": 8, "v": "p"}], where="v = 'p'"), **WAITING_ROWS
    ),
}
ALL_VERBS = {**VERBS, **FILE_VERBS}
# After this time the mark of a drop that was killed is held no longer.
DROP_ENDS_SECONDS = HELD_MILLIS // 1_000 + 1
UNKNOWN = (lc.WriteOutcomeUnknown, lc.CommitOutcomeUnknown, ProcessDied)


@dataclass(frozen=True)
class Seen:
    """What users see, and how far the histories reach: first and last snapshot.

    Of a table: columns, rows, rows by tag, changes where they outlive their snapshots, rows of branches by any name.
    """

    tables: Mapping[str, tuple[list[str], Rows, Mapping[str, Rows], Rows, list[Rows]]]
    databases: tuple[str, ...]
    history: Mapping[str, tuple[int, int]]

    def is_like(self, other: "Seen") -> bool:
        """Return whether users see the same."""
        return (self.tables, self.databases) == (other.tables, other.databases)


def catalog_of(store: ObjectStore, process: int) -> Catalog:
    """Open the warehouse as another process does, each a minute after the one before."""
    clock = VirtualClock(seed=process, now_millis=1_700_000_000_000 + process * 60_000)
    names = store.names(clock) if isinstance(store, NamedStore) else None
    return Catalog(store, clock=clock, metastore=names)


def make(store: ObjectStore, verb: Verb) -> None:
    """Make a database with one table: two snapshots, the first of them tagged, and what the verb needs."""
    catalog = catalog_of(store, 0)
    catalog.create_database("db")
    columns = {"k": "INT NOT NULL", "v": "STRING"}
    table = catalog.create_table(
        "db.t",
        columns,
        primary_keys=list(verb.keys),
        partition_keys=list(verb.partitions),
        options={**OPTIONS, **verb.options},
    )
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "a"}])
    table.create_tag("kept")
    table.write([{"k": 1, "v": "b"}])
    verb.prepare(table)


def seen(catalog: Catalog) -> Seen:
    tables, history = {}, {}
    for name in (f"{database}.{table}" for database in catalog.databases() for table in catalog.tables(database)):
        table = catalog.table(name)
        # A verb that was killed leaves the tag by which it held files; it ends by itself.
        names = [tag.name for tag in table.tags() if not tag.name.startswith("lakehouse-holds-")]
        tags = {name: _rows(table, lc.AtTag(name)) for name in names}
        of_branches = sorted(_rows(branch, lc.Latest()) for branch in _branches(table))
        tables[name] = (list(table.schema.column_names), _rows(table, lc.Latest()), tags, _changes(table), of_branches)
        ids = [snapshot.id for snapshot in table.snapshots()]
        history[name] = (min(ids, default=0), max(ids, default=0))
    return Seen(tables=tables, databases=tuple(catalog.databases()), history=history)


def _branches(table: lc.Table) -> list[lc.Table]:
    """Return the branches that can be read."""
    return [table.branch(one.name) for one in table.branches() if one.work in (None, "forwarding")]


def check(verb: Verb, store: ObjectStore, before: Seen, after: Seen, told: BaseException | None) -> None:
    """Check that what the verb told is what happened, that nothing is damaged, and that doing it again ends well."""
    found = seen(catalog_of(store, 3))
    if told is None:
        assert found.is_like(after) or verb.waits
        assert verb.in_steps or found.history == after.history
    elif isinstance(told, UNKNOWN):
        assert verb.in_steps or found.is_like(before) or found.is_like(after)
    else:
        assert isinstance(told, lc.StorageUnavailable | lc.CommitConflict | lc.CommitTimeout)
        assert found == before
    check_sound(catalog_of(store, 4))
    with suppress(lc.InvalidRequest, lc.NotFound):
        (verb.again or verb.run)(catalog_of(store, 5))
    assert seen(catalog_of(store, 6)).is_like(after)
    check_sound(catalog_of(store, 7))


def state_of(store: ObjectStore, told: BaseException | None) -> tuple[type | None, str]:
    """Return what the checks depend on: what the verb told, and each object. Many faults lead to the same state."""
    digest = sha256()
    for key in sorted(info.key for info in store.list("")):
        data = store.read(key)
        digest.update(f"{key}\0{len(data)}\0".encode() + data)
    return None if told is None else type(told), digest.hexdigest()


def left_over(store: ObjectStore) -> list[str]:
    """Return the files of tables that no metadata names."""
    infos = [info.key for info in store.list("")]
    words: set[str] = set()
    for key in infos:
        data = store.read(key)
        if data[:1] == b"{":
            words.update(re.findall(r"[\w.=$-]+", data.decode()))
        elif data[:4] == b"Obj\1" and "/manifest/" in key:
            words.update(re.findall(r"[\w.=$-]+", repr(read_avro(data, key))))
    # A plan of deletions is named by nobody: the next expiry looks for it. So it does for a tag that held files.
    found_by_expiry = ("/lakehouse/plan-", "/tag/tag-lakehouse-holds-")
    files = [key for key in infos if _UUID.search(key) and not any(part in key for part in found_by_expiry)]
    return [key for key in files if key.rpartition("/")[2] not in words]


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
