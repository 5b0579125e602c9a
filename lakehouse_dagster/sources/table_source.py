"""The row source of a table, chosen by its specification."""

from lakehouse_dagster.lake import Lake
from lakehouse_dagster.sources.asset_source import AssetSource
from lakehouse_dagster.sources.changelog_source import ChangelogSource
from lakehouse_dagster.sources.feed_source import FeedSource
from lakehouse_dagster.sources.files_source import FilesSource
from lakehouse_dagster.sources.function_source import FunctionSource
from lakehouse_dagster.sources.partitioned_files_source import PartitionedFilesSource
from lakehouse_dagster.sources.row_source import RowSource
from lakehouse_dagster.sources.run_delivery import RunPartitions, run_partitions
from lakehouse_dagster.sources.sql_source import SqlSource
from lakehouse_dagster.specs import FilesSpec, TableSpec


def row_source(lake: Lake, table: TableSpec) -> RowSource:
    """Return the row source of a table of `lake`."""
    key = lake.identity(table)
    if table.changes_of is not None:
        return ChangelogSource(
            spec=table.changes_of,
            columns=tuple(table.columns),
            key=key,
            upstream=lake.followed_key(table.changes_of.table),
            lake_resource=lake.resource,
        )
    partitions = run_partitions(table.partitions, table.identifier, overwrites=table.write_mode == "overwrite")
    if table.files is not None:
        return _files_source(lake, table, table.files, partitions)
    if table.sql is not None:
        return SqlSource(
            spec=table.sql,
            key=key,
            upstream=lake.operation_key(table, "sql"),
            lake_resource=lake.resource,
            is_append=table.write_mode == "append",
            partitions=partitions,
            rowkind_column=table.rowkind_column,
        )
    if table.asset is not None:
        return AssetSource(
            spec=table.asset,
            key=key,
            ingest=lake.operation_key(table, "ingest"),
            table=lake.table_key(table),
            lake_resource=lake.resource,
            partitions=partitions,
        )
    if table.function is not None:
        return FunctionSource(
            spec=table.function,
            key=key,
            upstream=lake.operation_key(table, "function"),
            lake_resource=lake.resource,
            is_append=table.write_mode == "append",
            partitions=partitions,
            rowkind_column=table.rowkind_column,
        )
    return feed_source(lake, table)


def feed_source(lake: Lake, table: TableSpec) -> FeedSource:
    """Return the row source of a table that takes rows of a feed."""
    assert table.feed is not None
    return FeedSource(
        feed=lake.feeds[table.feed.source],
        spec=table.feed,
        key=lake.identity(table),
        lake_resource=lake.resource,
        together=table.commit.is_together,
        # The later batch wins where keys are equal, and a tag shows the table as it was after its batch.
        in_order=bool(table.primary_key) or table.tag_batches,
    )


def _files_source(lake: Lake, table: TableSpec, files: FilesSpec, partitions: RunPartitions | None) -> RowSource:
    """Return the source of files that are each loaded once, or with partitions at each load of their key."""
    upstream = lake.operation_key(table, "files")
    if partitions is None:
        return FilesSource(
            spec=files,
            pattern=table.files_pattern,
            key=lake.identity(table),
            upstream=upstream,
            lake_resource=lake.resource,
            write_mode=table.write_mode,
            rowkind_column=table.rowkind_column,
        )
    return PartitionedFilesSource(
        spec=files,
        pattern=table.files_pattern,
        key=lake.identity(table),
        upstream=upstream,
        lake_resource=lake.resource,
        partitions=partitions,
        rowkind_column=table.rowkind_column,
    )
