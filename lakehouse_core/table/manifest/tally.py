"""Tally: totals of manifests that do not depend on order and division, which show that a merge changed nothing."""

from dataclasses import dataclass

import numpy as np

from lakehouse_core.table.manifest.columns import EntryColumns
from lakehouse_core.table.manifest.entry import EntryKind
from lakehouse_core.table.manifest.fingerprints import Prints, stirred, text_fingerprints

_WORD = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of entries, their newest schema (None of no entries), and `net`: the sum, modulo 2^64, of the fingerprints
    of the files that were added, less those of the files deleted.

    Two runs of manifests with equal nets add and delete the same files in the end, but for a chance of 1 in 2^64.
    Fingerprints are valid in one process only. `is_plain`: no file has two entries.
    """

    added: int
    deleted: int
    newest_schema_id: int | None
    net: int
    is_plain: bool


def tally(columns: EntryColumns) -> Tally:
    """Return the tally of one manifest's entries."""
    prints = _fingerprints(columns)
    deletes = columns.kinds == EntryKind.DELETE
    net = int(prints[~deletes].sum(dtype=np.uint64)) - int(prints[deletes].sum(dtype=np.uint64))
    deleted = int(np.count_nonzero(deletes))
    return Tally(
        added=len(columns) - deleted,
        deleted=deleted,
        newest_schema_id=int(columns.schema_ids.max()) if len(columns) else None,
        net=net % _WORD,
        is_plain=len(np.unique(prints)) == len(prints),
    )


def net_of(*tallies: Tally) -> int:
    """Return the combined net of several manifests."""
    return sum(one.net for one in tallies) % _WORD


def _fingerprints(columns: EntryColumns) -> Prints:
    """Return a fingerprint of each entry's `file_identifier`."""
    prints = np.empty(len(columns), np.uint64)
    start = 0
    for names in columns.file_names.chunks:
        end = start + len(names)
        prints[start:end] = text_fingerprints(names)
        start = end
    partitions = _hashes(columns.partitions)[columns.partition_codes]
    rares = _hashes([(rare.extra_files, rare.embedded_index, rare.external_path) for rare in columns.rares])
    for column in (
        partitions,
        columns.buckets.astype(np.uint64),
        columns.levels.astype(np.uint64),
        rares[columns.rare_codes],
    ):
        prints = stirred(prints ^ column)
    return stirred(prints)


def _hashes(values: "tuple[object, ...] | list[object]") -> Prints:
    return np.array([hash(value) % _WORD for value in values], np.uint64)
