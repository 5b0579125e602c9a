"""Row sources: batches of a feed, the changes of another table, or files."""

from lakehouse_dagster.sources.changelog_source import (
    ROWKIND,
    ChangelogSource,
    changes_of,
    changes_user,
    pending_changes,
    unapplied,
)
from lakehouse_dagster.sources.feed_source import FeedSource
from lakehouse_dagster.sources.row_source import Behind, Delivery, RowSource, SourceCheck
from lakehouse_dagster.sources.table_source import feed_source, row_source

__all__ = [
    "ROWKIND",
    "Behind",
    "ChangelogSource",
    "Delivery",
    "FeedSource",
    "RowSource",
    "SourceCheck",
    "changes_of",
    "changes_user",
    "feed_source",
    "pending_changes",
    "row_source",
    "unapplied",
]
