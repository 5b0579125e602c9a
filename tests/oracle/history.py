"""A table's history as plain data, what an engine did with it, and the model's answer to the same.

The form is that of the judge: fields, keys, options, then operations `write` (rows with `_kind`; `compact`: none, minor
or full, of the buckets touched), `compact` (`strategy`: minor or full) and `alter` (`changes`); `create-tag` and
`consumer` (`behind`: how many snapshots before the latest), `delete-tag`, `expire` (`retainMax`); and the statements of
`tests/oracle/statements.py`.
"""

from __future__ import annotations

import json
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_core.format.binary_row import encode_row, hash_row
from lakehouse_core.format.bucket_hash import bucket_of
from lakehouse_core.format.data_types import ArrayType, parse_type, to_internal, with_nullable
from tests.interop.values import java_value, python_value
from tests.oracle.engines import Field, Schema
from tests.oracle.functions import Refused
from tests.oracle.merge import compare_keys
from tests.oracle.roots import ROOT_VERBS, Roots
from tests.oracle.statements import STATEMENTS, Made, carried_out
from tests.oracle.table import (
    COMPACTS_BESIDE,
    TELLS_SAME_ARRAYS,
    WAITING,
    Pick,
    Place,
    Row,
    Run,
    Snapshot,
    Table,
    Unreadable,
)

Json = dict[str, Any]
_ROWS_OF_A_BUCKET = "target-row-num-per-bucket"


@dataclass(frozen=True)
class History:
    fields: Sequence[Json]
    primary_keys: Sequence[str]
    partition_keys: Sequence[str]
    options: Mapping[str, str]
    operations: Sequence[Json]

    @classmethod
    def of(cls, doc: Json) -> History:
        return cls(doc["fields"], doc["primaryKeys"], doc["partitionKeys"], doc["options"], doc["operations"])

    def to_json(self) -> Json:
        return {
            "fields": list(self.fields),
            "primaryKeys": list(self.primary_keys),
            "partitionKeys": list(self.partition_keys),
            "options": dict(self.options),
            "operations": list(self.operations),
        }

    def text(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False)


File = tuple[Place, str]
Key = tuple[str | None, ...]


@dataclass(frozen=True)
class Step:
    """One snapshot: the files that came (with their level) and went, what a read of it shows, and its changelog.

    Rows are in the judge's JSON; `rows` is None where the read was refused. `has_expired`: neither rows nor changes
    could be read at the end. `as_written`: those of the files that came which no compaction made. `indexes`: the hashes
    in the index of each bucket; None where buckets are fixed. `bucket_counts`: how many buckets each partition has.
    `keys`: the first and the last key of the files that came, as text; none is known where a run is one file.
    """

    snapshot_id: int
    kind: str
    added: Mapping[File, int]
    removed: Mapping[File, int]
    rows: Sequence[Json] | None = None
    changes: Sequence[Json] = ()
    has_expired: bool = False
    as_written: frozenset[File] = frozenset()
    indexes: Mapping[Place, Sequence[int]] | None = None
    bucket_counts: Mapping[Any, int] = field(default_factory=dict)
    keys: Mapping[File, tuple[Key, Key]] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """What could be read after so many operations: rows of snapshots and tags, changes of snapshots and changelogs.

    `damage`: what is wrong with the files, in words.
    """

    operations: int
    rows: Mapping[int, Sequence[Json] | None]
    tagged: Mapping[str, Sequence[Json] | None]
    changes: Mapping[int, Sequence[Json]]
    damage: Sequence[str] = ()


@dataclass(frozen=True)
class Trace:
    """What an engine made of a history: the steps of each operation, and why it refused the last one, if it did.

    `views`: before and after each expiry, and at the end; `others` are those of the engine that took turns with it.
    `damage`: what is wrong with keys and indexes at the end, in words. `is_staged_ahead`: rows of writes may wait for
    their buckets because others waited when they were staged.
    """

    operations: Sequence[Sequence[Step]]
    refused: str | None = None
    views: Sequence[View] = ()
    others: Sequence[View] = ()
    damage: Sequence[str] = ()
    is_staged_ahead: bool = False


@dataclass
class Replay:
    """The model at work on a history, with the flushes and compactions of a trace."""

    history: History
    quirks: frozenset[str] = frozenset()
    _runs: dict[File, int] = field(default_factory=dict)
    _buckets: dict[tuple[Any, int], int] = field(default_factory=dict)
    _next_field: int = 0
    _counts: Mapping[Any, int] = field(default_factory=dict)
    _is_staged_ahead: bool = False

    def differences(self, trace: Trace) -> list[str]:
        """Return where the model shows something else than `trace`, or refuses something else."""
        self.table = Table(self._created(), self._place, self.quirks)
        self.roots = Roots(self.history.options)
        self._is_staged_ahead = trace.is_staged_ahead
        done: list[Step] = []
        found = [*trace.damage]
        reason = None
        for number, (operation, steps) in enumerate(zip(self.history.operations, trace.operations, strict=False)):
            found += self._viewed(trace, number)
            for step in steps:
                found += self._learned(step)
            # What a compaction leaves no file of was in as many buckets as before.
            self._counts = {**self._counts, **ChainMap(*(dict(step.bucket_counts) for step in steps))}
            there = {partition for (partition, _), runs in self.table.buckets.items() if runs}
            try:
                self._operated(operation, steps)
                # New rows go to the buckets of those that a statement removes.
                found += self._counted_apart(steps, there if operation["verb"] == "replace" else set())
            except Unreadable:
                # The engine did not read that row: what it makes of the others is not followed any further.
                return found + self._all_compared(done)
            except Refused as refusal:
                reason = str(refusal)
                break
            done += steps
        else:
            found += self._viewed(trace, len(trace.operations))
        if trace.refused is not None and reason is None:
            reason = self._reason_to_refuse(self.history.operations[len(trace.operations)])
        if (reason is None) != (trace.refused is None):
            found.append(f"refused: {trace.refused}\n  model: {reason}")
        return found + self._all_compared(done)

    def _all_compared(self, steps: Sequence[Step]) -> list[str]:
        pairs = zip(steps, self.table.snapshots, strict=False)
        return [text for step, snapshot in pairs for text in self._compared(step, snapshot)]

    def _learned(self, step: Step) -> list[str]:
        """Take over which hash is in which dynamic bucket, for that is the engine's choice; return those in two, and
        those that a snapshot moved or lost which replaces no files.
        """
        if step.indexes is None:
            return []
        found, learned = [], dict[tuple[Any, int], int]()
        for (partition, bucket), hashes in step.indexes.items():
            for hashed in hashes:
                other = learned.setdefault((partition, hashed), bucket)
                if other != bucket:
                    found.append(f"hash {hashed} is in the indexes of buckets {other} and {bucket} of {partition}")
        if step.kind != "OVERWRITE":
            for place, bucket in self._buckets.items():
                if learned.get(place) != bucket:
                    found.append(f"hash {place} came from bucket {bucket} to {learned.get(place)}: {step}")
        self._buckets = learned
        return found

    def _operated(self, operation: Json, steps: Sequence[Step]) -> None:
        if operation["verb"] in ROOT_VERBS:
            self.roots.operated(operation, len(self.table.snapshots))
            return
        if operation["verb"] == "alter":
            self.table.alter(self._altered(self.table.schema, operation["changes"]))
            return
        if operation["verb"] in STATEMENTS:
            self._stated(operation, steps)
            return
        if operation["verb"] == "write":
            appended = [step for step in steps if step.kind == "APPEND"]
            made = self._written(operation, appended)
            for step in appended:
                assert {place for place, _ in step.added} == set(made), f"flushed, in the model {set(made)}: {step}"
                for place, files in _by_place(step.added).items():
                    self._in_files(step, place, made[place], files)
            if not appended:
                # Options may drop every row of a write; an engine may then commit nothing.
                assert not made, f"nothing was flushed, in the model {made}"
                self.table.snapshots.pop()
        for step in (step for step in steps if step.kind == "COMPACT"):
            self._compacted(step)

    def _stated(self, operation: Json, steps: Sequence[Step]) -> None:
        """Carry out a statement: in one snapshot, between compactions."""
        at = next((number for number, step in enumerate(steps) if step.kind != "COMPACT"), len(steps))
        for step in steps[:at]:
            self._compacted(step)
        before = self._run_names()
        made = self._statement(operation)
        if at == len(steps):
            assert made.kind is None, f"{operation['verb']} made no snapshot, in the model {made}"
            self.table.snapshots.pop()
            return
        step = steps[at]
        # Java also makes a snapshot where there is nothing to remove.
        assert step.kind == (made.kind or "OVERWRITE"), f"in the model {made}: {step}"
        wanted = [*made.deletes, *made.flushed, *made.rewritten, *((partition, WAITING) for partition in made.waits)]
        assert self._counted(place for place, _ in step.added) == self._counted(wanted), f"in the model {made}: {step}"
        gone = {self._runs[file] for file in step.removed if file[0][1] != WAITING}
        assert gone == before - self._run_names(), f"in the model {before - self._run_names()} go: {step}"
        unwaits = {partition for (partition, bucket), _ in step.removed if bucket == WAITING}
        assert unwaits == set(made.unwaits), f"rows wait no longer, in the model {made}: {step}"
        stays = COMPACTS_BESIDE in self.quirks and at + 1 < len(steps)
        for place, new in _by_place(step.added).items():
            high = [file for file in new if step.added[file] == self.table.max_level and place in made.rewritten]
            if high:
                self._in_files(step, place, made.rewritten[place], high)
            files = [file for file in new if file not in high]
            # Files are told in the order of their commit: deletes before new rows.
            if place in made.deletes:
                low = self._first_files(step, place, made.deletes[place], files)
                assert all(step.added[file] == 0 for file in low), f"in the model {made}: {step}"
                self._in_files(step, place, made.deletes[place], low)
                del files[: len(low)]
            if not files:
                continue
            levels = {step.added[file] for file in files}
            rises = levels == {self.table.max_level}
            assert rises == made.rises or stays, f"in the model {made}: {step}"
            assert rises or levels == {0}, f"in the model {made}: {step}"
            if rises:
                self.table.rise(place, made.flushed[place])
            self._in_files(step, place, made.flushed[place], files)
        for later in steps[at + 1 :]:
            self._compacted(later)
            if operation["verb"] == "overwrite":
                # A compaction that Java commits with an overwrite tells as little as the overwrite.
                self.table.snapshots[-1] = replace(self.table.snapshots[-1], changes=())

    def _in_files(self, step: Step, place: Place, run: int, files: Sequence[File], *, partly: bool = False) -> set[int]:
        """Take over which file has which records of a run, each of them a run of its own from then on; `partly`: not
        all are in files. Return the runs of those that are not.
        """
        if len(files) == 1 and not partly:
            self._runs[files[0]] = run
            return set()
        keys = [tuple(map(str, record.key)) for record in self.table.records(place, run)]
        missing = [key for file in files for key in step.keys[file] if key not in keys]
        assert not missing, f"{missing} in files, in the model {keys}: {step}"
        ranges = sorted((*map(keys.index, step.keys[file]), file) for file in files)
        starts: dict[int, File | None] = {0: None} if partly else {}
        for first, last, file in ranges:
            starts |= {first: file} | ({last + 1: None} if partly and last + 1 < len(keys) else {})
        if not partly:
            ends = [last + 1 for _, last, _ in ranges]
            assert [*starts, len(keys)] == [0, *ends], f"files of {keys}: {step}"
        names = self.table.cut(place, run, [*starts])
        self._runs |= {file: name for file, name in zip(starts.values(), names, strict=True) if file is not None}
        return {name for file, name in zip(starts.values(), names, strict=True) if file is None}

    def _first_files(self, step: Step, place: Place, run: int, files: Sequence[File]) -> list[File]:
        """Return the files of a run, which come before those of others."""
        if not self._has_small_files:
            return [*files[:1]]
        last = tuple(map(str, self.table.records(place, run)[-1].key))
        ends = [number for number, file in enumerate(files, 1) if step.keys[file][1] == last]
        assert ends, f"no file ends with {last}: {step}"
        return [*files[: ends[0]]]

    @property
    def _has_small_files(self) -> bool:
        return any(name.startswith("target-file-") for name in self.table.schema.options)

    def _counted(self, places: Iterable[Place]) -> Counter[Place]:
        """Return how many files there are of each bucket, 1 for any number where a run or the rows of a partition that
        wait may be in several.
        """
        counts = Counter(places)
        return Counter(
            {place: 1 if place[1] == WAITING or self._has_small_files else count for place, count in counts.items()}
        )

    def _statement(self, operation: Json) -> Made:
        rows = [row for _, row in self._rows(operation.get("rows", []))]
        return carried_out(self.table, operation, rows, waits=self._postpones and not self._places)

    def _run_names(self) -> set[int]:
        return {run.name for runs in self.table.buckets.values() for run in runs}

    @property
    def _postpones(self) -> bool:
        return int(self.history.options.get("bucket", "-1")) == WAITING

    @property
    def _places(self) -> bool:
        """Whether a write brings its rows into postponed buckets."""
        return self.table.schema.is_on("postpone.batch-write-fixed-bucket")

    def _counted_apart(self, steps: Sequence[Step], kept: set[Any]) -> Iterator[str]:
        """Yield which partitions got another number of buckets than their first rows ask for, but for `kept`."""
        opened = [each for each in self.table.opened if each[0] not in kept]
        self.table.opened = []
        # What was staged ahead has the number that its rows asked for then.
        if not self._postpones or self._is_staged_ahead:
            return
        options = self.table.schema.options
        default, target = (options.get(f"postpone.{name}") for name in ("default-bucket-num", _ROWS_OF_A_BUCKET))
        for partition, rows in opened:
            found = next((step.bucket_counts[partition] for step in steps if partition in step.bucket_counts), None)
            wanted = int(default) if default else max(1, -(-rows // int(target))) if target else found
            if found not in (None, wanted):
                yield f"partition {partition} got {found} buckets for {rows} rows, in the model {wanted}"

    def _written(self, operation: Json, steps: Sequence[Step] = ()) -> Mapping[Place, int]:
        """Write the rows of an operation in the model; return the places that get files, with the names of runs."""
        rows = self._rows(operation["rows"])
        if not self._postpones:
            return self.table.append(rows)
        if self._places:
            waits = {place[0] for step in steps for place, _ in step.added if place[1] == WAITING}
            return self.table.append(rows, waits=waits if self._is_staged_ahead else ())
        # The files of rows that wait are no runs.
        return {(partition, WAITING): 0 for partition in self.table.wait(rows)}

    def _compacted(self, step: Step) -> None:
        picks: list[tuple[Place, Pick]] = []
        outputs: list[list[File]] = []
        moved_rows = self.table.move({partition for (partition, bucket), _ in step.removed if bucket == WAITING})
        changed = {place for place, _ in (*step.removed, *step.added) if place[1] != WAITING}
        for place in sorted(changed | moved_rows.keys()):
            removed = {file for file in step.removed if file[0] == place}
            added = {file: level for file, level in step.added.items() if file[0] == place}
            fresh: set[int] = set()
            if place in moved_rows:
                # A run of moved rows is in files, at level 0 or higher, or within what the compaction made of it.
                files = {file for file in added if file in step.as_written and file not in removed}
                assert len(files) <= 1 or self._has_small_files, f"moved rows of one bucket in several runs: {step}"
                fresh = {moved_rows[place]}
                if files:
                    partly = self._has_small_files
                    fresh = self._in_files(step, place, moved_rows[place], [*files], partly=partly)
                removed |= {file for file in files if added[file] > 0}
                added = {file: level for file, level in added.items() if level > 0 or file not in files}
            # A commit may show two compactions of one bucket: the one that moved a file came last.
            moved = [file for file in added if file in removed]
            made = [file for file in added if file not in moved]
            assert len(made) <= 1 or self._has_small_files, f"one compaction, several new runs: {step}"
            levels = {added[file] for file in made or moved}
            for files, new in [(removed - {*moved}, made), *(({file}, [file]) for file in moved)]:
                unit = frozenset(self._runs[file] for file in files) | fresh
                fresh = set()
                if not unit:
                    continue
                if new:
                    (level,) = {added[file] for file in new}
                else:
                    (level,) = levels if len(levels) == 1 else [self._unseen_level(place, unit)]
                picks.append((place, Pick(unit, level, moves=bool(new) and {*new} == {*files})))
                outputs.append(new)
        compacted = zip(picks, outputs, self.table.compact(picks), strict=True)
        for (place, _), output, run in compacted:
            assert bool(output) == (run is not None), f"left by a compaction: {output}, in the model {run}: {step}"
            if run is not None:
                self._in_files(step, place, run, output)

    def _unseen_level(self, place: Place, unit: frozenset[int]) -> int:
        """Return the output level of a compaction that left nothing: as high as the runs that it did not take allow.

        It leaves files of its output level where they are which have no keys between those of others.
        """
        runs = self.table.buckets[place]
        others = [run for run in runs if run.name not in unit and run.level > 0]
        lowest = min((run.level for run in others), default=self.table.max_level + 1)
        beside = [run for run in others if run.level == lowest]
        taken = [run for run in runs if run.name in unit]
        are_apart = self._has_small_files and all(_are_apart(one, other) for one in taken for other in beside)
        return lowest if beside and are_apart else lowest - 1

    def _reason_to_refuse(self, operation: Json) -> str | None:
        """Return why an operation that left no trace is refused: in its flush, or in what it may have compacted."""
        try:
            if operation["verb"] == "write":
                self._written(operation)
            elif operation["verb"] in STATEMENTS:
                self._statement(operation)
            self.table.move(self.table.waiting_partitions)
            state = self.table.buckets
            for place, runs in state.items():
                fresh = frozenset(run.name for run in runs if run.level == 0)
                for unit in filter(None, (fresh, frozenset(run.name for run in runs))):
                    self.table.restore(state)
                    self.table.compact([(place, Pick(unit, self._unseen_level(place, unit)))])
        except Refused as refusal:
            return str(refusal)
        return None

    def _compared(self, step: Step, snapshot: Snapshot) -> list[str]:
        if step.has_expired:
            return []
        rows = self._rows_apart(f"snapshot {step.snapshot_id}", step.rows, snapshot)
        return [*rows, *self._changes_apart(step.snapshot_id, step.changes, snapshot)]

    def _rows_apart(self, what: str, seen: Sequence[Json] | None, snapshot: Snapshot) -> list[str]:
        try:
            rows = canonical(_json(self.table.rows(snapshot), snapshot.schema), snapshot.schema)
        except Refused:
            rows = None
        found = None if seen is None else canonical(seen, snapshot.schema)
        return [] if rows == found else [f"rows of {what}: {found}\n  model: {rows}"]

    def _changes_apart(self, snapshot_id: int, seen: Sequence[Json], snapshot: Snapshot) -> list[str]:
        schema = self.table.schema
        changed = self.table.changes(snapshot)
        changes = by_key([kind for kind, _ in changed], _json([row for _, row in changed], schema), schema)
        found = by_key([row["_kind"] for row in seen], seen, schema)
        if TELLS_SAME_ARRAYS in self.quirks and schema.is_on("changelog-producer.row-deduplicate"):
            # Where two engines take turns, only the one that compacted does so.
            changes, found = (_without_same_arrays(each, schema) for each in (changes, found))
        return [] if changes == found else [f"changes of snapshot {snapshot_id}: {found}\n  model: {changes}"]

    def _viewed(self, trace: Trace, number: int) -> list[str]:
        """Return where what could be read after `number` operations is not what has to be there."""
        found = []
        for view in (view for view in (*trace.views, *trace.others) if view.operations == number):
            found += view.damage
            latest, tags = len(self.table.snapshots), self.roots.tags
            for what, seen, wanted in (
                ("snapshots", set(view.rows), self.roots.snapshot_ids(latest)),
                ("changes", set(view.changes), self.roots.snapshot_ids(latest) | self.roots.changelog_ids),
                ("tags", set(view.tagged), set(tags)),
            ):
                if seen != wanted:
                    found.append(f"{what} to be read: {sorted(seen)}\n  model: {sorted(wanted)}")
            # Ids are given without gaps, and what is not there was told above.
            for snapshot_id, snapshot in enumerate(self.table.snapshots, 1):
                if snapshot_id in view.rows:
                    found += self._rows_apart(f"snapshot {snapshot_id}", view.rows[snapshot_id], snapshot)
                if snapshot_id in view.changes:
                    found += self._changes_apart(snapshot_id, view.changes[snapshot_id], snapshot)
            for tag in tags.keys() & view.tagged.keys():
                found += self._rows_apart(f"tag {tag}", view.tagged[tag], self.table.snapshots[tags[tag] - 1])
        return [f"after {number} operations, {text}" for text in found]

    # -- schemas

    def _created(self) -> Schema:
        fields = []
        for given in self.history.fields:
            fields.append(self._field(given["name"], given["type"], given.get("default")))
        keys = tuple(self.history.primary_keys)
        fields = [replace(each, type=with_nullable(each.type, False)) if each.name in keys else each for each in fields]
        return Schema(tuple(fields), keys, tuple(self.history.partition_keys), dict(self.history.options))

    def _field(self, name: str, text: str, default: str | None = None) -> Field:
        self._next_field += 1
        type_ = parse_type(text)
        value = None if default is None else int(default) if default.lstrip("-").isdigit() else default
        return Field(self._next_field, name, type_, value)

    def _altered(self, schema: Schema, changes: Sequence[Json]) -> Schema:
        fields, options = list(schema.fields), dict(schema.options)
        keys = schema.primary_keys
        for change in changes:
            name = change.get("column")
            at = next((i for i, each in enumerate(fields) if each.name == name), -1)
            match change["op"]:
                case "add-column":
                    after = change.get("after")
                    where = len(fields) if after is None else [each.name for each in fields].index(after) + 1
                    fields.insert(where, self._field(name, change["type"]))
                case "drop-column":
                    del fields[at]
                case "rename-column":
                    fields[at] = replace(fields[at], name=change["to"])
                    keys = tuple(change["to"] if key == name else key for key in keys)
                    options = {_renamed(k, name, change["to"]): _value_renamed(k, v, name, change["to"])
                               for k, v in options.items()}  # fmt: skip
                case "update-type":
                    type_ = with_nullable(parse_type(change["type"]), fields[at].type.nullable)
                    fields[at] = replace(fields[at], type=type_)
                case "set-option":
                    options[change["key"]] = change["value"]
                case other:
                    raise AssertionError(other)
        return replace(schema, fields=tuple(fields), primary_keys=keys, options=options)

    # -- rows

    def _rows(self, rows: Iterable[Json]) -> list[tuple[str, Row]]:
        fields = self.table.schema.fields
        return [
            (row.get("_kind", "+I"), {each.name: python_value(row.get(each.name), each.type) for each in fields})
            for row in rows
        ]

    def _place(self, row: Row) -> Place:
        schema = self.table.schema
        types = {each.name: each.type for each in schema.fields}
        keys = [name for name in schema.primary_keys if name not in schema.partition_keys]
        given = schema.options.get("bucket-key")
        columns = [name.strip() for name in given.split(",")] if given else keys
        count = int(schema.options.get("bucket", "-1"))
        values = [to_internal(row[name], types[name]) for name in columns]
        of_columns = [types[name] for name in columns]
        partition = tuple(str(java_value(row[name], types[name])) for name in schema.partition_keys)
        if self._postpones:
            # In a partition without buckets rows may lie anywhere.
            count = self._counts.get(partition) or int(schema.options.get("postpone.default-bucket-num", "1"))
        if count == -1:
            # A key that no index has: of a write that was refused, else its place is told to be wrong.
            return partition, self._buckets.get((partition, hash_row(encode_row(values, of_columns))), -1)
        return partition, bucket_of(values, of_columns, count, schema.options.get("bucket-function.type", "default"))


def _are_apart(one: Run, other: Run) -> bool:
    """Return whether all keys of a run are below or above those of another."""
    if not one.records or not other.records:
        return True
    low, high, first, last = (run.records[at].key for run in (one, other) for at in (0, -1))
    return compare_keys(high, first) < 0 or compare_keys(low, last) > 0


def _by_place(files: Iterable[File]) -> dict[Place, list[File]]:
    """Return the files of each bucket, in their order, without those of rows that wait."""
    found: dict[Place, list[File]] = {}
    for file in files:
        if file[0][1] != WAITING:
            found.setdefault(file[0], []).append(file)
    return found


def _json(rows: Iterable[Row], schema: Schema) -> list[Json]:
    types = {each.name: each.type for each in schema.fields}
    return [{name: java_value(value, types[name]) for name, value in row.items()} for row in rows]


def canonical(rows: Iterable[Json], schema: Schema) -> list[str]:
    """Return rows as sorted text, without kinds."""
    return sorted(text_of(row, schema) for row in rows)


def by_key(kinds: Iterable[str], rows: Iterable[Json], schema: Schema) -> list[tuple[str, ...]]:
    """Return changes as text, one tuple per key, in order within the key."""
    groups: dict[str, list[str]] = {}
    for kind, row in zip(kinds, rows, strict=True):
        key = json.dumps([row[name] for name in schema.primary_keys])
        groups.setdefault(key, []).append(kind + text_of(row, schema))
    return sorted(map(tuple, groups.values()))


def _without_same_arrays(changes: Iterable[tuple[str, ...]], schema: Schema) -> list[tuple[str, ...]]:
    """Return changes by key without the updates that change nothing in rows with a null in an array."""
    arrays = [each.name for each in schema.fields if isinstance(each.type, ArrayType)]
    found = []
    for group in changes:
        kept: list[str] = []
        for text in group:
            is_same = text[:2] == "+U" and kept[-1:] == [f"-U{text[2:]}"]
            if is_same and any(None in (json.loads(text[2:])[name] or ()) for name in arrays):
                kept.pop()
            else:
                kept.append(text)
        found += [tuple(kept)] if kept else []
    return found


def text_of(row: Mapping[str, Any], schema: Schema) -> str:
    """Return a row in the judge's JSON as text; arrays whose order has no meaning are sorted."""
    loose = unordered(schema.options)
    values = {
        name: sorted(value, key=json.dumps) if name in loose and isinstance(value, list) else value
        for name, value in row.items()
        if name != "_kind"
    }
    return json.dumps(values, sort_keys=True)


def unordered(options: Mapping[str, str]) -> set[str]:
    """Return the columns whose function keeps elements in the order of a hash table."""
    functions = {
        key.removeprefix("fields.").removesuffix(".aggregate-function"): name
        for key, name in options.items()
        if key.endswith(".aggregate-function")
    }
    return {
        column
        for column, name in functions.items()
        if name == "nested_partial_update"
        or (name == "nested_update" and f"fields.{column}.nested-key" in options)
        or (name == "collect" and options.get(f"fields.{column}.distinct") == "true")
    }


def _renamed(option: str, name: str, to: str) -> str:
    columns, _, ending = option.removeprefix("fields.").rpartition(".")
    if not option.startswith("fields.") or not columns:
        return option
    return f"fields.{_listed(columns, name, to)}.{ending}"


def _value_renamed(option: str, value: str, name: str, to: str) -> str:
    endings = (".sequence-group", ".nested-key")
    if option in ("bucket-key", "sequence.field") or (option.startswith("fields.") and option.endswith(endings)):
        return _listed(value, name, to)
    return value


def _listed(names: str, name: str, to: str) -> str:
    return ",".join(to if each == name else each for each in names.split(","))
