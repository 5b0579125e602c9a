"""The string map of table options, parsed once into small frozen records with defaults and units."""

from lakehouse_core.options.checks import (
    about_option,
    check_consistent,
    check_known,
    check_writable,
    current_options,
    known_key,
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
    ExpiryOptions,
    MergeEngine,
    TableOptions,
)
from lakehouse_core.options.scan_mode import SCAN_KEYS, ScanMode, ScanStart, scan_start
from lakehouse_core.options.units import parse_bool, parse_duration, parse_levels, parse_names, parse_size

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
    "ExpiryOptions",
    "MergeEngine",
    "OptionKey",
    "ScanMode",
    "ScanStart",
    "TableOptions",
    "Treatment",
    "about_option",
    "check_consistent",
    "check_known",
    "check_writable",
    "current_options",
    "known_key",
    "parse_bool",
    "parse_duration",
    "parse_levels",
    "parse_names",
    "parse_size",
    "scan_start",
]
