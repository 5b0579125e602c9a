"""History for expiry: the snapshots, changelogs and consumers of a table, and the times that decide their age.

Source: docs/semantics/maintenance.md#snapshot-expiry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakehouse_core.errors import NotFound, StorageUnavailable
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.unlinking import deleting, existing_roots, resume
from lakehouse_core.metadata.consumers import Consumers, read_consumers
from lakehouse_core.metadata.ids import changelog_ids
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.planning.expiry.retention import Retention, asked_ids
from lakehouse_core.planning.timestamps import Dated, believed
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import StoreReader, read_all
from lakehouse_core.table.deletion_plan import DeletionPlan
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.snapshot import Snapshot, parse_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The part of a table's history that expiry needs: `snapshots` and `changelogs` hold those whose age can matter."""

    layout: TableLayout
    boundary: int
    snapshot_ids: Sequence[int]
    snapshots: Mapping[int, Snapshot]
    latest: Snapshot | None
    changelog_ids: Sequence[int]
    changelogs: Mapping[int, Snapshot]
    consumers: Consumers
    # Consumers that were not written for longer than the table lets them live; not among `consumers`.
    outdated_consumers: tuple[str, ...] = ()

    @property
    def unreadable_consumer(self) -> str | None:
        """The fault of a consumer that cannot be read, if there is one."""
        return next(iter(self.consumers.faults.values()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The unfinished part of an interrupted run: its plans, its remaining roots, and changelogs that a dry run would
    make.
    """

    plans: tuple[DeletionPlan, ...]
    root_keys: frozenset[str]
    made_changelogs: Mapping[int, Snapshot]


def resume_interrupted(table: TableContext, plans: tuple[DeletionPlan, ...], *, dry_run: bool) -> Resumed:
    """Unlink the roots that interrupted runs with these plans did not. A dry run only returns these roots.

    The history for the next plan includes the changelogs that this call makes of unlinked snapshots.
    """
    left = {
        root.key: (plan, root, data) for plan in plans for root, data in existing_roots(table.store, plan.roots).items()
    }
    made = {
        root.snapshot_id: parse_snapshot(data, key)
        for key, (plan, root, data) in left.items()
        if root.snapshot_id in plan.made_changelog_ids
    }
    if not dry_run:
        with deleting():
            for plan in plans:
                resume(table, plan)
    return Resumed(plans=plans, root_keys=frozenset(left), made_changelogs=made if dry_run else {})


def load_history(table: TableContext, snapshots: Retention, changelogs: Retention, resumed: Resumed) -> History:
    """Return the history, with the snapshots and changelogs whose times the retention rules can need.

    Raises StorageUnavailable when other runs expire parts of the history during each attempt to read it.
    """
    return LISTING.call(
        lambda: _read_history(table, snapshots, changelogs, resumed),
        on=(NotFound,),
        exhausted=lambda _: StorageUnavailable(
            f"{table.store.uri('')}: its history changes faster than it can be read. Call again."
        ),
    )


def _read_history(table: TableContext, snapshots: Retention, changelogs: Retention, resumed: Resumed) -> History:
    store, layout = table.store, table.layout
    boundary, ids = table.snapshots.ids.with_boundary()
    latest_id = ids[-1] if ids else 0
    made = resumed.made_changelogs
    # The result names the first and the last snapshot that stay.
    needed = {*asked_ids(ids, latest_id, snapshots), *ids[:1], *ids[-1:]}
    # A snapshot that another run makes a changelog is listed above or here.
    read, (every_changelog_id, consumers) = both(
        lambda: _read(store, {id: layout.snapshot(id) for id in needed}),
        lambda: both(
            lambda: changelog_ids(store, layout), lambda: read_consumers(store, layout), at_once=store.requests_at_once
        ),
        at_once=store.requests_at_once,
    )
    if ids:
        table.schemas.check_own(read[latest_id])
    listed = (id for id in every_changelog_id if layout.changelog(id) not in resumed.root_keys)
    # A changelog of an existing snapshot is a copy, left by a run that ended before it forbade the id.
    kept_changelog_ids = sorted({*(id for id in listed if not ids or id < ids[0]), *made})
    asked = {id: layout.changelog(id) for id in asked_ids(kept_changelog_ids, latest_id, changelogs)}
    there = _read(store, {id: key for id, key in asked.items() if id not in made})
    return History(
        layout=layout,
        boundary=boundary,
        snapshot_ids=ids,
        snapshots=read,
        latest=read.get(latest_id),
        changelog_ids=kept_changelog_ids,
        changelogs={id: made[id] if id in made else there[id] for id in asked},
        consumers=consumers,
    )


def _read(store: StoreReader, keys: Mapping[int, str]) -> dict[int, Snapshot]:
    """Return the snapshots of these files by id. Raises NotFound if one is missing."""
    files = zip(keys.items(), read_all(store, keys.values()), strict=True)
    return {id: parse_snapshot(data, key) for (id, key), data in files}


def storage_now_millis(table: TableContext) -> int:
    """Return the storage's time; this machine's if the store is read-only, because then nothing can be deleted."""
    try:
        return table.store.now_millis()
    except StorageUnavailable:
        return table.clock.now_millis()


class Dates:
    """The effective times of a table's snapshots and changelogs. A time stamp ahead of now is replaced by its file's
    time.
    """

    def __init__(self, store: StoreReader, *, now_millis: int, max_skew_millis: int) -> None:
        self.now_millis = now_millis
        self.max_skew_millis = max_skew_millis
        self._store = store
        self._modified: dict[str, Mapping[str, int]] = {}

    def is_ahead(self, snapshot: Snapshot) -> bool:
        return snapshot.time_millis > self.now_millis + self.max_skew_millis

    def of(self, snapshots: Mapping[int, Snapshot], key_of: Callable[[int], str]) -> list[Dated]:
        """Return `snapshots` with their effective times, in rising order; `key_of` returns the key of an id's file."""
        return [
            believed(
                snapshots[id],
                self._modified_millis(key_of(id)) if self.is_ahead(snapshots[id]) else None,
                now_millis=self.now_millis,
                max_skew_millis=self.max_skew_millis,
            )
            for id in sorted(snapshots)
        ]

    def _modified_millis(self, key: str) -> int | None:
        folder = key.rpartition("/")[0]
        if folder not in self._modified:
            self._modified[folder] = {info.key: info.modified_millis for info in self._store.list(folder)}
        return self._modified[folder].get(key)
