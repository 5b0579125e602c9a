"""Replacing rows: those that satisfy a condition go, and given ones that satisfy it come, in one snapshot.

Rule: the given rows are read once a run. A run that begins again reads them again, so they must not be a stream then.
Source: docs/semantics/row-changes.md#replacing-rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakehouse_core.execution.compaction.precommit import with_joined_changelog, with_packed_files
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.row_changes.change import (
    RowChangeResult,
    change_matching,
    committed,
    discarded_on_failure,
    until_committed,
)
from lakehouse_core.execution.row_changes.change_base import SourceRows, change_base, check_all_read, fixed_at
from lakehouse_core.execution.row_changes.new_rows import new_rows, written_rows
from lakehouse_core.planning.commit.hash_indexes import claims_of, live_indexes
from lakehouse_core.planning.commit.read_scope import ReadScope
from lakehouse_core.planning.row_changes.change_base import ChangeBase
from lakehouse_core.planning.row_changes.methods import Method
from lakehouse_core.planning.row_changes.statements import Isolation, Replacement
from lakehouse_core.progress import Watch
from lakehouse_core.table.bucketing import has_hash_index, is_placed
from lakehouse_core.table.commit_message import CommitMessage, Missing
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema


def replace_rows(
    table: TableContext,
    condition: Callable[[TableSchema], Predicate | None],
    read: Callable[[], SourceRows],
    *,
    missing: Missing,
    isolation: Isolation,
    dry_run: bool,
    properties: Mapping[str, str],
    watch: Watch,
) -> RowChangeResult:
    """Replace the rows that satisfy the condition by given ones; with `dry_run`, check and count both only. `read`,
    called in each run, gives the rows.

    Raises CommitConflict if others changed what it had read in each of its runs, InvalidRequest also for a given row
    for which the condition is not true, UnsupportedFeature, CommitTimeout, CommitOutcomeUnknown, CorruptTable,
    TaskFailed.
    """
    given: list[SourceRows] = []

    def begin() -> ChangeBase:
        given[:] = [read()]
        fixed = fixed_at(table, given[0].read_at, "OVERWRITE")
        base = change_base(table, lambda schema: Replacement(condition=condition(schema)), fixed=fixed)
        if given[0].read_at is not None and base.method is Method.PARTITIONS:
            waiting = sum(entry.file.row_count for entry in base.files if not is_placed(entry.bucket))
            check_all_read(base.schema, waiting)
        return base

    def run(base: ChangeBase) -> RowChangeResult:
        reads = _reads(base, given[0], isolation)
        run = _Replacement(table, base, dry_run, watch)
        return run.done(given[0].rows, missing, reads, properties)

    return until_committed(table, begin, run)


def _reads(base: ChangeBase, given: SourceRows, isolation: Isolation) -> ReadScope:
    # The query that gives the rows may have read any row of the table.
    reads_itself = given.read_at is not None
    return ReadScope(
        operation=base.statement.operation,
        schema=base.schema,
        condition=None if reads_itself else base.statement.condition,
        sees_appends=reads_itself or isolation == "serializable",
        sees_removals=reads_itself,
        whole_buckets=base.method is Method.BUCKETS,
        whole_partitions=base.method is Method.PARTITIONS,
    )


def _claiming(messages: Sequence[CommitMessage], base: ChangeBase) -> list[CommitMessage]:
    """Return the messages, with the hash index of its bucket in each that has none, as the keys of its rows are in it:
    the new rows of the same commit may change that index.
    """
    if base.method is Method.PARTITIONS or not has_hash_index(base.schema.bucketing):
        return list(messages)
    known = live_indexes(base.indexes)
    return [
        replace(message, read_index_files=(*message.read_index_files, known[place]))
        if (place := (message.partition, message.bucket)) in known and not claims_of(message)
        else message
        for message in messages
    ]


@dataclass(frozen=True, slots=True)
class _Replacement:
    """One run of a replacement."""

    table: TableContext
    base: ChangeBase
    dry_run: bool
    watch: Watch

    def done(self, rows: object, missing: Missing, reads: ReadScope, properties: Mapping[str, str]) -> RowChangeResult:
        table, base = self.table, self.base
        messages: list[CommitMessage] = []
        with discarded_on_failure(table, base, messages):
            found = change_matching(table, base, messages, only_counts=self.dry_run, watch=self.watch)
            messages[:] = _claiming(messages, base)
            new = self._new(rows, missing, messages)
        kept = () if self.dry_run else messages
        result = committed(table, base, kept, reads, properties=properties, watch=self.watch)
        return replace(
            result,
            rows_matched=found.rows_matched,
            rows_deleted=found.rows_matched,
            # Keys that move leave deletes in other partitions.
            rows_inserted=sum(
                file.row_count - (file.delete_row_count or 0) for message in new for file in message.new_files
            ),
            rows_read=found.rows_read,
            files_touched=found.files_touched,
        )

    def _new(self, rows: object, missing: Missing, messages: list[CommitMessage]) -> Sequence[CommitMessage]:
        """Write the given rows, add their messages to `messages`, and return them."""
        table, base = self.table, self.base
        whole = base.method is Method.PARTITIONS
        settings = new_rows(table, base, messages, whole_partitions=whole, is_stored=not self.dry_run)
        task = replace(
            settings.task,
            missing=missing,
            condition=base.statement.condition,
            only_counts=self.dry_run,
            # As in every overwrite: a snapshot that removes files has no changelog.
            emits_changelog=not any(message.deleted_files for message in messages),
        )
        removals = len(messages)
        for message in written_rows(table, base, replace(settings, task=task), rows, self.watch):
            messages.append(message)
        if not self.dry_run and base.schema.table_options.precommit.is_enabled:
            messages[removals:] = with_packed_files(table, base.schema, messages[removals:])
            messages[removals:] = with_joined_changelog(table, base.schema, messages[removals:])
        return messages[removals:]
