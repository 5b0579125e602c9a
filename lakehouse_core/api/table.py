"""Table: the handle whose methods are the verbs. A verb is its docstring and one call of a `table_…` module.

Rule: a handle caches only schemas, which never change, so two handles see the same state.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import PurePath
from typing import Any, TypeVar

import pyarrow as pa

from lakehouse_core.api import (
    records,
    reports,
    table_branches,
    table_maintenance,
    table_partitions,
    table_reads,
    table_records,
    table_row_changes,
    table_writes,
)
from lakehouse_core.api.arguments import CallOptions, Condition, GivenRows, check_only_where
from lakehouse_core.api.health.facts import HealthFacts, health_facts
from lakehouse_core.api.local_engine import local_engine
from lakehouse_core.api.lookups import Lookups
from lakehouse_core.api.scan import ChangesScan, Scan
from lakehouse_core.api.system.tables import SystemTable
from lakehouse_core.calls import checks_calls
from lakehouse_core.clock import Clock
from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, shown
from lakehouse_core.execution.context import TableContext, table_context
from lakehouse_core.execution.engine import Engine
from lakehouse_core.execution.lookup.local_files import LookupCache
from lakehouse_core.execution.row_changes.change_base import SourceRows
from lakehouse_core.metadata.arbiter import CREATE_IF_ABSENT, Arbiter
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.planning.alter.schema_change import SchemaChange
from lakehouse_core.planning.read.read_point import LATEST, ReadPoint
from lakehouse_core.planning.row_changes.merge_clauses import Clause, MergeRequest
from lakehouse_core.planning.row_changes.statements import Isolation
from lakehouse_core.progress import Listener
from lakehouse_core.storage import ObjectStore
from lakehouse_core.table.commit_message import Append, Missing, WriteMode
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit

R = TypeVar("R")


@checks_calls
class Table:
    """One table of a catalog, or a branch of it; `name` is `database.table` or `database.table$branch_name`.

    In every verb: `columns` None means all columns. `where` is SQL text, a predicate built with `col`, or a list of
    these, which all hold; None means all rows. `properties` become properties of the snapshot. `progress` is called
    from time to time with a Progress, in the thread of the call; an exception that it raises is logged and does not
    stop the verb. With `dry_run` the verb reports what it would do, and changes nothing.
    """

    def __init__(
        self,
        name: str,
        store: ObjectStore,
        *,
        schemas: SchemaLog | None = None,
        engine: Callable[[], Engine],
        clock: Clock,
        arbiter: Arbiter = CREATE_IF_ABSENT,
    ) -> None:
        self.name = name
        self._context = table_context(name, store, clock, engine, schemas, arbiter=arbiter)
        self._lookup_caches: dict[str, LookupCache] = {}

    def __repr__(self) -> str:
        return f"Table({shown(self.name)} at {shown(self.uri)[1:-1]})"

    def _repr_html_(self) -> str:
        return table_records.html(self._context)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address without the Spark session: in another process, tasks run in that process."""
        return _in_this_process, (self.name, self._context.store, self._context.clock, self._context.arbiter)

    @property
    def uri(self) -> str:
        """The address of the table folder."""
        return self._context.store.uri("")

    @property
    def schema(self) -> TableSchema:
        """The newest schema: columns, keys, options."""
        return table_records.schema(self._context)

    def at_one_moment(self, read: Callable[["Table"], R]) -> R:
        """Call `read` with a second handle of the table, and return what it returns. That handle reads only, and asks
        for each listing and each small object once: all its verbs see the first answer.

        In an object store these are asked for together, before `read` is called. On a disk another writer may commit
        between two of them, so that one is newer than the other. If the second handle finds an object missing or
        damaged, `read` is called once more, with this handle. Do not call `verify` in it, which looks twice. Raises as
        `read` does; StorageUnavailable if the store does not answer, after the time for one; InvalidRequest if it
        writes.
        """
        if not callable(read):
            raise InvalidRequest(f"at_one_moment: found {shown(read)}, expected a function that takes a table.")
        try:
            return read(_of_context(self._context.at_one_moment()))
        except (CorruptTable, NotFound):
            return read(self)

    def snapshots(self) -> records.Records[Snapshot]:
        """Return the existing snapshots, oldest first; times are milliseconds since 1970. Raises CorruptTable."""
        return table_records.snapshots(self._context)

    def snapshot(self, snapshot_id: int | None = None) -> Snapshot | None:
        """Return one snapshot, by default the latest. Return None only when the table has no snapshot.

        Raises NotFound, SnapshotExpired naming the earliest existing id, InvalidRequest, CorruptTable.
        """
        return table_records.snapshot(self._context, snapshot_id)

    def changelogs(self) -> records.Records[Snapshot]:
        """Return the expired snapshots whose changes are still readable, oldest first. Raises CorruptTable."""
        return table_records.changelogs(self._context)

    def tags(self) -> records.Records[records.TagRecord]:
        """Return the tags, sorted by name. Raises CorruptTable."""
        return table_records.tags(self._context)

    def schemas(self) -> records.Records[TableSchema]:
        """Return all versions of the schema, oldest first. Raises CorruptTable."""
        return table_records.schemas(self._context)

    def files(
        self, *, at: ReadPoint = LATEST, stats: bool = False, lineage: bool = False
    ) -> records.Records[records.FileRecord]:
        """Return the live data files, unordered; with `stats` also the statistics of their columns, with `lineage` also
        the snapshots and runs that their rows come from.

        Opens no data file. Empty for a table without snapshots. Raises NotFound, SnapshotExpired, CorruptTable.
        """
        return table_records.files(self._context, at=at, stats=stats, lineage=lineage)

    def health(self) -> HealthFacts:
        """Return the figures that the health page of the table shows. Opens no data file. Raises CorruptTable."""
        return health_facts(self._context)

    def trace_file(self, file: str) -> records.Records[records.FileOrigin]:
        """Return the snapshot and the run that made a data file, then those of the files it was compacted from.

        `file` is its name, or a path that ends with it; it may be gone. The nearer files come first, each once. The
        inputs of a compaction are all files that it replaced in the bucket. Opens no data file. Raises NotFound.
        """
        return table_records.trace_file(self._context, file)

    def trace_snapshot(self, snapshot_id: int) -> records.Records[records.FileOrigin]:
        """Return the data files that a snapshot made, then the files that they were compacted from, as `trace_file`.

        An expired snapshot is traced as long as a tag holds it. Raises NotFound, SnapshotExpired, InvalidRequest.
        """
        return table_records.trace_snapshot(self._context, snapshot_id)

    def trace_run(self, run_id: str) -> records.Records[Snapshot]:
        """Return the snapshots that a run made, oldest first, also of a run that failed; none if it made none.

        `run_id` is the property `lc.RUN_ID` of the commits, or its first eight or more characters. Expired snapshots
        are found as long as a tag or a changelog holds them. Raises InvalidRequest.
        """
        return table_records.trace_run(self._context, run_id)

    def partitions(self, *, at: ReadPoint = LATEST) -> records.Records[records.PartitionRecord]:
        """Return the partitions that hold files, sorted by their values. Opens no data file. Raises as `files` does."""
        return table_records.partitions(self._context, at=at)

    def buckets(self, *, at: ReadPoint = LATEST) -> records.Records[records.BucketRecord]:
        """Return the buckets that hold files, each with the figures that compaction uses. Raises as `files` does."""
        return table_records.buckets(self._context, at=at)

    def committers(self) -> records.Records[records.CommitterRecord]:
        """Return the last commit of each user, the latest committer last.

        Users whose snapshots are expired are included. Raises CorruptTable.
        """
        return table_records.committers(self._context)

    def content_snapshot_id(self) -> int | None:
        """Return the newest snapshot that changed rows, expired or not.

        A compaction does not change rows, unless it moves rows into their buckets that no read had before. Raises
        CorruptTable.
        """
        return table_records.content_snapshot_id(self._context)

    def manifests(self, *, at: ReadPoint = LATEST) -> records.Records[records.ManifestRecord]:
        """Return the manifests that list the live files: first those of the base, then those of the snapshot's own
        delta.

        Raises NotFound, SnapshotExpired, CorruptTable.
        """
        return table_records.manifests(self._context, at=at)

    def system(self, name: str, *, options: Mapping[str, str] | None = None) -> SystemTable:
        """Return the system table that Java calls `<table>$<name>`, with its columns and types.

        Names: snapshots, schemas, options, files, manifests, partitions, buckets, tags, branches, consumers,
        aggregation_fields, statistics, audit_log, binlog, ro. `options` select the state or the changes, as in `scan`.
        Raises NotFound naming near matches.
        """
        return table_records.system(self._context, name, options=options)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Condition = None,
        at: ReadPoint | None = None,
        *,
        limit: int | None = None,
        read_optimized: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Scan:
        """Return a scan of the rows that satisfy a condition, at a point in time.

        Without `at`, the options of the table and `options` select the state (Paimon's `scan.…` and `incremental-…`);
        without such options it is the latest. `limit` is the highest number of rows; which rows come first is not
        defined. With `read_optimized`, a scan of a key table reads the top level only, without a merge, and leaves out
        the rows since the last full compaction. An argument that fits no table is refused at once. An argument that
        does not fit this table is refused when the scan is first used: InvalidRequest, NotFound, SnapshotExpired,
        UnsupportedFeature, CorruptTable.
        """
        return table_reads.scan(
            self._context, columns, where, at, limit=limit, read_optimized=read_optimized, options=options
        )

    def lookup(
        self,
        keys: object,
        columns: Sequence[str] | None = None,
        at: ReadPoint = LATEST,
        *,
        aligned: bool = False,
        cache: str | PurePath | None = None,
    ) -> pa.Table:
        """Return the rows with these primary keys, as a read of the state `at` returns them, in the order of the keys.

        `keys`: rows with the columns of the primary key, in any form that `write` takes; a list of tuples; or for a key
        of one column an Array, a column of pandas or polars, or a list of values. A repeated key has a row for each
        repetition. An absent key has no row. With `aligned`, each key has a row, and the rows of absent keys are all
        null; request a key column to tell them apart. When a lookup needs more than a tenth of a data file, it copies
        the file to a lookup file in the directory `cache`, which processes may share. None means a directory of this
        process, removed when the process ends. For repeated lookups see `lookups`. Raises InvalidRequest for a table
        without a primary key and for keys that do not fit, and the errors of `scan`.
        """
        return table_reads.lookup(self._context, self._lookup_caches, keys, columns, at, aligned=aligned, cache=cache)

    def lookups(
        self, columns: Sequence[str] | None = None, at: ReadPoint = LATEST, *, cache: str | PurePath | None = None
    ) -> Lookups:
        """Plan a snapshot once, for many lookups of its rows: `with table.lookups() as rows: rows.get([1, 2])`.

        Takes the arguments of `lookup` and raises its errors. `refresh` moves the handle to a newer snapshot.
        """
        return table_reads.lookups(self._context, self._lookup_caches, columns, at, cache=cache)

    def changes(self, after: int, until: int | None = None) -> ChangesScan:
        """Return the changes of the snapshots (after, until]. `until` None means the latest; `after` 0 starts at the
        first.

        A table with a changelog producer answers from its changelog files, another table from the rows of each APPEND
        as they were written. Errors come when the scan is first used: SnapshotExpired, NotFound, InvalidRequest.
        """
        return table_reads.changes(self._context, after, until)

    def diff(self, after: int | str, until: int | str) -> ChangesScan:
        """Return the difference between the states of the snapshots `after` and `until`, or of two tags, given by name.

        For a key table: each key that is new or has other values, with its row, and each removed key, as -D. For an
        append table: the rows of the added files, because rows without a key cannot be compared. Files that both states
        have are not read. So for a table with partial updates or aggregates, the rows are those of the new files, not
        the merged rows. Raises the errors of `changes`, and InvalidRequest when the two states have different numbers
        of buckets.
        """
        return table_reads.diff(self._context, after, until)

    def write(
        self,
        data: object,
        *,
        rowkind_column: str | None = None,
        properties: Mapping[str, str] | None = None,
        missing: Missing = "null",
        progress: Listener | None = None,
    ) -> reports.CommitReport:
        """Append rows, or merge them by key, and commit.

        `data`: an object with an Arrow stream (a scan, pyarrow, polars, DuckDB), a pandas DataFrame, a list of dicts,
        a Spark DataFrame, or `RowFiles`. Columns are matched by name. A missing column is null: a key table then loses
        the value that the row had, except with the merge engine partial-update. With `missing="error"`, a missing
        column is refused. `rowkind_column` holds +I, -U, +U or -D for each row. Raises InvalidRequest naming row (from
        0) and column before anything is committed, UnsupportedFeature, CommitConflict, CommitTimeout,
        CommitOutcomeUnknown, StorageUnavailable, StorageFull.
        """
        rows = GivenRows(data, rowkind_column, missing)
        return table_writes.write(self._context, rows, CallOptions(properties, progress))

    def overwrite(
        self,
        data: object,
        *,
        where: Condition = None,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool | None = None,
        isolation: Isolation = "snapshot",
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        missing: Missing = "null",
        progress: Listener | None = None,
    ) -> reports.CommitReport:
        """Replace rows by `data` and commit.

        With `where`, the rows for which this condition is true are replaced by rows for which it is true as well; the
        report is a RowChangeReport, and `isolation`, `dry_run` and the errors are those of `delete`. With `partition`,
        the rows of that partition are replaced; some of its columns are enough. With `dynamic=True`, the rows of each
        partition in `data` are replaced. With `dynamic=False`, all rows are replaced. With none of them, the option of
        a partitioned table decides, which is dynamic by default. Raises the errors of `write`, and CommitConflict when
        another commit added rows to the replaced partitions.
        """
        rows, call = GivenRows(data, missing=missing), CallOptions(properties, progress, dry_run)
        if where is None:
            return table_writes.overwrite(
                self._context, rows, call, partition=partition, dynamic=dynamic, isolation=isolation
            )
        check_only_where(partition, dynamic)
        return table_row_changes.overwrite_where(self._context, rows, where, call, isolation=isolation)

    def delete(
        self,
        where: Condition,
        *,
        isolation: Isolation = "snapshot",
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.RowChangeReport:
        """Delete the rows for which a condition is true, and commit.

        A dry run counts the rows. If another commit changes what the verb has read, the verb begins again, and raises
        CommitConflict when that happens four times. With `isolation="serializable"` it also begins again if a write
        meanwhile added rows that may satisfy the condition. Raises the errors of `write`.
        """
        call = CallOptions(properties, progress, dry_run)
        return table_row_changes.delete(self._context, where, call, isolation=isolation)

    def update(
        self,
        assignments: Mapping[str, Any],
        where: Condition,
        *,
        isolation: Isolation = "snapshot",
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.RowChangeReport:
        """Give columns new values in the rows for which a condition is true, and commit.

        `assignments`: the new value by column. A text is SQL, computed from the old row: `"amount * 2"`, `"'void'"`,
        `"DEFAULT"`; any other value, such as a number, a date or None, stands for itself. A column of the primary key
        is refused, as is a value that the merge engine would not take. Other arguments and errors are those of
        `delete`.
        """
        call = CallOptions(properties, progress, dry_run)
        return table_row_changes.update(self._context, assignments, where, call, isolation=isolation)

    def merge(
        self,
        source: object,
        on: str,
        *clauses: Clause,
        isolation: Isolation = "snapshot",
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.RowChangeReport:
        """Update, delete and insert rows by the rows of a source, and commit.

        `source`: rows in any form that `write` takes, with columns of their own. `on`: SQL text that says which rows of
        the table (`t`) and the source (`s`) belong together, as in `"t.id = s.id"`. `clauses`: what becomes of matched
        rows, and of those of one side alone; for each row the first clause of its kind counts whose `where` is true.
        Needs the package duckdb, or a catalog with a Spark session.

        Raises InvalidRequest if two rows of the source match one row of the table, if a key would be inserted twice or
        is there already, and for values that do not fit; UnsupportedFeature for what the merge engine does not take.
        Other arguments and errors are those of `delete`.
        """
        call = CallOptions(properties, progress, dry_run)
        request = MergeRequest(on=on, clauses=clauses)
        read = partial(SourceRows, source)
        return table_row_changes.merge(self._context, read, request, call, isolation=isolation)

    def truncate(
        self, *, dry_run: bool = False, properties: Mapping[str, str] | None = None, progress: Listener | None = None
    ) -> reports.RowChangeReport:
        """Delete all rows that a snapshot has, without reading them, and commit.

        Rows that others add meanwhile stay, except in `first-row` tables, where they go too. Older
        snapshots and tags keep the rows. Raises the errors of `delete`.
        """
        return table_row_changes.truncate(self._context, CallOptions(properties, progress, dry_run))

    def drop_partitions(
        self,
        partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.RowChangeReport:
        """Delete the rows of one partition or of several, without reading them, in one commit.

        A partition is a dict from its columns to values; some of its columns are enough. Raises the errors of `delete`.
        """
        return table_row_changes.drop_partitions(self._context, partitions, CallOptions(properties, progress, dry_run))

    def expire_partitions(
        self,
        older_than: timedelta | None = None,
        *,
        pattern: str | None = None,
        formatter: str | None = None,
        at_most: int | None = None,
        strategy: str | None = None,
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.PartitionExpiryReport:
        """Delete the rows of the partitions whose time is before now minus `older_than`, in one commit.

        `strategy`: with `values-time` the values of a partition are its time; with `update-time` its newest file is.
        `pattern` and `formatter` say which part of the values is the time and how it is written, `at_most` how many
        partitions go. An argument that is not given is that of the table's options (`partition.expiration-time`, …).
        A partition whose values are not a time stays. Raises the errors of `delete`.
        """
        call = CallOptions(properties, progress, dry_run)
        return table_partitions.expire_partitions(
            self._context,
            call,
            older_than=older_than,
            pattern=pattern,
            formatter=formatter,
            at_most=at_most,
            strategy=strategy,
        )

    def mark_partitions_done(
        self, partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> reports.PartitionsDoneReport:
        """Write the file `_SUCCESS`, for which other programs wait, into the folders of partitions.

        A partition is a dict from all of its columns to values. Raises InvalidRequest, UnsupportedFeature.
        """
        return table_partitions.mark_partitions_done(self._context, partitions)

    def stage(
        self,
        data: object,
        *,
        commit_user: str,
        commit_identifier: int,
        rowkind_column: str | None = None,
        mode: WriteMode = Append(),  # noqa: B008
        properties: Mapping[str, str] | None = None,
        behind: Sequence[StagedCommit] = (),
        missing: Missing = "null",
        progress: Listener | None = None,
    ) -> StagedCommit:
        """Write data files without a snapshot. `commit` publishes them, once for each user and identifier.

        `commit_identifier` is 0 or more and rises with each commit of a user. `behind`: staged commits that the caller
        will commit first; the new rows count as later than theirs. When this user and identifier are committed already,
        nothing is written and no data is read; the commit answers as it did before. Raises StaleCommit, and the errors
        of `write` except those of its commit.
        """
        rows, call = GivenRows(data, rowkind_column, missing), CallOptions(properties, progress)
        return table_writes.stage(self._context, rows, commit_user, commit_identifier, call, mode=mode, behind=behind)

    def commit(self, staged: StagedCommit, *, progress: Listener | None = None) -> reports.CommitReport:
        """Publish a staged commit as a snapshot. A replay of the same user and identifier changes nothing.

        A table that is not `write-only` is then compacted when its options ask for it; the compaction makes its own
        snapshot. The report names a failure of that compaction, because the rows are committed; the next compaction
        covers the same files. Raises CommitConflict (stage the data again), CommitTimeout and StorageUnavailable
        (nothing is applied: commit the same again), CommitOutcomeUnknown (commit the same again, which finds out),
        StaleCommit, InvalidRequest, UnsupportedFeature, CorruptTable, TaskFailed; NotFound if the table was dropped.
        """
        return table_writes.commit(self._context, staged, CallOptions(progress=progress))

    def commit_together(
        self,
        staged: Sequence[StagedCommit],
        *,
        commit_user: str,
        commit_identifier: int,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.CommitReport:
        """Publish several staged commits as one snapshot, under a user and identifier of its own.

        Their rows are merged as if they had been committed one after the other, in this order. Users, identifiers and
        properties of the staged commits do not count. Overwrites are refused, and a staged commit whose files are in
        the table already. In all else it is like `commit`.
        """
        call = CallOptions(properties, progress)
        return table_writes.commit_together(self._context, staged, commit_user, commit_identifier, call)

    def keep_pending(self, staged: StagedCommit) -> None:
        """Keep a staged commit inside the table until it is committed, so that a killed pipeline can continue. Raises
        InvalidRequest for another object, NotFound if its branch was deleted meanwhile.
        """
        table_writes.keep_pending(self._context, staged)

    def pending(self, commit_user: str, commit_identifier: int) -> StagedCommit | None:
        """Return the kept commit of this user and identifier, None when there is none. Raises InvalidRequest,
        CorruptTable.
        """
        return table_writes.pending(self._context, commit_user, commit_identifier)

    def all_pending(self, commit_user: str, *, only_readable: bool = False) -> list[StagedCommit]:
        """Return all kept commits of this user, by their identifiers.

        Raises CorruptTable for one that is damaged; `only_readable` leaves it out.
        """
        return table_writes.all_pending(self._context, commit_user, only_readable=only_readable)

    def pending_commits(self) -> records.Records[records.PendingRecord]:
        """Return the kept commits of all users, by user and identifier, each with the reason why it cannot be
        committed, if there is one: it is damaged, files are missing, or its partitions have another bucket count now.
        """
        return table_records.pending_commits(self._context)

    def why_not_committed(self, staged: Sequence[StagedCommit]) -> list[str | None]:
        """Return for each staged commit why it cannot be committed any more, None if nothing is known against it.

        None does not promise a commit: a conflict with another commit shows only when it is tried. Raises
        InvalidRequest for another object.
        """
        return table_writes.why_not_committed(self._context, staged)

    def forget_pending(self, *staged: StagedCommit | records.PendingRecord) -> None:
        """Remove kept commits after their commits, or such that cannot be committed, whose rows are lost then. Raises
        InvalidRequest for another object, StorageUnavailable if one stays.
        """
        table_writes.forget_pending(self._context, staged)

    def alter(self, *changes: SchemaChange) -> reports.SchemaReport:
        """Apply schema changes, all or none: AddColumn(…), RenameColumn(…), SetOption(…) and so on.

        Changes no data file. Raises InvalidRequest, UnsupportedFeature, and CommitConflict when others alter the table
        too.
        """
        return table_writes.alter(self._context, *changes)

    def rescale(
        self,
        buckets: int | None = None,
        *,
        partition: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.RescaleReport:
        """Set the option `bucket` to `buckets`, and rewrite the partitions whose files have another number of buckets.

        Without `buckets` the option stays; `partition` then limits the call, by some or all of its columns. If buckets
        are dynamic, `buckets` is left out, and all partitions in scope are rewritten. A commit rewrites one or more
        partitions; it begins again if others change their rows meanwhile. If the call fails, call it again to finish
        it: partitions that have another number of buckets take no rows until then. Raises InvalidRequest,
        UnsupportedFeature for postponed buckets, CommitConflict, and the errors of `alter`.
        """
        call = CallOptions(properties, progress, dry_run)
        return table_maintenance.rescale(self._context, call, buckets=buckets, partition=partition)

    def rewrite_file_index(
        self,
        *,
        partition: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.FileIndexReport:
        """Give the existing data files the indexes that the options `file-index.…` ask for now, and no others.

        Reads the indexed columns of every file, and rewrites no data file. `partition` limits the call, by some or all
        of its columns. A file that another commit changes meanwhile is looked at again. Raises InvalidRequest,
        UnsupportedFeature for an index that is not written here, CorruptTable, and CommitConflict if others changed
        all of the files in each attempt.
        """
        call = CallOptions(properties, progress, dry_run)
        return table_maintenance.rewrite_file_index(self._context, call, partition=partition)

    def compact(
        self,
        *,
        full: bool = False,
        partition: Mapping[str, Any] | None = None,
        partition_idle: timedelta | None = None,
        buckets: Sequence[int] | None = None,
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.CompactionReport:
        """Rewrite files into fewer: with `full` every bucket into its top level, else the files that the strategy
        picks.

        The strategy picks once for each bucket in a call, and may pick nothing. `partition` restricts the call to one
        partition, by some or all of its columns, and `buckets` to the buckets with these numbers: no waiting rows are
        moved then. `partition_idle` restricts the call to partitions without a new file for that time. Buckets that
        another commit changes meanwhile stay as they are, and the report counts them. Raises CommitConflict when that
        holds for every bucket, InvalidRequest, UnsupportedFeature, TaskFailed, StorageUnavailable, CorruptTable.
        """
        call = CallOptions(properties, progress, dry_run)
        return table_maintenance.compact(
            self._context, call, full=full, partition=partition, partition_idle=partition_idle, buckets=buckets
        )

    def compact_manifests(
        self, *, dry_run: bool = False, properties: Mapping[str, str] | None = None
    ) -> reports.ManifestReport:
        """Rewrite the manifests into few, without entries that cancel each other. Changes no data file.

        Raises CommitTimeout, CommitOutcomeUnknown, UnsupportedFeature, StorageUnavailable, CorruptTable.
        """
        return table_maintenance.compact_manifests(self._context, CallOptions(properties, dry_run=dry_run))

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: timedelta | datetime | None = None,
        dry_run: bool = False,
        progress: Listener | None = None,
    ) -> reports.ExpiryReport:
        """Expire old snapshots and delete the files that only they need.

        An argument that is not given has the value of its table option. `retain_max` and `retain_min` count snapshots,
        1 <= min <= max; a maximum alone also lowers the table's minimum. `older_than` is an age, or the time before
        which a snapshot is old (UTC unless it has a zone). A dry run reports the files that the run would delete at
        once, and those that wait for their readers. Raises InvalidRequest, StorageUnavailable, and CorruptTable before
        anything is deleted.
        """
        call = CallOptions(progress=progress, dry_run=dry_run)
        return table_maintenance.expire_snapshots(
            self._context, call, retain_max=retain_max, retain_min=retain_min, older_than=older_than
        )

    def remove_orphans(
        self,
        *,
        older_than: timedelta | datetime = timedelta(days=1),
        dry_run: bool = False,
        progress: Listener | None = None,
    ) -> reports.OrphanReport:
        """Delete the files that no snapshot, tag, changelog, branch or kept commit names, as killed writers leave them.

        `older_than` is an age of at least an hour by the storage's clock, or a time: younger files stay, because a
        writer may be about to commit them. It must exceed the time from `stage` to `commit` of every writer of the
        table. Raises InvalidRequest, StorageUnavailable, and CorruptTable before anything is deleted.
        """
        call = CallOptions(progress=progress, dry_run=dry_run)
        return table_maintenance.remove_orphans(self._context, call, older_than=older_than)

    def create_tag(
        self, name: str, *, at: int | ReadPoint | None = None, retention: timedelta | None = None, dry_run: bool = False
    ) -> reports.TagReport:
        """Name a snapshot (None: the latest) and keep its files, for the time of `retention` or until it is deleted.

        `at` is the id of a snapshot, or a point such as AsOf(…) or AtTag(…). Raises InvalidRequest for an invalid or
        existing name, NotFound, SnapshotExpired.
        """
        return table_maintenance.create_tag(self._context, name, at=at, retention=retention, dry_run=dry_run)

    def delete_tag(self, name: str, *, dry_run: bool = False) -> reports.TagReport:
        """Delete a tag and the files that only the tag keeps. Raises NotFound."""
        return table_maintenance.delete_tag(self._context, name, dry_run=dry_run)

    def replace_tag(
        self, name: str, *, at: int | ReadPoint | None = None, retention: timedelta | None = None, dry_run: bool = False
    ) -> reports.TagReport:
        """Let a tag name another snapshot, and delete the files that only the former one needed. The arguments are
        those of `create_tag`. Raises NotFound, CommitConflict if another call changes the tag.
        """
        return table_maintenance.replace_tag(self._context, name, at=at, retention=retention, dry_run=dry_run)

    def rename_tag(self, name: str, new_name: str, *, dry_run: bool = False) -> reports.TagReport:
        """Give a tag another name. Raises NotFound, InvalidRequest for an invalid or existing name, CommitConflict."""
        return table_maintenance.rename_tag(self._context, name, new_name, dry_run=dry_run)

    def expire_tags(
        self, *, older_than: timedelta | datetime | None = None, dry_run: bool = False
    ) -> reports.ExpiryReport:
        """Delete the tags whose retention is over, which an expiry of snapshots does too, and those that were made
        before `older_than`, an age or a time; with them go the files that only they keep. Raises InvalidRequest,
        CorruptTable.
        """
        return table_maintenance.expire_tags(self._context, older_than=older_than, dry_run=dry_run)

    def branches(self) -> records.Records[records.BranchRecord]:
        """Return the branches of the table, sorted by name, also those that a verb has closed. Raises CorruptTable."""
        return table_branches.branches(self._context)

    def branch(self, name: str) -> "Table":
        """Return a branch: a table with snapshots, tags, schemas and consumers of its own, which `catalog.table` opens
        as `database.table$branch_name`. Raises NotFound naming the branches.
        """
        found = table_branches.branch(self._context, name)
        return Table(
            found.name,
            found.store,
            schemas=found.schemas,
            engine=found.engine,
            clock=found.clock,
            arbiter=found.arbiter,
        )

    def create_branch(
        self, name: str, *, at: int | ReadPoint | None = None, dry_run: bool = False
    ) -> reports.BranchReport:
        """Create a branch that begins with a state, or without snapshots (None), and with the schemas up to there.

        `at` is the id of a snapshot, or a point such as AsOf(…) or AtTag(…), whose tag the branch gets too. Raises
        InvalidRequest for an invalid or existing name, NotFound, SnapshotExpired, CommitConflict.
        """
        return table_branches.create_branch(self._context, name, at=at, dry_run=dry_run)

    def rename_branch(self, name: str, new_name: str, *, dry_run: bool = False) -> reports.BranchReport:
        """Give a branch another name. Handles of the former name raise NotFound. Raises NotFound, InvalidRequest,
        CommitConflict.
        """
        return table_branches.rename_branch(self._context, name, new_name, dry_run=dry_run)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> reports.BranchReport:
        """Delete a branch and the files that only the branch keeps. Raises NotFound, CommitConflict."""
        return table_branches.delete_branch(self._context, name, dry_run=dry_run)

    def fast_forward(
        self, name: str, *, dry_run: bool = False, properties: Mapping[str, str] | None = None
    ) -> reports.BranchReport:
        """Make a snapshot with the newest rows of a branch, and take over its schemas and options. The branch stays.

        Refused with CommitConflict if the table has changed since the branch was made, or last forwarded, from it.
        Readers of the changes see none. Safe to repeat. Raises InvalidRequest if both were altered, NotFound, and the
        errors of a commit.
        """
        return table_branches.fast_forward(self._context, name, CallOptions(properties, dry_run=dry_run))

    def rollback_to(
        self, at: int | ReadPoint, *, dry_run: bool = False, properties: Mapping[str, str] | None = None
    ) -> reports.RollbackReport:
        """Make a snapshot with the rows of an earlier state: the id of a snapshot, or a point such as AsOf(…) or
        AtTag(…). Schema and options stay.

        The snapshots in between stay too, so that a rollback can be undone. Readers of the changes see none. Raises
        NotFound, SnapshotExpired, and the errors of a commit.
        """
        return table_maintenance.rollback_to(self._context, at, CallOptions(properties, dry_run=dry_run))

    def set_consumer(self, name: str, next_snapshot_id: int) -> None:
        """Record which snapshot a reader of the changes reads next: an expiry keeps it and those after it.

        Replaces the earlier position of the same name. Record it before the changes are read, and again after each step
        of the reader: an expiry removes a consumer that was not written for `consumer.expiration-time`.
        `system("consumers")` lists them. Raises InvalidRequest.
        """
        table_maintenance.set_consumer(self._context, name, next_snapshot_id)

    def delete_consumer(self, name: str) -> None:
        """Remove a consumer whose reader has ended. Raises NotFound."""
        table_maintenance.delete_consumer(self._context, name)

    def verify(self, *, data: bool = False, progress: Listener | None = None) -> reports.VerifyReport:
        """Check the invariants of the table, in metadata and files. A finding is part of the report, not an error.

        Reads the metadata of every snapshot, tag and changelog, and the size of each file that they name. With `data`
        it also reads every data file and index among them, which takes as long as a read of the table's whole history.
        Avro files of other engines with the codecs null and deflate have no checksums, so a changed value there may
        stay undetected. Writes nothing. Raises NotFound, StorageUnavailable.
        """
        return table_maintenance.verify(self._context, CallOptions(progress=progress), data=data)


def _of_context(context: TableContext) -> Table:
    table = Table.__new__(Table)
    table.name, table._context, table._lookup_caches = context.name, context, {}
    return table


def _in_this_process(name: str, store: ObjectStore, clock: Clock, arbiter: Arbiter) -> Table:
    return Table(name, store, engine=local_engine(store, clock), clock=clock, arbiter=arbiter)
