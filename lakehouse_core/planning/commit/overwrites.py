"""Overwrites: choose the replaced partitions, the removed files and the level of the new files.

Source: docs/semantics/commit.md#overwrites.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import parse_literal
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.table.commit_message import Append, CommitKind, DynamicOverwrite, StaticOverwrite
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.manifest import EntryKind, IndexManifestEntry, ManifestEntry, file_identifier
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit


def overwritten(staged: StagedCommit, schema: TableSchema) -> Callable[[bytes], bool] | None:
    """Return a predicate that is true for the partitions that an overwrite replaces, None if it replaces none.

    Raises InvalidRequest for a partition that cannot be parsed, and for new files outside a static partition.
    """
    new_partitions = {message.partition for message in staged.messages if message.new_files}
    match staged.mode:
        case Append():
            return None
        case DynamicOverwrite():
            if not schema.partition_keys:
                return lambda partition: True
            return new_partitions.__contains__ if new_partitions else None
        case StaticOverwrite(partition):
            covers = static_scope(partition, schema)
            if not all(map(covers, new_partitions)):
                wanted = ", ".join(f"{name}={text}" for name, text in partition.items())
                raise InvalidRequest(
                    f"The overwrite of {wanted} has rows of other partitions. Leave them out, or overwrite dynamically."
                )
            return covers
        case _:
            assert_never(staged.mode)


def with_removed(
    changes: FileChanges, live: Iterable[ManifestEntry], indexes: Iterable[IndexManifestEntry] = ()
) -> FileChanges:
    """Return the overwrite with the removal of the `live` data files and index files.

    Removals come first, because bucket counts may differ.
    """
    removed = (replace(entry, kind=EntryKind.DELETE) for entry in live)
    unmarked = (replace(entry, kind=EntryKind.DELETE) for entry in indexes)
    return replace(changes, entries=(*removed, *changes.entries), indexes=(*unmarked, *changes.indexes))


def restored_files(
    live: Sequence[ManifestEntry],
    indexes: Sequence[IndexManifestEntry],
    wanted: Sequence[ManifestEntry],
    wanted_indexes: Sequence[IndexManifestEntry],
) -> FileChanges:
    """Return the overwrite after which exactly the files `wanted` and `wanted_indexes` are there. Files that are there
    already stay; a file that is at another level now is removed and added.
    """
    there, needed = set(map(file_identifier, live)), set(map(file_identifier, wanted))
    removed = (replace(entry, kind=EntryKind.DELETE) for entry in live if file_identifier(entry) not in needed)
    added = (entry for entry in wanted if file_identifier(entry) not in there)
    marks, wanted_marks = set(indexes), set(wanted_indexes)
    unmarked = (replace(entry, kind=EntryKind.DELETE) for entry in indexes if entry not in wanted_marks)
    marked = (entry for entry in wanted_indexes if entry not in marks)
    return FileChanges(kind=CommitKind.OVERWRITE, entries=(*removed, *added), indexes=(*unmarked, *marked))


def with_upgraded_files(changes: FileChanges, schema: TableSchema, live: Iterable[ManifestEntry] = ()) -> FileChanges:
    """Return the overwrite with new files of a key table at the top level, if they need no merge.

    That is so in buckets where all new files are at level 0, have no deletes and disjoint key ranges, and that keep no
    other file. `live`: the files before, if some of them stay beside the new ones. Java: since 1.4.
    """
    types = [field.type for field in schema.key_fields]
    if not types:
        return changes
    buckets: Mapping[tuple[bytes, int], list[DataFile]] = defaultdict(list)
    for entry in changes.entries:
        if entry.kind is EntryKind.ADD:
            buckets[entry.partition, entry.bucket].append(entry.file)
    gone = {file_identifier(entry) for entry in changes.entries if entry.kind is EntryKind.DELETE}
    kept = {(entry.partition, entry.bucket) for entry in live if file_identifier(entry) not in gone}
    ready = set()
    for place, files in buckets.items():
        if place in kept:
            continue
        ranges = sorted((deserialize_row(file.min_key, types), deserialize_row(file.max_key, types)) for file in files)
        disjoint = all(highest < lowest for (_, highest), (lowest, _) in pairwise(ranges))
        if disjoint and place[1] >= 0 and all(file.level == 0 and file.delete_row_count == 0 for file in files):
            ready.add(place)
    top = schema.table_options.num_levels - 1
    return replace(
        changes,
        entries=tuple(
            replace(entry, file=replace(entry.file, level=top))
            if entry.kind is EntryKind.ADD and (entry.partition, entry.bucket) in ready
            else entry
            for entry in changes.entries
        ),
    )


def static_scope(partition: Mapping[str, str], schema: TableSchema) -> Callable[[bytes], bool]:
    """Return a predicate that is true for the serialized partitions with these texts. Raises InvalidRequest."""
    keys = schema.partition_keys
    if unknown := sorted(partition.keys() - set(keys)):
        raise InvalidRequest(
            f"Column {shown(unknown[0])} is not a partition key. The partition keys are: {', '.join(keys) or 'none'}."
        )
    types = [field.type for field in schema.partition_fields]
    default_name = schema.table_options.partition_default_name
    wanted = {
        keys.index(name): None if text == default_name else parse_literal(text, types[keys.index(name)])
        for name, text in partition.items()
    }
    known: dict[bytes, bool] = {}

    def covers(row: bytes) -> bool:
        if row not in known:
            values = deserialize_row(row, types)
            known[row] = all(values[index] == value for index, value in wanted.items())
        return known[row]

    return covers
