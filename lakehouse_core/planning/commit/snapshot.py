"""Next snapshot: build the snapshot that carries the file changes of a commit.

Rule: every field that the commit does not change is copied from the previous snapshot; time never goes back.
Source: docs/semantics/commit.md#commit-loop, docs/format/snapshot.md#snapshot-file.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.planning.commit.ledger import NONCE_PROPERTY
from lakehouse_core.table.checksums import CHECKSUMS_PROPERTY, checksums_to_text
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, ManifestListRef
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import SCHEMA_TIME, Snapshot, snapshot_checksums


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLists:
    """The manifest lists of a new snapshot; checksums, by name, of the lists and of a new index manifest.

    `index_manifest` counts only if the changes have index files; None: no index file is left.
    """

    base: ManifestListRef
    delta: ManifestListRef
    changelog: ManifestListRef | None = None
    index_manifest: str | None = None
    checksums: Mapping[str, str]


def next_snapshot(
    previous: Snapshot | None,
    changes: FileChanges,
    lists: WrittenLists,
    *,
    schema: TableSchema,
    commit_user: str,
    commit_identifier: int,
    properties: Mapping[str, str],
    watermark: int | None = None,
    operation: str | None = None,
    uuid: str,
    nonce: str,
    now_millis: int,
) -> Snapshot:
    """Return the snapshot after `previous` with `changes`, still without its ledger. `operation`: the statement that
    made it, None for a plain write.

    Index files, statistics, watermark and row ids are copied. Time never goes back, even if the clock does.
    """
    delta = sum(_sign(entry) * entry.file.row_count for entry in changes.entries)
    before = 0 if previous is None else previous.total_record_count
    marks = (watermark, None if previous is None else previous.watermark)
    watermarks = [mark for mark in marks if mark is not None]
    # Statistics describe columns of a schema, so they are not copied to a snapshot with another schema.
    keeps_statistics = previous is not None and previous.schema_id == schema.id
    index_manifest = _index_manifest(previous, changes, lists)
    checksums = {**_carried_checksums(previous, index_manifest), **lists.checksums}
    return Snapshot(
        uuid=uuid,
        id=1 if previous is None else previous.id + 1,
        schema_id=schema.id,
        base_manifest_list=lists.base.name,
        base_manifest_list_size=lists.base.size,
        delta_manifest_list=lists.delta.name,
        delta_manifest_list_size=lists.delta.size,
        changelog_manifest_list=None if lists.changelog is None else lists.changelog.name,
        changelog_manifest_list_size=None if lists.changelog is None else lists.changelog.size,
        index_manifest=index_manifest,
        commit_user=commit_user,
        commit_identifier=commit_identifier,
        commit_kind=changes.kind,
        time_millis=now_millis if previous is None else max(now_millis, previous.time_millis),
        total_record_count=None if before is None else before + delta,
        delta_record_count=delta,
        changelog_record_count=sum(entry.file.row_count for entry in changes.changelog) if changes.changelog else None,
        watermark=max(watermarks) if watermarks else None,
        statistics=previous.statistics if previous is not None and keeps_statistics else None,
        properties={
            **properties,
            NONCE_PROPERTY: nonce,
            CHECKSUMS_PROPERTY: checksums_to_text(checksums),
            SCHEMA_TIME: str(schema.time_millis),
        },
        next_row_id=None if previous is None else previous.next_row_id,
        operation=operation,
    )


def _index_manifest(previous: Snapshot | None, changes: FileChanges, lists: WrittenLists) -> str | None:
    if changes.indexes:
        return lists.index_manifest
    return None if previous is None else previous.index_manifest


def _carried_checksums(previous: Snapshot | None, index_manifest: str | None) -> Mapping[str, str]:
    """Return the checksum that `previous` records of its index manifest, if the new snapshot has the same one."""
    if previous is None or index_manifest is None:
        return {}
    checksums = snapshot_checksums(previous, MAIN.snapshot(previous.id))
    return {name: checksum for name, checksum in checksums.items() if name == index_manifest}


def _sign(entry: ManifestEntry) -> int:
    return 1 if entry.kind is EntryKind.ADD else -1
