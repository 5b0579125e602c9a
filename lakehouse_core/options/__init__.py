"""Table options: the string map, parsed once into small frozen records with defaults and units."""

from lakehouse_core.options.buckets import (
    DYNAMIC_BUCKET,
    NEXT_BUCKET_OPTION,
    POSTPONE_BUCKET,
    BucketFunction,
    DynamicBucketOptions,
    PostponedBucketOptions,
)
from lakehouse_core.options.changelog import ChangelogProducer
from lakehouse_core.options.checks import (
    WriteKind,
    about_option,
    check_bounds,
    check_consistent,
    check_known,
    check_writable,
    current_options,
    one_of,
)
from lakehouse_core.options.commit import CommitOptions
from lakehouse_core.options.compaction import CompactionOptions
from lakehouse_core.options.deletion_vectors import DeletionVectorOptions
from lakehouse_core.options.expiry import (
    ChangelogExpiryOptions,
    ExpiryOptions,
    RecordExpiryOptions,
    option_of_unknown_roots,
)
from lakehouse_core.options.file_indexes import (
    IndexedColumn,
    IndexKind,
    check_writable_indexes,
    is_index_option,
    renamed_index_option,
)
from lakehouse_core.options.files import FileStyle
from lakehouse_core.options.keys import FORMER_NAMES, check_alters_nothing, known_key
from lakehouse_core.options.known import KNOWN, OptionKey, Treatment
from lakehouse_core.options.lookup import LookupOptions
from lakehouse_core.options.merging import MergeEngine
from lakehouse_core.options.partitions import PartitionTimeOptions
from lakehouse_core.options.scan_mode import SCAN_KEYS, ScanMode, ScanStart, incremental_mode, scan_start, tags_as_ids
from lakehouse_core.options.table import TableOptions
from lakehouse_core.options.tags import TagCreation, TagFormatter, TagOptions, TagPeriod, check_auto_tags
from lakehouse_core.options.units import (
    parse_bool,
    parse_duration,
    parse_int,
    parse_levels,
    parse_names,
    parse_size,
    parse_word,
)
from lakehouse_core.options.writing import LEAST_SPILL_FILES, SpillOptions
from lakehouse_core.options.zones import local_millis, zone_of

__all__ = [
    "DYNAMIC_BUCKET",
    "FORMER_NAMES",
    "KNOWN",
    "LEAST_SPILL_FILES",
    "NEXT_BUCKET_OPTION",
    "POSTPONE_BUCKET",
    "SCAN_KEYS",
    "BucketFunction",
    "ChangelogExpiryOptions",
    "ChangelogProducer",
    "CommitOptions",
    "CompactionOptions",
    "DeletionVectorOptions",
    "DynamicBucketOptions",
    "ExpiryOptions",
    "FileStyle",
    "IndexKind",
    "IndexedColumn",
    "LookupOptions",
    "MergeEngine",
    "OptionKey",
    "PartitionTimeOptions",
    "PostponedBucketOptions",
    "RecordExpiryOptions",
    "ScanMode",
    "ScanStart",
    "SpillOptions",
    "TableOptions",
    "TagCreation",
    "TagFormatter",
    "TagOptions",
    "TagPeriod",
    "Treatment",
    "WriteKind",
    "about_option",
    "check_alters_nothing",
    "check_auto_tags",
    "check_bounds",
    "check_consistent",
    "check_known",
    "check_writable",
    "check_writable_indexes",
    "current_options",
    "incremental_mode",
    "is_index_option",
    "known_key",
    "local_millis",
    "one_of",
    "option_of_unknown_roots",
    "parse_bool",
    "parse_duration",
    "parse_int",
    "parse_levels",
    "parse_names",
    "parse_size",
    "parse_word",
    "renamed_index_option",
    "scan_start",
    "tags_as_ids",
    "zone_of",
]
