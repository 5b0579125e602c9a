"""The classes of Spark's data source, as Spark ships them to the processes that call them.

Rule: they refer to no module of this package but by its name. So a Python that lacks the package can still unpickle
them, and says in one line what is missing.
"""

# Annotations stay text: else the classes would need pyarrow before they can say that it is missing.
from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

_MISSING: Final = (
    "the Python of Spark, {}, has no {}. On one machine set PYSPARK_PYTHON to the Python of the driver before the "
    "session is made; on a cluster install paimon-lakehouse on each worker, or ship it with spark.submit.pyFiles "
    "(docs/spark.md)."
)


# The errors of a request that is wrong. Their text says all; Spark puts the lines of code before it.
_OF_REQUESTS: Final = ("NotFound", "InvalidRequest", "UnsupportedFeature")

# The functions of the module that does the work, by name. It is loaded where it is needed.
Work: TypeAlias = Callable[..., Any]


def data_source(name: str, functions: str, cores: int) -> type[DataSource]:
    """Return the class that `spark.dataSource.register` takes. `functions`: the name of the module that does the work;
    `cores`: the number of tasks that the session runs at once.

    All classes are local: Spark's pickler copies these, and refers to others by their module.
    """

    def work(function: str, *args: Any) -> Any:
        try:
            module = importlib.import_module(functions)
        except ModuleNotFoundError as error:
            raise ImportError(_MISSING.format(sys.executable, error.name)) from None
        try:
            return getattr(module, function)(*args)
        except Exception as error:
            if any(each.__name__ in _OF_REQUESTS for each in type(error).__mro__):
                raise error.with_traceback(None) from None
            raise

    reader_of, stream_reader_of = _reader(work, cores), _stream_reader(work, cores)
    writer_of, stream_writer_of = _writers(work)

    class Lakehouse(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            found: StructType = work("source_schema", dict(self.options))
            return found

        def reader(self, schema: StructType) -> DataSourceReader:
            work("check_batch_read", dict(self.options))
            return reader_of(dict(self.options), schema)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
            options = dict(self.options)
            return writer_of(options, work("open_batch", options, schema, overwrite))

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            work("check_stream_read", dict(self.options))
            return stream_reader_of(dict(self.options), schema)

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
            options = dict(self.options)
            return stream_writer_of(options, work("open_stream", options, schema, overwrite))

    return Lakehouse


def _reader(work: Work, cores: int) -> Callable[[dict[str, str], StructType], DataSourceReader]:
    class Reader(DataSourceReader):
        def __init__(self, options: dict[str, str], schema: StructType) -> None:
            self.options, self.schema = options, schema

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(each) for each in work("batch_partitions", self.options, self.schema, cores)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return iter(work("partition_rows", partition and partition.value))

    return Reader


def _stream_reader(work: Work, cores: int) -> Callable[[dict[str, str], StructType], DataSourceStreamReader]:
    class StreamReader(DataSourceStreamReader):
        def __init__(self, options: dict[str, str], schema: StructType) -> None:
            self.options, self.schema = options, schema
            # Made where it is used first: this object is pickled before.
            self.stream: Any = None

        def source(self) -> Any:
            if self.stream is None:
                self.stream = work("stream_source", self.options, self.schema, cores)
            return self.stream

        def initialOffset(self) -> dict[str, Any]:
            return dict(self.source().initial_offset())

        # From Spark 4.2 on there are a start and a limit.
        def latestOffset(self, *_: Any) -> dict[str, Any]:
            return dict(self.source().latest_offset())

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            return [InputPartition(each) for each in self.source().partitions(start, end)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return iter(work("partition_rows", partition.value))

        def commit(self, end: dict[str, Any]) -> None:
            self.source().commit(end)

    return StreamReader


def _writers(
    work: Work,
) -> tuple[
    Callable[[dict[str, str], bytes], DataSourceArrowWriter],
    Callable[[dict[str, str], bytes], DataSourceStreamArrowWriter],
]:
    class WrittenText(WriterCommitMessage):
        def __init__(self, text: str) -> None:
            self.text = text

    def texts(messages: list[WriterCommitMessage | None]) -> list[str | None]:
        return [None if message is None else getattr(message, "text", None) for message in messages]

    class Writer(DataSourceArrowWriter):
        def __init__(self, options: dict[str, str], opened: bytes) -> None:
            self.options, self.opened = options, opened

        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            return WrittenText(work("task_written", self.opened, iterator))

        def commit(self, messages: list[WriterCommitMessage | None]) -> None:
            work("batch_commit", self.options, self.opened, texts(messages))

        def abort(self, messages: list[WriterCommitMessage | None]) -> None:
            work("aborted", self.options, texts(messages))

    class StreamWriter(DataSourceStreamArrowWriter):
        def __init__(self, options: dict[str, str], opened: bytes) -> None:
            self.options, self.opened = options, opened

        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            return WrittenText(work("task_written", self.opened, iterator))

        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
            work("stream_commit", self.options, self.opened, texts(messages), batchId)

        def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
            work("aborted", self.options, texts(messages))

    return Writer, StreamWriter
