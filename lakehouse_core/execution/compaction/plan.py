"""The plan of a compaction: which buckets it rewrites, from the live files of one snapshot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakehouse_core.execution.compaction.scope import (
    FilesByBucket,
    RequestedBuckets,
    Scope,
    live_in_scope,
    why_none,
)
from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.options import WriteKind
from lakehouse_core.planning.compaction.append import AppendCompactionPlan, Marked, MarkedRows
from lakehouse_core.planning.compaction.bucket import expired_files, plan_bucket
from lakehouse_core.planning.compaction.plan import CompactionPlan
from lakehouse_core.planning.compaction.universal import PickTime
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.planning.readable import deletion_files
from lakehouse_core.table.bucketing import has_buckets, is_placed, may_wait
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout, partition_folder
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.manifest import IndexManifestEntry, ManifestFile
from lakehouse_core.table.record_expiry import RecordExpiry, record_expiry
from lakehouse_core.table.schema import TableSchema, write_supported
from lakehouse_core.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCompaction:
    """The compaction of one bucket. `plan.reason` says why; `folder` is relative to the table.

    `values`: the partition's values as text, by column. `deletions`: by file name, the location of the file's deletion
    vector.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    folder: str
    values: Mapping[str, str | None]
    plan: CompactionPlan | AppendCompactionPlan
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)

    @property
    def rewritten_bytes(self) -> int:
        return self.plan.rewritten_bytes

    @property
    def read_files(self) -> tuple[DataFile, ...]:
        """The files that the task reads: those that it replaces, and those of looked-up runs."""
        return _read_by(self.plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionBase:
    """What a compaction begins with: the latest snapshot and its index files, its live files in scope, and the
    manifests that may name them. `waiting`: by partition, the files of rows that wait for their buckets, in manifest
    order; they are not among `files`.
    """

    schema: TableSchema
    snapshot: Snapshot
    manifests: Sequence[ManifestFile]
    files: FilesByBucket
    indexes: Sequence[IndexManifestEntry]
    expiry: RecordExpiry | None
    waiting: Mapping[bytes, Sequence[DataFile]] = field(default_factory=dict)

    @property
    def highest_numbers(self) -> dict[tuple[bytes, int], int]:
        """The highest sequence number of each bucket with files, by partition and bucket."""
        found: dict[tuple[bytes, int], int] = {}
        for (partition, bucket, _), files in self.files.items():
            for file in files:
                found[partition, bucket] = max(found.get((partition, bucket), -1), file.max_sequence_number)
        return found

    def all_files(self) -> list[DataFile]:
        return [file for found in (*self.files.values(), *self.waiting.values()) for file in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBucket:
    """The live files of one bucket as a plan takes them. `expired`: the names of those with expired rows.

    `vectors`: by file name, the locations of their deletion vectors.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: Sequence[DataFile]
    expired: frozenset[str]
    vectors: Mapping[str, DeletionFile]

    @property
    def marked(self) -> Marked:
        return {
            name: MarkedRows(count=vector.cardinality, index_file=vector.key) for name, vector in self.vectors.items()
        }


def compaction_base(table: TableContext, scope: Scope, *, only_plans: bool = False) -> CompactionBase | None:
    """Return what a compaction of the buckets in `scope` begins with; None for a table without a snapshot.

    `only_plans`: the files are not committed again, so statistics are loaded only for rows that expire.
    """
    look = table.look()
    schema = table.schemas.latest(look)
    write_supported(schema, table=table.name or table.store.uri(""), kind=WriteKind.MAINTENANCE)
    expiry = record_expiry(schema, now_millis=table.clock.now_millis())

    def base(latest: Snapshot | None) -> CompactionBase | None:
        if latest is None:
            return None
        with_stats = not only_plans or expiry is not None
        manifests, files = live_in_scope(scope, table, latest, schema, with_stats=with_stats)
        return CompactionBase(
            schema=schema,
            snapshot=latest,
            manifests=manifests,
            files={place: found for place, found in files.items() if is_placed(place[1])},
            indexes=table.manifests.index_entries(latest),
            expiry=expiry,
            waiting={place[0]: found for place, found in files.items() if not is_placed(place[1])},
        )

    return table.snapshots.of_latest(base, look)


def planned_buckets(
    table: TableContext, base: CompactionBase, *, full: bool, emits_changelog: bool
) -> tuple[BucketCompaction, ...]:
    """Return the compaction of each bucket that needs one, largest first."""
    schema = base.schema
    occasion = PickTime(local_now_millis=table.clock.local_now_millis())
    types = [field.type for field in schema.partition_fields]
    found = []
    for one in live_buckets(table, base):
        values = deserialize_row(one.partition, types)
        picked = plan_bucket(
            one.files,
            schema,
            full=full,
            occasion=occasion,
            expired=one.expired,
            marked=one.marked,
            emits_changelog=emits_changelog,
        )
        for plan in _task_plans(picked, schema):
            names = {file.file_name for file in _read_by(plan)}
            found.append(
                BucketCompaction(
                    partition=one.partition,
                    bucket=one.bucket,
                    total_buckets=one.total_buckets,
                    folder=partition_folder(schema, values, one.bucket),
                    values=named_values(values, schema),
                    plan=plan,
                    deletions={name: vector for name, vector in one.vectors.items() if name in names},
                )
            )
    # The longest task decides when all are done, so it starts first.
    return tuple(sorted(found, key=lambda one: (-one.rewritten_bytes, one.folder)))


def live_buckets(table: TableContext, base: CompactionBase) -> Iterator[LiveBucket]:
    """Yield the buckets of `base` with all that decides about their compaction."""
    deletions = deletion_files(base.indexes, DataLayout(base.schema))
    ids = set() if base.expiry is None else {file.schema_id for file in base.all_files()}
    file_schemas = {number: table.schemas.schema(number) for number in sorted(ids)}
    for (partition, bucket, total_buckets), files in base.files.items():
        yield LiveBucket(
            partition=partition,
            bucket=bucket,
            total_buckets=total_buckets,
            files=files,
            expired=frozenset() if base.expiry is None else expired_files(files, base.expiry, file_schemas),
            vectors={file.file_name: deletions[file.file_name] for file in files if file.file_name in deletions},
        )


def why_nothing(scope: Scope, base: CompactionBase, *, full: bool) -> str:
    """Return the reason why no bucket in `scope` is compacted."""
    why = _why_nothing(scope, base, full=full)
    if may_wait(base.schema.bucketing) and isinstance(scope, RequestedBuckets) and scope.buckets is not None:
        return f"{why}. Rows that wait for their buckets are moved into all of them: compact without a list of buckets"
    return why


def _why_nothing(scope: Scope, base: CompactionBase, *, full: bool) -> str:
    schema = base.schema
    if not base.all_files():
        return why_none(scope, schema)
    if not full:
        return _why_nothing_is_picked(schema)
    if schema.is_append:
        return "no bucket has two small files that may be packed together"
    return "every bucket is one sorted run in its top level"


def _why_nothing_is_picked(schema: TableSchema) -> str:
    options = schema.table_options.compaction
    if schema.is_append:
        return f"nowhere are {options.min_file_count} small files (compaction.min.file-num) to be packed together"
    return (
        f"the strategy finds every bucket in good shape: at most {options.trigger_run_count} sorted runs "
        "(num-sorted-run.compaction-trigger), each far smaller than the next"
    )


def _task_plans(
    plan: CompactionPlan | AppendCompactionPlan | None, schema: TableSchema
) -> Iterator[CompactionPlan | AppendCompactionPlan]:
    """Yield the plans of the tasks. Groups of files of an unbucketed partition are independent and large: one task
    each.
    """
    if isinstance(plan, AppendCompactionPlan) and not has_buckets(schema.bucketing):
        for group in plan.groups:
            yield replace(plan, groups=(group,))
    elif plan is not None:
        yield plan


def _read_by(plan: CompactionPlan | AppendCompactionPlan) -> tuple[DataFile, ...]:
    older = plan.older if isinstance(plan, CompactionPlan) else ()
    return (*plan.files, *(file for run in older for file in run.data_files))
