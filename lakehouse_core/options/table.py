"""Table options, parsed once: frozen records with defaults and units, one for each concern.

Rule: parsing takes any table, also one with options of other engines that are unknown here. `checks` and the rules of a
schema decide which tables may be created, written or read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse_core.options.buckets import (
    DYNAMIC_BUCKET,
    BucketFunction,
    DynamicBucketOptions,
    PostponedBucketOptions,
    dynamic_bucket_options,
    postponed_bucket_options,
)
from lakehouse_core.options.changelog import ChangelogProducer
from lakehouse_core.options.commit import CommitOptions, commit_options
from lakehouse_core.options.compaction import (
    COMPACTION_TRIGGER_KEY,
    CompactionOptions,
    compaction_options,
    full_compaction_delta_commits,
)
from lakehouse_core.options.deletion_vectors import DeletionVectorOptions, deletion_vector_options
from lakehouse_core.options.expiry import (
    ChangelogExpiryOptions,
    ExpiryOptions,
    RecordExpiryOptions,
    changelog_expiry_options,
    expiry_options,
    record_expiry_options,
)
from lakehouse_core.options.file_indexes import IndexedColumn, indexed_columns
from lakehouse_core.options.file_statistics import stats_modes
from lakehouse_core.options.files import (
    FileStyle,
    ParquetOptions,
    changelog_stats_mode,
    file_style,
    file_styles,
    lower_if_set,
    parquet_options,
)
from lakehouse_core.options.lookup import LookupOptions, lookup_options, needs_lookup
from lakehouse_core.options.merging import MergeEngine
from lakehouse_core.options.partitions import PartitionTimeOptions, partition_time_options
from lakehouse_core.options.source import Source
from lakehouse_core.options.tags import TagOptions, tag_options
from lakehouse_core.options.writing import PrecommitOptions, SpillOptions, precommit_options, spill_options


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The options of a table. Sizes are bytes; names are as the user wrote them."""

    # Buckets.
    bucket: int = DYNAMIC_BUCKET
    bucket_key: tuple[str, ...] = ()
    bucket_function: BucketFunction = BucketFunction.DEFAULT
    dynamic_buckets: DynamicBucketOptions = field(default_factory=DynamicBucketOptions)
    postponed_buckets: PostponedBucketOptions = field(default_factory=PostponedBucketOptions)

    # Merging of the versions of a key.
    merge_engine: MergeEngine = MergeEngine.DEDUPLICATE
    changelog_producer: ChangelogProducer = ChangelogProducer.NONE
    # Compactions look up runs above their output level, so a record there includes all older versions.
    needs_lookup: bool = False
    # Whether the write itself runs compactions with lookups, instead of leaving them to a later compaction.
    lookup_wait: bool = True
    # The number of commits between full compactions; None: no such rule.
    full_compaction_delta_commits: int | None = None
    # A compaction with every commit, also where lookups need not wait for one.
    commit_force_compact: bool = False
    # Updates that change only ignored columns emit no changelog.
    changelog_row_deduplicate: bool = False
    changelog_ignored_fields: tuple[str, ...] = ()
    sequence_fields: tuple[str, ...] = ()
    sequence_descending: bool = False
    rowkind_field: str | None = None
    ignore_delete: bool = False
    delete_forces_changelog: bool = False
    ignore_update_before: bool = False

    # Data files.
    # `style` is that of levels without one of their own.
    style: FileStyle = field(default_factory=FileStyle)
    style_by_level: Mapping[int, FileStyle] = field(default_factory=dict)
    changelog_format: str | None = None
    changelog_compression: str | None = None
    changelog_stats_mode: str | None = None
    zstd_level: int = 1
    parquet: ParquetOptions = field(default_factory=ParquetOptions)
    explicit_target_file_size_bytes: int | None = None
    target_file_row_num: int = 2**63 - 1
    precommit: PrecommitOptions = field(default_factory=PrecommitOptions)
    write_buffer_bytes: int = 256 << 20
    spill: SpillOptions = field(default_factory=SpillOptions)
    write_only: bool = False
    thin_mode: bool = False
    data_file_prefix: str = "data-"
    changelog_file_prefix: str = "changelog-"
    data_file_directory: str | None = None
    # Whether index files are in their bucket's data folder, not in a separate folder.
    index_beside_data: bool = False

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
    partition_times: PartitionTimeOptions = field(default_factory=PartitionTimeOptions)

    # Levels and compaction.
    num_levels: int = 6
    overwrite_upgrade: bool = True
    compaction: CompactionOptions = field(default_factory=CompactionOptions)
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

    deletion_vectors: DeletionVectorOptions = field(default_factory=DeletionVectorOptions)
    lookup: LookupOptions = field(default_factory=LookupOptions)
    commit: CommitOptions = field(default_factory=CommitOptions)
    expiry: ExpiryOptions = field(default_factory=ExpiryOptions)
    changelog_expiry: ChangelogExpiryOptions = field(default_factory=ChangelogExpiryOptions)
    tags: TagOptions = field(default_factory=TagOptions)

    @property
    def skips_level_0(self) -> bool:
        """Whether readers of a key table with these options leave out level 0, which no compaction has processed.

        Its compactions look up older versions of a key, so the files above level 0 hold each key once.
        """
        vectors = self.deletion_vectors
        return self.merge_engine is MergeEngine.FIRST_ROW or (vectors.enabled and not vectors.merge_on_read)

    def target_file_size_bytes(self, has_key: bool) -> int:
        """Return the size at which a new data file begins: 128 MB with a primary key, 256 MB without, unless set."""
        if self.explicit_target_file_size_bytes is not None:
            return self.explicit_target_file_size_bytes
        return (128 if has_key else 256) << 20

    def style_at(self, level: int) -> FileStyle:
        """Return how data files of a level of a key table are stored. Append tables have no levels: see `style`."""
        return self.style_by_level.get(level, self.style)

    def changelog_style_at(self, level: int) -> FileStyle:
        """Return how changelog files of a level are stored: as data files, except for the options of changelog
        files.
        """
        style = self.style_at(level)
        return FileStyle(
            format=self.changelog_format or style.format,
            compression=self.changelog_compression or style.compression,
            stats_mode=self.changelog_stats_mode or style.stats_mode,
        )

    @staticmethod
    def parse(options: Mapping[str, str]) -> "TableOptions":
        """Return the options of any table; unknown keys are ignored.

        Raises InvalidRequest when the value of an honoured option does not parse.
        """
        return _parse(Source(options))


def _parse(source: Source) -> TableOptions:
    size = "target-file-size"
    levels = source.whole("num-levels") if source.has("num-levels") else source.whole(COMPACTION_TRIGGER_KEY) + 1
    return TableOptions(
        bucket=source.whole("bucket"),
        bucket_key=source.names("bucket-key"),
        bucket_function=BucketFunction(source.word("bucket-function.type")),
        dynamic_buckets=dynamic_bucket_options(source),
        postponed_buckets=postponed_bucket_options(source),
        merge_engine=MergeEngine(source.word("merge-engine")),
        changelog_producer=ChangelogProducer(source.word("changelog-producer")),
        needs_lookup=needs_lookup(source),
        lookup_wait=source.flag("lookup-wait"),
        full_compaction_delta_commits=full_compaction_delta_commits(source),
        commit_force_compact=source.flag("commit.force-compact"),
        changelog_row_deduplicate=source.flag("changelog-producer.row-deduplicate"),
        changelog_ignored_fields=source.names("changelog-producer.row-deduplicate-ignore-fields"),
        sequence_fields=source.names("sequence.field"),
        sequence_descending=source.word("sequence.field.sort-order") == "descending",
        rowkind_field=source.text("rowkind.field"),
        ignore_delete=source.flag("ignore-delete"),
        delete_forces_changelog=source.flag("delete.force-produce-changelog"),
        ignore_update_before=source.flag("ignore-update-before"),
        style=file_style(source),
        style_by_level=file_styles(source),
        changelog_format=lower_if_set(source.text("changelog-file.format")),
        changelog_compression=lower_if_set(source.text("changelog-file.compression")),
        changelog_stats_mode=changelog_stats_mode(source),
        zstd_level=source.whole("file.compression.zstd-level"),
        parquet=parquet_options(source),
        explicit_target_file_size_bytes=source.size(size) if source.has(size) else None,
        target_file_row_num=source.whole("target-file-row-num"),
        precommit=precommit_options(source),
        write_buffer_bytes=source.size("write-buffer-size"),
        spill=spill_options(source),
        write_only=source.flag("write-only"),
        thin_mode=source.flag("data-file.thin-mode"),
        data_file_prefix=source.required("data-file.prefix"),
        changelog_file_prefix=source.required("changelog-file.prefix"),
        data_file_directory=source.text("data-file.path-directory"),
        index_beside_data=source.flag("index-file-in-data-file-dir"),
        stats_mode_by_column=stats_modes(source.values),
        stats_dense=source.flag("metadata.stats-dense-store"),
        stats_keep_first_n_columns=source.whole("metadata.stats-keep-first-n-columns"),
        manifest_target_bytes=source.size("manifest.target-file-size"),
        manifest_merge_min_count=source.whole("manifest.merge-min-count"),
        manifest_full_compaction_bytes=source.size("manifest.full-compaction-threshold-size"),
        manifest_compression=source.required("manifest.compression").lower(),
        partition_default_name=source.required("partition.default-name"),
        partition_legacy_name=source.flag("partition.legacy-name"),
        dynamic_partition_overwrite=source.flag("dynamic-partition-overwrite"),
        partition_times=partition_time_options(source),
        num_levels=levels,
        overwrite_upgrade=source.flag("overwrite-upgrade"),
        compaction=compaction_options(source),
        record_expiry=record_expiry_options(source),
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
        lookup=lookup_options(source),
        deletion_vectors=deletion_vector_options(source),
        commit=commit_options(source),
        expiry=expiry_options(source),
        changelog_expiry=changelog_expiry_options(source, expiry_options(source)),
        tags=tag_options(source),
    )
