"""A table and its verbs. A verb is its docstring and one call: what it does is in `table_…`.

A handle holds nothing of the table's state but schemas, which never change: two handles see the same.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from lakehouse_core.api import records, reports, table_maintenance, table_reads, table_records, table_writes
from lakehouse_core.api.arguments import checks_flags
from lakehouse_core.api.local_engine import local_engine
from lakehouse_core.api.lookups import Lookups
from lakehouse_core.api.scan import ChangesScan, Scan
from lakehouse_core.api.system.tables import SystemTable
from lakehouse_core.clock import Clock
from lakehouse_core.errors import shown
from lakehouse_core.execution.context import table_context
from lakehouse_core.execution.engine import Engine
from lakehouse_core.execution.lookup.local_files import LookupCache
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.planning.alter.schema_change import SchemaChange
from lakehouse_core.planning.read.read_point import LATEST, ReadPoint
from lakehouse_core.progress import Listener
from lakehouse_core.storage import ObjectStore
from lakehouse_core.table.commit_message import Append, Missing, WriteMode
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit


@checks_flags
class Table:
    """One table of a catalog; `name` is `database.table`."""

    def __init__(
        self, name: str, store: ObjectStore, *, schemas: SchemaLog, engine: Callable[[], Engine], clock: Clock
    ) -> None:
        self.name = name
        self._context = table_context(name, store, clock, engine, schemas)
        self._lookup_caches: dict[str, LookupCache] = {}

    def __repr__(self) -> str:
        return f"Table({shown(self.name)} at {shown(self.uri)[1:-1]})"

    def _repr_html_(self) -> str:
        return table_records.html(self._context)

    def __reduce__(self) -> tuple[Any, ...]:
        """By its address. A Spark session stays where it is: in another process tasks run in that process."""
        return _in_this_process, (self.name, self._context.store, self._context.clock)

    @property
    def uri(self) -> str:
        """The address of the table's folder."""
        return self._context.store.uri("")

    @property
    def schema(self) -> TableSchema:
        """The newest schema: columns, keys, options."""
        return table_records.schema(self._context)

    def snapshots(self) -> records.Records[Snapshot]:
        """Return the snapshots that are there, oldest first; times are milliseconds since 1970. Raises CorruptTable."""
        return table_records.snapshots(self._context)

    def snapshot(self, snapshot_id: int | None = None) -> Snapshot | None:
        """Return one snapshot, the latest unless told otherwise; None only when the table has none yet.

        Raises NotFound, SnapshotExpired naming the earliest id that is there, InvalidRequest, CorruptTable.
        """
        return table_records.snapshot(self._context, snapshot_id)

    def changelogs(self) -> records.Records[Snapshot]:
        """Return the expired snapshots whose changes can still be read, oldest first."""
        return table_records.changelogs(self._context)

    def tags(self) -> records.Records[records.TagRecord]:
        """Return the tags by name."""
        return table_records.tags(self._context)

    def schemas(self) -> records.Records[TableSchema]:
        """Return all versions of the schema, oldest first."""
        return table_records.schemas(self._context)

    def files(self, *, at: ReadPoint = LATEST, stats: bool = False) -> records.Records[records.FileRecord]:
        """Return the live data files in no order, with `stats` also what is known of their columns.

        No file is opened. Empty for a table without snapshots. Raises NotFound, SnapshotExpired, CorruptTable.
        """
        return table_records.files(self._context, at=at, stats=stats)

    def partitions(self, *, at: ReadPoint = LATEST) -> records.Records[records.PartitionRecord]:
        """Return the partitions that hold files, by their values. No file is opened. Raises as `files` does."""
        return table_records.partitions(self._context, at=at)

    def buckets(self, *, at: ReadPoint = LATEST) -> records.Records[records.BucketRecord]:
        """Return the buckets that hold files, each with what compaction has to know of it."""
        return table_records.buckets(self._context, at=at)

    def committers(self) -> records.Records[records.CommitterRecord]:
        """Return who committed what last, also where the snapshot of it has expired; the latest committer last."""
        return table_records.committers(self._context)

    def content_snapshot_id(self) -> int | None:
        """Return the newest snapshot that changed rows, expired or not; compactions change none."""
        return table_records.content_snapshot_id(self._context)

    def manifests(self, *, at: ReadPoint = LATEST) -> records.Records[records.ManifestRecord]:
        """Return the manifests that list the live files, those of the base before those of the snapshot's own delta.

        Raises NotFound, SnapshotExpired, CorruptTable.
        """
        return table_records.manifests(self._context, at=at)

    def system(self, name: str, *, options: Mapping[str, str] | None = None) -> SystemTable:
        """Return the system table that Java calls `<table>$<name>`, with its columns and types.

        Names: snapshots, schemas, options, files, manifests, partitions, buckets, tags, branches, consumers,
        aggregation_fields, statistics, audit_log, binlog, ro. `options`: what state or changes, as `scan` takes them.
        Raises NotFound naming near matches.
        """
        return table_records.system(self._context, name, options=options)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        at: ReadPoint | None = None,
        *,
        limit: int | None = None,
        read_optimized: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Scan:
        """Return a scan of some columns (None: all) of the rows that a condition keeps, at a point in time.

        `where` is SQL text or built with `col`. Without `at` the options say what is read, those of the table and those
        given here (Paimon's `scan.…` and `incremental-…`); most say nothing, which means the latest. `limit`: at most
        so many rows, whichever come first. `read_optimized`: of a key table the rows of its top level only, without a
        merge; what came since the last full compaction is not among them.
        What fits no table is refused at once, what does not fit this one when the scan is first used: InvalidRequest,
        NotFound, SnapshotExpired, UnsupportedFeature, CorruptTable.
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
        """Return the rows with these primary keys, as a read of the state `at` gives them, in the order of the keys.

        `keys`: rows with the columns of the primary key, in any form that `write` takes, a list of tuples, or for a key
        of one column an Array, a column of pandas or polars, or a list of values. A key that is given twice is answered
        twice. One that is not there has no row in the answer; with `aligned` each key has one, and those that are not
        there are all null (ask for a column of the key to tell them from others). `columns` None: all.
        Data files of which more than a tenth is needed are copied to lookup files in the directory `cache`, which
        processes may share; None is one of this process, removed when it ends. See `lookups` for asking often.
        Raises InvalidRequest for a table without a primary key and for keys that do not fit, and what `scan` raises.
        """
        return table_reads.lookup(self._context, self._lookup_caches, keys, columns, at, aligned=aligned, cache=cache)

    def lookups(
        self, columns: Sequence[str] | None = None, at: ReadPoint = LATEST, *, cache: str | PurePath | None = None
    ) -> Lookups:
        """Plan a snapshot once, to look up rows in it many times: `with table.lookups() as rows: rows.get([1, 2])`.

        Takes and raises what `lookup` does. `refresh` moves it to a newer snapshot.
        """
        return table_reads.lookups(self._context, self._lookup_caches, columns, at, cache=cache)

    def changes(self, after: int, until: int | None = None) -> ChangesScan:
        """Return what the snapshots (after, until] changed; `until` None is the latest. `after` 0 starts at the first.

        Files of a changelog where the table has a producer, otherwise the rows of each APPEND as they were written.
        What cannot be read is told when the range is first used: SnapshotExpired, NotFound, InvalidRequest.
        """
        return table_reads.changes(self._context, after, until)

    def diff(self, after: int | str, until: int | str) -> ChangesScan:
        """Return in what the state of the snapshot `until` differs from that of `after`; or of two tags, by name.

        Of a key table each key that is new or has other values, with its row, and each that is gone, as -D. Of an
        append table, whose rows have no names, the rows of the files that came. Files that both states have are not
        read: a table with partial updates or aggregates is told what those files have got, not their merged rows.
        Raises as `changes` does, and InvalidRequest where the number of buckets is another than before.
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
        """Append rows, or merge them in by key, and commit. `properties` go into the snapshot.

        `data`: what offers an Arrow stream (a scan, pyarrow, polars, DuckDB), a pandas DataFrame, a list of dicts, or a
        Spark DataFrame; columns go by name. One that is missing is null, so that a key table forgets the value that its
        row had (the merge engine partial-update keeps it); with `missing="error"` it is refused. `rowkind_column` holds
        +I, -U, +U or -D for each row. `progress` is called with a Progress from time to time, in this thread; what it
        raises is logged and stops nothing.
        Raises InvalidRequest naming row (from 0) and column before anything is committed, UnsupportedFeature,
        CommitConflict, CommitTimeout, CommitOutcomeUnknown, StorageUnavailable, StorageFull.
        """
        return table_writes.write(
            self._context,
            data,
            rowkind_column=rowkind_column,
            properties=properties,
            missing=missing,
            progress=progress,
        )

    def overwrite(
        self,
        data: object,
        *,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool | None = None,
        properties: Mapping[str, str] | None = None,
        missing: Missing = "null",
        progress: Listener | None = None,
    ) -> reports.CommitReport:
        """Replace rows: of one `partition` (some of its columns are enough); with `dynamic` those of the partitions
        that are in `data`; otherwise the whole table. Left open, a partitioned table's option decides (dynamic).

        Raises as `write` does, and CommitConflict where others added rows to what it replaces.
        """
        return table_writes.overwrite(
            self._context,
            data,
            partition=partition,
            dynamic=dynamic,
            properties=properties,
            missing=missing,
            progress=progress,
        )

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
        """Write files that nobody sees yet; `commit` makes them a snapshot, once for each user and identifier.

        `commit_identifier` is 0 or more and rises with each commit of a user. `behind`: what is staged already and will
        be committed first; the new rows count as later than its rows. What is committed under this user and identifier
        is not written again, nor is its data read; the commit answers as it did. Raises as `write` does until it
        commits, and StaleCommit.
        """
        return table_writes.stage(
            self._context,
            data,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            rowkind_column=rowkind_column,
            mode=mode,
            properties=properties,
            behind=behind,
            missing=missing,
            progress=progress,
        )

    def commit(self, staged: StagedCommit, *, progress: Listener | None = None) -> reports.CommitReport:
        """Make a staged commit a snapshot. Safe to repeat: a user and identifier that were committed change nothing.

        A table that is not `write-only` is then compacted where its options ask for it, which is a snapshot of its own.
        A failure there is told in the report, for the rows are committed; the next compaction does the same again.
        Raises CommitConflict, CommitTimeout, CommitOutcomeUnknown (then commit the same again), StaleCommit.
        """
        return table_writes.commit(self._context, staged, progress=progress)

    def keep_pending(self, staged: StagedCommit) -> None:
        """Keep a staged commit inside the table until it is committed, so that a killed pipeline can go on."""
        table_writes.keep_pending(self._context, staged)

    def pending(self, commit_user: str, commit_identifier: int) -> StagedCommit | None:
        """Return the staged commit that was kept, None when there is none."""
        return table_writes.pending(self._context, commit_user, commit_identifier)

    def forget_pending(self, staged: StagedCommit) -> None:
        """Forget a kept commit once it is committed."""
        table_writes.forget_pending(self._context, staged)

    def alter(self, *changes: SchemaChange) -> reports.SchemaReport:
        """Change the schema, all changes or none: AddColumn(…), RenameColumn(…), SetOption(…) and so on.

        No data file is touched. Raises InvalidRequest, UnsupportedFeature, CommitConflict when others alter too.
        """
        return table_writes.alter(self._context, *changes)

    def compact(
        self,
        *,
        full: bool = False,
        partition: Mapping[str, Any] | None = None,
        partition_idle: timedelta | None = None,
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> reports.CompactionReport:
        """Rewrite files into fewer: with `full` every bucket into its top level, else what the strategy picks in each.

        The strategy picks once a call, and maybe nothing. `partition`: only there, by some of its columns or all.
        `partition_idle`: only in partitions without a new file for so long. Buckets that another commit changed
        meanwhile stay as they are, and the report counts them. Raises CommitConflict when that was every bucket,
        InvalidRequest, UnsupportedFeature, TaskFailed, StorageUnavailable, CorruptTable.
        """
        return table_maintenance.compact(
            self._context,
            full=full,
            partition=partition,
            partition_idle=partition_idle,
            dry_run=dry_run,
            properties=properties,
            progress=progress,
        )

    def compact_manifests(
        self, *, dry_run: bool = False, properties: Mapping[str, str] | None = None
    ) -> reports.ManifestReport:
        """Rewrite the manifests into few without entries that undo each other; no data file is touched.

        Raises CommitTimeout, CommitOutcomeUnknown, UnsupportedFeature, StorageUnavailable, CorruptTable.
        """
        return table_maintenance.compact_manifests(self._context, dry_run=dry_run, properties=properties)

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: timedelta | datetime | None = None,
        dry_run: bool = False,
        progress: Listener | None = None,
    ) -> reports.ExpiryReport:
        """Let old snapshots go, and the files that only they needed; what is not given is the table's option.

        `retain_max` and `retain_min` count snapshots, 1 <= min <= max; a maximum alone brings down the table's minimum.
        `older_than`: an age, or the time (UTC unless it has a zone) before which a snapshot is old. A dry run answers
        as the run would: files that go at once, and those that wait for their readers.
        Raises InvalidRequest, StorageUnavailable, and CorruptTable before anything is deleted.
        """
        return table_maintenance.expire_snapshots(
            self._context,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than=older_than,
            dry_run=dry_run,
            progress=progress,
        )

    def create_tag(
        self, name: str, *, at: int | ReadPoint | None = None, retention: timedelta | None = None, dry_run: bool = False
    ) -> reports.TagReport:
        """Name a snapshot (None: the latest) and keep its files, for the time of `retention` or until it is deleted.

        `at`: the id of a snapshot, or a point such as AsOf(…) or AtTag(…). Raises InvalidRequest for a bad or taken
        name, NotFound, SnapshotExpired.
        """
        return table_maintenance.create_tag(self._context, name, at=at, retention=retention, dry_run=dry_run)

    def delete_tag(self, name: str, *, dry_run: bool = False) -> reports.TagReport:
        """Delete a tag, and the files that only it kept. Raises NotFound."""
        return table_maintenance.delete_tag(self._context, name, dry_run=dry_run)

    def verify(self, *, data: bool = False, progress: Listener | None = None) -> reports.VerifyReport:
        """Check what the table promises, metadata and files. Finding something is an answer, not an error.

        Reads the metadata of every snapshot, tag and changelog, and the size of each file they name; with `data` also
        every data file among them and its indexes, which takes as long as reading all of the table's history. Avro
        files of other engines, of the codecs null and deflate, have no checksums: there a changed value may go unseen.
        Writes nothing. Raises NotFound, StorageUnavailable.
        """
        return table_maintenance.verify(self._context, data=data, progress=progress)


def _in_this_process(name: str, store: ObjectStore, clock: Clock) -> Table:
    return Table(name, store, schemas=SchemaLog(store, MAIN), engine=local_engine(store, clock), clock=clock)
