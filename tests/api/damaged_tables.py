"""Small tables that have every kind of file, copies of them with damaged files, and what is asked of these.

Promise: whatever stored bytes become, an answer is the right one or CorruptTable, and no file is lost that is needed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.data_files.deletion_vector_writer import IndexFolder, change_vectors
from lakehouse_core.errors import CorruptTable
from lakehouse_core.planning.commit.index_files import index_file_of
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.commit_message import Append, CommitMessage
from lakehouse_core.table.staged_commit import StagedCommit
from tests.contexts import context_of
from tests.damage import damaged

_PLACE = re.compile(r"memory-\d+")
TABLE = "db.t"
FOLDER = "db.db/t"
ALL_KINDS = {
    "snapshot": "snapshot/snapshot-",
    "hint": "snapshot/LATEST snapshot/EARLIEST changelog/LATEST changelog/EARLIEST",
    "changelog": "changelog/changelog-",
    "schema": "schema/",
    "tag": "tag/",
    "boundary": "lakehouse/boundary",
    "plan": "lakehouse/plan-",
    "pending": "lakehouse/pending/",
    "deletion vectors": "index/",
}


@dataclass(frozen=True)
class Shape:
    """A kind of table: its key, its options, and whether rows are marked as deleted by hand."""

    keys: tuple[str, ...]
    options: Mapping[str, str]
    is_marked: bool = False


_EVERYWHERE = {
    "lakehouse.read.grace": "1 h",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "6",
    "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "9",
    "file.compression": "none",
    "file-index.in-manifest-threshold": "0 B",
    "manifest.merge-min-count": "4",
}
_INDEXES = {
    "file-index.bloom-filter.columns": "v",
    "file-index.bloom-filter.v.items": "100",
    "file-index.bitmap.columns": "n",
    "file-index.range-bitmap.columns": "w",
}
SHAPES = {
    "parquet keys": Shape(("k",), {"bucket": "1", "changelog-producer": "input", **_INDEXES}),
    "parquet vectors": Shape(
        ("k",), {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup", **_INDEXES}
    ),
    "orc keys": Shape(("k",), {"bucket": "1", "changelog-producer": "input", "file.format": "orc"}),
    "avro keys": Shape(
        ("k",),
        {"bucket": "1", "changelog-producer": "input", "file.format": "avro", "file.compression": "snappy"} | _INDEXES,
    ),
    "parquet rows": Shape((), {"deletion-vectors.enabled": "true", **_INDEXES}, is_marked=True),
    "orc rows": Shape((), {"file.format": "orc", **_INDEXES}),
    "avro rows": Shape((), {"file.format": "avro", "file.compression": "zstd"}),
    "avro deflated rows": Shape((), {"file.format": "avro", "file.compression": "deflate"}),
    "avro stored rows": Shape((), {"file.format": "avro", "file.compression": "null"}),
}


def kind_of(key: str) -> str:
    """Return what the object at `key` is to a reader."""
    for kind, prefixes in ALL_KINDS.items():
        if any(key.startswith(prefix) for prefix in prefixes.split()):
            return kind
    if key.startswith("manifest/"):
        return "index manifest" if "index-manifest" in key else "list" if "manifest-list" in key else "manifest"
    if key.endswith(".index"):
        return "file index"
    name, _, format = key.rsplit("/", 1)[-1].partition(".")
    return f"{format} changelog" if name.startswith("changelog-") else f"{format} data"


@dataclass
class Copy:
    """A table of some shape with its own objects; `again` opens it as another process, which remembers nothing."""

    shape: str
    objects: dict[str, bytes]
    started_millis: int

    def __post_init__(self) -> None:
        self.clock = VirtualClock(now_millis=self.started_millis, seed=len(self.objects))
        self.root = MemoryStore(clock=self.clock)
        for key, data in self.objects.items():
            self.root.write({f"{FOLDER}/{key}": data})
        self.store = self.root.at(FOLDER)

    def again(self) -> lc.Table:
        return Catalog(self.root, clock=self.clock).table(TABLE)

    def damage(self, changes: Mapping[str, bytes]) -> None:
        for key, data in changes.items():
            self.store.write({key: data})

    def mend(self, changes: Mapping[str, bytes]) -> None:
        """Give every file of `changes` that is as damaged as it was its own bytes again."""
        for key, data in changes.items():
            if key in {info.key for info in self.store.list("")} and self.store.read(key) == data:
                self.store.write({key: self.objects[key]})

    def contents(self) -> dict[str, bytes]:
        return {info.key: self.store.read(info.key) for info in self.store.list("")}


def _rows(start: int, count: int, change: str) -> list[dict[str, Any]]:
    return [
        {"k": 100 + k, "v": f"{change}{100 + k}", "n": k % 3, "w": 1000 * k + ord(change[0])}
        for k in range(start, start + count)
    ]


@cache
def table_of(shape: str) -> Copy:
    """Return a sound table with a history: schemas, tags, compactions, an expiry that waits, a commit that is kept."""
    made = SHAPES[shape]
    clock = VirtualClock(seed=7)
    root = MemoryStore(clock=clock)
    catalog = Catalog(root, clock=clock)
    catalog.create_database("db")
    types = {"k": "INT NOT NULL", "v": "STRING", "n": "INT", "w": "BIGINT"}
    options = _EVERYWHERE | made.options | {"write-only": "true"}
    table = catalog.create_table(TABLE, types, primary_keys=made.keys, options=options)
    for number, change in enumerate("abcd"):
        table.write(_rows(12 * number % 24, 12, change))
    table.alter(lc.SetOption("snapshot.time-retained", "2 h"))
    table.create_tag("one", at=2)
    table.create_tag("two", at=3)
    table.compact(full=True)
    table.alter(lc.SetOption("snapshot.time-retained", "3 h"))
    for number, change in enumerate("efgh"):
        table.write(_rows(12 * number % 24, 12, change))
        if made.is_marked:
            _mark(table, root.at(FOLDER), clock, number)
        if number == 1:
            table.compact()
    table.expire_snapshots()
    table.keep_pending(table.stage(_rows(0, 3, "p"), commit_user="pipeline", commit_identifier=1))
    store = root.at(FOLDER)
    return Copy(shape, {info.key: store.read(info.key) for info in store.list("")}, clock.now_millis())


def _mark(table: lc.Table, store: MemoryStore, clock: VirtualClock, number: int) -> None:
    """Mark one row of the file that came last as deleted."""
    context = context_of(store, clock)
    latest = context.snapshots.latest()
    assert latest is not None
    *_, entry = context.manifests.live_entries(latest)
    options = context.schemas.latest().table_options
    folder = IndexFolder(store=store, options=options.deletion_vectors, has_buckets=False)
    present = [index_file_of(one) for one in context.manifests.index_entries(latest)]
    change = change_vectors(folder, present, clock, marks={entry.file.file_name: np.array([number + 1], np.int64)})
    message = CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        new_index_files=change.new,
        deleted_index_files=change.deleted,
    )
    staged = StagedCommit(
        table=TABLE, commit_user="marker", commit_identifier=number, mode=Append(), messages=(message,), schema_id=0
    )
    table.commit(staged)


# Questions, and what may be done.


def _sorted(table: Any) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def _system(name: str) -> Callable[[lc.Table], object]:
    return lambda table: _PLACE.sub("memory", repr(_sorted(table.system(name).to_arrow())))


def _lookup(table: lc.Table, cache: Path | None = None) -> object:
    return [repr(table.lookup([k], cache=cache).to_pylist()) for k in (100, 107, 123, 999)]


def _pending(table: lc.Table) -> lc.StagedCommit:
    staged = table.pending("pipeline", 1)
    assert staged is not None
    return staged


QUESTIONS: Mapping[str, Callable[[lc.Table], object]] = {
    "rows": lambda table: _sorted(table.scan().to_arrow()),
    "rows of a key": lambda table: _sorted(table.scan(where="k = 107").to_arrow()),
    "rows of a text": lambda table: _sorted(table.scan(where="v in ('g107', 'h115')").to_arrow()),
    "rows of a number": lambda table: _sorted(table.scan(where="n = 1 and w < 9000").to_arrow()),
    "rows of a tag": lambda table: _sorted(table.scan(at=lc.AtTag("one")).to_arrow()),
    "rows of another tag": lambda table: _sorted(table.scan(at=lc.AtTag("two")).to_arrow()),
    "rows before": lambda table: _sorted(table.scan(at=lc.AtSnapshot(table.snapshots()[-2].id)).to_arrow()),
    "changes": lambda table: _sorted(table.changes(table.snapshots()[0].id).to_arrow()),
    "changes that are kept": lambda table: _sorted(table.changes(table.changelogs()[0].id).to_arrow()),
    "difference": lambda table: _sorted(table.diff(table.snapshots()[0].id, table.snapshots()[-1].id).to_arrow()),
    "difference of tags": lambda table: _sorted(table.diff("one", "two").to_arrow()),
    "pending": lambda table: _pending(table).to_json(),
    "history": lambda table: repr(list(table.snapshots())) + repr(list(table.tags())),
    **{
        name: _system(name)
        for name in ("snapshots", "schemas", "options", "files", "manifests", "partitions", "buckets", "tags")
    },
}
KEYED_QUESTIONS: Mapping[str, Callable[[lc.Table], object]] = {"lookup": _lookup}
_READ_GRACE_SECONDS = 3600


def _expire(copy: Copy) -> None:
    """Let old snapshots go, and once their readers have ended, their files."""
    copy.again().expire_snapshots(retain_max=2, retain_min=1)
    copy.clock.sleep(_READ_GRACE_SECONDS)
    copy.again().expire_snapshots(retain_max=2, retain_min=1)


def _then_expire(change: Callable[[lc.Table], object], copy: Copy) -> None:
    """Change a tag, and once the readers of its former state have ended, let the files of that state go."""
    change(copy.again())
    copy.clock.sleep(_READ_GRACE_SECONDS)
    copy.again().expire_snapshots()


def _commit_pending(copy: Copy) -> None:
    copy.again().commit(_pending(copy.again()))


ACTIONS: Mapping[str, Callable[[Copy], object]] = {
    "write": lambda copy: copy.again().write(_rows(5, 2, "z")),
    "compact": lambda copy: copy.again().compact(full=True),
    "compact manifests": lambda copy: copy.again().compact_manifests(),
    "expire": _expire,
    "delete a tag": partial(_then_expire, lambda table: table.delete_tag("one")),
    "replace a tag": partial(_then_expire, lambda table: table.replace_tag("one")),
    "rename a tag": partial(_then_expire, lambda table: table.rename_tag("one", "three")),
    "commit what is pending": _commit_pending,
}


def questions_of(shape: str) -> Mapping[str, Callable[[lc.Table], object]]:
    return {**QUESTIONS, **(KEYED_QUESTIONS if SHAPES[shape].keys else {})}


@cache
def answers_of(shape: str) -> Mapping[str, object]:
    """Return what a sound table answers; an error is an answer too."""
    return {name: _answer(ask, table_of(shape).again()) for name, ask in questions_of(shape).items()}


@cache
def rows_after(shape: str, action: str) -> object:
    """Return the rows of a sound table after an action."""
    copy = fresh(shape)
    ACTIONS[action](copy)
    return QUESTIONS["rows"](copy.again())


def _answer(ask: Callable[[lc.Table], object], table: lc.Table) -> object:
    try:
        return ask(table)
    except (lc.InvalidRequest, lc.NotFound) as error:
        return f"{type(error).__name__}: {error}"


def fresh(shape: str) -> Copy:
    sound = table_of(shape)
    return Copy(shape, sound.objects, sound.started_millis)


# What goes wrong.


@dataclass(frozen=True)
class Damage:
    """Files of a table of some shape with the bytes that they have instead of their own."""

    shape: str
    kind: str
    what: str
    changes: Mapping[str, bytes] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.shape}, {self.kind}: {self.what}"


# Whoever names these records their size; of the others any may take the place of any.
_WITH_SIZE = {"manifest", "list", "deletion vectors"} | {
    f"{format} {kind}" for format in ("parquet", "orc", "avro") for kind in ("data", "changelog")
}


def exchanges(shape: str) -> Iterator[Damage]:
    """Yield every way in which two whole files of one kind and size may lie in each other's place, or one in both's."""
    objects = table_of(shape).objects
    for one, other in combinations(sorted(objects), 2):
        kind = kind_of(one)
        if kind != kind_of(other) or objects[one] == objects[other]:
            continue
        if kind in _WITH_SIZE and len(objects[one]) != len(objects[other]):
            continue
        both = {one: objects[other], other: objects[one]}
        yield Damage(shape, kind, f"{one} and {other} exchanged", both)
        yield Damage(shape, kind, f"{one} is a copy of {other}", {one: objects[other]})
        yield Damage(shape, kind, f"{other} is a copy of {one}", {other: objects[one]})


def random_damage(seed: int) -> Damage:
    """Return one file, of a kind that each is as likely as any other, edited once to three times."""
    chance = random.Random(seed)
    shape = chance.choice(sorted(SHAPES))
    objects = table_of(shape).objects
    kind = chance.choice(sorted({kind_of(key) for key in objects}))
    key = chance.choice(sorted(key for key in objects if kind_of(key) == kind))
    (data,) = damaged(objects[key], seed=seed, count=1)
    return Damage(shape, kind, f"{key}, edits of seed {seed}", {key: data})


# What is found.


def faults_of_answers(damage: Damage) -> list[str]:
    """Return the questions that a damaged table answers wrongly, or with a foreign error."""
    copy = fresh(damage.shape)
    copy.damage(damage.changes)
    found = []
    for name, ask in questions_of(damage.shape).items():
        fault = _fault(partial(_answer, ask, copy.again()), answers_of(damage.shape)[name])
        found += [f"{damage}: {name}: {fault}"] if fault else []
    return found


def is_seen(damage: Damage) -> bool:
    """Say whether verify, which reads data too, says anything of it."""
    copy = fresh(damage.shape)
    copy.damage(damage.changes)
    return copy.again().verify(data=True).findings != ()


def faults_of_actions(damage: Damage) -> list[str]:
    """Return the actions that end in foreign errors on a damaged table, spoil its rows or lose its files."""
    found = []
    for name, act in ACTIONS.items():
        copy = fresh(damage.shape)
        copy.damage(damage.changes)
        outcome = ""
        try:
            act(copy)
            expected = rows_after(damage.shape, name)
        except CorruptTable:
            expected = answers_of(damage.shape)["rows"]
        except Exception as error:
            expected, outcome = answers_of(damage.shape)["rows"], f"{type(error).__name__}: {error}"
        copy.mend(damage.changes)
        fault = outcome or _fault(partial(QUESTIONS["rows"], copy.again()), expected)
        missing = [str(one) for one in copy.again().verify().findings if "missing" in one.found]
        found += [f"{damage}: {name}: {fault}"] if fault else []
        found += [f"{damage}: {name}: {missing[0]}"] if missing else []
    return found


def _fault(answer: Callable[[], object], expected: object) -> str:
    try:
        found = answer()
    except CorruptTable:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if found == expected else f"answered {found!r:.300}, expected {expected!r:.300}"
