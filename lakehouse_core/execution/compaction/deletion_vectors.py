"""Deletion vectors in a compaction: those of rewritten files are removed from the index files.

The tasks leave out rows marked as deleted. Files of one partition may share an index file for their vectors, so the
index files are rewritten once all tasks are done.
Source: docs/semantics/compaction.md#append-tables, docs/semantics/deletion-vectors.md#key-tables.
"""

from collections.abc import Sequence
from dataclasses import replace

from lakehouse_core.data_files.deletion_vector_writer import IndexFolder, change_vectors
from lakehouse_core.errors import LakehouseError
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.commit.index_files import vector_files
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.bucketing import has_buckets
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.file_refs import message_files
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.manifest import IndexManifestEntry
from lakehouse_core.table.schema import TableSchema


def without_vectors(
    table: TableContext,
    schema: TableSchema,
    messages: Sequence[CommitMessage],
    indexes: Sequence[IndexManifestEntry],
) -> tuple[CommitMessage, ...]:
    """Return the messages, one for each bucket, with index files that lack the vectors of rewritten files.

    `indexes`: the index files of the compacted snapshot. A message that changes index files itself stays as it is.
    """
    folders = DataLayout(schema)
    changed: list[CommitMessage] = []
    try:
        for message in messages:
            changed.append(_without_vectors(table, schema, folders, message, indexes))
    except LakehouseError:
        made = (replace(message, compact_after=(), compact_changelog_files=()) for message in changed)
        keys = [file.key for one in made for file in message_files(one, folders, named_by="the compaction")]
        clear_away(table.store, keys)
        raise
    return tuple(changed)


def _without_vectors(
    table: TableContext,
    schema: TableSchema,
    folders: DataLayout,
    message: CommitMessage,
    indexes: Sequence[IndexManifestEntry],
) -> CommitMessage:
    present = vector_files(indexes, message.partition, message.bucket)
    if not present or message.index_files:
        return message
    folder = IndexFolder(
        store=table.store,
        options=schema.table_options.deletion_vectors,
        has_buckets=has_buckets(schema.bucketing),
        key=folders.index_folder(message.partition, message.bucket) or INDEX_FOLDER,
    )
    upgraded = {file.file_name for file in message.compact_after}
    removed = {file.file_name for file in message.compact_before} - upgraded
    change = change_vectors(folder, present, table.clock, removed=removed)
    return replace(message, compact_new_index_files=change.new, compact_deleted_index_files=change.deleted)
