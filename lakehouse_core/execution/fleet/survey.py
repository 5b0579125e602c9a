"""Survey of a table: read its metadata once, and return what maintenance could do.

Rule: nothing is written, no data file is opened, and the entries of a table are dropped before the next is surveyed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.execution.compaction.plan import CompactionBase, compaction_base, live_buckets
from lakehouse_core.execution.compaction.scope import RequestedBuckets
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.branch_schemas import Graces
from lakehouse_core.execution.expiry.expire import ExpiryOutlook, expiry_outlook
from lakehouse_core.execution.expiry.history import storage_now_millis
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.metadata.deletion_plans import current_plans
from lakehouse_core.planning.fleet.operations import COMPACTIONS, Operation
from lakehouse_core.planning.fleet.survey import (
    BucketState,
    ExpirySurvey,
    ManifestSurvey,
    PartitionSurvey,
    TableSurvey,
    survey_manifests,
    survey_partition,
)
from lakehouse_core.planning.manifests import manifest_counts
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.manifest import EntryKind
from lakehouse_core.table.snapshot import Snapshot, Tag


def survey_table(table: TableContext, *, warehouse: str, operations: Collection[Operation]) -> TableSurvey:
    """Return what one pass finds of the main branch of a table, for these operations.

    An operation that this table does not allow is in `refusals`. Raises CorruptTable, NotFound, StorageUnavailable.
    """
    first_schema = table.schemas.first()
    refusals: dict[Operation, str] = {}
    compacts = [each for each in operations if each in COMPACTIONS]
    base = None
    if compacts or "compact_manifests" in operations:
        try:
            base = compaction_base(table, RequestedBuckets(), only_plans=True)
        except UnsupportedFeature as error:
            refusals |= dict.fromkeys((*compacts, "compact_manifests"), str(error))
    outlook, expiry = None, ExpirySurvey()
    if "expire" in operations:
        try:
            outlook = expiry_outlook(table)
            expiry = _expiry(table, outlook)
        except (UnsupportedFeature, CorruptTable) as error:
            # A damaged tag or old snapshot keeps no partition from being compacted.
            refusals["expire"] = str(error)
    latest = base.snapshot if base is not None else None if outlook is None else outlook.history.latest
    oldest = latest
    if outlook is not None and outlook.history.snapshot_ids:
        oldest = outlook.history.snapshots[outlook.history.snapshot_ids[0]]
    return TableSurvey(
        warehouse=warehouse,
        table=table.name,
        incarnation=first_schema.time_millis,
        snapshot_id=None if latest is None else latest.id,
        partitions=() if base is None or not compacts else _partitions(table, base),
        manifests=ManifestSurvey() if base is None else _manifests(base),
        snapshot_count=0 if outlook is None else len(outlook.history.snapshot_ids),
        changelog_count=0 if outlook is None else len(outlook.history.changelog_ids),
        tag_count=len(table.tags.names()),
        oldest_millis=None if oldest is None else oldest.time_millis,
        newest_millis=None if latest is None else latest.time_millis,
        expiry=expiry,
        refusals={name: why for name, why in refusals.items() if name in operations},
    )


def _partitions(table: TableContext, base: CompactionBase) -> tuple[PartitionSurvey, ...]:
    schema = base.schema
    types = [field.type for field in schema.partition_fields]
    buckets: dict[bytes, list[BucketState]] = defaultdict(list)
    for one in live_buckets(table, base):
        buckets[one.partition].append(
            BucketState(number=one.bucket, files=one.files, expired=one.expired, marked=one.marked)
        )
    now_millis = table.clock.local_now_millis()
    partitions = list(dict.fromkeys([*buckets, *base.waiting]))
    counts = manifest_counts(base.manifests, partitions, types)
    return tuple(
        survey_partition(
            _shared(tuple(named_values(deserialize_row(partition, types), schema).items())),
            buckets[partition],
            schema,
            waiting=base.waiting.get(partition, ()),
            manifests=counts[partition],
            local_now_millis=now_millis,
        )
        for partition in partitions
    )


@lru_cache(maxsize=8_192)
def _shared(values: tuple[tuple[str, str | None], ...]) -> Mapping[str, str | None]:
    """Return the values of a partition: one mapping for all tables that have the same, which is most of a fleet."""
    return dict(values)


def _manifests(base: CompactionBase) -> ManifestSurvey:
    schema = base.schema
    types = [field.type for field in schema.partition_fields]
    target = schema.table_options.manifest_target_bytes
    return survey_manifests(base.manifests, types, target_bytes=target)


def _expiry(table: TableContext, outlook: ExpiryOutlook) -> ExpirySurvey:
    plan, schema = outlook.plan, table.schemas.latest()
    files = [*_deleted_data_files(table, outlook), *_changelog_files(table, outlook)]
    grace, now_millis = schema.table_options.read_grace_millis, storage_now_millis(table)
    # A branch has a grace of its own, by which the files of its plans wait.
    graces = Graces(table, schema)
    due = [one for one in current_plans(table.store) if graces.is_over(one, now_millis=now_millis)]
    return ExpirySurvey(
        snapshots=len(plan.snapshot_ids),
        changelogs=len(plan.changelog_ids),
        tags=len(outlook.tags),
        unneeded_files=len(files),
        unneeded_bytes=sum(file.file_size for file in files),
        due_files=sum(one.file_count for one in due),
        due_bytes=sum(one.size_bytes for one in due),
        grace_millis=grace,
        reason=plan.reason,
    )


def _changelog_files(table: TableContext, outlook: ExpiryOutlook) -> Iterator[DataFile]:
    """Yield the changelog files of what expires: those of snapshots that become changelogs stay."""
    plan, history = outlook.plan, outlook.history
    expired = [history.snapshots.get(id) for id in plan.snapshot_ids if id not in plan.made_changelog_ids]
    expired += [history.changelogs.get(id) for id in plan.changelog_ids]
    for snapshot in expired:
        if snapshot is not None:
            for entries in table.manifests.entries_of_each(table.manifests.changelog(snapshot)):
                yield from (entry.file for entry in entries)


def _deleted_data_files(table: TableContext, outlook: ExpiryOutlook) -> Iterator[DataFile]:
    """Yield the data files that only the expired snapshots need: those that the snapshots after the first expired one
    deleted, up to the first kept one.
    """
    if not outlook.plan.snapshot_ids:
        return
    first, kept = outlook.plan.snapshot_ids[0], outlook.plan.first_kept_id
    tags = list(table.tags.all().values())
    # Creation times of files are local wall clock.
    offset_millis = table.clock.local_now_millis() - table.clock.now_millis()
    for snapshot in outlook.history.snapshots.values():
        # An append deletes nothing.
        if not first < snapshot.id <= kept or snapshot.commit_kind is CommitKind.APPEND:
            continue
        entries = [
            entry for found in table.manifests.entries_of_each(table.manifests.delta(snapshot)) for entry in found
        ]
        # A file that rises to another level is deleted and added.
        stay = {entry.file.file_name for entry in entries if entry.kind is EntryKind.ADD}
        for entry in entries:
            file = entry.file
            if entry.kind is not EntryKind.DELETE or file.file_name in stay:
                continue
            if not _is_held(tags, snapshot, file.creation_time_millis, offset_millis):
                yield file


def _is_held(tags: Iterable[Tag], deleted_by: Snapshot, created_millis: int | None, offset_millis: int) -> bool:
    """Return whether a tag may hold a file: its snapshot is before the deletion and not before the creation."""
    return any(
        tag.snapshot.id < deleted_by.id and (created_millis or 0) <= tag.snapshot.time_millis + offset_millis
        for tag in tags
    )
