"""Records: the parts of a table as users see them: snapshots, tags, schemas, files, buckets, manifests, committers.

Rule: a list of records is a sequence; `to_arrow()` returns it as a table whose columns are the records' attributes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, overload

import pyarrow as pa

from lakehouse_core.api.record_columns import Columns
from lakehouse_core.api.reports import plain
from lakehouse_core.display import grid, lines
from lakehouse_core.interchange.arrow_rows import ArrowRows

T_co = TypeVar("T_co", covariant=True)

# The number of records that fit on a screen.
_MOST_LINES: Final = 5
_MOST_ROWS: Final = 20


class Records(ArrowRows, Sequence[T_co], Generic[T_co]):
    """Records in order. `to_arrow()` returns them as a table, `to_dicts()` as JSON values.

    `brief` names the columns that people are shown, one line for each record.
    """

    def __init__(self, items: Iterable[T_co], columns: Columns, brief: Sequence[str]) -> None:
        self._items = tuple(items)
        self._columns = columns
        self.brief = tuple(brief)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> "Records[T_co]": ...

    def __getitem__(self, index: int | slice) -> "T_co | Records[T_co]":
        return (
            Records(self._items[index], self._columns, self.brief) if isinstance(index, slice) else self._items[index]
        )

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        left_out = max(0, len(self._items) - _MOST_LINES)
        rows = [[plain(self._columns[name][1](item)) for name in self.brief] for item in self._items[:_MOST_LINES]]
        return lines(f"Records of {len(self._items):,}", self.brief, rows, left_out=left_out)

    def _repr_html_(self) -> str:
        rows = [[read(item) for _, read in self._columns.values()] for item in self._items[:_MOST_ROWS]]
        left_out = max(0, len(self._items) - _MOST_ROWS)
        return grid(f"{len(self._items):,} records", list(self._columns), rows, left_out=left_out)

    def schema(self) -> pa.Schema:
        """Return the Arrow schema: one column for each attribute."""
        return pa.schema([pa.field(name, kind) for name, (kind, _) in self._columns.items()])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records as one batch, one row for each record; no batch when there are no records."""
        if self._items:
            arrays = [pa.array([read(item) for item in self._items], kind) for kind, read in self._columns.values()]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each record as a dict of JSON values."""
        return [{name: plain(read(item)) for name, (_, read) in self._columns.items()} for item in self._items]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRecord:
    """A tag. Times are milliseconds; `create_time_millis` is the creator's local clock, encoded as if it were UTC."""

    name: str
    snapshot_id: int
    schema_id: int
    time_millis: int
    total_record_count: int | None
    create_time_millis: int | None
    time_retained_millis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRecord:
    """A branch. `snapshot_id` is its latest snapshot, None without one; `create_time_millis` is the storage's time.

    `work` is what a verb does to the whole branch, or did when it was interrupted: "creating", "deleting", "renaming"
    or "forwarding"; None for most. But for "forwarding", the branch can be neither read nor written meanwhile, and has
    no `snapshot_id` here, and maybe no `schema_id`.
    """

    name: str
    snapshot_id: int | None
    schema_id: int | None
    create_time_millis: int
    work: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """A live data file. `path` is relative to the table folder. Partition, keys and bounds are readable text.
    `file_size` is bytes, `creation_time_millis` is milliseconds since 1970.

    Bounds and null counts are present only when the caller asks for them. Bounds may be truncated.

    So is the lineage: the snapshot that made the file and its run; the snapshots that may have brought the rows, also
    through compactions, and their runs. `is_traced` is false when the snapshots of some rows are not known any more.
    """

    partition: Mapping[str, str | None]
    bucket: int
    total_buckets: int
    level: int
    file_name: str
    path: str
    file_size: int
    row_count: int
    delete_row_count: int | None
    schema_id: int
    min_sequence_number: int
    max_sequence_number: int
    creation_time_millis: int | None
    file_source: str | None
    min_key: tuple[str | None, ...]
    max_key: tuple[str | None, ...]
    min_values: Mapping[str, str] | None = None
    max_values: Mapping[str, str] | None = None
    null_counts: Mapping[str, int] | None = None
    snapshot_id: int | None = None
    run_id: str | None = None
    source_snapshot_ids: tuple[int, ...] | None = None
    source_run_ids: tuple[str, ...] | None = None
    is_traced: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOrigin:
    """A data file, live or not, and the snapshot that made it: its kind, time, committer and run.

    `inputs` are the files that a compaction merged into it. When the snapshot has expired, its fields are None: the
    trail ends here, and `note` says so.
    """

    file_name: str
    snapshot_id: int | None
    commit_kind: str | None
    time_millis: int | None
    commit_user: str | None
    commit_identifier: int | None
    run_id: str | None
    inputs: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRecord:
    """The files of a bucket in figures, and whether compaction keeps up with it.

    `small_file_count` counts the small files that a full compaction would merge. `sorted_run_count` is 0 in append
    tables. `waiting_row_count`: the rows that wait for their buckets, all or none of a bucket. All three are 0 in
    partitions that compactions skip because they have expired (compaction.skip-expired-partitions).
    """

    partition: Mapping[str, str | None]
    bucket: int
    file_count: int
    file_size: int
    row_count: int
    small_file_count: int
    sorted_run_count: int
    waiting_row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """The files of a partition in figures. Values are readable text.

    `row_count` counts the rows in files: in a key table also the versions of a key that a read merges. `file_size` is
    bytes, `last_update_time_millis` is the time of the newest file.
    """

    partition: Mapping[str, str | None]
    row_count: int
    file_count: int
    file_size: int
    last_update_time_millis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitterRecord:
    """The last commit of a user: its highest identifier and its newest snapshot."""

    commit_user: str
    commit_identifier: int
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRecord:
    """A staged commit that is kept in the table until it is committed. `size_bytes` are those of its data files.

    `base_snapshot_id`: the latest snapshot when it was staged. `key`: its object, relative to the table. `reason` says
    why it cannot be committed, None: nothing speaks against it. The object may be damaged; then the figures are None.
    """

    commit_user: str
    commit_identifier: int
    file_count: int | None
    row_count: int | None
    size_bytes: int | None
    base_snapshot_id: int | None
    key: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRecord:
    """A manifest of a snapshot, from its base or from its own delta (`list`).

    `file_size` is bytes. The bounds are readable text, one value for each partition column.
    """

    file_name: str
    list: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    schema_id: int
    min_partition: tuple[str | None, ...]
    max_partition: tuple[str | None, ...]
