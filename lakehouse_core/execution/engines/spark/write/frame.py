"""A write through Spark: rows are brought together by bucket, sorted and encoded in Python, and never come back.

Sorting and encoding Arrow costs about half of what it costs the JVM, the way there included.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import NullType

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.engines.spark.failures import translated
from lakehouse_core.execution.engines.spark.run import ANSWER_SCHEMA, answer, results
from lakehouse_core.execution.engines.spark.runtime import worker_runtime
from lakehouse_core.execution.engines.spark.session import settings
from lakehouse_core.execution.engines.spark.types import fields_from_spark
from lakehouse_core.execution.engines.spark.write.routing import routed
from lakehouse_core.execution.tasks.write.input import input_batches
from lakehouse_core.execution.tasks.write.task import WriteTask, write_batches
from lakehouse_core.format.data_types import arrow_type
from lakehouse_core.table.commit_json import messages_from_json, messages_to_json
from lakehouse_core.table.commit_message import CommitMessage

# Spark 4.1 asks after every row how large its batch has become, which costs as much as all the rest of the way to
# Python. A bound by rows alone, ten thousand of them, was good enough for all versions before.
_BYTE_BOUND: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_BYTE_BOUND: Final = str(2**31 - 1)


def write_frame(task: WriteTask, frame: DataFrame) -> Iterator[CommitMessage]:
    """Run the job that writes the rows of `frame`, and yield what each bucket got; nothing of an empty frame.

    No snapshot names the files of attempts that lost. Raises what `input_batches` and the write task raise, after what
    the other tasks have written; TaskFailed.
    """
    session = frame.sparkSession
    if frame.isStreaming:
        raise InvalidRequest(
            "The DataFrame is a stream, which has no end: write its batches one by one, as in "
            "df.writeStream.foreachBatch(lambda batch, number: table.write(batch)).start()."
        )
    with translated(session, "Writing a DataFrame on Spark"):
        _check_columns(task, frame)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield answer(partial(_write, task, batches))

        answers = routed(frame, task.schema).mapInArrow(write, ANSWER_SCHEMA)
        is_bounded = session.conf.get(_BYTE_BOUND, None) is not None
        with settings(session, {} if is_bounded else {_BYTE_BOUND: _NO_BYTE_BOUND}):
            texts = results(answers)
    for text in texts:
        yield from messages_from_json(text)


def _check_columns(task: WriteTask, frame: DataFrame) -> None:
    """Refuse columns before any job starts."""
    # A column of nulls alone has no type of a table, and fits every one.
    voids = [field.name for field in frame.schema.fields if isinstance(field.dataType, NullType)]
    typed = fields_from_spark(frame.drop(*voids).schema)
    columns = [pa.field(field.name, arrow_type(field.type)) for field in typed]
    columns += [pa.field(name, pa.null()) for name in voids]
    nothing = pa.RecordBatchReader.from_batches(pa.schema(columns), [])
    input_batches(nothing, task.schema.fields, rowkind_column=task.rowkind_column, missing=task.missing, in_sql=True)


def _write(task: WriteTask, batches: Iterator[pa.RecordBatch]) -> list[str]:
    first = next(batches, None)
    if first is None:
        return []
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
    rows = input_batches(reader, task.schema.fields, rowkind_column=task.rowkind_column)
    try:
        messages = write_batches(task, rows, worker_runtime())
    except InvalidRequest as error:
        raise InvalidRequest(f"{error} (Counted among the rows that one Spark task got.)") from error
    return [messages_to_json(messages)] if messages else []
