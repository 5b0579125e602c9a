"""Words in which the tests of commits, conflicts and manifest merges speak: files, entries, manifests, schemas."""

from collections.abc import Sequence
from typing import Any

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.table.commit_message import Append, CommitKind, CommitMessage, WriteMode
from lakehouse_core.table.data_file import EMPTY_ROW, DataFile, SimpleStats
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, ManifestFile
from lakehouse_core.table.schema import TableSchema, new_schema
from lakehouse_core.table.staged_commit import StagedCommit

INT = parse_type("INT")
STRING = parse_type("STRING")


def key(value: int) -> bytes:
    """Return the serialized key row of one INT."""
    return serialize_row((value,), [INT])


def partition(value: str | None) -> bytes:
    """Return the serialized partition row of one STRING."""
    return serialize_row((value,), [STRING])


def key_schema(*, partitioned: bool = False, **options: str) -> TableSchema:
    """Return the schema of a key table (k INT, v STRING), maybe partitioned by dt STRING; `_` in options means `-`."""
    columns = {"k": "INT NOT NULL", "v": "STRING"}
    given = {"bucket": "1"} | {name.replace("_", "-"): value for name, value in options.items()}
    if partitioned:
        return new_schema(
            {"dt": "STRING NOT NULL", **columns},
            primary_keys=["dt", "k"],
            partition_keys=["dt"],
            options=given,
            now_millis=0,
        )
    return new_schema(columns, primary_keys=["k"], options=given, now_millis=0)


def append_schema(*, partitioned: bool = False, **options: str) -> TableSchema:
    columns = {"dt": "STRING", "v": "STRING"} if partitioned else {"v": "STRING"}
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return new_schema(columns, partition_keys=["dt"] if partitioned else [], options=given, now_millis=0)


def data_file(name: str, low: int | None = None, high: int | None = None, *, level: int = 0, **more: Any) -> DataFile:
    """Return a file of ten rows whose keys go from `low` to `high`; without them a file of an append table."""
    fields: dict[str, Any] = {
        "file_size": 100,
        "row_count": 10,
        "min_sequence_number": 0,
        "max_sequence_number": 9,
        "schema_id": 0,
    }
    keys = {} if low is None or high is None else {"min_key": key(low), "max_key": key(high)}
    return DataFile(file_name=name, level=level, **(fields | keys | more))


def entry(
    kind: EntryKind, file: DataFile, *, in_partition: bytes = EMPTY_ROW, bucket: int = 0, total_buckets: int = 1
) -> ManifestEntry:
    return ManifestEntry(kind=kind, partition=in_partition, bucket=bucket, total_buckets=total_buckets, file=file)


def add(file: DataFile, **where: Any) -> ManifestEntry:
    return entry(EntryKind.ADD, file, **where)


def delete(file: DataFile, **where: Any) -> ManifestEntry:
    return entry(EntryKind.DELETE, file, **where)


def manifest(
    name: str, size: int, *, added: int | None = None, deleted: int = 0, partitions: Sequence[str | None] | None = None
) -> ManifestFile:
    """Return a manifest of an unpartitioned table, or of one with an entry in each of `partitions`."""
    stats = SimpleStats()
    if partitions is not None:
        values = [value for value in partitions if value is not None]
        stats = SimpleStats(
            min_values=partition(min(values, default=None)),
            max_values=partition(max(values, default=None)),
            null_counts=(len(partitions) - len(values),),
        )
    return ManifestFile(
        file_name=name,
        file_size=size,
        num_added_files=max(1, len(partitions or ())) - deleted if added is None else added,
        num_deleted_files=deleted,
        partition_stats=stats,
        schema_id=0,
        min_bucket=0,
        max_bucket=0,
        min_level=0,
        max_level=0,
    )


def message(in_partition: bytes = EMPTY_ROW, bucket: int = 0, total_buckets: int = 1, **files: Any) -> CommitMessage:
    return CommitMessage(partition=in_partition, bucket=bucket, total_buckets=total_buckets, **files)


def staged(*messages: CommitMessage, mode: WriteMode | None = None, **more: Any) -> StagedCommit:
    fields: dict[str, Any] = {"table": "db.t", "commit_user": "u", "commit_identifier": 1, "schema_id": 0}
    return StagedCommit(mode=mode or Append(), messages=messages, **(fields | more))


def shown(entries: tuple[ManifestEntry, ...]) -> str:
    signs = {EntryKind.ADD: "+", EntryKind.DELETE: "-"}
    return " ".join(f"{signs[one.kind]}{one.file.file_name}@{one.file.level}" for one in entries)


WORKED = message(
    new_files=(data_file("f3", 1, 9),),
    changelog_files=(data_file("log"),),
    compact_before=(data_file("f1", 1, 5, level=5), data_file("f3", 1, 9)),
    compact_after=(data_file("f4", 1, 9, level=5),),
)
JAN, FEB, NULL = partition("2024-01"), partition("2024-02"), partition(None)


CHANGES = FileChanges(
    kind=CommitKind.COMPACT,
    entries=(delete(data_file("a", row_count=30)), add(data_file("b", row_count=20))),
    changelog=(add(data_file("c", row_count=5)),),
)
