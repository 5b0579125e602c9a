"""The string map of table options, parsed once into small frozen records with defaults and units."""

from lakehouse_core.options.checks import (
    about_option,
    check_consistent,
    check_known,
    check_writable,
    current_options,
    known_key,
)
from lakehouse_core.options.file_indexes import (
    IndexedColumn,
    IndexKind,
    check_writable_indexes,
    is_index_option,
    renamed_index_option,
)
from lakehouse_core.options.keys import FORMER_NAMES
from lakehouse_core.options.known import KNOWN, OptionKey, Treatment
from lakehouse_core.options.records import (
    DYNAMIC_BUCKET,
    POSTPONE_BUCKET,
    BucketFunction,
    ChangelogExpiryOptions,
    ChangelogProducer,
    CommitOptions,
    CompactionOptions,
    DeletionVectorOptions,
    ExpiryOptions,
    MergeEngine,
    RecordExpiryOptions,
    TableOptions,
)
from lakehouse_core.options.scan_mode import SCAN_KEYS, ScanMode, ScanStart, scan_start
from lakehouse_core.options.units import (
    parse_bool,
    parse_duration,
    parse_int,
    parse_levels,
    parse_names,
    parse_size,
    parse_word,
)

__all__ = [
    "DYNAMIC_BUCKET",
    "FORMER_NAMES",
    "KNOWN",
    "POSTPONE_BUCKET",
    "SCAN_KEYS",
    "BucketFunction",
    "ChangelogExpiryOptions",
    "ChangelogProducer",
    "CommitOptions",
    "CompactionOptions",
    "DeletionVectorOptions",
    "ExpiryOptions",
    "IndexKind",
    "IndexedColumn",
    "MergeEngine",
    "OptionKey",
    "RecordExpiryOptions",
    "ScanMode",
    "ScanStart",
    "TableOptions",
    "Treatment",
    "about_option",
    "check_consistent",
    "check_known",
    "check_writable",
    "check_writable_indexes",
    "current_options",
    "is_index_option",
    "known_key",
    "parse_bool",
    "parse_duration",
    "parse_int",
    "parse_levels",
    "parse_names",
    "parse_size",
    "parse_word",
    "renamed_index_option",
    "scan_start",
]
