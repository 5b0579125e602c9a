"""Holding tags: tags of our own that keep a state for the time of a verb, or for as long as a rollback needs it.

Why a rollback leaves tags: the expiry of another engine deletes a file that a snapshot removed, unless the nearest tag
before that snapshot has the file. It does not see that the rollback brought the file back.
Source: docs/semantics/maintenance.md#rollback, docs/reliability/deletion.md#tags.
"""

from collections.abc import Callable, Iterator
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
def held_for_rollback(table: TableContext, target: Snapshot, source_key: str, data: bytes) -> Iterator[_Release]:
    """Keep the state of `target` from every engine's expiry, by tags that stay after the block.

    `data` is the content of `source_key`. Yields the call that deletes the tags, for a block that commits nothing; it
    is called if the block ends with an error, unless that leaves the outcome unknown. Raises as `create_tag` does.
    """
    check_understood(table.store.uri(""), table.schemas.latest())
    names = [_rollback_tag(table, source_key, data)]
    with _released_on_error(partial(_delete, table, names)) as release:
        for snapshot in returns(table.snapshots.history(), after_id=target.id):
            # Its files that are needed are those of `target` too, so that it may expire meanwhile.
            with suppress(SnapshotExpired, NotFound):
                names.append(_rollback_tag(table, *tag_source(table, snapshot.id)))
        yield release


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
