"""A primary-key table, row by row: what every merge engine and changelog producer must show.

A bucket is a list of sorted runs. What a key shows depends on where the runs begin and end, so writes (one flush per
bucket) and compactions (which runs become one run of which level) are given as operations: which to pick is not the
model's business.
Source: docs/semantics/writing.md#write-path, docs/semantics/changelog.md#lookup,
docs/semantics/deletion-vectors.md#key-tables.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cmp_to_key
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

from lakehouse_core.format.data_types import AtomicType, TypeRoot
from tests.oracle.casts import cast_value
from tests.oracle.engines import ENGINES, Record, Schema
from tests.oracle.functions import Refused
from tests.oracle.merge import compare_keys, compare_values

Row = dict[str, Any]
# Partition and bucket.
Place = tuple[Any, int]
# The bucket of the rows that wait for theirs.
WAITING = -2
# Rows of `record-level.time-field` before it have expired.
DEADLINE = datetime(2025, 1, 1)
# What an older release does otherwise: rows of one write are ordered ascending whatever the table says.
FLUSHES_ASCENDING = "a flush ignores sort-order"
COMPARES_NUMBERS = "row-deduplicate compares floats as numbers: NaN is not NaN, -0.0 is 0.0"
SKIPS_LEVEL_0 = "deletion-vectors.merge-on-read is ignored"
SKIPS_WAITING = "postpone.merge-on-read is ignored"
# Java's newest too.
COMPACTS_BESIDE = "an overwrite that compacts leaves its files at level 0"
MERGES_TWICE = "postpone.merge-on-read merges the rows of a bucket, then the result with the waiting rows"
SKIPS_LEVEL_0_IF_NONE_WAITS = "postpone.merge-on-read shows level 0 only while rows wait"
TELLS_SAME_ARRAYS = "row-deduplicate finds an array with a null element equal only if a lookup brought it"


class Unreadable(Refused):
    """A row has no value, such as a sum that overflows: what reads it is refused, and what need not is not."""


@dataclass(frozen=True)
class Run:
    """Records by key, at most one per key; `schema` is the one that they were written with."""

    name: int
    level: int
    schema: Schema
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Pick:
    """A compaction: the runs of these names become one run of `level`.

    One that `moves` its run takes the file to the level as it is: what a lookup makes of it is in the changelog alone.
    """

    runs: frozenset[int]
    level: int
    moves: bool = False


@dataclass(frozen=True)
class Changes:
    schema: Schema
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Snapshot:
    schema: Schema
    buckets: Mapping[Place, tuple[Run, ...]]
    changes: tuple[Changes, ...]
    # Rows that wait for their buckets, by the place to which they will come.
    waiting: Mapping[Place, tuple[tuple[Schema, Record], ...]] = dataclasses.field(default_factory=dict)


class Table:
    """`place` says in which bucket (of which partition) a row lies."""

    def __init__(self, schema: Schema, place: Callable[[Row], Place], quirks: Iterable[str] = ()) -> None:
        self.schema = schema
        self.snapshots: list[Snapshot] = []
        self._place = place
        self._quirks = frozenset(quirks)
        self._buckets: dict[Place, tuple[Run, ...]] = {}
        # Rows that wait for their buckets, with the schema of their write, by partition.
        self._waiting: dict[Any, list[tuple[Schema, Record]]] = {}
        # How many rows came into the buckets of each partition that had none.
        self.opened: list[tuple[Any, int]] = []
        # What the next compaction tells of the rows that it has moved.
        self._moved: list[Changes] = []
        self._number = self._run = 0

    @property
    def buckets(self) -> dict[Place, tuple[Run, ...]]:
        return dict(self._buckets)

    def alter(self, schema: Schema) -> None:
        self.schema = schema

    def place(self, row: Row) -> Any:
        return self._place(row)

    def row(self, record: Record) -> Row:
        return dict(zip(self.schema.names, record.values, strict=True))

    def current(self) -> list[tuple[Place, Record]]:
        """Return the rows that a statement may read, those of level 0 too, with the columns of today, and those that
        wait if reads have them.

        Raises Unreadable if one of them cannot be merged.
        """
        found = []
        waiting = self._waiting_by_place() if self._merges_waiting else {}
        for place in {**self._buckets, **waiting}:
            runs = [*self._buckets.get(place, ())]
            if place in waiting:
                runs.append(self._moved_run(self.schema, waiting[place]))
            for versions in self._keys(self.schema, runs):
                try:
                    record = self._reduced(self.schema, versions)
                except Refused as refusal:
                    raise Unreadable(str(refusal)) from refusal
                if record is not None and record.adds:
                    found.append((place, record))
        return found

    def restore(self, buckets: Mapping[Place, tuple[Run, ...]]) -> None:
        """Go on from another state."""
        self._buckets = dict(buckets)

    # -- what is asked

    def rows(self, snapshot: Snapshot) -> list[Row]:
        """Return the rows that a batch read of the snapshot shows, with the columns that it had."""
        schema, found = snapshot.schema, []
        waiting, skips_level_0 = snapshot.waiting if self._merges_waiting else {}, self._skips_level_0(snapshot)
        for place in {**snapshot.buckets, **waiting}:
            seen = [run for run in snapshot.buckets.get(place, ()) if run.level > 0 or not skips_level_0]
            if place in waiting:
                seen = self._merged_first(schema, seen) if MERGES_TWICE in self._quirks else seen
                seen.append(self._moved_run(schema, waiting[place]))
            for versions in self._keys(schema, seen):
                record = self._reduced(schema, versions)
                if record is not None and record.adds:
                    found.append(dict(zip(schema.names, record.values, strict=True)))
        return found

    def changes(self, snapshot: Snapshot) -> list[tuple[str, Row]]:
        """Return what a streaming reader sees of the snapshot, with the columns of today; by key in order."""
        return [
            (record.kind, dict(zip(self.schema.names, record.values, strict=True)))
            for changes in snapshot.changes
            for record in (_converted(record, changes.schema, self.schema) for record in changes.records)
        ]

    # -- what happens

    def append(
        self,
        rows: Iterable[tuple[str, Row]],
        *,
        states_kinds: bool = False,
        beside: bool = False,
        tells: bool = True,
        waits: Iterable[Any] = (),
    ) -> dict[Place, int]:
        """Write rows: one flush per bucket, but in partitions where others wait they wait behind those. Return the
        names of the new runs; the bucket WAITING of a partition: rows wait there.

        `states_kinds`: the kinds of the rows count, whatever their columns say. `beside`: in the latest snapshot.
        `waits`: partitions where they wait in any case.
        """
        arrived: dict[Place, list[Record]] = {}
        behind: list[tuple[Place, Record]] = []
        waits = {*self.waiting_partitions, *waits}
        for place, record in self._arrived(rows, states_kinds=states_kinds):
            if place[0] in waits:
                behind.append((place, record))
            else:
                arrived.setdefault(place, []).append(record)
        made, changes = self._flushed(arrived)
        changes += self._waited(behind)
        told = [*(self.snapshots.pop().changes if beside else ()), *(changes if tells else ())]
        self._shown(told)
        return {**made, **{(partition, WAITING): 0 for (partition, _), _ in behind}}

    def overwrite(
        self, covers: Callable[[Any], bool], rows: Iterable[tuple[str, Row]], *, waits: bool
    ) -> dict[Place, int]:
        """Write rows in the place of all rows of the partitions that are covered; no reader of changes is told.

        Return the names of the new runs; `waits`: of none, for the rows wait for their buckets.
        """
        self._buckets = {place: runs for place, runs in self._buckets.items() if not covers(place[0])}
        self._waiting = {partition: rows for partition, rows in self._waiting.items() if not covers(partition)}
        arrived: dict[Place, list[Record]] = {}
        for place, record in self._arrived(rows):
            arrived.setdefault(place, []).append(record)
        if waits:
            for (partition, _), records in arrived.items():
                self._waiting.setdefault(partition, []).extend((self.schema, record) for record in records)
            made = dict.fromkeys(arrived, 0)
        else:
            made, _ = self._flushed(arrived)
        self._shown(())
        return made

    def records(self, place: Place, name: int) -> tuple[Record, ...]:
        """Return the records of a run, by key."""
        (run,) = (run for run in self._buckets[place] if run.name == name)
        return run.records

    def cut(self, place: Place, name: int, starts: Sequence[int]) -> list[int]:
        """Make runs of the parts of a run that begin at these records; return their names."""
        made, runs = [], list[Run]()
        for run in self._buckets[place]:
            if run.name != name:
                runs.append(run)
                continue
            for start, end in pairwise([*starts, len(run.records)]):
                made.append(self._named())
                runs.append(replace(run, name=made[-1], records=run.records[start:end]))
        self._buckets[place] = tuple(runs)
        return made

    def rise(self, place: Place, name: int) -> None:
        """Bring a run of rows that were written to the top level: no reader of changes is told."""
        runs = self._buckets[place]
        assert [run.name for run in runs] == [name], f"beside others: {runs}"
        assert all(record.adds for record in runs[0].records), runs
        self._buckets[place] = (replace(runs[0], level=self.max_level),)
        self.snapshots[-1] = replace(self.snapshots[-1], buckets=dict(self._buckets))

    def rewrite(self, gone: Iterable[Place], records: Mapping[Place, Sequence[Record]]) -> dict[Place, int]:
        """Put runs of the top level in the place of whole buckets; no reader of changes is told. Return their names."""
        self._buckets = {place: runs for place, runs in self._buckets.items() if place not in set(gone)}
        made = {}
        for place, kept in records.items():
            assert not self._buckets.get(place), f"{place} has rows already"
            made[place] = self._named()
            ordered = tuple(sorted(kept, key=_KEY))
            self._buckets[place] = (Run(made[place], self.max_level, self.schema, ordered),)
        self._shown(())
        return made

    def wait(self, rows: Iterable[tuple[str, Row]]) -> set[Any]:
        """Write rows that wait for their buckets. Return the partitions in which they do."""
        arrived = list(self._arrived(rows))
        self._shown(self._waited(arrived))
        return {partition for (partition, _), _ in arrived}

    def _waited(self, arrived: Sequence[tuple[Place, Record]]) -> list[Changes]:
        """Let rows wait for their buckets; return what is told of them."""
        for (partition, _), record in arrived:
            self._waiting.setdefault(partition, []).append((self.schema, record))
        told = arrived and self._producer == "none"
        return [Changes(self.schema, tuple(record for _, record in arrived))] if told else []

    @property
    def waiting_partitions(self) -> set[Any]:
        return {*self._waiting}

    def _waiting_by_place(self) -> dict[Place, list[tuple[Schema, Record]]]:
        """Return the rows that wait by the place to which they come if they are moved now."""
        found: dict[Place, list[tuple[Schema, Record]]] = {}
        for source, record in (each for rows in self._waiting.values() for each in rows):
            found.setdefault(self._place(self.row(_converted(record, source, self.schema))), []).append(
                (source, record)
            )
        return found

    def move(self, partitions: Collection[Any]) -> dict[Place, int]:
        """Bring all rows that wait in these partitions into their buckets, within the compaction that comes next: one
        flush per bucket. Return the names of the new runs.
        """
        arrived = {
            place: [_converted(record, schema, self.schema) for schema, record in rows]
            for place, rows in self._waiting_by_place().items()
            if place[0] in partitions
        }
        self._waiting = {partition: rows for partition, rows in self._waiting.items() if partition not in partitions}
        made, changes = self._flushed(arrived)
        # Without a changelog the write has told of them.
        self._moved = changes if self._producer == "input" else []
        return made

    def _arrived(self, rows: Iterable[tuple[str, Row]], *, states_kinds: bool = False) -> Iterator[tuple[Any, Record]]:
        """Yield the rows that are taken, in their order, each with its place."""
        for kind, row in rows:
            self._number += 1
            if (record := self._accepted(kind, row, states_kinds=states_kinds)) is not None:
                yield self._place(row), record

    def _flushed(self, arrived: Mapping[Place, list[Record]]) -> tuple[dict[Place, int], list[Changes]]:
        """Make a run of level 0 of the rows of each bucket; return their names, and what is told of the rows."""
        made, changes, buckets = {}, [], dict(self._buckets)
        there = {partition for (partition, _), runs in buckets.items() if runs}
        counts = Counter({partition: 0 for partition, _ in arrived})
        for (partition, _), records in arrived.items():
            counts[partition] += len(records)
        self.opened += [each for each in counts.items() if each[0] not in there]
        for place, records in arrived.items():
            raw, kept = self._reduced_flush(self.schema, records)
            if self._producer == "input":
                changes.append(Changes(self.schema, raw))
            elif self._producer == "none":
                changes.append(Changes(self.schema, kept))
            if kept:
                made[place] = self._named()
                buckets[place] = (*buckets.get(place, ()), Run(made[place], 0, self.schema, kept))
        self._buckets = buckets
        return made, changes

    def _reduced_flush(
        self, schema: Schema, records: Iterable[Record]
    ) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
        """Return the records of one flush in their order, and what it leaves of them."""
        raw = sorted(records, key=cmp_to_key(lambda a, b: self._compare(schema, a, b, flush=True)))
        reduced = [self._reduced(schema, list(group)) for _, group in groupby(raw, key=_KEY)]
        return tuple(raw), tuple(record for record in reduced if record is not None)

    def _moved_run(self, schema: Schema, rows: Iterable[tuple[Schema, Record]]) -> Run:
        """Return the waiting rows of a bucket as if a compaction had moved them: one flush."""
        _, kept = self._reduced_flush(schema, [_converted(record, source, schema) for source, record in rows])
        return Run(0, 0, schema, kept)

    def _shown(self, changes: Iterable[Changes]) -> None:
        """Make a snapshot of what is there now."""
        waiting = {place: tuple(rows) for place, rows in self._waiting_by_place().items()}
        self.snapshots.append(Snapshot(self.schema, dict(self._buckets), tuple(changes), waiting))

    def compact(self, picks: Sequence[tuple[Place, Pick]]) -> list[int | None]:
        """Carry out compactions, in this order, that one commit makes visible.

        Return the names of the new runs, None where nothing was left.
        """
        made: list[int | None] = []
        changes, buckets, self._moved = self._moved, dict(self._buckets), []
        for place, pick in picks:
            runs = buckets[place]
            unit = [run for run in runs if run.name in pick.runs]
            others = [run for run in runs if run.name not in pick.runs]
            kept, changed, others = self._merged(unit, others, pick.level)
            if pick.moves:
                (moved,) = unit
                kept = moved.records
                is_known = moved.schema.fields == self.schema.fields
                assert not is_known or not any(map(self._has_expired, kept)), f"expired rows stay in {moved}"
            if pick.level >= max(run.level for run in runs) or self.schema.is_on("deletion-vectors.enabled"):
                kept = [record for record in kept if record.adds]
            if changed:
                changes.append(Changes(self.schema, tuple(changed)))
            made.append(self._named() if kept else None)
            if kept:
                others.append(Run(self._run, pick.level, moved.schema if pick.moves else self.schema, tuple(kept)))
            buckets[place] = tuple(others)
        self._buckets = buckets
        self._shown(changes)
        return made

    # -- how

    @property
    def _producer(self) -> str:
        return self.schema.options.get("changelog-producer", "none")

    @property
    def _engine(self) -> str:
        return self.schema.options.get("merge-engine", "deduplicate")

    @property
    def _hides_level_0(self) -> bool:
        return self._engine == "first-row" or self.schema.is_on("deletion-vectors.enabled")

    @property
    def _merges_waiting(self) -> bool:
        return self.schema.is_on("postpone.merge-on-read") and SKIPS_WAITING not in self._quirks

    def _skips_level_0(self, snapshot: Snapshot) -> bool:
        """Return whether reads of the snapshot leave out level 0."""
        if self._merges_waiting and (snapshot.waiting or SKIPS_LEVEL_0_IF_NONE_WAITS not in self._quirks):
            return False
        merges = self.schema.is_on("deletion-vectors.merge-on-read") and SKIPS_LEVEL_0 not in self._quirks
        return self._hides_level_0 and not (merges and self._engine != "first-row")

    @property
    def _looks_up(self) -> bool:
        return self._hides_level_0 or self._producer == "lookup" or self.schema.is_on("force-lookup")

    @property
    def max_level(self) -> int:
        options = self.schema.options
        trigger = int(options.get("num-sorted-run.compaction-trigger", 5))
        return int(options.get("num-levels", trigger + 1)) - 1

    def _accepted(self, kind: str, row: Row, *, states_kinds: bool = False) -> Record | None:
        """Return the record of a row in the order of the write path, or None when an option drops it."""
        schema = self.schema
        for field in schema.fields:
            if row.get(field.name) is None and not field.type.nullable:
                raise Refused(f"null in {field.name}")
        row = {f.name: f.default if row.get(f.name) is None else row[f.name] for f in schema.fields}
        if "rowkind.field" in schema.options and not states_kinds:
            kind = row[schema.options["rowkind.field"]]
            if kind not in ("+I", "-U", "+U", "-D"):
                raise Refused(f"row kind {kind}")
        if kind in ("-U", "-D") and schema.is_on("ignore-delete"):
            return None
        if kind == "-U" and schema.is_on("ignore-update-before"):
            return None
        key = tuple(row[name] for name in schema.primary_keys if name not in schema.partition_keys)
        return Record(key, self._number, kind, tuple(row.values()))

    def _merged(self, unit: list[Run], others: list[Run], level: int) -> tuple[list[Record], list[Record], list[Run]]:
        """Return what a compaction leaves of each key, its changelog, and the other runs without marked rows."""
        kept, changed = [], []
        looks_up = self._looks_up and self._producer != "full-compaction" and any(run.level == 0 for run in unit)
        for every in self._keys(self.schema, unit):
            versions = [version for version in every if not self._has_expired(version)]
            if not versions:
                continue
            if looks_up and self._engine == "first-row":
                result, changes = self._first_row(versions, others, level)
            elif looks_up:
                result, changes, others = self._lookup(versions, others, level)
            elif self._producer == "full-compaction" and level == self.max_level:
                result, changes = self._full(versions)
            else:
                result, changes = self._reduced(self.schema, versions), []
            changed += changes
            if result is not None:
                kept.append(result)
        return kept, changed, others

    def _first_row(self, versions, others, level):
        result = self._applied(self.schema, versions)
        if result is None or any(version.level > 0 for version in versions):
            return result, []
        if self._found(result.key, others, level) is not None:
            return None, []
        return result, [result] if self._producer == "lookup" else []

    def _lookup(self, versions, others, level):
        """Lookup: only records of level 0 and the newest above it; one that is not in the unit is searched above."""
        high = min((version for version in versions if version.level > 0), key=_LEVEL, default=None)
        fresh = [version for version in versions if version.level == 0]
        while high is None and (hit := self._found(versions[0].key, others, level)) is not None:
            run, at = hit
            level = run.level
            high = _converted(run.records[at], run.schema, self.schema)
            high = None if self._has_expired(high) else high
            if self.schema.is_on("deletion-vectors.enabled"):
                left = replace(run, records=run.records[:at] + run.records[at + 1 :])
                others = [left if other is run else other for other in others]
        group = fresh if high is None else self._ordered(self.schema, [*fresh, high])
        result = self._applied(self.schema, group)
        if not fresh or self._producer != "lookup":
            return result, [], others
        return result, self._difference(high, result), others

    def _has_expired(self, record: Record) -> bool:
        """Return whether a compaction drops a record that it reads: all times are long before DEADLINE or after it."""
        name = self.schema.options.get("record-level.time-field")
        if name is None or "record-level.expire-time" not in self.schema.options:
            return False
        match record.values[self.schema.names.index(name)]:
            case None:
                return False
            case datetime() as time:
                return time < DEADLINE
            case int() as number:
                # Of a BIGINT, large numbers are milliseconds.
                return (number // 1000 if number >= 10**12 else number) < (
                    DEADLINE - datetime(1970, 1, 1)
                ).total_seconds()
            case other:
                raise AssertionError(other)

    def _full(self, versions):
        """Full compaction: the record of the top level against what all of them become."""
        top = next((version for version in versions if version.level == self.max_level), None)
        result = self._reduced(self.schema, versions)
        return result, [] if len(versions) == 1 and top else self._difference(top, result)

    def _difference(self, before: Record | None, after: Record | None) -> list[Record]:
        was = before is not None and before.adds
        is_ = after is not None and after.adds
        if not was:
            return [replace(after, kind="+I")] if is_ else []
        if not is_:
            return [replace(before, kind="-D")]
        if self.schema.is_on("changelog-producer.row-deduplicate"):
            ignored = self.schema.options.get("changelog-producer.row-deduplicate-ignore-fields", "").split(",")
            watched = [i for i, name in enumerate(self.schema.names) if name not in ignored]
            if all(self._same(before.values[i], after.values[i]) for i in watched):
                return []
        return [replace(before, kind="-U"), replace(after, kind="+U")]

    def _same(self, left: Any, right: Any) -> bool:
        """Row-deduplicate's equality: in Java a map with a null among its values does not even equal itself."""
        if isinstance(left, list) and left and isinstance(left[0], tuple):
            return right is not None and dict(left) == dict(right) and None not in dict(left).values()
        if isinstance(left, float) and isinstance(right, float) and COMPARES_NUMBERS not in self._quirks:
            return left.hex() == right.hex()
        return left == right

    def _found(self, key, runs: Sequence[Run], level: int) -> tuple[Run, int] | None:
        """Return the record of `key` in the first level above `level` that has one."""
        for run in sorted(runs, key=lambda run: run.level):
            for at, record in enumerate(run.records):
                if run.level > level and compare_keys(record.key, key) == 0:
                    return run, at
        return None

    def _merged_first(self, schema: Schema, runs: Sequence[Run]) -> list[Run]:
        """Return one run with what the runs merge to, deletes too."""
        reduced = [self._reduced(schema, versions) for versions in self._keys(schema, runs)]
        return [Run(0, 0, schema, tuple(record for record in reduced if record is not None))]

    def _keys(self, schema: Schema, runs: Sequence[Run]) -> list[list[Record]]:
        """Return the versions of each key from the oldest to the newest, key by key."""
        records = [
            replace(_converted(record, run.schema, schema), level=run.level) for run in runs for record in run.records
        ]
        return [list(group) for _, group in groupby(self._ordered(schema, records), key=_KEY)]

    def _reduced(self, schema: Schema, versions: list[Record]) -> Record | None:
        """A lone record is passed through as it is."""
        return versions[0] if len(versions) == 1 else self._applied(schema, versions)

    def _applied(self, schema: Schema, versions: list[Record]) -> Record | None:
        """Apply the merge engine. With a lookup a record above level 0 holds what lies above it already."""
        if self._looks_up and self._engine != "first-row":
            high = min((version.level for version in versions if version.level > 0), default=0)
            versions = [version for version in versions if version.level in (0, high)]
        engine = ENGINES[self._engine](schema, self._quirks)
        for version in versions:
            engine.add(version)
        return engine.result()

    def _ordered(self, schema: Schema, records: Iterable[Record]) -> list[Record]:
        return sorted(records, key=cmp_to_key(lambda a, b: self._compare(schema, a, b)))

    def _compare(self, schema: Schema, left: Record, right: Record, *, flush: bool = False) -> int:
        """Order versions by key, sequence fields (null oldest, also descending), number, retract before add."""
        if answer := compare_keys(left.key, right.key):
            return answer
        descends = schema.options.get("sequence.field.sort-order") == "descending"
        descends = descends and not (flush and FLUSHES_ASCENDING in self._quirks)
        for i in schema.sequence_fields:
            one, other = left.values[i], right.values[i]
            if answer := compare_values(one, other):
                return -answer if descends and one is not None and other is not None else answer
        return left.number - right.number or left.adds - right.adds

    def _named(self) -> int:
        self._run += 1
        return self._run


_LEVEL = attrgetter("level")
_KEY = cmp_to_key(lambda left, right: compare_keys(left.key, right.key))


def _converted(record: Record, source: Schema, target: Schema) -> Record:
    """Return the record with the columns of `target`, found by field id: a new one is null, another type is cast."""
    if source.fields == target.fields:
        return record
    old = {field.id: (field.type, value) for field, value in zip(source.fields, record.values, strict=True)}
    values = (
        _cast(*old[field.id], field.type) if field.id in old else None  # a default is for writing only
        for field in target.fields
    )
    return replace(record, values=tuple(values))


def _cast(source, value, target):
    if source == target:
        return value
    if isinstance(target, AtomicType) and target.root is TypeRoot.VARCHAR and isinstance(value, int | float):
        return str(value)
    return cast_value(value, source, target)
