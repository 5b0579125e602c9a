"""Lookup conditions: derive a condition from looked-up keys, so that other rows are not read.

Source: docs/lookups.md#lookups.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.data_types import FLOAT_ROOTS, AtomicType, DataField, to_internal
from lakehouse_core.options import POSTPONE_BUCKET
from lakehouse_core.table.predicate import Compare, Comparison, In, Predicate, all_of
from lakehouse_core.table.split import Split

# Up to this many keys the condition lists the values; for more keys it gives only their bounds.
_MOST_VALUES: Final = 100

BucketId: TypeAlias = tuple[bytes, int, int]
"""A partition, a bucket, and the partition's bucket count."""


def key_condition(columns: Sequence[pa.Array], fields: Sequence[DataField]) -> Predicate | None:
    """Return a bound condition that all rows of these keys satisfy, and possibly others; None if there is none.

    `columns` hold the keys, in any order, one column for each of `fields`. Floating-point columns are left out: NaN
    equals itself among keys, but not in conditions.
    """
    parts: list[Predicate] = []
    for column, each in zip(columns, fields, strict=True):
        kind = each.type
        if not len(column) or not isinstance(kind, AtomicType) or kind.root in FLOAT_ROOTS:
            continue
        distinct = column.unique()
        if len(distinct) <= _MOST_VALUES:
            parts.append(In(each.name, tuple(sorted(to_internal(value, kind) for value in distinct))))
        else:
            ends = pc.min_max(column)
            parts.append(Compare(each.name, Comparison.GREATER_OR_EQUAL, to_internal(ends["min"], kind)))
            parts.append(Compare(each.name, Comparison.LESS_OR_EQUAL, to_internal(ends["max"], kind)))
    return all_of(parts)


def by_bucket(splits: Iterable[Split]) -> Mapping[BucketId, Sequence[Split]]:
    """Return the splits of each bucket. All splits of a partition with waiting rows count as those of the bucket in
    which they wait.
    """
    found: dict[BucketId, list[Split]] = {}
    for split in splits:
        place = (POSTPONE_BUCKET, POSTPONE_BUCKET) if split.waiting else (split.bucket, split.total_buckets)
        found.setdefault((split.partition, *place), []).append(split)
    return found
