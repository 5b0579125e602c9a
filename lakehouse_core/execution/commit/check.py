"""Check staged commits before they are committed: whether they can be at all.

Rule: what is refused here stays refused, so the data must be staged again. What is not refused may still conflict.
Source: docs/semantics/commit.md#commit-message.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from lakehouse_core.errors import CommitConflict, LakehouseError
from lakehouse_core.execution.commit.keys.clashes import KeyClashes
from lakehouse_core.execution.commit.keys.hash_indexes import HashIndexes
from lakehouse_core.execution.commit.live_files import live_in
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.commit.checks import check_schema, check_staged
from lakehouse_core.planning.commit.conflicts import bucket_counts, conflict_error, older_counts
from lakehouse_core.planning.commit.file_changes import FileChanges, append_changes, check_new_files, new_files
from lakehouse_core.planning.commit.steps import needs_live_files
from lakehouse_core.table.bucketing import has_hash_index, moves_keys, places_keys
from lakehouse_core.table.commit_message import Append
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import ManifestEntry
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit


def refusals(table: TableContext, staged: Sequence[StagedCommit]) -> list[str | None]:
    """Return for each staged commit why it cannot be committed, None if nothing speaks against it: its files are there,
    and rows that it adds have the bucket count of their partitions, or the dynamic buckets that their keys have now.

    The table is read once for all. Raises StorageUnavailable, CorruptTable: a table that cannot be read refuses none.
    """
    if not staged:
        return []
    schema = table.schemas.latest()
    folders = DataLayout(schema)
    changes = [append_changes(each) for each in staged]
    infos = table.store.infos(file.key for each in changes for file in new_files(each, folders))
    live = _live_by_partition(table, schema, changes)
    latest = table.snapshots.latest() if places_keys(schema.bucketing) else None
    indexes = () if latest is None else table.manifests.index_entries(latest)

    def why_not(each: StagedCommit, changed: FileChanges) -> str | None:
        try:
            check_staged(each)
            check_schema(each, schema)
            check_new_files(new_files(changed, folders), infos)
        except LakehouseError as error:
            return str(error)
        there = list(chain.from_iterable(live.get(partition, ()) for partition in changed.partitions))
        conflicts = older_counts(there, changed.entries, schema)
        if isinstance(each.mode, Append):
            conflicts += bucket_counts(there, changed.entries)
        if conflicts:
            return str(conflict_error(conflicts, schema))
        if not isinstance(each.mode, Append):
            return None
        if has_hash_index(schema.bucketing):
            clash = HashIndexes(table, each).clash_at(latest, indexes, schema)
            return None if clash is None else str(clash)
        if moves_keys(schema.bucketing):
            try:
                KeyClashes(table, each).check_at(latest, schema)
            except CommitConflict as error:
                return str(error)
        return None

    return [why_not(each, changed) for each, changed in zip(staged, changes, strict=True)]


def _live_by_partition(
    table: TableContext, schema: TableSchema, changes: Sequence[FileChanges]
) -> Mapping[bytes, Sequence[ManifestEntry]]:
    """Return the live files of the partitions whose bucket counts the changes may not fit."""
    settings = table.schemas.bucket_settings(schema)
    partitions = {
        partition
        for each in changes
        if needs_live_files(each, bucketing=schema.bucketing, bucket_settings=settings)
        for partition in each.partitions
    }
    latest = table.snapshots.latest() if partitions else None
    found: Mapping[bytes, list[ManifestEntry]] = defaultdict(list)
    for entry in () if latest is None else live_in(table, latest, partitions, schema):
        found[entry.partition].append(entry)
    return found
