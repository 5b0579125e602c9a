"""A table and its verbs. Each verb is a few lines: ask the core, answer with a report.

A handle holds nothing of the table's state but schemas, which never change: two handles see the same.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import PurePath
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.api import report_building as answers
from lakehouse_core.api.arguments import (
    age_millis,
    bound_condition,
    cache_directory,
    check_staged_commit,
    check_staged_commits,
    checked_missing,
    checks_flags,
    column_name,
    count_of,
    idle_millis,
    mapping_of,
    options_of,
    overwrite_mode,
    retention_millis,
)
from lakehouse_core.api.error_context import names_table
from lakehouse_core.api.lookups import Lookups
from lakehouse_core.api.record_building import (
    bucket_records,
    committer_records,
    file_records,
    manifest_records,
    partition_records,
    schema_records,
    snapshot_records,
    tag_records,
)
from lakehouse_core.api.records import (
    BucketRecord,
    CommitterRecord,
    FileRecord,
    ManifestRecord,
    PartitionRecord,
    Records,
    TagRecord,
)
from lakehouse_core.api.reports import (
    CommitReport,
    CompactionReport,
    ExpiryReport,
    ManifestReport,
    SchemaReport,
    TagReport,
    VerifyReport,
    timed,
)
from lakehouse_core.api.scan import ChangesScan, Scan
from lakehouse_core.api.system.tables import SystemSource, SystemTable, system_table
from lakehouse_core.clock import Clock
from lakehouse_core.display import page
from lakehouse_core.errors import CorruptTable, InvalidRequest, shown
from lakehouse_core.execution.alter import alter
from lakehouse_core.execution.commit.compact_manifests import compact_manifests
from lakehouse_core.execution.commit.loop import CommitResult, commit, commit_once
from lakehouse_core.execution.commit.replay import ledger_at
from lakehouse_core.execution.compaction.compact import compact
from lakehouse_core.execution.compaction.scope import RequestedBuckets
from lakehouse_core.execution.context import table_context
from lakehouse_core.execution.engine import Engine
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.execution.expiry.expire import expire
from lakehouse_core.execution.expiry.tags import create_tag, delete_tag
from lakehouse_core.execution.lookup.local_files import LookupCache, own_directory
from lakehouse_core.execution.lookup.lookup import TableLookup, look_up
from lakehouse_core.execution.read.incremental_scan import check_range, check_states, plan_changes, plan_diff
from lakehouse_core.execution.read.scan import ReadRequest, plan_read
from lakehouse_core.execution.read.state import ReadState, read_at, state_at
from lakehouse_core.execution.tasks.runtime import local_runtime
from lakehouse_core.execution.verify.verify import verify
from lakehouse_core.execution.write.compact_after_commit import compact_written
from lakehouse_core.execution.write.stage import stage
from lakehouse_core.format.data_types import type_to_sql
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.metadata.staged_commits import forget_pending, keep_pending, load_pending
from lakehouse_core.planning.alter.schema_change import SchemaChange
from lakehouse_core.planning.commit.checks import check_commit
from lakehouse_core.planning.commit.ledger import content_snapshot_id
from lakehouse_core.planning.partitions import partition_condition
from lakehouse_core.planning.read.read_point import AtSnapshot, AtTag, Latest, ReadPoint, checked_point
from lakehouse_core.progress import Listener, Watch, log_outcome
from lakehouse_core.storage import ObjectStore
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, Append, Missing, WriteMode
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit

# A screen of them.
_MOST_COLUMNS: Final = 40


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
        known = self._context.schemas.known
        facts: dict[str, object] = {"at": self.uri}
        if known is not None:
            facts |= {
                "primary key": ", ".join(known.primary_keys) or None,
                "partition keys": ", ".join(known.partition_keys) or None,
                "comment": known.comment,
                **{f"column {field.name}": type_to_sql(field.type) for field in known.fields[:_MOST_COLUMNS]},
            }
        return page("Table", self.name, facts)

    def __reduce__(self) -> tuple[Any, ...]:
        """By its address. A Spark session stays where it is: in another process tasks run in that process."""
        return _in_this_process, (self.name, self._context.store, self._context.clock)

    @property
    def uri(self) -> str:
        """The address of the table's folder."""
        return self._context.store.uri("")

    @property
    @names_table
    def schema(self) -> TableSchema:
        """The newest schema: columns, keys, options."""
        return self._context.schemas.latest()

    # Looking.

    @names_table
    def snapshots(self) -> Records[Snapshot]:
        """Return the snapshots that are there, oldest first; times are milliseconds since 1970. Raises CorruptTable."""
        return snapshot_records(self._context.snapshots.history())

    @names_table
    def snapshot(self, snapshot_id: int | None = None) -> Snapshot | None:
        """Return one snapshot, the latest unless told otherwise; None only when the table has none yet.

        Raises NotFound, SnapshotExpired naming the earliest id that is there, InvalidRequest, CorruptTable.
        """
        return (
            self._context.snapshots.latest()
            if snapshot_id is None
            else self._context.snapshots.snapshot(AtSnapshot(snapshot_id).id)
        )

    @names_table
    def changelogs(self) -> Records[Snapshot]:
        """Return the expired snapshots whose changes can still be read, oldest first."""
        return snapshot_records(
            self._context.changelogs.changelog(snapshot_id) for snapshot_id in self._context.changelogs.ids()
        )

    @names_table
    def tags(self) -> Records[TagRecord]:
        """Return the tags by name."""
        return tag_records(self._context.tags.all())

    @names_table
    def schemas(self) -> Records[TableSchema]:
        """Return all versions of the schema, oldest first."""
        return schema_records(self._context.schemas.all())

    @names_table
    def files(self, *, at: ReadPoint = Latest(), stats: bool = False) -> Records[FileRecord]:  # noqa: B008
        """Return the live data files in no order, with `stats` also what is known of their columns.

        No file is opened. Empty for a table without snapshots. Raises NotFound, SnapshotExpired, CorruptTable.
        """

        def listed(state: ReadState) -> Records[FileRecord]:
            entries = (
                [] if state.snapshot is None else self._context.manifests.live_entries(state.snapshot, with_stats=stats)
            )
            if (earliest := state.created_from_millis) is not None:
                entries = [entry for entry in entries if (entry.file.creation_time_millis or 0) >= earliest]
            return file_records(entries, self.schema, file_schema=self._context.schemas.schema, stats=stats)

        return read_at(self._context, checked_point(at), listed)

    @names_table
    def partitions(self, *, at: ReadPoint = Latest()) -> Records[PartitionRecord]:  # noqa: B008
        """Return the partitions that hold files, by their values. No file is opened. Raises as `files` does."""

        def listed(state: ReadState) -> Records[PartitionRecord]:
            entries = [] if state.snapshot is None else self._context.manifests.live_entries(state.snapshot)
            return partition_records(entries, self.schema)

        return read_at(self._context, checked_point(at), listed)

    @names_table
    def buckets(self, *, at: ReadPoint = Latest()) -> Records[BucketRecord]:  # noqa: B008
        """Return the buckets that hold files, each with what compaction has to know of it."""

        def listed(state: ReadState) -> Records[BucketRecord]:
            return bucket_records(
                [] if state.snapshot is None else self._context.manifests.live_entries(state.snapshot), self.schema
            )

        return read_at(self._context, checked_point(at), listed)

    @names_table
    def committers(self) -> Records[CommitterRecord]:
        """Return who committed what last, also where the snapshot of it has expired; the latest committer last."""
        return committer_records(ledger_at(self._context.snapshots, self._context.snapshots.latest()))

    @names_table
    def content_snapshot_id(self) -> int | None:
        """Return the newest snapshot that changed rows, expired or not; compactions change none."""
        return content_snapshot_id(
            self._context.snapshots.history(), ledger_at(self._context.snapshots, self._context.snapshots.latest())
        )

    @names_table
    def manifests(self, *, at: ReadPoint = Latest()) -> Records[ManifestRecord]:  # noqa: B008
        """Return the manifests that list the live files, those of the base before those of the snapshot's own delta.

        Raises NotFound, SnapshotExpired, CorruptTable.
        """

        def listed(state: ReadState) -> Records[ManifestRecord]:
            snapshot = state.snapshot
            if snapshot is None:
                return manifest_records([], [], self.schema)
            base, delta = self._context.manifests.base(snapshot), self._context.manifests.delta(snapshot)
            return manifest_records(base, delta, self.schema)

        return read_at(self._context, checked_point(at), listed)

    @names_table
    def system(self, name: str, *, options: Mapping[str, str] | None = None) -> SystemTable:
        """Return the system table that Java calls `<table>$<name>`, with its columns and types.

        Names: snapshots, schemas, options, files, manifests, partitions, buckets, tags, branches, consumers,
        aggregation_fields, statistics, audit_log, binlog, ro. `options`: what state or changes, as `scan` takes them.
        Raises NotFound naming near matches.
        """
        source = SystemSource(table=self._context, options=options_of(options))
        return system_table(name, source)

    # Reading.

    @names_table
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
        request = ReadRequest(
            table=self.name,
            point=None if at is None else checked_point(at),
            options=options_of(options),
            columns=columns,
            condition=bound_condition(where),
            limit=limit,
            read_optimized=read_optimized,
        )
        asked = {"columns": columns, "where": where, "at": at, "limit": limit, "options": options}
        asked["read_optimized"] = True if read_optimized else None
        return Scan(partial(plan_read, self._context, request), self._context, asked=asked)

    @names_table
    def lookup(
        self,
        keys: object,
        columns: Sequence[str] | None = None,
        at: ReadPoint = Latest(),  # noqa: B008
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
        request = ReadRequest(table=self.name, point=checked_point(at), columns=columns)
        return look_up(self._context, keys, request, self._lookup_cache(cache), aligned=aligned)

    @names_table
    def lookups(
        self,
        columns: Sequence[str] | None = None,
        at: ReadPoint = Latest(),  # noqa: B008
        *,
        cache: str | PurePath | None = None,
    ) -> Lookups:
        """Plan a snapshot once, to look up rows in it many times: `with table.lookups() as rows: rows.get([1, 2])`.

        Takes and raises what `lookup` does. `refresh` moves it to a newer snapshot.
        """
        request = ReadRequest(table=self.name, point=checked_point(at), columns=columns)
        lookup = TableLookup(self._context, request, self._lookup_cache(cache))
        return Lookups(lookup, table=self.name)

    @names_table
    def changes(self, after: int, until: int | None = None) -> ChangesScan:
        """Return what the snapshots (after, until] changed; `until` None is the latest. `after` 0 starts at the first.

        Files of a changelog where the table has a producer, otherwise the rows of each APPEND as they were written.
        What cannot be read is told when the range is first used: SnapshotExpired, NotFound, InvalidRequest.
        """
        check_range(after, until)
        plan = partial(plan_changes, self._context, after, until)
        return ChangesScan(plan, self._context, asked={"after": after, "until": until})

    @names_table
    def diff(self, after: int | str, until: int | str) -> ChangesScan:
        """Return in what the state of the snapshot `until` differs from that of `after`; or of two tags, by name.

        Of a key table each key that is new or has other values, with its row, and each that is gone, as -D. Of an
        append table, whose rows have no names, the rows of the files that came. Files that both states have are not
        read: a table with partial updates or aggregates is told what those files have got, not their merged rows.
        Raises as `changes` does, and InvalidRequest where the number of buckets is another than before.
        """
        check_states(after, until)
        plan = partial(plan_diff, self._context, after, until)
        return ChangesScan(plan, self._context, asked={"between": after, "and": until})

    def _lookup_cache(self, cache: str | PurePath | None) -> LookupCache:
        directory = cache_directory(cache) or own_directory()
        if directory not in self._lookup_caches:
            self._lookup_caches[directory] = LookupCache(directory, self._context.clock)
        return self._lookup_caches[directory]

    # Writing.

    @names_table
    @timed
    def write(
        self,
        data: object,
        *,
        rowkind_column: str | None = None,
        properties: Mapping[str, str] | None = None,
        missing: Missing = "null",
        progress: Listener | None = None,
    ) -> CommitReport:
        """Append rows, or merge them in by key, and commit. `properties` go into the snapshot.

        `data`: what offers an Arrow stream (a scan, pyarrow, polars, DuckDB), a pandas DataFrame, a list of dicts, or a
        Spark DataFrame; columns go by name. One that is missing is null, so that a key table forgets the value that its
        row had (the merge engine partial-update keeps it); with `missing="error"` it is refused. `rowkind_column` holds
        +I, -U, +U or -D for each row. `progress` is called with a Progress from time to time, in this thread; what it
        raises is logged and stops nothing.
        Raises InvalidRequest naming row (from 0) and column before anything is committed, UnsupportedFeature,
        CommitConflict, CommitTimeout, CommitOutcomeUnknown, StorageUnavailable, StorageFull.
        """
        watch = Watch("write", self.name, progress)
        return self._write(data, Append(), watch, rowkind_column=rowkind_column, properties=properties, missing=missing)

    @names_table
    @timed
    def overwrite(
        self,
        data: object,
        *,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool | None = None,
        properties: Mapping[str, str] | None = None,
        missing: Missing = "null",
        progress: Listener | None = None,
    ) -> CommitReport:
        """Replace rows: of one `partition` (some of its columns are enough); with `dynamic` those of the partitions
        that are in `data`; otherwise the whole table. Left open, a partitioned table's option decides (dynamic).

        Raises as `write` does, and CommitConflict where others added rows to what it replaces.
        """
        watch = Watch("overwrite", self.name, progress)
        mode = overwrite_mode(partition, dynamic, self.schema)
        return self._write(data, mode, watch, rowkind_column=None, properties=properties, missing=missing)

    @names_table
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
        be committed first; the new rows count as later than its rows. Raises as `write` does until it commits.
        """
        found = self._stage(
            data,
            Watch("stage", self.name, progress),
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            rowkind_column=rowkind_column,
            mode=mode,
            properties=properties,
            behind=behind,
            missing=missing,
        )
        files = [file for message in found.messages for file in message.new_files]
        rows = sum(file.row_count for file in files)
        log_outcome("stage", self.name, f"{len(files):,} files and {rows:,} rows staged")
        return found

    @names_table
    @timed
    def commit(self, staged: StagedCommit, *, progress: Listener | None = None) -> CommitReport:
        """Make a staged commit a snapshot. Safe to repeat: a user and identifier that were committed change nothing.

        A table that is not `write-only` is then compacted where its options ask for it, which is a snapshot of its own.
        A failure there is told in the report, for the rows are committed; the next compaction does the same again.
        Raises CommitConflict, CommitTimeout, CommitOutcomeUnknown (then commit the same again), StaleCommit.
        """
        check_staged_commit("commit", staged)
        if staged.table != self.name:
            raise InvalidRequest(f"{self.name}: the commit was staged for {staged.table}. Commit it there.")
        watch = Watch("commit", self.name, progress)
        watch.at("committing")
        return self._committed(staged, commit(self._context, staged), watch)

    @names_table
    def keep_pending(self, staged: StagedCommit) -> None:
        """Keep a staged commit inside the table until it is committed, so that a killed pipeline can go on."""
        check_staged_commit("keep_pending", staged)
        keep_pending(self._context.store, staged)

    @names_table
    def pending(self, commit_user: str, commit_identifier: int) -> StagedCommit | None:
        """Return the staged commit that was kept, None when there is none."""
        check_commit(commit_user, commit_identifier)
        return load_pending(self._context.store, commit_user, commit_identifier)

    @names_table
    def forget_pending(self, staged: StagedCommit) -> None:
        """Forget a kept commit once it is committed."""
        check_staged_commit("forget_pending", staged)
        forget_pending(self._context.store, staged.commit_user, staged.commit_identifier)

    @names_table
    @timed
    def alter(self, *changes: SchemaChange) -> SchemaReport:
        """Change the schema, all changes or none: AddColumn(…), RenameColumn(…), SetOption(…) and so on.

        No data file is touched. Raises InvalidRequest, UnsupportedFeature, CommitConflict when others alter too.
        """
        # Asked for first: when the schema is changed, nothing may fail any more.
        latest_id = self._context.snapshots.latest_id()
        old, new = alter(self._context, changes)
        return answers.schema_report(self.name, old, new, latest_id)

    # Maintenance.

    @names_table
    @timed
    def compact(
        self,
        *,
        full: bool = False,
        partition: Mapping[str, Any] | None = None,
        partition_idle: timedelta | None = None,
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> CompactionReport:
        """Rewrite files into fewer: with `full` every bucket into its top level, else what the strategy picks in each.

        The strategy picks once a call, and maybe nothing. `partition`: only there, by some of its columns or all.
        `partition_idle`: only in partitions without a new file for so long. Buckets that another commit changed
        meanwhile stay as they are, and the report counts them. Raises CommitConflict when that was every bucket,
        InvalidRequest, UnsupportedFeature, TaskFailed, StorageUnavailable, CorruptTable.
        """
        before = self._context.snapshots.latest_id()
        result = compact(
            self._context,
            RequestedBuckets(
                condition=partition_condition(mapping_of("partition", partition), self.schema),
                idle_millis=idle_millis(partition_idle),
            ),
            full=full,
            dry_run=dry_run,
            properties=mapping_of("properties", properties),
            watch=Watch("compact", self.name, progress),
        )
        return answers.compaction_report(self.name, result, before, dry_run=dry_run)

    @names_table
    @timed
    def compact_manifests(
        self, *, dry_run: bool = False, properties: Mapping[str, str] | None = None
    ) -> ManifestReport:
        """Rewrite the manifests into few without entries that undo each other; no data file is touched.

        Raises CommitTimeout, CommitOutcomeUnknown, UnsupportedFeature, StorageUnavailable, CorruptTable.
        """
        result = compact_manifests(self._context, dry_run=dry_run, properties=mapping_of("properties", properties))
        return answers.manifest_report(self.name, result, dry_run=dry_run)

    @names_table
    @timed
    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: timedelta | datetime | None = None,
        dry_run: bool = False,
        progress: Listener | None = None,
    ) -> ExpiryReport:
        """Let old snapshots go, and the files that only they needed; what is not given is the table's option.

        `retain_max` and `retain_min` count snapshots, 1 <= min <= max; a maximum alone brings down the table's minimum.
        `older_than`: an age, or the time (UTC unless it has a zone) before which a snapshot is old. A dry run answers
        as the run would: files that go at once, and those that wait for their readers.
        Raises InvalidRequest, StorageUnavailable, and CorruptTable before anything is deleted.
        """
        result = expire(
            self._context,
            retain_max=count_of("retain_max", retain_max),
            retain_min=count_of("retain_min", retain_min),
            max_age_millis=age_millis(older_than, self._context.clock.now_millis()),
            dry_run=dry_run,
            watch=Watch("expire_snapshots", self.name, progress),
        )
        return answers.expiry_report(self.name, result, dry_run=dry_run)

    @names_table
    @timed
    def create_tag(
        self,
        name: str,
        *,
        at: int | ReadPoint | None = None,
        retention: timedelta | None = None,
        dry_run: bool = False,
    ) -> TagReport:
        """Name a snapshot (None: the latest) and keep its files, for the time of `retention` or until it is deleted.

        `at`: the id of a snapshot, or a point such as AsOf(…) or AtTag(…). Raises InvalidRequest for a bad or taken
        name, NotFound, SnapshotExpired.
        """
        latest_id = self._context.snapshots.latest_id()
        tag = create_tag(
            self._context,
            name,
            snapshot_id=self._tagged_id(at),
            retention_millis=retention_millis(retention),
            dry_run=dry_run,
        )
        return answers.tag_report(self.name, name, tag, latest_id, dry_run=dry_run)

    def _tagged_id(self, at: int | ReadPoint | None) -> int | None:
        if at is None or isinstance(at, Latest):
            return None
        point = checked_point(AtSnapshot(at) if isinstance(at, int) else at)
        snapshot = None if isinstance(point, AtSnapshot) else state_at(self._context, point).snapshot
        return point.id if isinstance(point, AtSnapshot) else None if snapshot is None else snapshot.id

    @names_table
    @timed
    def delete_tag(self, name: str, *, dry_run: bool = False) -> TagReport:
        """Delete a tag, and the files that only it kept. Raises NotFound."""
        tag, latest_id = self._context.tags.tag(AtTag(name).name), self._context.snapshots.latest_id()
        result = delete_tag(self._context, name, dry_run=dry_run)
        return answers.tag_report(self.name, name, tag, latest_id, deleted=result, dry_run=dry_run)

    @names_table
    @timed
    def verify(self, *, data: bool = False, progress: Listener | None = None) -> VerifyReport:
        """Check what the table promises, metadata and files. Finding something is an answer, not an error.

        Reads the metadata of every snapshot, tag and changelog, and the size of each file they name; with `data` also
        every data file among them and its indexes, which takes as long as reading all of the table's history. Avro
        files of other engines, of the codecs null and deflate, have no checksums: there a changed value may go unseen.
        Writes nothing. Raises NotFound, StorageUnavailable.
        """
        watch = Watch("verify", self.name, progress)
        findings = verify(self._context, reads_data=data, watch=watch)
        try:
            latest_id = self._context.snapshots.latest_id()
        except CorruptTable:
            # The findings say so, with everything else that is broken.
            latest_id = None
        return VerifyReport(table=self.name, snapshot_id_before=latest_id, findings=findings)

    def _write(
        self,
        data: object,
        mode: WriteMode,
        watch: Watch,
        *,
        rowkind_column: str | None,
        properties: Mapping[str, str] | None,
        missing: Missing,
    ) -> CommitReport:
        staged = self._stage(
            data,
            watch,
            commit_user=self._context.clock.uuid(),
            commit_identifier=BATCH_IDENTIFIER,
            rowkind_column=rowkind_column,
            mode=mode,
            properties=properties,
            missing=missing,
        )
        watch.at("committing")
        result = commit_once(self._context, staged, named_by="the write")
        return self._committed(staged, result, watch)

    def _stage(
        self,
        data: object,
        watch: Watch,
        *,
        commit_user: str,
        commit_identifier: int,
        rowkind_column: str | None,
        mode: WriteMode,
        properties: Mapping[str, str] | None,
        missing: Missing,
        behind: Sequence[StagedCommit] = (),
    ) -> StagedCommit:
        check_staged_commits("behind", behind)
        return stage(
            self._context,
            data,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            rowkind_column=column_name("rowkind_column", rowkind_column),
            mode=mode,
            properties=mapping_of("properties", properties),
            behind=behind,
            missing=checked_missing(missing),
            watch=watch,
        )

    def _committed(self, staged: StagedCommit, result: CommitResult, watch: Watch) -> CommitReport:
        compaction = compact_written(self._context, staged, replayed=result.replayed, watch=watch)
        return answers.commit_report(staged, result, compaction)


def _in_this_process(name: str, store: ObjectStore, clock: Clock) -> Table:
    engine = cache(lambda: LocalEngine(local_runtime(store, clock)))
    return Table(name, store, schemas=SchemaLog(store), engine=engine, clock=clock)
