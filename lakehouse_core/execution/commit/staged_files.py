"""Staged files: verify that they exist before a snapshot names them; delete those that no snapshot will ever name.

Rule: a file is deleted only if certainly no snapshot names it and no other call will commit it. Source:
docs/reliability/commit.md#steps, docs/reliability/commit.md#discarding.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

from lakehouse_core.errors import CommitConflict, CorruptTable
from lakehouse_core.storage.object_store import ObjectInfo, ObjectStore
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.file_refs import FileRef, message_files
from lakehouse_core.table.schema import TableSchema


def check_new_files(files: Iterable[FileRef], infos: Mapping[str, ObjectInfo]) -> None:
    """Raise CommitConflict if one of the files that a commit adds is missing, CorruptTable if its size is not as
    recorded.
    """
    for file in files:
        if (info := infos.get(file.key)) is None:
            raise CommitConflict(
                f"{file.key}: the commit adds it, but it is missing: it was removed as an orphan, or never "
                "written. Nothing was applied: write the data again."
            )
        if (recorded := file.size_fault(info.size)) is not None:
            raise CorruptTable(
                f"{file.key}: it has {info.size} bytes, its writer recorded {recorded}. Nothing was applied: "
                "write the data again."
            )


def discard(store: ObjectStore, schema: TableSchema, messages: Iterable[CommitMessage], *, named_by: str) -> None:
    """Delete the files that the messages add: data, changelogs, indexes and vectors, but no upgraded files.

    Files that cannot be deleted stay as orphans, because the caller has an error of its own to raise. `named_by`: the
    source of the file names, for error messages. Raises CorruptTable for a name that points outside its folder.
    REQUIRES: no snapshot names the files, and none will.
    """
    folders = DataLayout(schema)
    going: list[list[str]] = []
    for message in messages:
        upgraded = {file.file_name for file in message.compact_before}
        made = replace(
            message, compact_after=tuple(file for file in message.compact_after if file.file_name not in upgraded)
        )
        going.append([file.key for file in message_files(made, folders, named_by=named_by)])
    # One request where requests wait for one another; else a failure leaves the files of one message.
    for keys in going if store.requests_at_once == 1 else [list(chain.from_iterable(going))]:
        clear_away(store, keys)
