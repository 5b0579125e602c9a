"""What the options say of one concern each, as frozen records, and how each is read from them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.options.source import Source

DYNAMIC_BUCKET: Final = -1
POSTPONE_BUCKET: Final = -2

# Java retries without a deadline; a caller here gets an answer.
DEFAULT_COMMIT_TIMEOUT_MILLIS: Final = 120_000

# A merge of spilled runs reads two, at least, and writes one.
LEAST_SPILL_FILES: Final = 3

COMPACTION_TRIGGER_KEY: Final = "num-sorted-run.compaction-trigger"

_FIELD_STATS: Final = re.compile(r"fields\.(?P<column>.+)\.stats-mode")
_STATS_MODE: Final = re.compile(r"none|counts|full|truncate\(\s*(?P<length>\d{1,9})\s*\)", re.IGNORECASE)


class MergeEngine(StrEnum):
    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class ChangelogProducer(StrEnum):
    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class BucketFunction(StrEnum):
    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """How long and how often a commit tries. `ignore_empty` None: batch commits ignore empty ones, streams do not."""

    max_retries: int = 10
    timeout_millis: int = DEFAULT_COMMIT_TIMEOUT_MILLIS
    min_retry_wait_millis: int = 10
    max_retry_wait_millis: int = 10_000
    # Longer between the look at the latest snapshot and the claim of the next means: look again.
    max_stall_millis: int = 120_000
    ignore_empty: bool | None = None


def commit_options(source: Source) -> CommitOptions:
    timeout, ignore_empty = "commit.timeout", "snapshot.ignore-empty-commit"
    return CommitOptions(
        max_retries=source.whole("commit.max-retries"),
        timeout_millis=source.millis(timeout) if source.has(timeout) else DEFAULT_COMMIT_TIMEOUT_MILLIS,
        min_retry_wait_millis=source.millis("commit.min-retry-wait"),
        max_retry_wait_millis=source.millis("commit.max-retry-wait"),
        max_stall_millis=source.millis("lakehouse.commit.max-stall"),
        ignore_empty=source.flag(ignore_empty) if source.has(ignore_empty) else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecommitOptions:
    """Whether small new files become one before a commit; changelog files from `buffer_bytes` on are not small."""

    is_enabled: bool = False
    buffer_bytes: int = 128 << 20


def precommit_options(source: Source) -> PrecommitOptions:
    return PrecommitOptions(
        is_enabled=source.flag("precommit-compact"),
        buffer_bytes=source.size("changelog.precommit-compact.buffer-size"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryOptions:
    """How much history stays; `limit` bounds the snapshots of one run."""

    min_retained: int = 10
    max_retained: int = 2147483647
    max_age_millis: int = 3_600_000
    limit: int = 50
    # Expiry refuses when the latest snapshot lies further in the future than this.
    max_skew_millis: int = 600_000


def expiry_options(source: Source) -> ExpiryOptions:
    return ExpiryOptions(
        min_retained=source.whole("snapshot.num-retained.min"),
        max_retained=source.whole("snapshot.num-retained.max"),
        max_age_millis=source.millis("snapshot.time-retained"),
        limit=source.whole("snapshot.expire.limit"),
        max_skew_millis=source.millis("lakehouse.expire.max-skew"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogExpiryOptions:
    """How much changelog stays; each figure is the snapshots' own unless set.

    `decoupled`: changelogs outlive their snapshots, as they do when any figure is larger than the snapshots'.
    """

    min_retained: int = 10
    max_retained: int = 2147483647
    max_age_millis: int = 3_600_000
    limit: int = 50
    decoupled: bool = False


def changelog_expiry_options(source: Source, snapshots: ExpiryOptions) -> ChangelogExpiryOptions:
    low, high, age = "changelog.num-retained.min", "changelog.num-retained.max", "changelog.time-retained"
    min_retained = source.whole(low) if source.has(low) else snapshots.min_retained
    max_retained = source.whole(high) if source.has(high) else snapshots.max_retained
    max_age_millis = source.millis(age) if source.has(age) else snapshots.max_age_millis
    return ChangelogExpiryOptions(
        min_retained=min_retained,
        max_retained=max_retained,
        max_age_millis=max_age_millis,
        limit=snapshots.limit,
        decoupled=max_retained > snapshots.max_retained
        or max_age_millis > snapshots.max_age_millis
        or min_retained > snapshots.min_retained,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """When files of a bucket are rewritten, and which. Ratios are percent but where they say so, sizes bytes.

    `forces_level_0`: no file may stay at level 0, because lookups need it or the table says so; with a
    `gentle_interval` only at each so many-th trigger that finds nothing else to do.
    """

    trigger_run_count: int = 5
    # A bucket with more runs makes writers wait for a compaction, whatever may lag.
    stop_run_count: int = 8
    max_size_amplification_percent: int = 200
    size_ratio_percent: int = 1
    # Hours of the local day, the first included, the second not; -1 is none.
    offpeak_start_hour: int = -1
    offpeak_end_hour: int = -1
    offpeak_ratio_percent: int = 0
    full_interval_millis: int | None = None
    total_size_threshold_bytes: int | None = None
    incremental_size_threshold_bytes: int | None = None
    forces_level_0: bool = False
    gentle_interval: int | None = None
    # Deletion vectors mark older versions of a row, so that what deletes it is not needed above level 0.
    marks_deleted: bool = False
    rewrites_all_files: bool = False
    # Files below this share of the target file size are small.
    small_file_ratio: float = 0.7
    # Of append tables: so many small files are worth a rewrite, and so large a share of deleted rows.
    min_file_count: int = 5
    delete_ratio_threshold: float = 0.2


def compaction_options(source: Source) -> CompactionOptions:
    trigger = source.whole(COMPACTION_TRIGGER_KEY)
    interval = "lookup-compact.max-interval"
    looks_up = needs_lookup(source)
    is_gentle = looks_up and source.word("lookup-compact") == "gentle"
    longest = source.whole(interval) if source.has(interval) else 2 * trigger
    stop = "num-sorted-run.stop-trigger"
    return CompactionOptions(
        trigger_run_count=trigger,
        stop_run_count=max(trigger, source.whole(stop) if source.has(stop) else trigger + 3),
        max_size_amplification_percent=source.whole("compaction.max-size-amplification-percent"),
        size_ratio_percent=source.whole("compaction.size-ratio"),
        offpeak_start_hour=source.whole("compaction.offpeak.start.hour"),
        offpeak_end_hour=source.whole("compaction.offpeak.end.hour"),
        offpeak_ratio_percent=source.whole("compaction.offpeak-ratio"),
        full_interval_millis=source.millis_if_set("compaction.optimization-interval"),
        total_size_threshold_bytes=source.size_if_set("compaction.total-size-threshold"),
        incremental_size_threshold_bytes=source.size_if_set("compaction.incremental-size-threshold"),
        forces_level_0=looks_up or source.flag("compaction.force-up-level-0"),
        gentle_interval=max(trigger, longest) if is_gentle else None,
        marks_deleted=source.flag("deletion-vectors.enabled"),
        rewrites_all_files=source.flag("compaction.force-rewrite-all-files"),
        small_file_ratio=source.fraction("compaction.small-file-ratio"),
        min_file_count=source.whole("compaction.min.file-num"),
        delete_ratio_threshold=source.fraction("compaction.delete-ratio-threshold"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpillOptions:
    """What becomes of a full write buffer: sorted runs on local disk, up to so many bytes and so many files at once.

    Not enabled, or without room: files of level 0. `compression`: zstd, lz4 or none.
    """

    is_enabled: bool = True
    most_disk_bytes: int = 2**63 - 1
    most_files: int = 128
    compression: str = "zstd"
    zstd_level: int = 1


def spill_options(source: Source) -> SpillOptions:
    return SpillOptions(
        is_enabled=source.flag("write-buffer-spillable"),
        most_disk_bytes=source.size("write-buffer-spill.max-disk-size"),
        most_files=source.whole("local-sort.max-num-file-handles"),
        compression=source.required("spill-compression").lower(),
        zstd_level=source.whole("spill-compression.zstd-level"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpiryOptions:
    """Rows whose time lies further back than `age_seconds` go when their file is rewritten."""

    age_seconds: int
    time_field: str | None = None


def record_expiry_options(source: Source) -> RecordExpiryOptions | None:
    age = source.millis_if_set("record-level.expire-time")
    if age is None:
        return None
    return RecordExpiryOptions(age_seconds=age // 1000, time_field=source.text("record-level.time-field"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimeOptions:
    """How the time of a partition is told from its values, and when it is over: `age_millis` later, None: never.

    `pattern` puts values together, as in `$day $hour`; without one the first is the time. `is_strict`: partitions
    without a time are not written to. `compaction_skips`: those whose time is over are not compacted.
    """

    age_millis: int | None = None
    pattern: str | None = None
    formatter: str | None = None
    is_strict: bool = False
    compaction_skips: bool = False


def partition_time_options(source: Source) -> PartitionTimeOptions:
    return PartitionTimeOptions(
        age_millis=source.millis_if_set("partition.expiration-time"),
        pattern=source.text("partition.timestamp-pattern"),
        formatter=source.text("partition.timestamp-formatter"),
        is_strict=source.flag("partition.timestamp-format.strict"),
        compaction_skips=source.flag("compaction.skip-expired-partitions"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorOptions:
    """Whether rows are marked as deleted beside the files that hold them; `bits64`: in the form for large files.

    `merge_on_read`: of a key table what no compaction has seen yet is read too, which needs a merge.
    """

    enabled: bool = False
    merge_on_read: bool = False
    bits64: bool = False
    index_file_target_bytes: int = 2 << 20


def deletion_vector_options(source: Source) -> DeletionVectorOptions:
    return DeletionVectorOptions(
        enabled=source.flag("deletion-vectors.enabled"),
        merge_on_read=source.flag("deletion-vectors.merge-on-read"),
        bits64=source.flag("deletion-vectors.bitmap64"),
        index_file_target_bytes=source.size("deletion-vector.index-file.target-size"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStyle:
    """How the files of one kind are stored: format parquet, orc or avro, compression by Paimon's name, both lower case.

    `stats_mode` is that of columns without one of their own.
    """

    format: str = "parquet"
    compression: str = "zstd"
    stats_mode: str = "truncate(16)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetOptions:
    """How values are packed into the pages of Parquet files. None: as the writer finds good.

    `dictionary`: columns whose values repeat may have one. Keys are those that Java's writer takes from a table.
    """

    dictionary: bool = True
    dictionary_page_bytes: int = 1 << 20
    page_bytes: int | None = None
    page_rows: int | None = None


def parquet_options(source: Source) -> ParquetOptions:
    """Return how Parquet files are packed."""
    return ParquetOptions(
        # Java takes whatever else is written there for true.
        dictionary=source.required("parquet.enable.dictionary").strip().lower() != "false",
        dictionary_page_bytes=source.whole("parquet.dictionary.page.size"),
        page_bytes=source.whole_if_set("parquet.page.size"),
        page_rows=source.whole_if_set("parquet.page.row.count.limit"),
    )


def file_style(source: Source) -> FileStyle:
    """Return how files of levels without a style of their own are stored."""
    mode = "metadata.stats-mode"
    return FileStyle(
        format=source.required("file.format").strip().lower(),
        compression=source.required("file.compression").strip().lower(),
        stats_mode=parse_stats_mode(mode, source.required(mode)),
    )


def file_styles(source: Source) -> dict[int, FileStyle]:
    """Return how files are stored, by level, where a level has something of its own."""
    mode = "metadata.stats-mode.per.level"
    formats, compressions = source.levels("file.format.per.level"), source.levels("file.compression.per.level")
    modes = {level: parse_stats_mode(mode, text) for level, text in source.levels(mode).items()}
    style = file_style(source)
    return {
        level: FileStyle(
            format=formats.get(level, style.format).lower(),
            compression=compressions.get(level, style.compression).lower(),
            stats_mode=modes.get(level, style.stats_mode),
        )
        for level in sorted({*formats, *compressions, *modes})
    }


def changelog_stats_mode(source: Source) -> str | None:
    """Return the mode of changelog files, None where it is that of data files."""
    key = "changelog-file.stats-mode"
    text = source.text(key)
    return None if text is None else parse_stats_mode(key, text)


def lower_if_set(text: str | None) -> str | None:
    return None if text is None else text.strip().lower()


def stats_modes(options: Mapping[str, str]) -> dict[str, str]:
    """Return the modes of the columns that have one of their own."""
    matches = ((key, _FIELD_STATS.fullmatch(key), mode) for key, mode in options.items())
    return {match["column"]: parse_stats_mode(key, mode) for key, match, mode in matches if match}


def parse_stats_mode(key: str, text: str) -> str:
    """Return none, counts, full or truncate(n), n ≥ 1, in lower case. Raises InvalidRequest naming the option."""
    match = _STATS_MODE.fullmatch(text.strip())
    if match is None or (match["length"] and int(match["length"]) == 0):
        raise InvalidRequest(f"Option {key} is {shown(text)}: expected none, counts, full or truncate(16).")
    return f"truncate({int(match['length'])})" if match["length"] else match[0].lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """Local lookup files: so many bytes of them, and none that was not used for so long.

    `filters_keys`: where many absent keys are sought, bloom filters with this rate of keys wrongly taken for present.
    """

    max_disk_bytes: int = 2**63 - 1
    retention_millis: int = 3_600_000
    filters_keys: bool = True
    false_positive_rate: float = 0.05


def lookup_options(source: Source) -> LookupOptions:
    return LookupOptions(
        max_disk_bytes=source.size("lookup.cache-max-disk-size"),
        retention_millis=source.millis("lookup.cache-file-retention"),
        filters_keys=source.flag("lookup.cache.bloom.filter.enabled"),
        false_positive_rate=source.fraction("lookup.cache.bloom.filter.fpp"),
    )


def full_compaction_delta_commits(source: Source) -> int | None:
    """Return with each how many-th commit a full compaction comes; None: no such rule."""
    key = "full-compaction.delta-commits"
    if source.has(key):
        return source.whole(key)
    return 1 if source.word("changelog-producer") == ChangelogProducer.FULL_COMPACTION else None


def needs_lookup(source: Source) -> bool:
    """Return whether compactions look up what lies above their output."""
    return (
        source.word("changelog-producer") == ChangelogProducer.LOOKUP
        or source.word("merge-engine") == MergeEngine.FIRST_ROW
        or source.flag("deletion-vectors.enabled")
        or source.flag("force-lookup")
    )
