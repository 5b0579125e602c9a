"""New buckets: which dynamic bucket each key of a partition gets when all of its buckets are written anew.

Rule: the hashes of the keys fill the buckets in rising order, as those of a first write do. Memory holds the hashes.
Source: docs/semantics/maintenance.md#rescaling-dynamic-buckets.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakehouse_core.data_files.hash_index import read_hashes
from lakehouse_core.data_files.reader import DataFileReader
from lakehouse_core.format.binary_row import hash_rows
from lakehouse_core.format.data_types import DataField
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.format.hash_index import Hashes, distinct
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.planning.bucket_assignment import Assigners, Buckets, assigned_buckets, buckets_of_rows
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.table.bucketing import has_hash_index
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import keyed_files
from lakehouse_core.tasks.merge_scan import BucketFiles, merged_records

_NONE: Final[Hashes] = np.empty(0, np.int32)


class NewBuckets:
    """Gives each key its bucket, by its hash. `hashes`: those of all keys, distinct and rising."""

    def __init__(self, hashes: Hashes, schema: TableSchema) -> None:
        options = schema.table_options.dynamic_buckets
        if not has_hash_index(schema.bucketing):
            # As in Java, the maximum has no effect where keys move between partitions.
            options = replace(options, max_buckets=None)
        self._hashes = hashes
        buckets = assigned_buckets(hashes, {}, options, Assigners())
        # Keys beside each other are in few runs of one bucket.
        starts = np.flatnonzero(np.diff(buckets, prepend=-1))
        self._starts = [*starts.tolist(), len(hashes)]
        self._firsts: Hashes = hashes[starts]
        self._buckets: Buckets = buckets[starts]

    def of(self, hashes: Hashes) -> Buckets:
        """Return the bucket of each row by the hash of its key."""
        return buckets_of_rows(hashes, self._firsts, self._buckets)

    def hashes(self, bucket: int) -> Hashes:
        """Return the hashes of the keys of a bucket, distinct and rising."""
        runs = zip(pairwise(self._starts), self._buckets.tolist(), strict=True)
        return np.concatenate([_NONE, *(self._hashes[start:end] for (start, end), of in runs if of == bucket)])


@dataclass(frozen=True, slots=True, kw_only=True)
class OldBucket:
    """The files of one bucket that goes. `index`: the folder and the entry of its hash index, None without one."""

    files: tuple[DataFile, ...]
    index: tuple[str, IndexFile] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKeys:
    """The hashes of the keys that the buckets of a partition have together, distinct and rising.

    `later`: by file name, the hashes of keys that are in several buckets, and whose rows in this file count as written
    after those in other buckets.
    """

    hashes: Hashes
    later: Mapping[str, Hashes]


def partition_keys(
    buckets: Sequence[OldBucket], source: BucketFiles, store: StoreReader, schema: TableSchema
) -> PartitionKeys:
    """Read the keys of the buckets of one partition. Raises CorruptTable, StorageUnavailable."""
    every, live = [], []
    for bucket in buckets:
        keys, here = _key_hashes(bucket.files, source, schema)
        every.append(keys)
        live.append(here)
    hashes = distinct(np.concatenate([_NONE, *live]))
    ordered = np.sort(np.concatenate([_NONE, *every]))
    doubled = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    later: dict[str, Hashes] = {}
    for bucket, here in zip(buckets, live, strict=True) if len(doubled) else ():
        if not has_hash_index(schema.bucketing):
            # A key that left the partition, and came back into another bucket, has a delete where it was.
            last = here
        elif bucket.index is not None:
            # Writers look for a key in the indexes: what they wrote last is where one has it.
            last = read_hashes(store, *bucket.index)
        else:
            continue
        found = np.intersect1d(doubled, last, assume_unique=True)
        later |= dict.fromkeys((file.file_name for file in bucket.files), found)
    return PartitionKeys(hashes=hashes, later=later)


def _key_hashes(files: Sequence[DataFile], source: BucketFiles, schema: TableSchema) -> tuple[Hashes, Hashes]:
    """Return the distinct hashes of all keys of a bucket, and of those that are not deleted, rising."""
    fields = schema.key_fields
    types = [each.type for each in fields]
    every, live = [_NONE], [_NONE]
    records = merged_records(
        source, sections(keyed_files(files, types)), schema, fields, with_sequence_number=False, drops_deletes=False
    )
    with closing(records) as batches:
        for batch in batches:
            hashes = hash_rows(batch.columns[: len(fields)], types)
            stays = is_add(fixed_values(batch.column(VALUE_KIND).cast(pa.int8()), np.int8))
            every.append(hashes)
            live.append(hashes if stays.all() else hashes[stays])
    keys = distinct(np.concatenate(every))
    if all(here is of_batch for here, of_batch in zip(live, every, strict=True)):
        return keys, keys
    return keys, distinct(np.concatenate(live))


def in_order(
    source: BucketFiles, files: Sequence[DataFile], keys: PartitionKeys, schema: TableSchema
) -> tuple[BucketFiles, tuple[DataFile, ...]]:
    """Return files and source, so that rows which count as later have higher sequence numbers than all others."""
    later = {name: hashes for name, hashes in keys.later.items() if len(hashes)}
    if not later:
        return source, tuple(files)
    rise = 1 + max(file.max_sequence_number for file in files)
    raised = tuple(
        replace(file, max_sequence_number=file.max_sequence_number + rise) if file.file_name in later else file
        for file in files
    )
    around = {name: partial(_RaisedNumbers, schema, later=hashes, rise=rise) for name, hashes in later.items()}
    return replace(source, around=around), raised


@dataclass(frozen=True, slots=True)
class _RaisedNumbers:
    """A data file in which rows whose key has one of the hashes `later` have sequence numbers that are higher by
    `rise`.
    """

    schema: TableSchema
    reader: DataFileReader
    later: Hashes
    rise: int

    def row_bytes(self, fields: Sequence[DataField]) -> float:
        return self.reader.row_bytes(fields)

    def row_count_left(self, fields: Sequence[DataField], row_filter: Predicate) -> int:
        return self.reader.row_count_left(fields, row_filter)

    def batches(
        self,
        fields: Sequence[DataField],
        *,
        system: Sequence[str] = (),
        batch_rows: int,
        held_bytes: int = 64 << 20,
        row_filter: Predicate | None = None,
        without: Positions | None = None,
        only: BitMap | None = None,
        in_threads: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        found = self.reader.batches(
            fields,
            system=system,
            batch_rows=batch_rows,
            held_bytes=held_bytes,
            row_filter=row_filter,
            without=without,
            only=only,
            in_threads=in_threads,
        )
        return map(self._raised, found) if SEQUENCE_NUMBER in system else found

    def decode_all(self) -> None:
        self.reader.decode_all()

    def close(self) -> None:
        self.reader.close()

    def _raised(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = self.schema.key_fields
        hashes = hash_rows([batch.column(each.name) for each in fields], [each.type for each in fields])
        numbers = fixed_values(batch.column(SEQUENCE_NUMBER), np.int64) + self.rise * np.isin(hashes, self.later)
        at = batch.schema.get_field_index(SEQUENCE_NUMBER)
        return batch.set_column(at, SEQUENCE_NUMBER, pa.array(numbers))
