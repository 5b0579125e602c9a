"""Table options, parsed once: frozen records with defaults and units, grouped by concern.

Parsing takes any table, also one that other engines wrote with options unknown here; what may be created, written or
read is decided by `checks` and by the rules of a schema.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.options.file_indexes import IndexedColumn, indexed_columns
from lakehouse_core.options.keys import FORMER_NAMES
from lakehouse_core.options.known import KNOWN
from lakehouse_core.options.units import (
    parse_bool,
    parse_duration,
    parse_float,
    parse_int,
    parse_levels,
    parse_names,
    parse_size,
    parse_word,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecommitOptions:
    """Whether small new files become one before a commit; changelog files from `buffer_bytes` on are not small."""

    is_enabled: bool = False
    buffer_bytes: int = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryOptions:
    """How much history stays; `limit` bounds the snapshots of one run."""

    min_retained: int = 10
    max_retained: int = 2147483647
    max_age_millis: int = 3_600_000
    limit: int = 50
    # Expiry refuses when the latest snapshot lies further in the future than this.
    max_skew_millis: int = 600_000


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpiryOptions:
    """Rows whose time lies further back than `age_seconds` go when their file is rewritten."""

    age_seconds: int
    time_field: str | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorOptions:
    """Whether rows are marked as deleted beside the files that hold them; `bits64`: in the form for large files.

    `merge_on_read`: of a key table what no compaction has seen yet is read too, which needs a merge.
    """

    enabled: bool = False
    merge_on_read: bool = False
    bits64: bool = False
    index_file_target_bytes: int = 2 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStyle:
    """How the files of one kind are stored: format parquet, orc or avro, compression by Paimon's name, both lower case.

    `stats_mode` is that of columns without one of their own.
    """

    format: str = "parquet"
    compression: str = "zstd"
    stats_mode: str = "truncate(16)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """Local lookup files: so many bytes of them, and none that was not used for so long."""

    max_disk_bytes: int = 2**63 - 1
    retention_millis: int = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What a table's options say. Sizes are bytes; names as given by the user."""

    # Buckets.
    bucket: int = DYNAMIC_BUCKET
    bucket_key: tuple[str, ...] = ()
    bucket_function: BucketFunction = BucketFunction.DEFAULT

    # What becomes of one key.
    merge_engine: MergeEngine = MergeEngine.DEDUPLICATE
    changelog_producer: ChangelogProducer = ChangelogProducer.NONE
    # Compactions look up what lies above their output, so that a record there holds all that is older.
    needs_lookup: bool = False
    # Whether the write itself makes what lookups tell, instead of leaving it to a later compaction.
    lookup_wait: bool = True
    # A full compaction with every so many-th commit; None: no such rule.
    full_compaction_delta_commits: int | None = None
    # A compaction with every commit, also where lookups need not wait for one.
    commit_force_compact: bool = False
    # Updates that change no column but the ignored ones are not told.
    changelog_row_deduplicate: bool = False
    changelog_ignored_fields: tuple[str, ...] = ()
    sequence_fields: tuple[str, ...] = ()
    sequence_descending: bool = False
    rowkind_field: str | None = None
    ignore_delete: bool = False
    ignore_update_before: bool = False

    # Data files.
    # `style` is that of levels without one of their own.
    style: FileStyle = FileStyle()
    style_by_level: Mapping[int, FileStyle] = field(default_factory=dict)
    changelog_format: str | None = None
    changelog_compression: str | None = None
    changelog_stats_mode: str | None = None
    zstd_level: int = 1
    explicit_target_file_size_bytes: int | None = None
    target_file_row_num: int = 2**63 - 1
    precommit: PrecommitOptions = PrecommitOptions()
    write_buffer_bytes: int = 256 << 20
    spill: SpillOptions = SpillOptions()
    write_only: bool = False
    thin_mode: bool = False
    data_file_prefix: str = "data-"
    changelog_file_prefix: str = "changelog-"
    data_file_directory: str | None = None

    # Statistics: none, counts, full, truncate(n); those of a table or a level are in its style.
    stats_mode_by_column: Mapping[str, str] = field(default_factory=dict)
    stats_dense: bool = True
    stats_keep_first_n_columns: int = -1

    # Manifests.
    manifest_target_bytes: int = 8 << 20
    manifest_merge_min_count: int = 30
    manifest_full_compaction_bytes: int = 16 << 20
    manifest_compression: str = "zstd"

    # Partitions.
    partition_default_name: str = "__DEFAULT_PARTITION__"
    partition_legacy_name: bool = True
    dynamic_partition_overwrite: bool = True
    partition_times: PartitionTimeOptions = PartitionTimeOptions()

    # Levels and compaction.
    num_levels: int = 6
    overwrite_upgrade: bool = True
    compaction: CompactionOptions = CompactionOptions()
    record_expiry: RecordExpiryOptions | None = None

    # Reading.
    split_target_bytes: int = 128 << 20
    split_open_cost_bytes: int = 4 << 20
    read_grace_millis: int = 3_600_000
    read_verify: bool = True

    # File indexes; larger ones than `file_index_embedded_bytes` are files of their own.
    indexed_columns: tuple[IndexedColumn, ...] = ()
    file_index_embedded_bytes: int = 500
    file_index_read: bool = True

    # Alterations.
    null_to_not_null_disabled: bool = True
    explicit_casts_disabled: bool = False
    add_column_before_partition: bool = False

    deletion_vectors: DeletionVectorOptions = DeletionVectorOptions()
    lookup: LookupOptions = LookupOptions()
    commit: CommitOptions = CommitOptions()
    expiry: ExpiryOptions = ExpiryOptions()
    changelog_expiry: ChangelogExpiryOptions = ChangelogExpiryOptions()

    @property
    def skips_level_0(self) -> bool:
        """Whether readers of a table with these options and a primary key leave out what no compaction has seen.

        Its compactions look older versions of a key up: the files above level 0 hold each key once.
        """
        vectors = self.deletion_vectors
        return self.merge_engine is MergeEngine.FIRST_ROW or (vectors.enabled and not vectors.merge_on_read)

    def target_file_size_bytes(self, has_key: bool) -> int:
        """Return where data files roll: 128 MB with a primary key, 256 MB without, unless set."""
        if self.explicit_target_file_size_bytes is not None:
            return self.explicit_target_file_size_bytes
        return (128 if has_key else 256) << 20

    def style_at(self, level: int) -> FileStyle:
        """Return how data files of a level of a key table are stored. Append tables know no levels: see `style`."""
        return self.style_by_level.get(level, self.style)

    def changelog_style_at(self, level: int) -> FileStyle:
        """Return how changelog files of a level are stored: as its data files, but for what is set for changelogs."""
        style = self.style_at(level)
        return FileStyle(
            format=self.changelog_format or style.format,
            compression=self.changelog_compression or style.compression,
            stats_mode=self.changelog_stats_mode or style.stats_mode,
        )

    @staticmethod
    def parse(options: Mapping[str, str]) -> "TableOptions":
        """Return the options of a table, whoever wrote it; unknown keys mean nothing.

        Raises InvalidRequest when the value of an option that is carried out does not parse.
        """
        return _parse(_Source(options))


class _Source:
    """Options under their current names, read by kind, defaults filled in."""

    def __init__(self, options: Mapping[str, str]) -> None:
        former = {FORMER_NAMES[key]: value for key, value in options.items() if key in FORMER_NAMES}
        self.values = former | dict(options)

    def text(self, key: str) -> str | None:
        return self.values.get(key, KNOWN[key].default)

    def required(self, key: str) -> str:
        text = self.text(key)
        assert text is not None, key
        return text

    def names(self, key: str) -> tuple[str, ...]:
        return parse_names(self.text(key) or "")

    def word(self, key: str) -> str:
        kind = KNOWN[key].kind
        assert isinstance(kind, tuple)
        return parse_word(key, self.required(key), kind)

    def flag(self, key: str) -> bool:
        return parse_bool(key, self.required(key))

    def whole(self, key: str) -> int:
        return parse_int(key, self.required(key))

    def levels(self, key: str) -> dict[int, str]:
        return parse_levels(key, self.required(key))

    def fraction(self, key: str) -> float:
        return parse_float(key, self.required(key))

    def size(self, key: str) -> int:
        return parse_size(key, self.required(key))

    def millis(self, key: str) -> int:
        return parse_duration(key, self.required(key))

    def size_if_set(self, key: str) -> int | None:
        return self.size(key) if self.has(key) else None

    def millis_if_set(self, key: str) -> int | None:
        return self.millis(key) if self.has(key) else None

    def has(self, key: str) -> bool:
        return self.text(key) is not None


def _parse(source: _Source) -> TableOptions:
    size = "target-file-size"
    levels = source.whole("num-levels") if source.has("num-levels") else source.whole(COMPACTION_TRIGGER_KEY) + 1
    return TableOptions(
        bucket=source.whole("bucket"),
        bucket_key=source.names("bucket-key"),
        bucket_function=BucketFunction(source.word("bucket-function.type")),
        merge_engine=MergeEngine(source.word("merge-engine")),
        changelog_producer=ChangelogProducer(source.word("changelog-producer")),
        needs_lookup=_needs_lookup(source),
        lookup_wait=source.flag("lookup-wait"),
        full_compaction_delta_commits=_delta_commits(source),
        commit_force_compact=source.flag("commit.force-compact"),
        changelog_row_deduplicate=source.flag("changelog-producer.row-deduplicate"),
        changelog_ignored_fields=source.names("changelog-producer.row-deduplicate-ignore-fields"),
        sequence_fields=source.names("sequence.field"),
        sequence_descending=source.word("sequence.field.sort-order") == "descending",
        rowkind_field=source.text("rowkind.field"),
        ignore_delete=source.flag("ignore-delete"),
        ignore_update_before=source.flag("ignore-update-before"),
        style=_style(source),
        style_by_level=_styles(source),
        changelog_format=_lower(source.text("changelog-file.format")),
        changelog_compression=_lower(source.text("changelog-file.compression")),
        changelog_stats_mode=_changelog_stats_mode(source),
        zstd_level=source.whole("file.compression.zstd-level"),
        explicit_target_file_size_bytes=source.size(size) if source.has(size) else None,
        target_file_row_num=source.whole("target-file-row-num"),
        precommit=PrecommitOptions(
            is_enabled=source.flag("precommit-compact"),
            buffer_bytes=source.size("changelog.precommit-compact.buffer-size"),
        ),
        write_buffer_bytes=source.size("write-buffer-size"),
        spill=SpillOptions(
            is_enabled=source.flag("write-buffer-spillable"),
            most_disk_bytes=source.size("write-buffer-spill.max-disk-size"),
            most_files=source.whole("local-sort.max-num-file-handles"),
            compression=source.required("spill-compression").lower(),
            zstd_level=source.whole("spill-compression.zstd-level"),
        ),
        write_only=source.flag("write-only"),
        thin_mode=source.flag("data-file.thin-mode"),
        data_file_prefix=source.required("data-file.prefix"),
        changelog_file_prefix=source.required("changelog-file.prefix"),
        data_file_directory=source.text("data-file.path-directory"),
        stats_mode_by_column=_stats_modes(source.values),
        stats_dense=source.flag("metadata.stats-dense-store"),
        stats_keep_first_n_columns=source.whole("metadata.stats-keep-first-n-columns"),
        manifest_target_bytes=source.size("manifest.target-file-size"),
        manifest_merge_min_count=source.whole("manifest.merge-min-count"),
        manifest_full_compaction_bytes=source.size("manifest.full-compaction-threshold-size"),
        manifest_compression=source.required("manifest.compression").lower(),
        partition_default_name=source.required("partition.default-name"),
        partition_legacy_name=source.flag("partition.legacy-name"),
        dynamic_partition_overwrite=source.flag("dynamic-partition-overwrite"),
        partition_times=PartitionTimeOptions(
            age_millis=source.millis_if_set("partition.expiration-time"),
            pattern=source.text("partition.timestamp-pattern"),
            formatter=source.text("partition.timestamp-formatter"),
            is_strict=source.flag("partition.timestamp-format.strict"),
            compaction_skips=source.flag("compaction.skip-expired-partitions"),
        ),
        num_levels=levels,
        overwrite_upgrade=source.flag("overwrite-upgrade"),
        compaction=_compaction(source),
        record_expiry=_record_expiry(source),
        split_target_bytes=source.size("source.split.target-size"),
        split_open_cost_bytes=source.size("source.split.open-file-cost"),
        read_grace_millis=source.millis("lakehouse.read.grace"),
        read_verify=source.flag("lakehouse.read.verify"),
        indexed_columns=indexed_columns(source.values),
        file_index_embedded_bytes=source.size("file-index.in-manifest-threshold"),
        file_index_read=source.flag("file-index.read.enabled"),
        null_to_not_null_disabled=source.flag("alter-column-null-to-not-null.disabled"),
        explicit_casts_disabled=source.flag("disable-explicit-type-casting"),
        add_column_before_partition=source.flag("add-column-before-partition"),
        lookup=LookupOptions(
            max_disk_bytes=source.size("lookup.cache-max-disk-size"),
            retention_millis=source.millis("lookup.cache-file-retention"),
        ),
        deletion_vectors=DeletionVectorOptions(
            enabled=source.flag("deletion-vectors.enabled"),
            merge_on_read=source.flag("deletion-vectors.merge-on-read"),
            bits64=source.flag("deletion-vectors.bitmap64"),
            index_file_target_bytes=source.size("deletion-vector.index-file.target-size"),
        ),
        commit=_commit(source),
        expiry=_expiry(source),
        changelog_expiry=_changelog_expiry(source, _expiry(source)),
    )


def _delta_commits(source: _Source) -> int | None:
    key = "full-compaction.delta-commits"
    if source.has(key):
        return source.whole(key)
    return 1 if source.word("changelog-producer") == ChangelogProducer.FULL_COMPACTION else None


def _needs_lookup(source: _Source) -> bool:
    return (
        source.word("changelog-producer") == ChangelogProducer.LOOKUP
        or source.word("merge-engine") == MergeEngine.FIRST_ROW
        or source.flag("deletion-vectors.enabled")
        or source.flag("force-lookup")
    )


def _style(source: _Source) -> FileStyle:
    mode = "metadata.stats-mode"
    return FileStyle(
        format=source.required("file.format").strip().lower(),
        compression=source.required("file.compression").strip().lower(),
        stats_mode=parse_stats_mode(mode, source.required(mode)),
    )


def _styles(source: _Source) -> dict[int, FileStyle]:
    mode = "metadata.stats-mode.per.level"
    formats, compressions = source.levels("file.format.per.level"), source.levels("file.compression.per.level")
    modes = {level: parse_stats_mode(mode, text) for level, text in source.levels(mode).items()}
    style = _style(source)
    return {
        level: FileStyle(
            format=formats.get(level, style.format).lower(),
            compression=compressions.get(level, style.compression).lower(),
            stats_mode=modes.get(level, style.stats_mode),
        )
        for level in sorted({*formats, *compressions, *modes})
    }


def _changelog_stats_mode(source: _Source) -> str | None:
    key = "changelog-file.stats-mode"
    text = source.text(key)
    return None if text is None else parse_stats_mode(key, text)


def _lower(text: str | None) -> str | None:
    return None if text is None else text.strip().lower()


def _commit(source: _Source) -> CommitOptions:
    timeout, ignore_empty = "commit.timeout", "snapshot.ignore-empty-commit"
    return CommitOptions(
        max_retries=source.whole("commit.max-retries"),
        timeout_millis=source.millis(timeout) if source.has(timeout) else DEFAULT_COMMIT_TIMEOUT_MILLIS,
        min_retry_wait_millis=source.millis("commit.min-retry-wait"),
        max_retry_wait_millis=source.millis("commit.max-retry-wait"),
        max_stall_millis=source.millis("lakehouse.commit.max-stall"),
        ignore_empty=source.flag(ignore_empty) if source.has(ignore_empty) else None,
    )


def _compaction(source: _Source) -> CompactionOptions:
    trigger = source.whole(COMPACTION_TRIGGER_KEY)
    interval = "lookup-compact.max-interval"
    looks_up = _needs_lookup(source)
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


def _record_expiry(source: _Source) -> RecordExpiryOptions | None:
    age = source.millis_if_set("record-level.expire-time")
    if age is None:
        return None
    return RecordExpiryOptions(age_seconds=age // 1000, time_field=source.text("record-level.time-field"))


def _expiry(source: _Source) -> ExpiryOptions:
    return ExpiryOptions(
        min_retained=source.whole("snapshot.num-retained.min"),
        max_retained=source.whole("snapshot.num-retained.max"),
        max_age_millis=source.millis("snapshot.time-retained"),
        limit=source.whole("snapshot.expire.limit"),
        max_skew_millis=source.millis("lakehouse.expire.max-skew"),
    )


def _changelog_expiry(source: _Source, snapshots: ExpiryOptions) -> ChangelogExpiryOptions:
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


def _stats_modes(options: Mapping[str, str]) -> dict[str, str]:
    matches = ((key, _FIELD_STATS.fullmatch(key), mode) for key, mode in options.items())
    return {match["column"]: parse_stats_mode(key, mode) for key, match, mode in matches if match}


def parse_stats_mode(key: str, text: str) -> str:
    """Return none, counts, full or truncate(n), n ≥ 1, in lower case. Raises InvalidRequest naming the option."""
    match = _STATS_MODE.fullmatch(text.strip())
    if match is None or (match["length"] and int(match["length"]) == 0):
        raise InvalidRequest(f"Option {key} is {text!r}: expected none, counts, full or truncate(16).")
    return f"truncate({int(match['length'])})" if match["length"] else match[0].lower()
