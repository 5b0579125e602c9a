"""Lookup options: which compactions look versions up, and the limits of local lookup files.

Source: docs/semantics/changelog.md#when-lookups-are-needed.
"""

from dataclasses import dataclass

from lakehouse_core.options.changelog import ChangelogProducer
from lakehouse_core.options.merging import MergeEngine
from lakehouse_core.options.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """The limits of local lookup files: their total bytes, and how long an unused one stays.

    `filters_keys`: when a lookup has many absent keys, it uses bloom filters with this rate of false positives.
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


def needs_lookup(source: Source) -> bool:
    """Return whether compactions look up the runs above their output level."""
    return (
        source.word("changelog-producer") == ChangelogProducer.LOOKUP
        or source.word("merge-engine") == MergeEngine.FIRST_ROW
        or source.flag("deletion-vectors.enabled")
        or source.flag("force-lookup")
    )
