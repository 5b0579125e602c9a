"""Writes of `format("lakehouse")`: tasks of Spark write files, and one call on the driver commits them.

Rule: a commit or an abort deletes files only if certainly no snapshot names them. Tables with a key are refused:
Spark does not bring the versions of a key to one task.
Source: docs/spark.md#formatlakehouse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from lakehouse_core.api.arguments import CallOptions
from lakehouse_core.api.table import Table
from lakehouse_core.api.table_writes import commit_open, discard_open, open_stage
from lakehouse_core.api.verb import named
from lakehouse_core.catalog.spark_format.settings import Settings, Use, settings_of, write_use
from lakehouse_core.errors import InvalidRequest, LakehouseError, TaskFailed, UnsupportedFeature
from lakehouse_core.execution.engines.spark.source import Written, packed_stage, unpacked_stage, written
from lakehouse_core.table.commit_message import (
    BATCH_IDENTIFIER,
    Append,
    CommitMessage,
    DynamicOverwrite,
    StaticOverwrite,
    WriteMode,
)

# Named for the reader: only the Spark engine knows Spark.
StructType: TypeAlias = Any

_CALL: Final = CallOptions()
_BATCH_LINE: Final = 'lakehouse_core.connect(…, spark=spark).table("{}").write(df)'
_STREAM_LINE: Final = (
    "df.writeStream.foreachBatch(lambda batch, number: table.commit(table.stage(batch, commit_user=…, "
    "commit_identifier=number)))"
)


def open_batch(options: Mapping[str, str], schema: StructType, overwrite: bool) -> bytes:
    """Return a write for its tasks and its commit. Raises InvalidRequest, UnsupportedFeature, NotFound."""
    settings = settings_of(options, Use.BATCH_WRITE)
    table = _table_without_key(settings, _BATCH_LINE.format(settings.table))
    user = table._context.clock.uuid()
    opened = open_stage(table._context, user, BATCH_IDENTIFIER, _mode(settings, overwrite), _CALL)
    with named(table.name):
        return packed_stage(opened, schema)


def batch_commit(options: Mapping[str, str], opened: bytes, texts: Sequence[str | None]) -> None:
    """Commit what the tasks wrote. Raises the error of a task, and the errors of a commit."""
    table = settings_of(options, Use.BATCH_WRITE).open()
    commit_open(table._context, unpacked_stage(opened), _messages(table, _all_answers(table, texts)), _CALL)


def open_stream(options: Mapping[str, str], schema: StructType, overwrite: bool) -> bytes:
    """Return the write of a stream for its tasks and commits. Raises InvalidRequest, UnsupportedFeature, NotFound."""
    settings = settings_of(options, Use.STREAM_WRITE)
    table = _table_without_key(settings, _STREAM_LINE)
    # The query and the batch are known to the tasks and to the commit.
    opened = open_stage(table._context, "stream", BATCH_IDENTIFIER, _mode(settings, overwrite), _CALL)
    with named(table.name):
        return packed_stage(opened, schema)


def stream_commit(options: Mapping[str, str], opened: bytes, texts: Sequence[str | None], batch_id: int) -> None:
    """Commit one batch of a stream, once: the user is the query, which its checkpoint names, and the identifier the
    batch. A batch that is committed already changes nothing.

    Raises as `batch_commit` does, and StaleCommit.
    """
    table = settings_of(options, Use.STREAM_WRITE).open()
    answers = _all_answers(table, texts)
    messages = _messages(table, answers)
    mode = unpacked_stage(opened).staged.mode
    if not answers:
        if not isinstance(mode, Append):
            # Nobody has told the query. To replace the rows by none again is harmless: a repeated batch is the last.
            begun = open_stage(table._context, table._context.clock.uuid(), BATCH_IDENTIFIER, mode, _CALL)
            commit_open(table._context, begun, (), _CALL)
        return
    query = answers[0].query
    if query is None:
        raise UnsupportedFeature(
            f"{table.name}: Spark told its tasks no id of the query. Use foreachBatch: {_STREAM_LINE}"
        )
    schema_id = answers[0].schema_id
    try:
        begun = open_stage(table._context, query, batch_id, mode, _CALL)
    except LakehouseError:
        discard_open(table._context, schema_id, messages)
        raise
    if begun.task is None:
        # This batch is committed already, with other files.
        discard_open(table._context, schema_id, messages)
        return
    task = replace(begun.task, schema=table._context.schemas.schema(schema_id))
    begun = replace(begun, staged=replace(begun.staged, schema_id=schema_id), task=task)
    commit_open(table._context, begun, messages, _CALL)


def aborted(options: Mapping[str, str], texts: Sequence[str | None]) -> None:
    """Delete what the tasks of a failed write wrote, if no commit has begun."""
    # A commit that has files begins only when all tasks have answered. One that failed has deleted the files by itself,
    # or does not know whether a snapshot names them.
    if None not in texts:
        return
    answers = _answers(texts)
    if answers:
        messages = [message for answer in answers for message in answer.messages]
        discard_open(settings_of(options, write_use(options)).open()._context, answers[0].schema_id, messages)


def _table_without_key(settings: Settings, line: str) -> Table:
    table = settings.open()
    if table.schema.primary_keys:
        raise InvalidRequest(
            f'{settings.table}: format("lakehouse") writes no table with a primary key, because Spark does not bring '
            f"the rows of a key to one task. Write: {line}"
        )
    return table


def _mode(settings: Settings, overwrite: bool) -> WriteMode:
    if not overwrite:
        if settings.is_dynamic is not None:
            raise InvalidRequest(
                f'{settings.table}: option partitionOverwriteMode is for mode("overwrite"), and this is an append. '
                "Leave it out."
            )
        return Append()
    return DynamicOverwrite() if settings.is_dynamic else StaticOverwrite()


def _answers(texts: Sequence[str | None]) -> list[Written]:
    return [written(text) for text in texts if text is not None]


def _all_answers(table: Table, texts: Sequence[str | None]) -> list[Written]:
    """Return what the tasks wrote. A write without partitions has at most one task, which answers nothing.

    Raises TaskFailed if some tasks have not answered: `aborted` then deletes what the others wrote.
    """
    answers = _answers(texts)
    if len(answers) < len(texts) and len(texts) > 1:
        raise TaskFailed(
            f"{table.name}: {len(texts) - len(answers)} of {len(texts)} tasks of Spark did not return what they "
            "wrote. Nothing is applied: write again."
        )
    return answers


def _messages(table: Table, answers: Sequence[Written]) -> list[CommitMessage]:
    """Return the messages of all tasks. If one has an error, delete what the others wrote, and raise it."""
    messages = [message for answer in answers for message in answer.messages]
    for answer in answers:
        if answer.error is not None:
            discard_open(table._context, answer.schema_id, messages)
            with named(table.name):
                raise answer.error
    return messages
