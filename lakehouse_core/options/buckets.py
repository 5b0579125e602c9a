"""Buckets: the values of `bucket` with a special meaning, and the functions that choose a bucket.

Source: docs/semantics/tables.md#bucket-modes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakehouse_core.options.source import Source

DYNAMIC_BUCKET: Final = -1
POSTPONE_BUCKET: Final = -2
# The number that an alteration of a postponed `bucket` is about to set. Stored in schemas. Never rename.
NEXT_BUCKET_OPTION: Final = "lakehouse.bucket.next"
_FIXED_BUCKET_OPTION: Final = "postpone.batch-write-fixed-bucket"


class BucketFunction(StrEnum):
    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBucketOptions:
    """How many keys a dynamic bucket takes before the next one is opened. `max_buckets` None: no bound of the table's
    own.

    `assigner_count`: how many tasks may share the new keys of a partition at most; None: as many as there are.
    `key_ttl_millis`: after this time since its last write, a key that moves between partitions is taken for a new one;
    None: never.
    """

    target_row_count: int = 2_000_000
    max_buckets: int | None = None
    assigner_count: int | None = None
    key_ttl_millis: int | None = None


def dynamic_bucket_options(source: Source) -> DynamicBucketOptions:
    max_buckets = source.whole("dynamic-bucket.max-buckets")
    counts = [
        source.whole(key)
        for key in ("dynamic-bucket.initial-buckets", "dynamic-bucket.assigner-parallelism")
        if source.has(key)
    ]
    return DynamicBucketOptions(
        target_row_count=source.whole("dynamic-bucket.target-row-num"),
        max_buckets=max_buckets if max_buckets > 0 else None,
        assigner_count=min(counts, default=None),
        key_ttl_millis=source.millis_if_set("cross-partition-upsert.index-ttl"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedBucketOptions:
    """How many buckets a compaction gives to a partition that has none: `default_count`, if it is set; else as many as
    its waiting rows fill with `target_row_count` each, if that is set; else with `target_size_bytes` of their files.
    `next_bucket`: what the option `bucket` is about to become, so that no more rows may come to wait; None: nothing.
    `merge_on_read`: reads of a state have the waiting rows, as if a compaction had moved them. `are_written`: a write
    brings its rows into their buckets, where no others of the partition wait.
    """

    default_count: int | None = None
    target_row_count: int | None = None
    target_size_bytes: int = 1 << 30
    next_bucket: int | None = None
    merge_on_read: bool = False
    are_written: bool = False


def postponed_bucket_options(source: Source) -> PostponedBucketOptions:
    return PostponedBucketOptions(
        default_count=source.whole_if_set("postpone.default-bucket-num"),
        target_row_count=source.whole_if_set("postpone.target-row-num-per-bucket"),
        target_size_bytes=source.size("postpone.target-size-per-bucket"),
        next_bucket=source.whole_if_set(NEXT_BUCKET_OPTION),
        merge_on_read=source.flag("postpone.merge-on-read"),
        # Unless the table sets it, its rows wait: docs/decisions/0032-rows-wait-unless-the-table-says-otherwise.md.
        are_written=source.has(_FIXED_BUCKET_OPTION) and source.flag(_FIXED_BUCKET_OPTION),
    )
