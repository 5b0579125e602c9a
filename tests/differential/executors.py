"""Who carries a history out: real Java, or what is in this repository. Both answer with a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from random import Random
from typing import Any, Protocol
from unittest import mock

import pyarrow as pa

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import SystemClock
from lakehouse_core.data_files.hash_index import read_hashes
from lakehouse_core.execution.commit.waiting.turn import CommitTurn
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.planning.commit.hash_indexes import live_indexes
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.bucketing import Postpone, has_hash_index
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.layout import INDEX_FOLDER, MAIN
from lakehouse_core.table.snapshot import serialize_consumer
from tests.differential.statements import state
from tests.interop.judge import Judge, JudgeError
from tests.interop.values import arrow_rows, java_rows
from tests.oracle.functions import KEEPS_BLANKS, NESTS_BLINDLY, WRAPS
from tests.oracle.history import File, History, Json, Step, Trace, View
from tests.oracle.roots import ROOT_VERBS, snapshot_behind
from tests.oracle.statements import OURS_ALONE, STATEMENTS
from tests.oracle.table import (
    COMPACTS_BESIDE,
    COMPARES_NUMBERS,
    FLUSHES_ASCENDING,
    MERGES_TWICE,
    SKIPS_LEVEL_0,
    SKIPS_LEVEL_0_IF_NONE_WAITS,
    SKIPS_WAITING,
    TELLS_SAME_ARRAYS,
    WAITING,
    Place,
)

# What a release does otherwise than the newest: the model is told so.
QUIRKS = {
    "1.4.2": frozenset(
        {
            COMPACTS_BESIDE,
            COMPARES_NUMBERS,
            FLUSHES_ASCENDING,
            KEEPS_BLANKS,
            NESTS_BLINDLY,
            SKIPS_LEVEL_0,
            SKIPS_WAITING,
            TELLS_SAME_ARRAYS,
            WRAPS,
        }
    ),
    "2.0.0": frozenset({COMPACTS_BESIDE, MERGES_TWICE, SKIPS_LEVEL_0_IF_NONE_WAITS, TELLS_SAME_ARRAYS}),
}
TABLE = "db.t"


class Executor(Protocol):
    """An engine with one table at a time."""

    quirks: frozenset[str]

    def run(self, history: History, warehouse: str, other: Executor | None = None) -> Trace:
        """Carry out a history; `other` does what the history leaves to another engine."""
        ...

    def read(self, warehouse: str) -> Trace:
        """Return what is read of a table that another engine left in `warehouse`, as the steps of one operation."""
        ...

    def view(self, warehouse: str, operations: int) -> View:
        """Return what can be read of the table now, after so many operations."""
        ...

    def change_roots(self, warehouse: str, operation: Json) -> None:
        """Carry out an operation that changes no row: on tags and consumers, or an expiry."""
        ...


class Java:
    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.version = judge.version
        self.quirks = QUIRKS[judge.version]

    def run(self, history: History, warehouse: str, other: Executor | None = None) -> Trace:
        self.create(history, warehouse)
        log = _Log(self, warehouse, other)
        refused = None
        for operation in history.operations:
            if operation["verb"] in ROOT_VERBS:
                log.changed_roots(operation)
                continue
            try:
                log.made.append(self.operated(warehouse, operation))
            except JudgeError as refusal:
                refused = f"{refusal.root_exception}: {refusal.root_error}"
                break
        return log.trace(refused)

    def create(self, history: History, warehouse: str) -> None:
        doc = history.to_json()
        call = _caller(self._judge, warehouse)
        call("create", **{name: doc[name] for name in ("fields", "primaryKeys", "partitionKeys", "options")})

    def operated(self, warehouse: str, operation: Json) -> list[int]:
        """Carry out one operation on rows or columns; return the ids of its snapshots."""
        verb, request = _requested(operation)
        result = _caller(self._judge, warehouse)(verb, **request)
        return [snapshot["id"] for snapshot in result.get("snapshots", [])]

    def change_roots(self, warehouse: str, operation: Json) -> None:
        call = _caller(self._judge, warehouse)
        known = call("snapshots")
        if not known["snapshots"]:
            return
        snapshot_id = snapshot_behind(operation.get("behind") or 0, known["earliest"], known["latest"])
        match operation["verb"]:
            case "create-tag":
                call("create-tag", tag=operation["tag"], snapshot=snapshot_id)
            case "delete-tag" if operation["tag"] in known["tags"]:
                call("delete-tag", tag=operation["tag"])
            case "consumer" if operation["behind"] is None:
                call("consumer", delete=operation["consumer"])
            case "consumer":
                call("consumer", consumer=operation["consumer"], nextSnapshot=snapshot_id)
            case "expire":
                call("expire", retainMax=operation["retainMax"], retainMin=1)

    def view(self, warehouse: str, operations: int) -> View:
        call = _caller(self._judge, warehouse)
        known = call("snapshots")
        snapshot_ids = [snapshot["id"] for snapshot in known["snapshots"]]
        change_ids = [*(each for each in known["changelogs"] if each < known["earliest"]), *snapshot_ids]
        streamed = call("stream-read", **{"from": change_ids[0]})["snapshots"] if change_ids else []
        told = {step["snapshot"]: step["rows"] for step in streamed}
        return View(
            operations,
            rows={each: _read(call, {"scan.snapshot-id": str(each)}) for each in snapshot_ids},
            tagged={tag: _read(call, {"scan.tag-name": tag}) for tag in known["tags"]},
            changes={each: told.get(each, []) for each in change_ids},
        )

    def read(self, warehouse: str) -> Trace:
        call = _caller(self._judge, warehouse)
        snapshots = call("files")["snapshots"]
        if not snapshots:
            return Trace([[]])
        streamed = call("stream-read", **{"from": snapshots[0]["snapshot"]["id"]})["snapshots"]
        changes = {step["snapshot"]: step["rows"] for step in streamed}
        steps = []
        for snapshot in snapshots:
            snapshot_id = snapshot["snapshot"]["id"]
            added: dict[File, int] = {}
            removed: dict[File, int] = {}
            written: set[File] = set()
            for entry in (entry for manifest in snapshot["delta"] for entry in manifest["entries"]):
                place = tuple(str(value) for value in entry["partition"].values()), entry["bucket"]
                files = added if entry["kind"] == "ADD" else removed
                files[place, entry["file"]["fileName"]] = entry["file"]["level"]
                if entry["kind"] == "ADD" and entry["file"]["fileSource"] == "APPEND":
                    written.add((place, entry["file"]["fileName"]))
            rows = _read(call, {"scan.snapshot-id": str(snapshot_id)})
            kind = snapshot["snapshot"]["commitKind"]
            told = changes.get(snapshot_id, [])
            steps.append(Step(snapshot_id, kind, added, removed, rows, told, as_written=frozenset(written)))
        return _trace(steps, lc.connect(warehouse).table(TABLE))


def _requested(operation: Json) -> tuple[str, Json]:
    """Return an operation on rows or columns as a request to the judge."""
    request = {name: value for name, value in operation.items() if name != "verb"}
    match operation["verb"]:
        case "compact" if "buckets" in operation:
            # Where buckets are postponed a compaction moves rows, into so many buckets of a new partition.
            return "compact-postpone", request
        case "overwrite":
            options = {"dynamic-partition-overwrite": str(request.pop("dynamic")).lower()}
            partition = request.pop("partition") or {}
            overwrite = {name: str(value) for name, value in partition.items()}
            return "write", {**request, "overwrite": overwrite, "options": options}
        case "drop":
            partitions = [{name: str(value) for name, value in each.items()} for each in operation["partitions"]]
            return "truncate", {"partitions": partitions}
        case verb:
            return verb, request


def _caller(judge: Judge, warehouse: str) -> Callable[..., Any]:
    return lambda verb, **request: judge.call(verb, table=TABLE, warehouse=warehouse, **request)


def _read(call: Callable[..., Any], options: Mapping[str, str]) -> Sequence[Json] | None:
    try:
        rows: Sequence[Json] = call("read", options=dict(options))["rows"]
    except JudgeError:
        return None
    return rows


class Ours:
    """The front door; `connect` makes the catalog of a warehouse, `given` what is written of Arrow rows."""

    quirks = frozenset[str]()

    def __init__(
        self,
        connect: Callable[[str], lc.Catalog] = lc.connect,
        *,
        given: Callable[[pa.Table], Any] = lambda rows: rows,
    ) -> None:
        self._connect = connect
        self._given = given

    def run(self, history: History, warehouse: str, other: Executor | None = None) -> Trace:
        catalog = self._connect(warehouse)
        catalog.create_database("db", exist_ok=True)
        table = catalog.create_table(
            TABLE,
            {each["name"]: each["type"] for each in history.fields},
            primary_keys=list(history.primary_keys),
            partition_keys=list(history.partition_keys),
            options=dict(history.options),
        )
        log = _Log(self, warehouse, other)
        before = 0
        refused = None
        for number, operation in enumerate(history.operations):
            if operation["verb"] in ROOT_VERBS:
                log.changed_roots(operation)
                continue
            try:
                self._prepare(table, history.operations, number)
                table = self._operated(catalog, table, operation)
            except (lc.InvalidRequest, lc.TaskFailed) as refusal:
                refused = str(refusal)
                break
            log.made.append([snapshot.id for snapshot in table.snapshots() if snapshot.id > before])
            before = max([before, *log.made[-1]])
        return log.trace(refused)

    def operated(self, warehouse: str, operation: Json) -> list[int]:
        """Carry out one operation on rows or columns of a table that may be another engine's; return the ids of its
        snapshots.
        """
        catalog = self._connect(warehouse)
        table = catalog.table(TABLE)
        before = max([0, *(snapshot.id for snapshot in table.snapshots())])
        table = self._operated(catalog, table, operation)
        return [snapshot.id for snapshot in table.snapshots() if snapshot.id > before]

    def read(self, warehouse: str) -> Trace:
        table = self._connect(warehouse).table(TABLE)
        return _trace(_steps(table), table)

    def change_roots(self, warehouse: str, operation: Json) -> None:
        table = self._connect(warehouse).table(TABLE)
        ids = [snapshot.id for snapshot in table.snapshots()]
        if not ids:
            return
        snapshot_id = snapshot_behind(operation.get("behind") or 0, ids[0], ids[-1])
        match operation["verb"]:
            case "create-tag":
                table.create_tag(operation["tag"], at=snapshot_id)
            case "delete-tag" if operation["tag"] in [tag.name for tag in table.tags()]:
                table.delete_tag(operation["tag"])
            case "consumer":
                # There is no verb for it yet.
                key = MAIN.consumer(operation["consumer"])
                store = table._context.store
                store.delete([key])
                if operation["behind"] is not None:
                    store.write({key: serialize_consumer(snapshot_id)})
            case "expire":
                table.expire_snapshots(retain_max=operation["retainMax"], retain_min=1)

    def view(self, warehouse: str, operations: int) -> View:
        table = self._connect(warehouse).table(TABLE)
        snapshot_ids = [snapshot.id for snapshot in table.snapshots()]
        change_ids = [*(changelog.id for changelog in table.changelogs()), *snapshot_ids]
        return View(
            operations,
            rows={each: _rows(table, lc.AtSnapshot(each)) for each in snapshot_ids},
            tagged={tag.name: _rows(table, lc.AtTag(tag.name)) for tag in table.tags()},
            changes={each: _changes(table, each) for each in change_ids},
            damage=[str(finding) for finding in table.verify(data=True).findings],
        )

    def _operated(self, catalog: lc.Catalog, table: lc.Table, operation: Json) -> lc.Table:
        match operation["verb"]:
            case "write":
                self._write(table, operation)
                if operation.get("compact", "none") != "none":
                    table.compact(full=operation["compact"] == "full")
            case "compact":
                table.compact(full=operation.get("strategy", "full") == "full")
            case "alter":
                table.alter(*map(_schema_change, operation["changes"]))
                return catalog.table(TABLE)
            case verb if verb in STATEMENTS:
                state(table, operation, self._given)
                return catalog.table(TABLE)
            case other:
                raise AssertionError(other)
        return table

    def _prepare(self, table: lc.Table, operations: Sequence[Json], number: int) -> None:
        """Do what there is to do before the operation of this number."""

    def _write(self, table: lc.Table, operation: Json) -> None:
        user, written = operation.get("commitUser"), self._written(table, operation)
        if user is None:
            table.write(**written)
            return
        known = [snapshot.commit_identifier for snapshot in table.snapshots() if snapshot.commit_user == user]
        table.commit(table.stage(**written, commit_user=user, commit_identifier=max(known, default=0) + 1))

    def _written(self, table: lc.Table, operation: Json) -> dict[str, Any]:
        """Return the arguments of a write."""
        data = arrow_rows(operation["rows"], table.schema.fields)
        if "rowkind.field" in table.schema.options:
            return {"data": self._given(data)}
        kinds = [row.get("_kind", "+I") for row in operation["rows"]]
        return {"data": self._given(data.append_column("_kind", [kinds])), "rowkind_column": "_kind"}


class OursInMemory(Ours):
    """The front door on stores in memory, each for one history."""

    def run(self, history: History, warehouse: str, other: Executor | None = None) -> Trace:
        clock = SystemClock()
        catalog = Catalog(MemoryStore(clock=clock), clock=clock)
        self._connect = lambda _: catalog
        try:
            return super().run(history, warehouse, other)
        finally:
            catalog.drop_database("db", cascade=True)


class InTurns:
    """Java and ours, of which a chance says who carries out an operation; Java reads what both made."""

    def __init__(self, java: Java, ours: Ours, seed: int) -> None:
        self._java = java
        self._ours = ours
        self._chance = Random(seed)
        self.quirks = java.quirks
        self.read, self.view, self.change_roots = java.read, java.view, java.change_roots

    def run(self, history: History, warehouse: str, other: Executor | None = None) -> Trace:
        self._java.create(history, warehouse)
        log = _Log(self, warehouse, other)
        refused = None
        for operation in history.operations:
            if operation["verb"] in ROOT_VERBS:
                log.changed_roots(operation)
                continue
            engine = self._chance.choice([self._java, self._ours])
            if operation["verb"] in OURS_ALONE:
                engine = self._ours
            try:
                log.made.append(engine.operated(warehouse, operation))
            except (JudgeError, lc.InvalidRequest, lc.TaskFailed) as refusal:
                refused = str(refusal)
                break
        return log.trace(refused)


@contextmanager
def some_ahead(chance: Random) -> Iterator[None]:
    """Let a commit believe that up to three others come before it, as the queue tells it among many writers."""
    with mock.patch.object(CommitTurn, "commits_ahead", chance.randint(0, 3)):
        yield


class Overtaking(Ours):
    """Writers that stage at one snapshot, in any order, what they then commit in the order of the history."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance, self._ahead = Random(seed), Random(seed)
        self._staged: dict[int, lc.StagedCommit | lc.InvalidRequest] = {}

    def run(self, history: History, warehouse: str, other: Executor | None = None) -> Trace:
        return replace(super().run(history, warehouse, other), is_staged_ahead=True)

    def _prepare(self, table: lc.Table, operations: Sequence[Json], number: int) -> None:
        if operations[number]["verb"] != "write" or id(operations[number]) in self._staged:
            return
        between = ("write", *ROOT_VERBS, *STATEMENTS)
        near = takewhile(lambda operation: operation["verb"] in between, operations[number:])
        together = [operation for operation in near if operation["verb"] == "write"]
        together = together[: self._chance.randint(1, 4)]
        for operation in self._chance.sample(together, len(together)):
            try:
                staged = table.stage(
                    **self._written(table, operation), commit_user=f"user {id(operation)}", commit_identifier=1
                )
                self._staged[id(operation)] = lc.StagedCommit.from_json(staged.to_json())
            except lc.InvalidRequest as refusal:
                self._staged[id(operation)] = refusal

    def _write(self, table: lc.Table, operation: Json) -> None:
        staged = self._staged.pop(id(operation))
        if isinstance(staged, lc.InvalidRequest):
            raise staged
        with some_ahead(self._ahead):
            try:
                table.commit(staged)
            except lc.CommitConflict:
                # A new key came to another dynamic bucket, the table has another number of buckets, or rows came to
                # wait before those that were brought into buckets: nothing was applied, and `write` stages again.
                schema = table._context.schemas.latest()
                is_placed = schema.table_options.postponed_buckets.are_written
                assert has_hash_index(schema.bucketing) or schema.id != staged.schema_id or is_placed
                table.write(**self._written(table, operation))


class OvertakingInMemory(Overtaking, OursInMemory):
    """The same on stores in memory."""


class TogetherInMemory(OursInMemory):
    """Writers that stage at one snapshot, in any order, and a committer that makes one snapshot of what they staged."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance, self._ahead = Random(seed), Random(seed)
        self._staged: dict[int, lc.StagedCommit | lc.InvalidRequest] = {}
        self._parts: list[lc.StagedCommit] = []

    def _prepare(self, table: lc.Table, operations: Sequence[Json], number: int) -> None:
        if operations[number]["verb"] != "write" or self._staged:
            return
        group: list[Json] = []
        for operation in takewhile(lambda operation: operation["verb"] == "write", operations[number:]):
            group.append(operation)
            if operation.get("compact", "none") != "none":
                break
        group = group[: self._chance.randint(1, 6)]
        for operation in self._chance.sample(group, len(group)):
            try:
                self._staged[id(operation)] = table.stage(
                    **self._written(table, operation), commit_user=f"user {id(operation)}", commit_identifier=1
                )
            except lc.InvalidRequest as refusal:
                self._staged[id(operation)] = refusal

    def _write(self, table: lc.Table, operation: Json) -> None:
        staged = self._staged.pop(id(operation))
        if not isinstance(staged, lc.InvalidRequest):
            self._parts.append(staged)
        if self._parts and (isinstance(staged, lc.InvalidRequest) or not self._staged):
            with some_ahead(self._ahead):
                table.commit_together(self._parts, commit_user=f"group {id(operation)}", commit_identifier=1)
            self._parts = []
        if isinstance(staged, lc.InvalidRequest):
            raise staged


class _Log:
    """What one engine shows while it carries a history out, on its own or in turns with another."""

    def __init__(self, engine: Executor, warehouse: str, other: Executor | None) -> None:
        self._engine = engine
        self._warehouse = warehouse
        self._other = other
        # The steps of what has expired, as they were seen first: before what they stand on had expired.
        self._steps: dict[int, Step] = {}
        self._views: list[View] = []
        self._others: list[View] = []
        # The ids of the snapshots of each operation.
        self.made: list[list[int]] = []

    def changed_roots(self, operation: Json) -> None:
        """Let the engine whose turn it is carry out an operation that changes no row."""
        if operation["verb"] == "expire":
            self._look()
            for step in self._engine.read(self._warehouse).operations[0]:
                self._steps.setdefault(step.snapshot_id, replace(step, has_expired=True))
        by_other = self._other is not None and operation["by"] == "other"
        engine = self._other if by_other and self._other is not None else self._engine
        engine.change_roots(self._warehouse, operation)
        self.made.append([])
        if operation["verb"] == "expire":
            self._look()

    def trace(self, refused: str | None) -> Trace:
        if self._views:
            self._look()
        read = self._engine.read(self._warehouse)
        for step in read.operations[0]:
            first = self._steps.get(step.snapshot_id, step)
            self._steps[step.snapshot_id] = replace(step, added=first.added, removed=first.removed)
        made = [[self._steps[snapshot_id] for snapshot_id in ids] for ids in self.made]
        return Trace(made, refused, self._views, self._others, read.damage)

    def _look(self) -> None:
        self._views.append(self._engine.view(self._warehouse, len(self.made)))
        if self._other is not None:
            self._others.append(self._other.view(self._warehouse, len(self.made)))


def _schema_change(change: Json) -> Any:
    match change["op"]:
        case "add-column":
            return lc.AddColumn(change["column"], change["type"], after=change.get("after"))
        case "drop-column":
            return lc.DropColumn(change["column"])
        case "rename-column":
            return lc.RenameColumn(change["column"], change["to"])
        case "update-type":
            return lc.UpdateColumnType(change["column"], change["type"])
        case "set-option":
            return lc.SetOption(change["key"], change["value"])
    raise AssertionError(change["op"])


def _trace(steps: Sequence[Step], table: lc.Table) -> Trace:
    """Return the steps as those of one operation, with what is known of the keys of dynamic buckets."""
    bucketing = table._context.schemas.latest().bucketing
    has_indexes = has_hash_index(bucketing)
    if not steps or not (has_indexes or isinstance(bucketing, Postpone)):
        return Trace([steps])
    if has_indexes:
        steps = [replace(step, indexes=_indexes(table, step.snapshot_id)) for step in steps]
    return Trace([steps], damage=[str(each) for each in table.verify(data=True).findings])


def _indexes(table: lc.Table, snapshot_id: int) -> dict[Place, Sequence[int]]:
    context = table._context
    schema, snapshot = context.schemas.latest(), table.snapshot(snapshot_id)
    assert snapshot is not None
    folders = DataLayout(schema)
    found: dict[Place, Sequence[int]] = {}
    for (partition, bucket), file in live_indexes(context.manifests.index_entries(snapshot)).items():
        values = deserialize_row(partition, [field.type for field in schema.partition_fields])
        folder = folders.index_folder(partition, bucket) or INDEX_FOLDER
        place = tuple(map(str, values)), bucket
        found[place] = read_hashes(context.store, folder, file).tolist()
    return found


def _steps(table: lc.Table) -> list[Step]:
    return [
        replace(step, rows=_rows(table, lc.AtSnapshot(step.snapshot_id)), changes=_changes(table, step.snapshot_id))
        for step in bare_steps(table)
    ]


def bare_steps(table: lc.Table) -> list[Step]:
    """Return the files that came and went with each snapshot: those before and those after it tell."""
    steps = []
    before: Mapping[tuple[File, int], str | None] = {}
    for snapshot in table.snapshots():
        found = [*table.files(at=lc.AtSnapshot(snapshot.id))]
        files = _levels(found)
        added = {file: level for file, level in files if (file, level) not in before}
        removed = {file: level for file, level in before if (file, level) not in files}
        before = files
        written = frozenset(file for (file, level), source in files.items() if source == "APPEND" and file in added)
        counts = {_partition(file): file.total_buckets for file in found if file.bucket != WAITING}
        kind = snapshot.commit_kind.value
        keys = {name: (file.min_key, file.max_key) for file in found for name in [_named(file)] if name in added}
        steps.append(Step(snapshot.id, kind, added, removed, as_written=written, bucket_counts=counts, keys=keys))
    return steps


def _levels(files: Iterable[lc.FileRecord]) -> Mapping[tuple[File, int], str | None]:
    """Return data files with their levels, and who made each: a write or a compaction."""
    return {(_named(file), file.level): file.file_source for file in files}


def _named(file: lc.FileRecord) -> File:
    return (_partition(file), file.bucket), file.file_name


def _partition(file: lc.FileRecord) -> tuple[str, ...]:
    return tuple(str(value) for value in file.partition.values())


def _rows(table: lc.Table, at: lc.AtSnapshot | lc.AtTag) -> Sequence[Json] | None:
    scan = table.scan(at=at)
    try:
        return java_rows(scan.to_arrow(), scan.plan().schema.fields)
    except (lc.InvalidRequest, lc.TaskFailed):
        return None


def _changes(table: lc.Table, snapshot_id: int) -> Sequence[Json]:
    changed = table.changes(after=snapshot_id - 1, until=snapshot_id).to_arrow()
    kinds = changed.column("rowkind").to_pylist()
    rows = java_rows(changed, table.schema.fields)
    return [{"_kind": kind} | row for kind, row in zip(kinds, rows, strict=True)]
