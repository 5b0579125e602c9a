"""Bucketing: how the rows of a table come to their buckets.

Rule: here, in options and in rules of a schema the value of the option `bucket` and the number of a bucket are
compared; elsewhere `match schema.bucketing` decides, and ends in `assert_never`.
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
    """`count` buckets in each partition; `function` of the bucket key says which one a row belongs to."""

    count: int
    function: BucketFunction


@dataclass(frozen=True, slots=True)
class Unaware:
    """An append table without buckets: all files of a partition lie in bucket 0, in no order."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The engine that writes keeps an index of the bucket of each key.

    `crosses_partitions`: a key may move from one partition to another.
    """

    crosses_partitions: bool


@dataclass(frozen=True, slots=True)
class Postpone:
    """New rows wait in one bucket of each partition, which batch reads leave out, until a compaction places them."""


Bucketing: TypeAlias = Fixed | Unaware | Dynamic | Postpone


def bucketing_of(bucket: int, function: BucketFunction, *, has_key: bool, crosses_partitions: bool) -> Bucketing:
    """Return what the option `bucket` means in a table with or without a primary key.

    Raises InvalidRequest for a value that means nothing.
    """
    if bucket >= 1:
        return Fixed(bucket, function)
    if bucket == DYNAMIC_BUCKET:
        return Dynamic(crosses_partitions) if has_key else Unaware()
    if bucket == POSTPONE_BUCKET:
        return Postpone()
    raise InvalidRequest(f"Option bucket is {bucket}: expected 1 or more, or -1.")


def has_buckets(bucketing: Bucketing) -> bool:
    """Return whether the files of a bucket belong together; without buckets any files of a partition may."""
    match bucketing:
        case Fixed() | Dynamic() | Postpone():
            return True
        case Unaware():
            return False
        case _:
            assert_never(bucketing)


def total_buckets(bucketing: Bucketing) -> int:
    """Return how many buckets a partition has, as manifest entries of new files say it."""
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
    """Return whether the rows of a table would be placed by another kind of rule once `bucket` is `new`, not `old`."""
    return DYNAMIC_BUCKET in (old, new)


def is_placed(bucket: int) -> bool:
    """Return whether the rows of a bucket are where they belong; those of a negative one wait to be placed."""
    return bucket >= 0


def are_placed(buckets: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return `is_placed` of each bucket."""
    return buckets >= 0


def is_waiting_room(bucket: int) -> bool:
    """Return whether the bucket is the one in which the rows of a table with postponed buckets wait."""
    return bucket == POSTPONE_BUCKET
