"""Compaction trigger: choose the compaction that follows a write.

A writer compacts after its rows are committed. Unfinished work is left to the next compaction: the levels of the files
show what is still to be done.
Source: docs/semantics/compaction.md#triggers-of-a-write.
"""

from enum import Enum

from lakehouse_core.options import TableOptions
from lakehouse_core.table.bucketing import has_buckets
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER
from lakehouse_core.table.schema import TableSchema


class Trigger(Enum):
    """The compaction after a commit."""

    NOTHING = "nothing"
    # The strategy's picks in the buckets that were written to.
    STRATEGY = "strategy"
    # The same, only in those buckets that have more sorted runs than the table's limit.
    BACK_PRESSURE = "back-pressure"
    # Full compaction of every bucket that is not one run in its top level, whichever commit wrote to it.
    FULL = "full"


def trigger_after(schema: TableSchema, commit_identifier: int) -> Trigger:
    """Return the compaction after a commit. Batch commits, which have no number, always trigger one."""
    options = schema.table_options
    # Writers to a table without buckets know only their own files, so they compact nothing.
    if options.write_only or not has_buckets(schema.bucketing):
        return Trigger.NOTHING
    every = options.full_compaction_delta_commits
    if every is not None and (commit_identifier == BATCH_IDENTIFIER or commit_identifier % every == 0):
        return Trigger.FULL
    return Trigger.BACK_PRESSURE if not schema.is_append and _may_lag(options) else Trigger.STRATEGY


def _may_lag(options: TableOptions) -> bool:
    """Return whether a key table leaves lookups to a later compaction."""
    return options.needs_lookup and not options.lookup_wait and not options.commit_force_compact
