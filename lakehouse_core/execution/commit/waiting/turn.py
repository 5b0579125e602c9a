"""Turn: when an attempt of a commit may start, and after which snapshot. An attempt waits behind queued commits.

Rule: a commit that lost a race takes a ticket and keeps it until it ends.
Source: docs/reliability/commit.md#waiting-and-fairness.
"""

from collections.abc import Callable, Mapping
from typing import Final

from lakehouse_core.execution.commit.waiting.queue import CommitQueue
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.look import Look
from lakehouse_core.options import CommitOptions
from lakehouse_core.planning.commit.ledger import QUEUE_PROPERTY
from lakehouse_core.retry import Attempt, Retry
from lakehouse_core.table.layout import QUEUE_MARK
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot

# While commits wait in a queue, so many more snapshots than the next one may be there when one looks.
_MORE_SNAPSHOTS: Final = 2
# A longer wait does not raise the chance of an attempt.
_LONGEST_WAIT_MILLIS: Final = 2_000
# A queued commit sleeps after this many lost races in a row: the race before it queued, and some in its turn.
_LOSSES_WITHOUT_SLEEP: Final = 4
_MOST_DOUBLINGS: Final = 20


def commit_retry(options: CommitOptions, *, is_limited: bool) -> Retry:
    """Return the policy for the attempts of one step: until the deadline; `is_limited`: no more often than the table
    allows.
    """
    retries = options.max_retries if is_limited else None
    return Retry(
        max_attempts=None if retries is None else retries + 1,
        timeout_millis=options.timeout_millis,
        min_wait_millis=options.min_retry_wait_millis,
        max_wait_millis=min(options.max_retry_wait_millis, _LONGEST_WAIT_MILLIS),
    )


class CommitTurn:
    """The attempts of one commit, as far as waiting is concerned.

    `look`: that of the first attempt, which was taken just now; None: the attempt takes one.
    """

    def __init__(self, table: TableContext, options: CommitOptions, look: Look | None) -> None:
        self._table = table
        self._clock = table.clock
        self._snapshots = table.snapshots
        self._queue = CommitQueue(table.store, table.clock)
        self._max_stall_seconds = options.max_stall_millis / 1000
        self._looked_at = self._clock.monotonic_seconds()
        self._given = look
        self._look = look
        self._latest: Snapshot | None = None

    @property
    def has_stalled(self) -> bool:
        """Whether so much time has passed since the call of `latest` that its snapshot may have expired."""
        return self._clock.monotonic_seconds() - self._looked_at > self._max_stall_seconds

    @property
    def base_has_expired(self) -> bool:
        """Whether the snapshot that `latest` returned has expired by now; its files may be missing then."""
        return self._snapshots.has_expired(self._latest)

    def latest(self, attempt: Attempt, prepare: Callable[[Snapshot], object]) -> Snapshot | None:
        """Return the latest snapshot, the base of the next one. Waits for the turn of this commit if others are queued.

        `prepare` is called before the wait with the snapshot that is latest then, so its work does not delay other
        commits.
        """
        latest = self._looked()
        is_marked = self._look is not None and self._look.known(QUEUE_MARK) is not None
        if latest is not None and (is_marked or QUEUE_PROPERTY in latest.properties) and not self._queue.is_joined:
            if self._queue.join(if_any=True):
                prepare(latest)
            elif is_marked:
                self._queue.unmark()
            latest = self._waited(attempt, prepare)
        return latest

    @property
    def look(self) -> Look | None:
        """The look that found the snapshot that `latest` returned."""
        return self._look

    @property
    def commits_ahead(self) -> int:
        """How many commits of the queue will most likely be published before this one, after the latest snapshot."""
        return self._queue.ahead_count

    def schema(self) -> TableSchema:
        """Return the latest schema, which is not older than that of the latest snapshot. REQUIRES: `latest` was
        called.
        """
        schema = self._table.schemas.latest(self._look)
        if self._latest is not None and self._latest.schema_id > schema.id:
            # Both were read at once, the schema before an alteration, the snapshot after a commit that followed it.
            return self._table.schemas.latest()
        return schema

    @property
    def marks(self) -> Mapping[str, str]:
        """The property of the snapshot that tells later writers of the queue, if this commit is queued."""
        return {QUEUE_PROPERTY: "1"} if self._queue.is_joined else {}

    def wait_after_loss(self, attempt: Attempt) -> None:
        """Wait for the turn of the next attempt, if there is one."""
        if attempt.is_last:
            return
        has_waited = self._queue.is_joined
        self._queue.join()
        growth = None
        if self._queue.is_joined:
            if has_waited:
                # Commits that lost no race prepare faster than one that others overtook, and win each time.
                self._queue.mark()
            # Few commits run at once, and a commit that sleeps in one of the first places delays all behind it. So it
            # sleeps only after repeated losses, which come from writers that do not queue.
            late = attempt.number - _LOSSES_WITHOUT_SLEEP
            growth = 2 ** min(late - 1, _MOST_DOUBLINGS) if late > 0 else 0
        attempt.wait(growth)
        self._queue.wait(attempt.deadline)

    def leave(self) -> None:
        """Leave the queue, so that the next commit has its turn."""
        self._queue.leave()

    def _waited(self, attempt: Attempt, prepare: Callable[[Snapshot], object]) -> Snapshot | None:
        """Return the latest snapshot when it is this commit's turn. `prepare`: called once more when it is near."""

        def prepare_again() -> None:
            latest = self._looked()
            if latest is not None:
                prepare(latest)

        self._queue.wait(attempt.deadline, near=prepare_again)
        attempt.restart()
        return self._looked()

    def _looked(self) -> Snapshot | None:
        if self._given is None:
            self._looked_at = self._clock.monotonic_seconds()
        after = _MORE_SNAPSHOTS if self._queue.is_joined else 0
        self._look, self._given = self._given or self._table.look(QUEUE_MARK, after=after), None
        self._latest = self._snapshots.latest(self._look)
        return self._latest
