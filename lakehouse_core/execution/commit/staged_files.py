"""Staged files: delete those that no snapshot will ever name.

Rule: a file is deleted only if certainly no snapshot names it and no other call will commit it.
Source: docs/reliability/commit.md#discarding.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from lakehouse_core.errors import StorageUnavailable
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.presence import Gone, gone
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.file_refs import message_files
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit


def discard(store: ObjectStore, schema: TableSchema, messages: Iterable[CommitMessage], *, named_by: str) -> None:
    """Delete the files that the messages add: data, changelogs, indexes and vectors, but no upgraded files. Of a data
    file that stays and gets another index, only the new index is deleted.

    Files that cannot be deleted stay as orphans, because the caller has an error of its own to raise. `named_by`: the
    source of the file names, for error messages. Raises CorruptTable for a name that points outside its folder.
    REQUIRES: no snapshot names the files, and none will.
    """
    folders = DataLayout(schema)
    going: list[list[str]] = []
    for message in messages:
        before, after = (
            {file.key for file in message_files(only, folders, named_by=named_by)}
            for only in (_compacted(message, message.compact_before), _compacted(message, message.compact_after))
        )
        others = message_files(replace(message, compact_after=()), folders, named_by=named_by)
        going.append(sorted({*(file.key for file in others), *(after - before)}))
    # One request where requests wait for one another; else a failure leaves the files of one message.
    for keys in going if store.requests_at_once == 1 else [list(chain.from_iterable(going))]:
        clear_away(store, keys)


def discard_of_dropped(table: TableContext, staged: StagedCommit) -> None:
    """Delete the staged files of a commit that raised NotFound or InvalidRequest, if its table was dropped: no call can
    commit them any more, and they would keep the name. The files of a table that was renamed have moved with it. If
    another table is there, it may be the same one brought back: `remove_orphans` finds what it does not need.
    """
    schema = table.schemas.known.newest
    if schema is not None and schema.id == staged.schema_id:
        with suppress(StorageUnavailable):
            if gone(table, schema.id) == Gone():
                discard(table.store, schema, staged.messages, named_by=staged.commit_user)


def _compacted(message: CommitMessage, files: tuple[DataFile, ...]) -> CommitMessage:
    return CommitMessage(
        partition=message.partition, bucket=message.bucket, total_buckets=message.total_buckets, compact_after=files
    )
