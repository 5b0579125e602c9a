"""Changelog log: the long-lived changelogs of a table, which keep the changes of expired snapshots readable.

Source: docs/format/snapshot.md#long-lived-changelog.
"""

from lakehouse_core.errors import NotFound
from lakehouse_core.metadata.hints import write_hint
from lakehouse_core.metadata.ids import changelog_ids
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.snapshot import Snapshot, parse_snapshot


class ChangelogLog:
    """Reads the changelogs of one branch. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore, layout: TableLayout) -> None:
        self._store = store
        self._layout = layout

    def changelog(self, snapshot_id: int) -> Snapshot:
        """Return the changelog of an expired snapshot. Raises NotFound, CorruptTable."""
        key = self._layout.changelog(snapshot_id)
        try:
            return parse_snapshot(self._store.read(key), key)
        except NotFound as error:
            ids = self.ids()
            kept = f"{ids[0]} to {ids[-1]}" if ids else "none"
            raise NotFound(f"Changelog {snapshot_id} is not kept. Changelogs of expired snapshots: {kept}.") from error

    def ids(self) -> list[int]:
        """Return the ids of all changelogs, rising."""
        return changelog_ids(self._store, self._layout)

    def write_hints(self, earliest_id: int, latest_id: int) -> None:
        """Write the hints for the oldest and the newest changelog. A failure is ignored."""
        write_hint(self._store, self._layout.hints.earliest_changelog, earliest_id)
        write_hint(self._store, self._layout.hints.latest_changelog, latest_id)
