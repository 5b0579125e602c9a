"""Which compaction a write brings along.

A writer here compacts once its rows are committed: what it cannot finish is left to the next compaction, and nothing is
lost, for what is still to be done shows in the levels of the files.
Source: docs/semantics/compaction.md#triggers-of-a-write.
"""

from enum import Enum

from lakehouse_core.options import TableOptions
from lakehouse_core.table.bucketing import has_buckets
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER
from lakehouse_core.table.schema import TableSchema


class Trigger(Enum):
    """What is compacted after a commit."""

    NOTHING = "nothing"
    # What the strategy picks in the buckets that were written to.
    STRATEGY = "strategy"
    # The same, in those of them that have more sorted runs than the table lets pile up.
    BACK_PRESSURE = "back-pressure"
    # Every bucket that is not in its top level, whichever commit wrote to it.
    FULL = "full"


def trigger_after(schema: TableSchema, commit_identifier: int) -> Trigger:
    """Return what is compacted after a commit. Batch commits, which carry no number, always count."""
    options = schema.table_options
    # Writers to a table without buckets know only their own files, so they compact none.
    if options.write_only or not has_buckets(schema.bucketing):
        return Trigger.NOTHING
    every = options.full_compaction_delta_commits
    if every is not None and (commit_identifier == BATCH_IDENTIFIER or commit_identifier % every == 0):
        return Trigger.FULL
    return Trigger.BACK_PRESSURE if not schema.is_append and _may_lag(options) else Trigger.STRATEGY


def _may_lag(options: TableOptions) -> bool:
    """Say whether a key table leaves lookups to a later compaction."""
    return options.needs_lookup and not options.lookup_wait and not options.commit_force_compact
