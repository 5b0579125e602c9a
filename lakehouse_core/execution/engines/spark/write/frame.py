"""A write through Spark: Spark brings rows together by bucket; Python sorts and encodes them, and returns no rows.

Sorting and encoding in Arrow takes about half the time of the JVM, including the transfer of the rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import NullType, StructType

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.engines.spark.failures import translated
from lakehouse_core.execution.engines.spark.run import ANSWER_SCHEMA, answer, results
from lakehouse_core.execution.engines.spark.runtime import worker_runtime
from lakehouse_core.execution.engines.spark.session import settings
from lakehouse_core.execution.engines.spark.types import fields_from_spark
from lakehouse_core.execution.engines.spark.write.routing import assigners_of, routed
from lakehouse_core.format.data_types import arrow_type
from lakehouse_core.planning.bucket_assignment import Assigners
from lakehouse_core.table.bucketing import places_keys
from lakehouse_core.table.commit_json import messages_from_json, messages_to_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.tasks.write.input import input_batches
from lakehouse_core.tasks.write.task import WriteTask, write_batches

# Spark 4.1 measures the size of a batch after every row, which takes as long as the rest of the transfer to Python. A
# bound of ten thousand rows, as in all versions before, avoids that.
_BYTE_BOUND: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_BYTE_BOUND: Final = str(2**31 - 1)


def write_frame(task: WriteTask, frame: DataFrame) -> Iterator[CommitMessage]:
    """Run the job that writes the rows of `frame`, and yield the commit message of each bucket; none for an empty
    frame.

    No message names the files of failed or superseded attempts. Raises as `input_batches` and the write task do, after
    the messages of the other tasks; TaskFailed.
    """
    session = frame.sparkSession
    with translated(session, "Writing a DataFrame on Spark"):
        # Over Connect this asks the server.
        if frame.isStreaming:
            raise InvalidRequest(
                "The DataFrame is a stream, which has no end: write its batches one by one, as in "
                "df.writeStream.foreachBatch(lambda batch, number: table.write(batch)).start()."
            )
        check_columns(task, frame.schema)

        count = assigners_of(session, task.schema).count if places_keys(task.schema.bucketing) else 1
        places = task.key_index.places
        if places is not None and places.replaces and places.source.splits:
            # Which partitions an overwrite replaces, one task alone can tell.
            count = 1
        with_assigners = _with_assigners(task, Assigners(count))

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield answer(partial(written_messages, with_assigners, batches))

        answers = routed(frame, task.schema, assigner_count=count).mapInArrow(write, ANSWER_SCHEMA)
        is_bounded = session.conf.get(_BYTE_BOUND, None) is not None
        with settings(session, {} if is_bounded else {_BYTE_BOUND: _NO_BYTE_BOUND}):
            texts = results(answers)
    for text in texts:
        yield from messages_from_json(text)


def _with_assigners(task: WriteTask, assigners: Assigners) -> WriteTask:
    """Return the task with the assigners among which `routed` divides the rows."""
    places = task.key_index.places
    if places is not None:
        places = replace(places, assigners=assigners)
    return replace(task, key_index=replace(task.key_index, assigners=assigners, places=places))


def check_columns(task: WriteTask, schema: StructType) -> None:
    """Check the columns of a frame before a job starts. Raises InvalidRequest."""
    # A column of Spark's null type has no table type, and fits every column.
    voids = [field.name for field in schema.fields if isinstance(field.dataType, NullType)]
    typed = fields_from_spark(StructType([field for field in schema.fields if field.name not in voids]))
    columns = [pa.field(field.name, arrow_type(field.type)) for field in typed]
    columns += [pa.field(name, pa.null()) for name in voids]
    nothing = pa.RecordBatchReader.from_batches(pa.schema(columns), [])
    input_batches(nothing, task.schema.fields, rowkind_column=task.rowkind_column, missing=task.missing, in_sql=True)


def written_messages(task: WriteTask, batches: Iterator[pa.RecordBatch]) -> list[str]:
    """Write, in a task, the rows that Spark gives it; return the text of its messages, none without rows."""
    first = next(batches, None)
    if first is None:
        return []
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
    rows = input_batches(reader, task.schema.fields, rowkind_column=task.rowkind_column)
    try:
        # The task's partition is the same in each of its attempts.
        context = TaskContext.get()
        numbered = replace(task, number=0 if context is None else context.partitionId())
        messages = write_batches(numbered, rows, worker_runtime())
    except InvalidRequest as error:
        raise InvalidRequest(f"{error} (Counted among the rows that one Spark task got.)") from error
    return [messages_to_json(messages)] if messages else []
