"""Router: find the partition and bucket of each row. Source: docs/format/buckets.md#bucketing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.format.binary_row import hash_rows, serialize_row
from lakehouse_core.format.bucket_hash import buckets
from lakehouse_core.format.data_types import to_internal
from lakehouse_core.format.partition_path import partition_path
from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.table.bucketing import Bucketing, Dynamic, Fixed, Postpone, Unaware, total_buckets
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.layout import bucket_folder
from lakehouse_core.table.schema import TableSchema

Codes: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BucketPath:
    """One bucket of one partition; `partition` is a serialized BinaryRow."""

    partition: bytes
    bucket: int
    folder: str


class Assigns(Protocol):
    """Gives the rows of a table with dynamic buckets their buckets."""

    def buckets(self, partition: bytes, hashes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the bucket of each row of a serialized partition, by the hash of its key."""
        ...


class KeyBuckets(Assigns, Protocol):
    """Gives the keys of one write task their buckets, and leaves index files that hold them."""

    def write(self, place: BucketPath) -> tuple[Sequence[IndexFile], Sequence[IndexFile]]:
        """Return the index files that gave the bucket's keys their place, and the new one that replaces them if the
        bucket has new keys.
        """
        ...

    def delete(self) -> None:
        """Delete the index files that were written."""
        ...


class Router:
    """Finds the bucket path of each row. There is one BucketPath object per bucket, made when the first row needs it.

    `bucket_count` None: the schema's. A partition keeps the bucket count that it was written with. `index`: gives the
    buckets where they are dynamic.
    """

    def __init__(self, schema: TableSchema, *, bucket_count: int | None = None, index: Assigns | None = None) -> None:
        self._schema = schema
        self._index = index
        # The codes of dynamic buckets, by partition number and bucket.
        self._dynamic: dict[tuple[int, int], int] = {}
        self._bucket_count = _bucket_count(schema.bucketing) if bucket_count is None else max(1, bucket_count)
        # Rows that wait for their buckets are in one place of each partition.
        self._one_bucket = total_buckets(schema.bucketing) if _waits(schema) and bucket_count is None else None
        self._partitions: dict[bytes, int] = {}
        self._paths: list[tuple[bytes, str]] = []
        self._places: dict[int, BucketPath] = {}

    def split(
        self, column: Callable[[str], pa.Array], row_count: int, buckets: npt.NDArray[np.int32] | None = None
    ) -> Iterator[tuple[BucketPath, Rows | None]]:
        """Yield each bucket path with its rows in their order; None means all rows. `column` returns a column by
        name. `buckets`: those of the rows, None where key or index give them.
        """
        codes = self._codes(column, row_count, buckets)
        if row_count and (codes == codes[0]).all():
            yield self._place(int(codes[0])), None
            return
        # NumPy's stable argsort of small integers is a counting sort.
        rows = np.argsort(_narrowed(codes), kind="stable")
        counts = np.bincount(codes)
        found = np.flatnonzero(counts)
        groups = np.split(rows, np.cumsum(counts[found])[:-1])
        for code, group in zip(found.tolist(), groups, strict=True) if row_count else ():
            yield self._place(code), group

    def partitions(self, column: Callable[[str], pa.Array], row_count: int) -> tuple[Codes, Sequence[bytes]]:
        """Return the number of each row's partition, and the serialized partitions in the order of their numbers."""
        codes = self._partition_codes([column(name) for name in self._schema.partition_keys])
        return codes, [partition for partition, _ in self._paths]

    def _codes(
        self, column: Callable[[str], pa.Array], row_count: int, given: npt.NDArray[np.int32] | None = None
    ) -> Codes:
        schema = self._schema
        codes = np.zeros(row_count, dtype=np.int64)
        if schema.partition_keys:
            codes = self._partition_codes([column(name) for name in schema.partition_keys]) * self._bucket_count
        else:
            self._partition(())
        if given is not None:
            return self._dynamic_codes(codes, lambda partition, rows: given[rows])
        if self._index is None and self._bucket_count == 1:
            return codes
        columns = [column(name) for name in schema.bucket_keys]
        types = [field.type for field in schema.bucket_fields]
        if self._index is not None:
            index, hashes = self._index, hash_rows(columns, types)
            return self._dynamic_codes(codes, lambda partition, rows: index.buckets(partition, hashes[rows]))
        return codes + buckets(columns, types, self._bucket_count, schema.table_options.bucket_function)

    def _dynamic_codes(
        self, partitions: Codes, buckets_of: Callable[[bytes, Rows | slice], npt.NDArray[np.int32]]
    ) -> Codes:
        """Return a number for the dynamic bucket of each row; `partitions` are the numbers of their partitions.
        `buckets_of` returns the buckets of some rows of a serialized partition.
        """
        codes = np.empty(len(partitions), dtype=np.int64)
        is_one = len(self._paths) == 1
        for number in (0,) if is_one and len(partitions) else np.flatnonzero(np.bincount(partitions)).tolist():
            rows = slice(None) if is_one else np.flatnonzero(partitions == number)
            found = buckets_of(self._paths[number][0], rows)
            if (found == found[0]).all():
                codes[rows] = self._dynamic_code(number, int(found[0]))
                continue
            code_of = np.zeros(int(found.max()) + 1, dtype=np.int64)
            for bucket in np.flatnonzero(np.bincount(found)).tolist():
                code_of[bucket] = self._dynamic_code(number, bucket)
            codes[rows] = code_of[found]
        return codes

    def _dynamic_code(self, number: int, bucket: int) -> int:
        code = self._dynamic.setdefault((number, bucket), len(self._dynamic))
        if code not in self._places:
            self._places[code] = self._path(number, bucket)
        return code

    def _partition_codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return a number for the partition of each row, computed from distinct values only."""
        combined = np.zeros(len(columns[0]), dtype=np.int64)
        count = 1
        for column in columns:
            encoded = column.dictionary_encode(null_encoding="encode")
            size = len(encoded.dictionary)
            combined, count = _dense(combined * size + fixed_values(encoded.indices, np.int32), count * size)
        first_rows = np.zeros(count, dtype=np.int64)
        first_rows[combined] = np.arange(len(combined))
        numbers = [self._partition([column[row] for column in columns]) for row in first_rows.tolist()]
        codes: Codes = np.array(numbers, dtype=np.int64)[combined]
        return codes

    def _partition(self, scalars: Sequence[pa.Scalar]) -> int:
        fields = self._schema.partition_fields
        types = [field.type for field in fields]
        values = [to_internal(value, kind) for value, kind in zip(scalars, types, strict=True)]
        partition = serialize_row(values, types)
        if partition not in self._partitions:
            options = self._schema.table_options
            path = partition_path(
                self._schema.partition_keys,
                types,
                values,
                default_name=options.partition_default_name,
                legacy=options.partition_legacy_name,
            )
            self._partitions[partition] = len(self._paths)
            self._paths.append((partition, path))
        return self._partitions[partition]

    def _place(self, code: int) -> BucketPath:
        if code not in self._places:
            number, bucket = divmod(code, self._bucket_count)
            self._places[code] = self._path(number, bucket if self._one_bucket is None else self._one_bucket)
        return self._places[code]

    def _path(self, number: int, bucket: int) -> BucketPath:
        partition, path = self._paths[number]
        data_folder = self._schema.table_options.data_file_directory or ""
        return BucketPath(partition, bucket, bucket_folder(path, bucket, data_folder=data_folder))


def _waits(schema: TableSchema) -> bool:
    return isinstance(schema.bucketing, Postpone)


def _bucket_count(bucketing: Bucketing) -> int:
    """Return the number of buckets among which the rows of a partition are divided."""
    match bucketing:
        case Fixed(count):
            return count
        case Unaware() | Dynamic() | Postpone():
            # An append table without buckets puts all rows in bucket 0. Dynamic buckets come from an index.
            return 1
        case _:
            assert_never(bucketing)


def _dense(codes: Codes, size: int) -> tuple[Codes, int]:
    """Renumber codes below `size` so that each number is used, and return how many there are."""
    if size > len(codes) + (1 << 20):
        found, dense = np.unique(codes, return_inverse=True)
        return dense, len(found)
    is_used = np.zeros(size, dtype=bool)
    is_used[codes] = True
    return (np.cumsum(is_used) - 1)[codes], int(np.count_nonzero(is_used))


def _narrowed(codes: Codes) -> npt.NDArray[Any]:
    highest = int(codes.max(initial=0))
    return codes.astype(np.uint8 if highest < 1 << 8 else np.uint16 if highest < 1 << 16 else np.int64)
