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
from lakehouse_dagster.sources.files_source import FilesSource
from lakehouse_dagster.sources.row_source import Delivery, RowSource
from lakehouse_dagster.sources.table_source import row_source

__all__ = [
    "ROWKIND",
    "ChangelogSource",
    "Delivery",
    "FeedSource",
    "FilesSource",
    "RowSource",
    "changes_of",
    "changes_user",
    "pending_changes",
    "row_source",
    "unapplied",
]
