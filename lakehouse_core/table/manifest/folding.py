"""Folding: the net effect of many entries in columns, as `merge_entries` for hundreds of thousands of entries.

Entries of one file have the same fingerprint, so an entry with a unique fingerprint needs no comparison. Entries with
equal fingerprints are compared in full; no decision depends on a hash.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.avro_columns import Flags, Longs
from lakehouse_core.table.manifest.columns import EntryColumns
from lakehouse_core.table.manifest.entry import EntryKind, merge_entries
from lakehouse_core.table.manifest.fingerprints import Prints, stirred, text_fingerprints


@dataclass(frozen=True, slots=True)
class BucketRows:
    """The rows of one bucket's entries, rising. `partition` is a serialized BinaryRow."""

    partition: bytes
    bucket: int
    rows: Longs


def merge_columns(columns: EntryColumns) -> EntryColumns:
    """Return the net effect of entries in commit order: the DELETEs without their ADD, then the live files.

    The result equals that of `merge_entries`. Raises CorruptTable if a live file is added again.
    """
    gone = _gone(columns)
    deletes = columns.kinds == EntryKind.DELETE
    if not gone.any() and not deletes.any():
        return columns
    left = ~gone
    return columns.take(np.concatenate([np.flatnonzero(left & deletes), np.flatnonzero(left & ~deletes)]))


def live_rows(columns: EntryColumns) -> Flags:
    """Return a mask of the entries of live files: the ADDs that `merge_columns` returns, without a copy.

    Raises CorruptTable when a live file is added again.
    """
    live: Flags = columns.kinds == EntryKind.ADD
    return live & ~_gone(columns)


def bucket_rows(columns: EntryColumns) -> Iterator[BucketRows]:
    """Yield the entries of each bucket, in the order in which buckets first occur."""
    if not len(columns):
        return
    keys = columns.partition_codes.astype(np.int64) << 32 | (columns.buckets.astype(np.int64) & 0xFFFFFFFF)
    order = np.argsort(keys, kind="stable")
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    groups = np.split(order, bounds)
    for rows in sorted(groups, key=lambda group: int(group[0])):
        first = int(rows[0])
        partition = columns.partitions[int(columns.partition_codes[first])]
        yield BucketRows(partition, int(columns.buckets[first]), rows)


def _gone(columns: EntryColumns) -> Flags:
    """Return a mask of the entries that a later entry undoes, or that undo an earlier one."""
    gone = np.zeros(len(columns), np.bool_)
    codes = _rare_identities(columns)
    prints = _fingerprints(columns, codes)
    ordered = np.sort(prints)
    if not (ordered[1:] == ordered[:-1]).any():
        return gone
    del ordered
    order = np.argsort(prints, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(prints[order]) != 0]))
    sizes = np.diff(np.append(starts, len(order)))
    first, second = order[starts[sizes == 2]], order[starts[sizes == 2] + 1]
    undone = (columns.kinds[first] == EntryKind.ADD) & (columns.kinds[second] == EntryKind.DELETE)
    undone &= _same_file(columns, codes, first, second)
    gone[first[undone]] = gone[second[undone]] = True
    # All other equal fingerprints: files that are added again, deletes before adds, forbidden adds, hash collisions.
    odd = sizes > 2
    odd[np.flatnonzero(sizes == 2)[~undone]] = True
    rows = [order[start : start + size] for start, size in zip(starts[odd], sizes[odd], strict=True)]
    if rows:
        _look_closely(columns, np.sort(np.concatenate(rows)), gone)
    return gone


def _look_closely(columns: EntryColumns, rows: Longs, gone: Flags) -> None:
    entries = list(columns.take(rows).entries())
    kept = {id(entry) for entry in merge_entries(entries)}
    for row, entry in zip(rows.tolist(), entries, strict=True):
        gone[row] = id(entry) not in kept


def _rare_identities(columns: EntryColumns) -> Longs:
    """Return for each entry a number that stands for its extra files, embedded index and external path."""
    known: dict[object, int] = {}
    by_code = [
        known.setdefault((rare.extra_files, rare.embedded_index, rare.external_path), len(known))
        for rare in columns.rares
    ]
    return np.array(by_code, np.int64)[columns.rare_codes]


def _same_file(columns: EntryColumns, codes: Longs, first: Longs, second: Longs) -> Flags:
    same: Flags = columns.partition_codes[first] == columns.partition_codes[second]
    for column in (columns.buckets, columns.levels, codes):
        same &= column[first] == column[second]
    names = columns.file_names
    equal = pc.equal(names.take(pa.array(first)), names.take(pa.array(second)))
    same &= equal.to_numpy()
    return same


def _fingerprints(columns: EntryColumns, codes: Longs) -> Prints:
    prints = np.empty(len(columns), np.uint64)
    start = 0
    for names in columns.file_names.chunks:
        end = start + len(names)
        prints[start:end] = text_fingerprints(names)
        start = end
    for column in (columns.partition_codes, columns.buckets, columns.levels, codes):
        prints = stirred(prints ^ column.astype(np.uint64))
    return prints
