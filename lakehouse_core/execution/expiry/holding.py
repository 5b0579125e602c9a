"""Holding tags: tags of our own that keep a state for the time of a verb, or for as long as a rollback needs it.

Why a rollback leaves tags: the expiry of another engine deletes a file that a snapshot removed, unless the nearest tag
before that snapshot has the file. It does not see that the rollback brought the file back.
Source: docs/semantics/maintenance.md#rollback, docs/reliability/deletion.md#tags.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeAlias

from lakehouse_core.errors import (
    CommitOutcomeUnknown,
    LakehouseError,
    NotFound,
    SnapshotExpired,
    WriteOutcomeUnknown,
)
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.expire import check_understood
from lakehouse_core.execution.expiry.tags import delete_tag, tag_of, tag_source
from lakehouse_core.planning.expiry.rollback_tags import KEPT_UNNEEDED_MILLIS, returns
from lakehouse_core.table.snapshot import HOLDING_TAG, ROLLBACK_TAG, Snapshot

_Release: TypeAlias = Callable[[], None]


@contextmanager
def held(table: TableContext, source_key: str, data: bytes) -> Iterator[None]:
    """Keep the state in `data`, the content of `source_key`, for the time of the block, by a tag of its own.

    The tag stays, for a day, if the block ends with an unknown outcome. Raises as `create_tag` does.
    """
    check_understood(table.store.uri(""), table.schemas.latest())
    name = f"{HOLDING_TAG}{table.clock.uuid()}"
    tag_of(table, name, source_key, data, retention_millis=KEPT_UNNEEDED_MILLIS)
    with _released_on_error(partial(_delete, table, [name])) as release:
        yield
    release()


@contextmanager
def held_for_rollback(table: TableContext, target: Snapshot, source_key: str, data: bytes) -> Iterator["RollbackTags"]:
    """Keep the state of `target` from every engine's expiry, by tags that stay after the block.

    `data` is the content of `source_key`. The tags are deleted if the block ends with an error, unless that leaves the
    outcome unknown. Raises as `create_tag` does.
    """
    check_understood(table.store.uri(""), table.schemas.latest())
    tags = RollbackTags(table, target, source_key, data)
    with _released_on_error(tags.release):
        tags.keep_returns()
        yield tags


class RollbackTags:
    """The tags of one rollback: that of its target, and those of later snapshots in which files may have come back."""

    def __init__(self, table: TableContext, target: Snapshot, source_key: str, data: bytes) -> None:
        self._table = table
        self._seen_id = target.id
        self._names = [_rollback_tag(table, source_key, data)]

    def keep_returns(self) -> None:
        """Tag the snapshots since the last call, or since the target, in which files may have come back."""
        history = self._table.snapshots.history()
        for snapshot in returns(history, after_id=self._seen_id):
            # Its files that are needed are those of the target too, so that it may expire meanwhile.
            with suppress(SnapshotExpired, NotFound):
                self._names.append(_rollback_tag(self._table, *tag_source(self._table, snapshot.id)))
        self._seen_id = max(self._seen_id, history[-1].id if history else 0)

    def keep_returns_until(self, latest: Snapshot | None) -> None:
        """Tag those up to `latest`, on which the rollback is about to be committed: other rollbacks came meanwhile."""
        if latest is not None and latest.id > self._seen_id:
            self.keep_returns()

    def release(self) -> None:
        """Delete the tags. REQUIRES: the rollback certainly commits nothing."""
        _delete(self._table, self._names)


@contextmanager
def states_held(table: TableContext, snapshot_ids: Sequence[int]) -> Iterator[None]:
    """Keep the states of these snapshots from every engine's expiry, as a rollback keeps that of its target; one that
    has expired, or that a tag keeps so already, is left out. Raises as `create_tag` does.
    """
    there = (
        {tag.snapshot.id for name, tag in table.tags.all().items() if name.startswith(ROLLBACK_TAG)}
        if snapshot_ids
        else set()
    )
    names: list[str] = []
    with _released_on_error(lambda: _delete(table, names)):
        for snapshot_id in snapshot_ids:
            if snapshot_id not in there:
                with suppress(SnapshotExpired, NotFound):
                    names.append(_rollback_tag(table, *tag_source(table, snapshot_id)))
        yield


def _rollback_tag(table: TableContext, source_key: str, data: bytes) -> str:
    name = f"{ROLLBACK_TAG}{table.clock.uuid()}"
    tag_of(table, name, source_key, data, retention_millis=None)
    return name


@contextmanager
def _released_on_error(release: _Release) -> Iterator[_Release]:
    try:
        yield release
    except (CommitOutcomeUnknown, WriteOutcomeUnknown):
        raise
    except LakehouseError:
        release()
        raise


def _delete(table: TableContext, names: list[str]) -> None:
    for name in names:
        # What the verb did or did not do is known. A tag that cannot be deleted now is deleted by a later expiry; a
        # damaged root, because of which no file is deleted, may be why the table is rolled back.
        with suppress(LakehouseError):
            delete_tag(table, name)
