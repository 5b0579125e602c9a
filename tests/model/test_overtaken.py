"""Whatever a verb is doing, somebody else may rewrite the table and let all that it was looking at go.

No file waits for its readers here. Nobody may take for damage what has only gone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.compaction.compact import compact
from lakehouse_core.execution.compaction.scope import RequestedBuckets
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.tasks.runtime import local_runtime
from tests.contexts import context_of
from tests.pairs import each_with_one


@dataclass(frozen=True)
class Verb:
    """What is done, and how else than well it may end when its snapshot goes."""

    run: Callable[[lc.Table], object]
    ends: tuple[type[Exception], ...] = ()


def rows(batches):
    return sorted(map(str, batches.to_arrow().to_pylist()))


GONE = (lc.SnapshotExpired,)
LOST = (lc.CommitConflict,)
VERBS = {
    "scan": Verb(lambda table: rows(table.scan()), GONE),
    "scan of a snapshot": Verb(lambda table: rows(table.scan(at=lc.AtSnapshot(2))), GONE),
    "scan of what was added": Verb(
        lambda table: rows(
            table.scan(options={"incremental-between": "1,3", "incremental-between-scan-mode": "delta"})
        ),
        GONE,
    ),
    "count": Verb(lambda table: table.scan().count(), GONE),
    "changes": Verb(lambda table: rows(table.changes(after=0)), GONE),
    "diff": Verb(lambda table: rows(table.diff(1, 3)), GONE),
    "lookup": Verb(lambda table: table.lookup([{"k": 1}, {"k": 2}]), GONE),
    "files": Verb(lambda table: table.files().to_dicts()),
    "manifests": Verb(lambda table: table.manifests().to_dicts()),
    "partitions": Verb(lambda table: table.partitions().to_dicts()),
    "partitions as rows": Verb(lambda table: table.system("partitions").to_arrow()),
    "buckets": Verb(lambda table: table.buckets().to_dicts()),
    "snapshots": Verb(lambda table: table.snapshots().to_dicts()),
    "verify": Verb(lambda table: table.verify(data=True).findings == () or pytest.fail("there is nothing wrong")),
    "compact": Verb(lambda table: table.compact(full=True), LOST),
    "compact manifests": Verb(lambda table: table.compact_manifests()),
    "write": Verb(lambda table: table.write([{"k": 7, "v": "new"}])),
    "overwrite": Verb(lambda table: table.overwrite([{"k": 7, "v": "new"}]), LOST),
    "stage and commit": Verb(
        lambda table: table.commit(table.stage([{"k": 7, "v": "new"}], commit_user="me", commit_identifier=1))
    ),
    "stage and commit together": Verb(
        lambda table: table.commit_together(
            [table.stage([{"k": 7, "v": user}], commit_user=user, commit_identifier=1) for user in ("first", "second")],
            commit_user="both",
            commit_identifier=1,
        )
    ),
    "alter": Verb(lambda table: table.alter(lc.AddColumn("x", "INT"))),
    "tag": Verb(lambda table: table.create_tag("t"), GONE),
    "roll back": Verb(lambda table: table.rollback_to(2), GONE),
    "expire": Verb(lambda table: table.expire_snapshots(retain_max=1, older_than=timedelta(0))),
    "remove orphans": Verb(lambda table: table.remove_orphans()),
}
KINDS = {
    "key": {"primary_keys": ["k"], "options": {"bucket": "2"}},
    "key, dynamic": {"primary_keys": ["k"], "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}},
    "key, lookup": {"primary_keys": ["k"], "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "key, vectors": {"primary_keys": ["k"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "append": {"options": {"bucket": "-1"}},
}


@cache
def made(kind):
    clock = VirtualClock()
    store = MemoryStore(clock=clock)
    catalog = Catalog(store, clock=clock)
    catalog.create_database("db")
    parts = KINDS[kind]
    options = {**parts["options"], "lakehouse.read.grace": "0 s", "write-only": "true"}
    table = catalog.create_table(
        "db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=parts.get("primary_keys", ()), options=options
    )
    for number in range(3):
        table.write([{"k": k, "v": f"v{number}"} for k in range(4)])
        clock.advance(1)
    return {info.key: store.read(info.key) for info in store.list("")}, clock.now_millis()


def copied(kind):
    objects, now_millis = made(kind)
    clock = VirtualClock(now_millis=now_millis, seed=7)
    store = MemoryStore(clock=clock)
    store.write(objects)
    return store, clock


# What these verbs find after the rewriting is the same at whichever of their calls it comes.
READING = {
    "scan",
    "scan of a snapshot",
    "scan of what was added",
    "count",
    "changes",
    "diff",
    "lookup",
    "files",
    "manifests",
    "partitions",
    "partitions as rows",
    "buckets",
    "snapshots",
    "verify",
}


@cache
def rewritten(kind):
    """Return the objects that are new after a rewriting, and the keys of those that are gone."""
    before, _ = made(kind)
    store, clock = copied(kind)
    rewrite_everything(store, clock)
    after = {info.key: store.read(info.key) for info in store.list("")}
    return {key: data for key, data in after.items() if data != before.get(key)}, [*before.keys() - after.keys()]


def rewrite_everything(store, clock):
    table = Catalog(store, clock=clock).table("db.t")
    table.write([{"k": 9, "v": "other"}])
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, older_than=timedelta(0))


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), each_with_one(VERBS, KINDS, step=9))
def test_what_has_gone_meanwhile_is_not_taken_for_damage(kind, name):
    verb = VERBS[name]
    # What is staged by itself is not staged again by itself.
    ends = (*verb.ends, *(LOST if kind == "key, dynamic" and name.startswith("stage") else ()))
    if name == "lookup" and kind == "append":
        return
    store, clock = copied(kind)
    counting = FaultyStore(store)
    verb.run(Catalog(counting, clock=clock).table("db.t"))
    wrong = {}
    for number in range(1, len(counting.calls) + 1):
        store, clock = copied(kind)

        def interrupt(call, number=number, store=store, clock=clock):
            if call.number == number and name in READING:
                new, gone = rewritten(kind)
                store.write(new)
                store.delete(gone)
            elif call.number == number:
                rewrite_everything(store, clock)

        try:
            verb.run(Catalog(FaultyStore(store, on_call=interrupt), clock=clock).table("db.t"))
        except ends:
            pass
        except lc.LakehouseError as error:
            wrong[str(counting.calls[number - 1])] = f"{type(error).__name__}: {error}"
    assert wrong == {}


class Overtaken:
    """An engine before whose first tasks somebody else does something."""

    is_remote = False
    tasks_at_once = 1

    def __init__(self, store, clock, before):
        self._engine = LocalEngine(local_runtime(store, clock))
        self._before = before

    def run(self, task, inputs):
        before, self._before = self._before, lambda: None
        before()
        yield from self._engine.run(task, inputs)

    def run_at_once(self, task, inputs, take, *, most=None):
        for text in self.run(task, inputs):
            take(text)


def partitioned():
    clock = VirtualClock()
    store = MemoryStore(clock=clock)
    catalog = Catalog(store, clock=clock)
    catalog.create_database("db")
    options = {"bucket": "1", "lakehouse.read.grace": "0 s", "write-only": "true"}
    columns = {"p": "STRING NOT NULL", "k": "INT NOT NULL"}
    table = catalog.create_table("db.t", columns, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    for number in range(3):
        table.write([{"p": p, "k": number} for p in "abc"])

    def overtaken_by(before):
        inner = store.at("db.db/t")
        context = context_of(inner, clock, Overtaken(store, clock, before))
        return compact(context, RequestedBuckets(), full=True)

    return table, store, overtaken_by


def test_a_compaction_goes_on_in_the_buckets_where_nobody_overtook_it():
    table, _, overtaken_by = partitioned()
    before = rows(table.scan())

    def overtake():
        table.compact(full=True, partition={"p": "b"})
        table.expire_snapshots(retain_max=1, older_than=timedelta(0))

    result = overtaken_by(overtake)

    (lost,) = result.commit.conflicts
    assert "another commit replaced it" in lost.reason
    assert len(result.commit.changes[0].entries) == 2 * (3 + 1)
    assert rows(table.scan()) == before
    assert table.verify().findings == ()
    assert table.compact(full=True).noop_reason is not None


def test_a_compaction_that_was_overtaken_everywhere_says_so_and_leaves_nothing_behind():
    table, store, overtaken_by = partitioned()

    def overtake():
        table.compact(full=True)
        table.expire_snapshots(retain_max=1, older_than=timedelta(0))
        there.update(info.key for info in store.list(""))

    there = set()
    with pytest.raises(
        lc.CommitConflict, match=r"partition p=a, bucket 0: data-.* is missing: another commit replaced it"
    ):
        overtaken_by(overtake)

    assert {info.key for info in store.list("")} == there


def test_a_file_that_is_missing_though_the_latest_snapshot_names_it_is_damage():
    table, store, overtaken_by = partitioned()

    def damage():
        table.compact(full=True, partition={"p": "b"})
        table.expire_snapshots(retain_max=1, older_than=timedelta(0))
        store.delete([info.key for info in store.list("db.db/t/p=a")])

    with pytest.raises(lc.CorruptTable):
        overtaken_by(damage)
