"""Lookups: what is known beforehand of the rows that some keys may have, so that the others are not looked at."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.data_types import AtomicType, DataField, TypeRoot, to_internal
from lakehouse_core.table.predicate import Compare, Comparison, In, Predicate, all_of
from lakehouse_core.table.split import Split

# Up to so many keys are told one by one; of more, only between which they lie.
_MOST_VALUES: Final = 100
_FLOATS: Final = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})

BucketId: TypeAlias = tuple[bytes, int, int]
"""A partition, a bucket of it, and how many buckets it is one of."""


def key_condition(columns: Sequence[pa.Array], fields: Sequence[DataField]) -> Predicate | None:
    """Return a bound condition that the rows of these keys satisfy, others perhaps too; None when none is known.

    `columns` hold the keys, in any order, column by column as `fields` are. Floats are left out: NaN equals itself
    among keys only.
    """
    parts: list[Predicate] = []
    for column, each in zip(columns, fields, strict=True):
        kind = each.type
        if not len(column) or not isinstance(kind, AtomicType) or kind.root in _FLOATS:
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
    """Return the splits of each bucket."""
    found: dict[BucketId, list[Split]] = {}
    for split in splits:
        found.setdefault((split.partition, split.bucket, split.total_buckets), []).append(split)
    return found
