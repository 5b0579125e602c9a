"""Commit options: how long and how often a commit tries.

Source: docs/semantics/commit.md#commit-loop.
"""

from dataclasses import dataclass
from typing import Final

from lakehouse_core.options.source import Source

# Java retries without a deadline; a caller here gets an answer.
DEFAULT_COMMIT_TIMEOUT_MILLIS: Final = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """How long and how often a commit tries.

    `ignore_empty` None: empty batch commits are ignored, those of streams are not.
    """

    # None: until the deadline. With Java's default of ten, many concurrent writers would fail; an explicit number
    # counts.
    max_retries: int | None = None
    timeout_millis: int = DEFAULT_COMMIT_TIMEOUT_MILLIS
    min_retry_wait_millis: int = 10
    max_retry_wait_millis: int = 10_000
    # If more time passes between reading the latest snapshot and claiming the next id, the latest snapshot is read
    # again.
    max_stall_millis: int = 120_000
    ignore_empty: bool | None = None


def commit_options(source: Source) -> CommitOptions:
    retries, timeout, ignore_empty = "commit.max-retries", "commit.timeout", "snapshot.ignore-empty-commit"
    return CommitOptions(
        max_retries=source.whole(retries) if source.is_set(retries) else None,
        timeout_millis=source.millis(timeout) if source.has(timeout) else DEFAULT_COMMIT_TIMEOUT_MILLIS,
        min_retry_wait_millis=source.millis("commit.min-retry-wait"),
        max_retry_wait_millis=source.millis("commit.max-retry-wait"),
        max_stall_millis=source.millis("lakehouse.commit.max-stall"),
        ignore_empty=source.flag(ignore_empty) if source.has(ignore_empty) else None,
    )
