"""Trying for a snapshot until it is published or cannot be: what every verb that makes one does between its attempts.

Rule: what was written for it goes only where it is certain that no snapshot names it.
"""

from collections.abc import Callable
from typing import TypeVar

from lakehouse_core.errors import CorruptTable, InvalidRequest, StorageUnavailable
from lakehouse_core.execution.manifest_writer import ManifestWriter
from lakehouse_core.execution.publish import Patience, publish
from lakehouse_core.execution.snapshot_log import SnapshotLog
from lakehouse_core.table.snapshot import Snapshot

R = TypeVar("R")


class Trial:
    """One snapshot that is tried for, with the manifests that `writer` writes for it."""

    def __init__(self, log: SnapshotLog, writer: ManifestWriter, patience: Patience) -> None:
        self._log = log
        self._writer = writer
        self._patience = patience
        self._looked_at: Snapshot | None = None
        self._may_be_applied = False

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
                    if self._may_be_applied or not self._log.has_expired(self._looked_at):
                        raise
                    # Its files went while we read them, for it has a successor.
                    result = None
                if result is not None:
                    return result
                self._patience.wait_after_loss(who)
        except BaseException:
            if not self._may_be_applied:
                self._writer.discard_all_but(())
            raise

    def latest(self) -> Snapshot | None:
        """Return the latest snapshot, after which the next is made."""
        self._looked_at = self._log.latest()
        return self._looked_at

    def publish(self, snapshot: Snapshot, *, since: float) -> bool:
        """Return whether `snapshot` is applied; `since`: when the attempt began. Raises what `publish` raises."""
        self._may_be_applied = True
        try:
            self._may_be_applied = publish(self._log, snapshot, self._patience, since=since)
        except (StorageUnavailable, InvalidRequest):
            # Refused before anything was claimed.
            self._may_be_applied = False
            raise
        return self._may_be_applied
