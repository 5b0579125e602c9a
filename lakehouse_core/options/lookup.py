"""Lookup: which compactions look versions up, and what local lookup files may take.

Source: docs/semantics/changelog.md#when-lookups-are-needed.
"""

from dataclasses import dataclass

from lakehouse_core.options.changelog import ChangelogProducer
from lakehouse_core.options.merging import MergeEngine
from lakehouse_core.options.source import Source


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


def needs_lookup(source: Source) -> bool:
    """Return whether compactions look up what lies above their output."""
    return (
        source.word("changelog-producer") == ChangelogProducer.LOOKUP
        or source.word("merge-engine") == MergeEngine.FIRST_ROW
        or source.flag("deletion-vectors.enabled")
        or source.flag("force-lookup")
    )
