"""Changes between two snapshots, as written: changelog files where the table has a producer, else what APPENDs added.

Source: Paimon semantics, "Incremental batch reads" (G.2, scan mode auto). Rows are not merged across snapshots: a key
may occur several times. When a snapshot has expired its long-lived changelog is read instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, SnapshotExpired, UnsupportedFeature
from lakehouse_core.execution.scan import schemas_of
from lakehouse_core.execution.schema_log import SchemaLog
from lakehouse_core.execution.snapshot_log import SnapshotLog
from lakehouse_core.execution.tasks.read import ROW_KIND_COLUMN, ReadTask, read_schema, read_split
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.options import ChangelogProducer
from lakehouse_core.planning.readable import check_file
from lakehouse_core.planning.scan import partition_folder
from lakehouse_core.table.changes import CommitKind
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, ManifestFile
from lakehouse_core.table.schema import TableSchema, read_supported
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.split import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPlan:
    """The files that hold the changes of the snapshots (after, until], in the order of the snapshots."""

    table: str
    after: int
    until: int
    schema: TableSchema
    tasks: tuple[ReadTask, ...]
    arrow_schema: pa.Schema

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(task.split for task in self.tasks)

    @property
    def row_count(self) -> int:
        return sum(split.row_count for split in self.splits)


def plan_changes(log: SnapshotLog, schemas: SchemaLog, after: int, until: int | None, *, table: str) -> ChangesPlan:
    """Plan to read what the snapshots (after, until] changed; `until` None is the latest.

    Raises SnapshotExpired when a part of the range is gone, NotFound when it is not there yet, InvalidRequest.
    """
    _check_range(after, until)
    schema = schemas.latest()
    if schema.has_field(ROW_KIND_COLUMN):
        raise UnsupportedFeature(
            f"{table}: a column is named {ROW_KIND_COLUMN!r}, as that of the row kinds. Rename it."
        )
    read_supported(schema, table=table)
    last = _last(log, after, until)
    splits = [split for snapshot in _snapshots(log, after, last) for split in _splits(log, schema, snapshot)]
    file_schemas = schemas_of(splits, schemas)
    tasks = tuple(
        ReadTask(
            store=log.store.spec,
            schema=schema,
            split=split,
            columns=schema.column_names,
            file_schemas=file_schemas,
            with_row_kinds=True,
        )
        for split in splits
    )
    empty = Split(snapshot_id=0, partition=b"", bucket=0, total_buckets=0, folder="", files=(), raw=True)
    shape = ReadTask(store=log.store.spec, schema=schema, split=empty, columns=schema.column_names, with_row_kinds=True)
    return ChangesPlan(
        table=table, after=after, until=last, schema=schema, tasks=tasks, arrow_schema=read_schema(shape)
    )


def change_batches(plan: ChangesPlan, log: SnapshotLog) -> Iterator[pa.RecordBatch]:
    """Yield the changes, snapshot by snapshot. Raises SnapshotExpired when a file went with its snapshot."""
    for task in plan.tasks:
        try:
            yield from read_split(task)
        except (NotFound, CorruptTable) as error:
            if not _is_kept(log, task.split.snapshot_id):
                raise SnapshotExpired(
                    f"Snapshot {task.split.snapshot_id} expired while its changes were read. "
                    f"The earliest is {log.earliest_id()}: read again from there."
                ) from error
            raise


def _check_range(after: int, until: int | None) -> None:
    for name, value in (("after", after), ("until", until)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise InvalidRequest(f"changes: {name}={value!r}: expected a snapshot id, or after=0 for all changes.")
    if until is not None and until < after:
        raise InvalidRequest(f"changes: the range ({after}, {until}] ends before it begins. Swap the two.")


def _last(log: SnapshotLog, after: int, until: int | None) -> int:
    latest = log.latest_id() or 0
    for asked in (after, until or 0):
        if asked > latest:
            raise NotFound(f"Snapshot {asked} is not there yet. The latest is {latest}.")
    return latest if until is None else until


def _snapshots(log: SnapshotLog, after: int, until: int) -> Iterator[Snapshot]:
    for snapshot_id in range(after + 1, until + 1):
        try:
            yield log.snapshot(snapshot_id)
        except SnapshotExpired as expired:
            try:
                yield log.changelog(snapshot_id)
            except NotFound:
                ids = log.changelog_ids()
                kept = f"Changelogs are kept from {ids[0]} on." if ids else "No changelogs are kept."
                raise SnapshotExpired(f"{expired} {kept}") from expired


def _splits(log: SnapshotLog, schema: TableSchema, snapshot: Snapshot) -> Iterator[Split]:
    """One split for each file, in manifest order: what is written first is told first."""
    if schema.table_options.changelog_producer is ChangelogProducer.NONE:
        manifests = log.delta_manifests(snapshot) if snapshot.commit_kind is CommitKind.APPEND else []
    else:
        manifests = log.changelog_manifests(snapshot) if snapshot.commit_kind is not CommitKind.OVERWRITE else []
    types = [each.type for each in schema.partition_fields]
    for entry in _added(log, manifests):
        check_file(entry.file, entry.bucket)
        values = deserialize_row(entry.partition, types)
        yield Split(
            snapshot_id=snapshot.id,
            partition=entry.partition,
            bucket=entry.bucket,
            total_buckets=entry.total_buckets,
            folder=partition_folder(schema, values, entry.bucket),
            files=(entry.file,),
            raw=True,
        )


def _added(log: SnapshotLog, manifests: Sequence[ManifestFile]) -> Iterator[ManifestEntry]:
    for entries in log.read_manifests(manifests):
        yield from (entry for entry in entries if entry.kind is EntryKind.ADD)


def _is_kept(log: SnapshotLog, snapshot_id: int) -> bool:
    try:
        log.snapshot(snapshot_id)
    except NotFound:
        return snapshot_id in log.changelog_ids()
    return True
