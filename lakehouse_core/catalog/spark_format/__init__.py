"""`format("lakehouse")`: what Spark's data source asks of tables. Spark's processes load this package by its name."""

from lakehouse_core.catalog.spark_format.reads import batch_partitions, check_batch_read, source_schema
from lakehouse_core.catalog.spark_format.streams import check_stream_read, stream_source
from lakehouse_core.catalog.spark_format.writes import aborted, batch_commit, open_batch, open_stream, stream_commit
from lakehouse_core.execution.engines.spark.source import partition_rows, task_written

__all__ = [
    "aborted",
    "batch_commit",
    "batch_partitions",
    "check_batch_read",
    "check_stream_read",
    "open_batch",
    "open_stream",
    "partition_rows",
    "source_schema",
    "stream_commit",
    "stream_source",
    "task_written",
]
