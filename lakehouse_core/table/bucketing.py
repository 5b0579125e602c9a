"""Bucketing: the rule that assigns the rows of a table to buckets.

Rule: only this module, `options` and the schema rules compare values of the option `bucket` or bucket numbers. Other
modules use `match schema.bucketing`, which ends in `assert_never`.
Source: docs/semantics/tables.md#bucket-modes.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.options import DYNAMIC_BUCKET, POSTPONE_BUCKET, BucketFunction


@dataclass(frozen=True, slots=True)
class Fixed:
    """`count` buckets in each partition; `function` of the bucket key gives the bucket of a row."""

    count: int
    function: BucketFunction


@dataclass(frozen=True, slots=True)
class Unaware:
    """An append table without buckets: all files of a partition lie in bucket 0, in no order."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The writing engine keeps an index from each key to its bucket.

    `crosses_partitions`: a key may move from one partition to another.
    """

    crosses_partitions: bool


@dataclass(frozen=True, slots=True)
class Postpone:
    """New rows wait in one bucket of each partition, which batch reads skip, until a compaction moves them to their
    buckets.
    """


Bucketing: TypeAlias = Fixed | Unaware | Dynamic | Postpone


def bucketing_of(bucket: int, function: BucketFunction, *, has_key: bool, crosses_partitions: bool) -> Bucketing:
    """Return what the option `bucket` means in a table with or without a primary key.

    Raises InvalidRequest for a value without a meaning.
    """
    if bucket >= 1:
        return Fixed(bucket, function)
    if bucket == DYNAMIC_BUCKET:
        return Dynamic(crosses_partitions) if has_key else Unaware()
    if bucket == POSTPONE_BUCKET:
        return Postpone()
    raise InvalidRequest(f"Option bucket is {bucket}: expected 1 or more, -1 or -2.")


def has_buckets(bucketing: Bucketing) -> bool:
    """Return whether rows are bound to buckets; without buckets, any files of a partition may be rewritten together."""
    match bucketing:
        case Fixed() | Dynamic() | Postpone():
            return True
        case Unaware():
            return False
        case _:
            assert_never(bucketing)


def has_order(bucketing: Bucketing) -> bool:
    """Return whether the rows of a bucket have an order that later writes continue."""
    match bucketing:
        case Fixed() | Dynamic():
            return True
        case Unaware() | Postpone():
            return False
        case _:
            assert_never(bucketing)


def has_hash_index(bucketing: Bucketing) -> bool:
    """Return whether each bucket has an index of the hashes of its keys."""
    return isinstance(bucketing, Dynamic) and not bucketing.crosses_partitions


def moves_keys(bucketing: Bucketing) -> bool:
    """Return whether a key may move from one partition to another, so that a write reads where its keys are."""
    return isinstance(bucketing, Dynamic) and bucketing.crosses_partitions


def places_keys(bucketing: Bucketing) -> bool:
    """Return whether a write finds where its keys are, so that another commit may put them elsewhere meanwhile."""
    return isinstance(bucketing, Dynamic)


def total_buckets(bucketing: Bucketing) -> int:
    """Return the bucket count of a partition as manifest entries of new files record it."""
    match bucketing:
        case Fixed(count):
            return count
        case Unaware() | Dynamic():
            return DYNAMIC_BUCKET
        case Postpone():
            return POSTPONE_BUCKET
        case _:
            assert_never(bucketing)


def moves_rows(old: int, new: int) -> bool:
    """Return whether a change of the option `bucket` from `old` to `new` changes the kind of rule that assigns rows."""
    return DYNAMIC_BUCKET in (old, new)


def is_placed(bucket: int) -> bool:
    """Return whether the rows of a bucket are in their final bucket; those of a negative bucket number are not."""
    return bucket >= 0


def are_placed(buckets: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return `is_placed` of each bucket."""
    return buckets >= 0


def is_read(bucketing: Bucketing, bucket: int) -> bool:
    """Return whether reads of a table's state have the rows of the bucket: of postponed ones, those that have a
    bucket.
    """
    return not isinstance(bucketing, Postpone) or is_placed(bucket)


def may_wait(bucketing: Bucketing) -> bool:
    """Return whether new rows wait for their buckets until a compaction."""
    return isinstance(bucketing, Postpone)


def is_waiting_room(bucket: int) -> bool:
    """Return whether the bucket is the one for waiting rows of a table with postponed buckets."""
    return bucket == POSTPONE_BUCKET
