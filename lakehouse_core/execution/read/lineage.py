"""Lineage: read the file changes of every snapshot that is still known, and find the files that they tell of.

Known are the snapshots that have not expired, those that a tag holds, and long-lived changelogs whose file changes are
kept. A snapshot that expires during the read counts as expired before it. Source: docs/lineage.md#how-it-is-found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.manifest_reader import ManifestReader, Missing
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.planning.lineage import Lineage, Origin, SnapshotChange, snapshot_change
from lakehouse_core.table.snapshot import RESCALED_TO, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLineage:
    """The origins of a table's files, and the snapshots they name, by id. `earliest_id`: of those not expired."""

    lineage: Lineage
    snapshots: Mapping[int, Snapshot]
    earliest_id: int | None


def load_lineage(table: TableContext) -> KnownLineage:
    """Read the file changes of every known snapshot. Raises CorruptTable."""
    retained = table.snapshots.history()
    known = {snapshot.id: snapshot for snapshot in retained}
    # Another engine may have rolled the table back: the history says what a snapshot id means.
    tagged = {id: one for id, one in _tagged(table).items() if id not in known}
    changelogs = {id: one for id, one in _changelogs(table).items() if id not in known and id not in tagged}
    changes = [
        *_changes(table, retained),
        *(found for one in tagged.values() if (found := _tagged_change(table, one)) is not None),
        *_kept_changes(table, changelogs.values()),
    ]
    known |= tagged | changelogs
    return KnownLineage(
        lineage=Lineage(changes),
        snapshots={change.snapshot_id: known[change.snapshot_id] for change in changes},
        earliest_id=retained[0].id if retained else None,
    )


def made_by_run(table: TableContext, run_id: str) -> list[Snapshot]:
    """Return the known snapshots that a run made, oldest first. `run_id` is its identifier, or the beginning of it."""
    found = {snapshot.id: snapshot for snapshot in table.snapshots.history()}
    for id, snapshot in (_tagged(table) | _changelogs(table)).items():
        found.setdefault(id, snapshot)
    return [found[id] for id in sorted(found) if (found[id].run_id or "").startswith(run_id)]


def trail_of_file(table: TableContext, known: KnownLineage, file_name: str) -> tuple[Origin, ...]:
    """Return the origin of a file, then those of the files it was merged from.

    Raises NotFound if no known snapshot made, removed or has the file.
    """
    if not known.lineage.knows(file_name) and not _is_live(table, known, file_name):
        raise NotFound(
            f"File {file_name!r} is not in the table: no snapshot that is retained, tagged or kept as a changelog made "
            "it, removed it or has it. Check the name; an expired snapshot may have had it."
        )
    return known.lineage.trail((file_name,))


def snapshot_of(table: TableContext, known: KnownLineage, snapshot_id: int) -> Snapshot:
    """Return a known snapshot. Raises SnapshotExpired naming the earliest, NotFound, InvalidRequest."""
    return known.snapshots[snapshot_id] if snapshot_id in known.snapshots else table.snapshots.snapshot(snapshot_id)


def _is_live(table: TableContext, known: KnownLineage, file_name: str) -> bool:
    """Return whether the latest snapshot or a tag has the file, which no known snapshot made."""
    latest = table.snapshots.of_latest(lambda snapshot: snapshot is not None and _has(table, snapshot, file_name))
    if latest:
        return True
    for snapshot in _tagged(table).values():
        with suppress(CorruptTable):
            if _has(table, snapshot, file_name):
                return True
    return False


def _has(table: TableContext, snapshot: Snapshot, file_name: str) -> bool:
    return any(entry.file.file_name == file_name for entry in table.manifests.live_entries(snapshot))


def _tagged(table: TableContext) -> dict[int, Snapshot]:
    return {tag.snapshot.id: tag.snapshot for tag in table.tags.all().values()}


def _changelogs(table: TableContext) -> dict[int, Snapshot]:
    found = {}
    for snapshot_id in table.changelogs.ids():
        # An expiry may remove it meanwhile.
        with suppress(NotFound):
            found[snapshot_id] = table.changelogs.changelog(snapshot_id)
    return found


def _changes(table: TableContext, retained: Sequence[Snapshot]) -> Iterator[SnapshotChange]:
    def change(snapshot: Snapshot) -> SnapshotChange | None:
        try:
            return _change(table.manifests, snapshot)
        except CorruptTable:
            if not table.snapshots.has_expired(snapshot):
                raise
            return None

    return (found for found in in_order(change, retained) if found is not None)


def _tagged_change(table: TableContext, snapshot: Snapshot) -> SnapshotChange | None:
    try:
        return _change(table.manifests, snapshot)
    except CorruptTable:
        if snapshot.id in _tagged(table):
            raise
        return None


def _kept_changes(table: TableContext, changelogs: Iterable[Snapshot]) -> Iterator[SnapshotChange]:
    # A table with changelog files keeps those, and not the file changes.
    reader = ManifestReader(table.store, table.layout, Missing.NOT_FOUND)
    for snapshot in changelogs:
        with suppress(NotFound):
            yield _change(reader, snapshot)


def _change(manifests: ManifestReader, snapshot: Snapshot) -> SnapshotChange:
    entries = (entry for read in manifests.entries_of_each(manifests.delta(snapshot)) for entry in read)
    return snapshot_change(
        snapshot.id,
        snapshot.commit_kind,
        entries,
        rescales=RESCALED_TO in snapshot.properties,
        rolls_back=snapshot.brings_files,
    )
