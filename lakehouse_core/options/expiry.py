"""Expiry options: how many snapshots and changelogs and which rows are kept.

Source: docs/semantics/maintenance.md#snapshot-expiry, docs/semantics/compaction.md#record-expiry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.options.known import KNOWN
from lakehouse_core.options.source import Source
from lakehouse_core.options.units import parse_bool

# Options of this package; an unknown one was set by a newer release.
_OWN_PREFIX: Final = "lakehouse."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryOptions:
    """How many snapshots are kept. `limit` bounds the snapshots that one run expires."""

    min_retained: int = 10
    max_retained: int = 2147483647
    max_age_millis: int = 3_600_000
    limit: int = 50
    # A snapshot time further ahead of the storage's clock than this is not trusted.
    max_skew_millis: int = 600_000
    # Snapshots that a consumer has yet to read stay; else only their changelogs do.
    consumers_hold_snapshots: bool = True
    # Consumers that were not written for longer are removed; None: never.
    consumer_max_age_millis: int | None = None
    # Tags are deleted once their retention time has passed.
    tags_expire: bool = True
    clean_empty_folders: bool = False


def expiry_options(source: Source) -> ExpiryOptions:
    return ExpiryOptions(
        min_retained=source.whole("snapshot.num-retained.min"),
        max_retained=source.whole("snapshot.num-retained.max"),
        max_age_millis=source.millis("snapshot.time-retained"),
        limit=source.whole("snapshot.expire.limit"),
        max_skew_millis=source.millis("lakehouse.expire.max-skew"),
        consumers_hold_snapshots=not source.flag("consumer.changelog-only"),
        consumer_max_age_millis=source.millis_if_set("consumer.expiration-time"),
        tags_expire=source.flag("tag.time-expire-enabled"),
        clean_empty_folders=source.flag("snapshot.clean-empty-directories"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogExpiryOptions:
    """How many changelogs are kept. A figure that is not set is that of the snapshots.

    `decoupled`: changelogs outlive their snapshots. This holds when any figure is larger than that of the snapshots.
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


def check_retention(snapshots: ExpiryOptions, changelogs: ChangelogExpiryOptions) -> None:
    """Raise InvalidRequest unless 1 <= min <= max for the retained snapshots or changelogs."""
    for prefix, limits in (("snapshot", snapshots), ("changelog", changelogs)):
        if limits.max_retained < limits.min_retained:
            raise InvalidRequest(
                f"{prefix}.num-retained.min is {limits.min_retained}, .max is {limits.max_retained}: set 1 <= min "
                "<= max."
            )


def option_of_unknown_roots(options: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first option, with its value, under which roots that this package does not know may keep files."""
    for key, value in options.items():
        # Branches of a chain table read files of each other that no root of the reading branch names.
        is_chain = key == "chain-table.enabled" and parse_bool(key, value)
        if is_chain or (key.startswith(_OWN_PREFIX) and key not in KNOWN):
            return key, value
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpiryOptions:
    """Record expiry: rows whose time is more than `age_seconds` ago are dropped when their file is rewritten."""

    age_seconds: int
    time_field: str | None = None


def record_expiry_options(source: Source) -> RecordExpiryOptions | None:
    age = source.millis_if_set("record-level.expire-time")
    if age is None:
        return None
    return RecordExpiryOptions(age_seconds=age // 1000, time_field=source.text("record-level.time-field"))
