"""The attempts to publish one snapshot, in every verb that makes one: read the latest, wait for a turn, claim, again.

Rule: manifests written for it are deleted only where it is certain that no snapshot names them.
"""

from collections.abc import Callable
from typing import TypeVar

from lakehouse_core.errors import CorruptTable, InvalidRequest, StorageUnavailable
from lakehouse_core.execution.commit.publish import Patience, publish
from lakehouse_core.execution.commit.queue import CommitQueue
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.manifest_writer import ManifestWriter
from lakehouse_core.planning.commit.ledger import QUEUE_PROPERTY
from lakehouse_core.table.snapshot import Snapshot

R = TypeVar("R")


class Trial:
    """One snapshot that is tried for, with the manifests that `writer` writes for it."""

    def __init__(self, table: TableContext, writer: ManifestWriter, patience: Patience) -> None:
        self._table = table
        self._writer = writer
        self._patience = patience
        self._looked_at: Snapshot | None = None
        self._may_be_applied = False
        self._queue = CommitQueue(table.store, table.clock)
        self._since = 0.0

    @property
    def attempts(self) -> int:
        return self._patience.attempts

    @property
    def may_be_applied(self) -> bool:
        """Whether a snapshot of this trial is applied, or was claimed with an unknown outcome."""
        return self._may_be_applied

    def run(self, attempt: Callable[[], R | None], who: str) -> R:
        """Return what the first attempt returns that is not None, which means that another commit was faster.

        An attempt begins with `latest` and ends with `publish`, or without it where there is nothing to make.
        Raises CommitTimeout, naming `who`, and what an attempt raises.
        """
        try:
            while True:
                self._patience.start()
                try:
                    result = attempt()
                except CorruptTable:
                    if self._may_be_applied or not self._table.snapshots.has_expired(self._looked_at):
                        raise
                    # Its files went while we read them, for it has a successor.
                    result = None
                if result is not None:
                    return result
                self._patience.wait_after_loss(who, self._queue)
        except BaseException:
            if not self._may_be_applied:
                self._writer.discard_all_but(())
            raise
        finally:
            self._queue.leave()

    def latest(self, prepare: Callable[[Snapshot], object] | None = None) -> Snapshot | None:
        """Return the latest snapshot, after which the next is made.

        `prepare` is called before the commit waits for its turn, with the latest snapshot of then: what is made there
        takes no time from the other commits.
        """
        latest = self._look()
        if latest is not None and QUEUE_PROPERTY in latest.properties and not self._queue.is_joined:
            if self._queue.join(if_any=True) and prepare is not None:
                prepare(latest)
            self._patience.wait_in(self._queue)
            latest = self._look()
        return latest

    def publish(self, snapshot: Snapshot) -> bool:
        """Return whether `snapshot`, made after the latest one, is applied. Raises what `publish` raises."""
        if self._queue.is_joined:
            snapshot = snapshot.model_copy(update={"properties": {**snapshot.properties, QUEUE_PROPERTY: "1"}})
        self._may_be_applied = True
        try:
            self._may_be_applied = publish(self._table, snapshot, self._patience, since=self._since)
        except (StorageUnavailable, InvalidRequest):
            # Refused before anything was claimed.
            self._may_be_applied = False
            raise
        return self._may_be_applied

    def _look(self) -> Snapshot | None:
        self._since = self._table.clock.monotonic_seconds()
        self._looked_at = self._table.snapshots.latest()
        return self._looked_at
