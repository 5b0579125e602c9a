"""Staged files: delete those that no snapshot will ever name.

Rule: a file is deleted only if certainly no snapshot names it and no other call will commit it.
Source: docs/reliability/commit.md#discarding.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.file_refs import message_files
from lakehouse_core.table.schema import TableSchema


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


def _compacted(message: CommitMessage, files: tuple[DataFile, ...]) -> CommitMessage:
    return CommitMessage(
        partition=message.partition, bucket=message.bucket, total_buckets=message.total_buckets, compact_after=files
    )
