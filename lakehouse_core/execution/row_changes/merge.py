"""MERGE: join table and source at one snapshot, write what the clauses say, commit if nothing read has changed.

This process holds the joined rows; it joins where few rows of a source need no engine of SQL.
Rule: two rows of the source for one row of the table, and two rows for one key, are refused before a file is written.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.row_changes.bounds import arrow_bounds, ranged_columns, ranged_pairs, within
from lakehouse_core.execution.row_changes.change import RowChangeResult, committed, until_committed
from lakehouse_core.execution.row_changes.change_base import FixedAt, ReadAt, change_base, fixed_at
from lakehouse_core.execution.row_changes.clause_rows import ClauseRows, assigned_fields, clause_rows
from lakehouse_core.execution.row_changes.merge_write import write_merge
from lakehouse_core.execution.row_changes.plain_join import plain_rows, source_columns
from lakehouse_core.format.data_types import DataField
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.format.store_assignment import is_kept
from lakehouse_core.merge.compact import POSITION_BITS
from lakehouse_core.planning.commit.read_scope import ReadScope
from lakehouse_core.planning.row_changes.change_base import ChangeBase
from lakehouse_core.planning.row_changes.merge_clauses import MergeRequest
from lakehouse_core.planning.row_changes.merge_join import ACTION, ADDRESS, SOURCE, MergePlan, PlainJoin
from lakehouse_core.planning.row_changes.merge_plan import plan_merge
from lakehouse_core.planning.row_changes.statements import Isolation, SourceMerge
from lakehouse_core.progress import Watch
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.predicate import Predicate, all_of, only_columns
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split, sharing
from lakehouse_core.tasks.change_rows.among import Among
from lakehouse_core.tasks.change_rows.target import TargetTask, target_rows
from lakehouse_core.tasks.runtime import local_runtime


class MergeSide(Protocol):
    """The engine of a MERGE with the rows of its source."""

    @property
    def in_utc(self) -> bool:
        """Whether the engine takes times without a zone for UTC."""
        ...

    @property
    def fields(self) -> Sequence[DataField]:
        """The columns of the source."""
        ...

    @property
    def read_at(self) -> ReadAt | None:
        """The snapshot of the table itself that the source was read at, None if it was made of other rows."""
        ...

    @property
    def request(self) -> MergeRequest | None:
        """The statement with what queries inside it gave; None: as the caller gave it."""
        ...

    def few(self, columns: Sequence[str]) -> pa.Table | None:
        """Return these columns of the source, None if it has too many rows for this process."""
        ...

    def bounds(self, columns: Sequence[str]) -> Mapping[str, tuple[Any, Any]]:
        """Return the least and the greatest value of columns of the source; none for a column of nulls."""
        ...

    def matchable(
        self, tasks: Sequence[TargetTask], columns: Sequence[str], schema: TableSchema, among: Among
    ) -> pa.Table:
        """Return these columns, which are those of the tasks, with ADDRESS, of the rows of the tasks that `among`
        keeps.
        """
        ...

    def joined(
        self,
        plan: MergePlan,
        tasks: Sequence[TargetTask],
        schema: TableSchema,
        parameters: Mapping[str, Any],
        among: Among | None,
    ) -> pa.Table:
        """Return the rows of the plan's query over the rows of the tasks, without those that `among` leaves out, and
        those of the source.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Join:
    """How a run joins. `pairs`: columns of table and source that ON compares as a range does. `few`: the columns of the
    source that are needed here, None if it has too many rows. `plain`: None if an engine of SQL must join.
    """

    plan: MergePlan
    side: MergeSide
    parameters: Mapping[str, Any]
    pairs: Sequence[tuple[str, str]]
    few: pa.Table | None
    plain: PlainJoin | None

    def condition(self, schema: TableSchema) -> Predicate | None:
        """Return what each row of the table that ON can match satisfies; None if nothing is known."""
        if not self.plan.is_pruned:
            return None
        asked = [source for _, source in self.pairs]
        bounds = self.side.bounds(asked) if self.few is None else arrow_bounds(self.few, asked)
        matchable = within({column: bounds[source] for column, source in self.pairs if source in bounds}, schema)
        return all_of([part for part in (self.plan.condition, matchable) if part is not None])

    def rows(self, tasks: Sequence[TargetTask], schema: TableSchema) -> pa.Table:
        """Return the joined rows that fall under a clause."""
        plan, few, among = self.plan, self.few, None
        if few is not None and self.pairs:
            among = Among(pa.table({column: few.column(source) for column, source in self.pairs}))
        if self.plain is None or few is None or among is None:
            return self.side.joined(plan, tasks, schema, self.parameters, among)
        return plain_rows(plan, self.plain, self.side.matchable(tasks, plan.columns, schema, among), few)


def merge_rows(
    table: TableContext,
    request: MergeRequest,
    read: Callable[[], MergeSide],
    *,
    isolation: Isolation,
    dry_run: bool,
    properties: Mapping[str, str],
    watch: Watch,
) -> RowChangeResult:
    """Carry out a MERGE; with `dry_run`, count its rows only. `read`, called in each run, gives the source. If that was
    read from the table itself, the run begins with the same snapshot.

    Raises CommitConflict if others changed what it had read in each of its runs, InvalidRequest, UnsupportedFeature,
    CommitTimeout, CommitOutcomeUnknown, CorruptTable, TaskFailed.
    """
    joins: list[_Join] = []

    def begin() -> ChangeBase:
        side = read()

        def make(schema: TableSchema) -> SourceMerge:
            joins.append(_join(side.request or request, schema, side))
            return SourceMerge(condition=joins[-1].condition(schema), operation=request.operation)

        return change_base(table, make, fixed=fixed_at(table, side.read_at, request.operation))

    def run(base: ChangeBase) -> RowChangeResult:
        merge = _Merge(table, base, joins[-1])
        return merge.run(isolation=isolation, dry_run=dry_run, properties=properties, watch=watch)

    return until_committed(table, begin, run)


def _join(request: MergeRequest, schema: TableSchema, side: MergeSide) -> _Join:
    plan = plan_merge(request, schema, side.fields, in_utc=side.in_utc)
    pairs = ranged_pairs(plan.equated, schema, side.fields) if plan.is_pruned else []
    plain = plan.plain if len(pairs) == len(plan.equated) and _is_stored_here(plan, schema, side) else None
    needed = [each.name for each in side.fields] if plain is None else source_columns(plan, plain)
    return _Join(
        plan=plan,
        side=side,
        parameters=request.parameters,
        pairs=pairs,
        few=side.few(needed) if pairs else None,
        plain=plain,
    )


def _is_stored_here(plan: MergePlan, schema: TableSchema, side: MergeSide) -> bool:
    """Return whether this process stores the values of a plain join as the engine would: if that has another zone of
    times, none of them changes its type.
    """
    if side.in_utc or plan.plain is None:
        return True
    given = {each.name: each for each in side.fields}
    types = {alias: given[name].type for alias, name in plan.plain.source_values.items()}
    types |= {alias: schema.field(name).type for alias, name in plan.plain.target_values.items()}
    stored = assigned_fields(plan, schema)
    return all(is_kept(kind, stored[alias].type) for alias, kind in types.items() if alias in stored)


class _Merge:
    """One run of a MERGE."""

    def __init__(
        self,
        table: TableContext,
        base: ChangeBase,
        join: _Join,
    ) -> None:
        self._table = table
        self._base = base
        self._schema = base.schema
        self._join = join
        self._plan = join.plan
        self._files: list[tuple[Split, DataFile]] = [(split, file) for split in base.splits for file in split.files]

    def run(
        self, *, isolation: Isolation, dry_run: bool, properties: Mapping[str, str], watch: Watch
    ) -> RowChangeResult:
        watch.at("joining")
        base, plan = self._base, self._plan
        tasks = self._tasks(plan.columns, base.splits, base.rest)
        joined = self._join.rows(tasks, self._schema)
        self._check_matches(joined)
        parts = clause_rows(plan, self._schema, joined)
        self._check_keys(parts)
        hits = self._hit_addresses(joined)
        changed = sum(part.rows.num_rows for part in parts)
        messages: Sequence[CommitMessage] = ()
        if changed and not dry_run:
            messages = write_merge(self._table, base, parts, self._hits(hits), watch)
        condition = base.statement.condition
        if self._join.side.read_at is not None:
            # The query of the source may have read any row.
            condition = None
        elif not self._schema.is_append:
            # A delete or an older version of a row may hold anything in its other columns.
            condition = only_columns(condition, self._schema.primary_keys)
        reads = ReadScope(
            operation=base.statement.operation,
            schema=self._schema,
            condition=condition,
            sees_appends=plan.inserts or isolation == "serializable",
            sees_removals=plan.inserts,
        )
        done = committed(self._table, base, messages, reads, properties=properties, watch=watch)
        counts = {
            action: sum(part.rows.num_rows for part in parts if part.clause.action == action)
            for action in ("insert", "update", "delete")
        }
        return replace(
            done,
            rows_matched=int(pc.sum(_is_matched(joined)).as_py() or 0),
            rows_updated=counts["update"],
            rows_deleted=counts["delete"],
            rows_inserted=counts["insert"],
            rows_read=sum(split.row_count for split in base.splits),
            files_touched=self._touched(hits),
        )

    def _tasks(self, columns: Sequence[str], splits: Sequence[Split], predicate: Predicate | None) -> list[TargetTask]:
        tasks, number = [], 0
        for split in splits:
            tasks.append(
                TargetTask(
                    store=self._table.store.spec,
                    schema=self._schema,
                    split=split,
                    columns=tuple(columns),
                    address=ADDRESS,
                    first_number=number,
                    predicate=predicate,
                    file_schemas=self._base.file_schemas,
                )
            )
            number += _numbers_of(split)
        return tasks

    def _check_matches(self, joined: pa.Table) -> None:
        """Refuse two rows of the source for one row of the table."""
        if not self._plan.checks_matches:
            return
        addresses = np.sort(joined.column(ADDRESS).filter(_is_matched(joined)).to_numpy())
        if (addresses[1:] == addresses[:-1]).any():
            raise InvalidRequest(
                "MERGE: more than one row of the source matches one row of the table, so what becomes of it is not "
                "said. Nothing was changed: make ON more exact, or leave one row for each in the source."
            )

    def _check_keys(self, parts: Sequence[ClauseRows]) -> None:
        """Refuse two new rows for one key, and a new row for a key that the table has."""
        keys = list(self._schema.primary_keys)
        inserted = [part.rows.select(keys) for part in parts if part.clause.action == "insert"] if keys else []
        if not inserted or not (new := pa.concat_tables(inserted)).num_rows:
            return
        counted = new.group_by(keys).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted.column("count_all"), 1))
        if twice.num_rows:
            raise InvalidRequest(
                f"MERGE: the key {_shown_key(twice, keys)} would be inserted more than once. Nothing was changed: "
                "leave one row for each key in the source."
            )
        if self._plan.keys_are_new or self._base.snapshot is None:
            return
        for found in self._present(new, keys):
            raise InvalidRequest(
                f"MERGE: the key {_shown_key(found, keys)} would be inserted, and the table has it: ON does not match "
                "it. Nothing was changed: compare the whole primary key in ON."
            )

    def _present(self, new: pa.Table, keys: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the keys that the table has already."""
        condition = within(arrow_bounds(new, ranged_columns(keys, self._schema)), self._schema)
        whole = change_base(self._table, lambda _: SourceMerge(condition=condition), fixed=FixedAt(self._base.snapshot))
        runtime = local_runtime(self._table.store, self._table.clock)
        tasks = [replace(task, file_schemas=whole.file_schemas) for task in self._tasks(keys, whole.splits, None)]
        for batch in target_rows(tasks, runtime):
            present = pa.Table.from_batches([batch]).select(keys)
            found = present.join(new, keys=list(keys), join_type="left semi")
            if found.num_rows:
                yield found

    def _hits(self, addresses: Positions) -> dict[str, Positions]:
        """Return, by file of an append table, the positions of the rows at these addresses."""
        if not self._schema.is_append:
            return {}
        files, starts = _numbers_in(addresses)
        positions = np.split(addresses & ((1 << POSITION_BITS) - 1), starts[1:]) if len(files) else []
        return {self._files[number][1].file_name: rows for number, rows in zip(files.tolist(), positions, strict=True)}

    def _hit_addresses(self, joined: pa.Table) -> Positions:
        """Return the addresses of the rows that are updated or deleted, rising."""
        numbers = [n for n, clause in enumerate(self._plan.clauses) if clause.action != "insert"]
        is_hit = pc.fill_null(pc.is_in(joined.column(ACTION), pa.array(numbers, joined.column(ACTION).type)), False)
        addresses: Positions = np.sort(joined.column(ADDRESS).filter(is_hit).to_numpy().astype(np.int64))
        return addresses

    def _touched(self, addresses: Positions) -> int:
        """Return the number of files with rows at these addresses; in a key table, of all files of a split, and of
        those that share its waiting rows.
        """
        numbers = set(_numbers_in(addresses)[0].tolist())
        if self._schema.is_append:
            return len(numbers)
        found, first = 0, 0
        for together in sharing(self._base.splits, lambda split: split):
            end = first + sum(map(_numbers_of, together))
            if any(first <= number < end for number in numbers):
                found += sum(len(split.files) for split in together)
            first = end
        return found


def _numbers_in(addresses: Positions) -> tuple[Positions, Positions]:
    """Return the numbers in rising addresses, and where each begins."""
    numbers = addresses >> POSITION_BITS
    starts: Positions = np.flatnonzero(np.diff(numbers, prepend=-1))
    return numbers[starts], starts


def _numbers_of(split: Split) -> int:
    """Return how many numbers a split takes: one for each file, and one if its rows wait and are in no file of it."""
    return max(1, len(split.files))


def _is_matched(joined: pa.Table) -> pa.ChunkedArray:
    return pc.and_(joined.column(ADDRESS).is_valid(), joined.column(SOURCE).is_valid())


def _shown_key(keys: pa.Table, names: Sequence[str]) -> str:
    return ", ".join(f"{name} = {_shown_value(keys.column(name)[0])}" for name in names)


def _shown_value(value: pa.Scalar) -> str:
    try:
        return shown(value.as_py())
    except OverflowError:
        # Python has no such year.
        return str(value.cast(pa.string()))
