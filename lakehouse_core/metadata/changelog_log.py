"""The long-lived changelogs of a table: expired snapshots whose changes can still be read."""

from lakehouse_core.errors import NotFound
from lakehouse_core.metadata.hints import CHANGELOG_EARLIEST_HINT, CHANGELOG_LATEST_HINT, write_hint
from lakehouse_core.metadata.ids import ids_in
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import CHANGELOG_FOLDER, changelog_key
from lakehouse_core.table.snapshot import Snapshot, parse_snapshot


class ChangelogLog:
    """Reads the changelogs of one table. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def changelog(self, snapshot_id: int) -> Snapshot:
        """Return the changelog of an expired snapshot. Raises NotFound, CorruptTable."""
        key = changelog_key(snapshot_id)
        try:
            return parse_snapshot(self._store.read(key), key)
        except NotFound as error:
            ids = self.ids()
            kept = f"{ids[0]} to {ids[-1]}" if ids else "none"
            raise NotFound(f"Changelog {snapshot_id} is not kept. Changelogs of expired snapshots: {kept}.") from error

    def ids(self) -> list[int]:
        """Return the ids of all changelogs, rising."""
        return ids_in(self._store, CHANGELOG_FOLDER)

    def write_hints(self, earliest_id: int, latest_id: int) -> None:
        """Write which changelogs are the oldest and the newest. Best effort."""
        write_hint(self._store, CHANGELOG_EARLIEST_HINT, earliest_id)
        write_hint(self._store, CHANGELOG_LATEST_HINT, latest_id)
