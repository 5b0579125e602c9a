"""What was written and will never be committed goes again, all of it: data, changelogs, indexes and vectors."""

from collections.abc import Iterable
from dataclasses import replace

from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.file_refs import message_files
from lakehouse_core.table.schema import TableSchema


def discard(store: ObjectStore, schema: TableSchema, messages: Iterable[CommitMessage], *, named_by: str) -> None:
    """Delete the files of messages that no snapshot names and none will. Upgraded files are not theirs to delete.

    What cannot be deleted is left to cleaning: the reason for all this is what the caller has to tell. `named_by` is
    what messages of errors call the writer of the names. Raises CorruptTable for a name that leaves its folder.
    """
    folders = DataLayout(schema)
    for message in messages:
        upgraded = {file.file_name for file in message.compact_before}
        made = replace(
            message, compact_after=tuple(file for file in message.compact_after if file.file_name not in upgraded)
        )
        clear_away(store, [file.key for file in message_files(made, folders, named_by=named_by)])
