"""The lock row of a table, as writers of Java Paimon take it: one row in a SQL table while one file is published.

Rule: the lock is advice. The file is still created by create-if-absent, and when the row was lost meanwhile, the file
is read again under the lock. Source: docs/format/catalogs.md#jdbc-catalog, docs/decisions/0023-sql-catalogs.md.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from lakehouse_core.catalog.sql import address
from lakehouse_core.catalog.sql.database import RowExists, SqlDatabase
from lakehouse_core.catalog.sql.tables import LOCKS
from lakehouse_core.clock import Clock
from lakehouse_core.errors import InvalidRequest, NotFound, StorageUnavailable, WriteOutcomeUnknown
from lakehouse_core.progress import LOGGER
from lakehouse_core.retry import Retry
from lakehouse_core.storage import ObjectStore
from lakehouse_core.storage.outcomes import begun

# Others remove our row after this time, so it is also how long they wait for a writer that died.
_EXPIRY_SECONDS: Final = 60
# How far the time of a row may lie before the time when it was taken, where times are stored in whole seconds.
_MOST_SHIFT_SECONDS: Final = 3600
_LONGEST_ID: Final = 255
_MIN_WAIT_MILLIS: Final = 10
_MAX_WAIT_MILLIS: Final = 500
_RELEASE: Final = Retry(None, timeout_millis=10_000, min_wait_millis=50, max_wait_millis=500)
# A wait that is longer is logged once.
_LONG_WAIT_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class _Row:
    """Our row. `acquired_at`: its time in the database, by which it is known; `since` is on the monotonic clock."""

    acquired_at: str
    since: float


@dataclass(frozen=True, slots=True)
class SqlLock:
    """The arbiter of one table: create-if-absent, while the row `lock_id` is ours."""

    database: SqlDatabase
    lock_id: str
    clock: Clock

    def create(self, store: ObjectStore, key: str, data: bytes) -> bool:
        row = self._acquire()
        try:
            is_created = store.create_new(key, data)
        except BaseException:
            with suppress(StorageUnavailable):
                self._release(row)
            raise
        if self._was_ours(row) or not is_created:
            return is_created
        # Another writer had the lock before ours ended, and may have written the file anew in its own way.
        with begun(f"{store.uri(key)} was written, but the lock {self.lock_id} was lost meanwhile."):
            return self._is_ours(store, key, data)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock during the block. Raises StorageUnavailable when it is not free in time."""
        row = self._acquire()
        try:
            yield
        finally:
            with suppress(StorageUnavailable):
                self._release(row)

    def _is_ours(self, store: ObjectStore, key: str, data: bytes) -> bool:
        with self.held():
            try:
                return store.read(key) == data
            except NotFound:
                raise WriteOutcomeUnknown(f"{store.uri(key)}: it was written, and is missing now.") from None

    def _was_ours(self, row: _Row) -> bool:
        """Release the row; return whether it was still ours."""
        try:
            return self._release(row)
        except StorageUnavailable:
            # The database does not answer. Before the row expires no other writer may remove it.
            return self.clock.monotonic_seconds() - row.since < _EXPIRY_SECONDS

    def _acquire(self) -> _Row:
        """Insert the row, after those that have expired were removed. Waits while another writer has it.

        Raises StorageUnavailable when the lock is not free in time.
        """
        if len(self.lock_id) > _LONGEST_ID:
            raise InvalidRequest(
                f"lock {self.lock_id}: it has {len(self.lock_id)} letters, at most {_LONGEST_ID} can be stored. Give "
                "the table a shorter name."
            )
        started, is_logged = self.clock.monotonic_seconds(), False
        timeout_millis = self.database.address.lock_timeout_millis
        retry = Retry(
            None, timeout_millis=timeout_millis, min_wait_millis=_MIN_WAIT_MILLIS, max_wait_millis=_MAX_WAIT_MILLIS
        )
        for attempt in retry.attempts(self.clock):
            since = self.clock.monotonic_seconds()
            try:
                return _Row(self._insert(), since)
            except RowExists:
                if not is_logged and since - started > _LONG_WAIT_SECONDS:
                    is_logged = True
                    logging.getLogger(f"{LOGGER}.lock").warning("waiting: %s", self._holder())
            except WriteOutcomeUnknown as error:
                raise StorageUnavailable(f"{error} Nothing was published.") from None
            attempt.wait()
        raise StorageUnavailable(
            f"{self.database}: {self._holder()}. The lock was not free within {timeout_millis // 1000} s, and nothing "
            "was published. Call again later; if that writer is dead, its row is removed when it has expired."
        )

    def _insert(self) -> str:
        def insert(connection: sa.Connection) -> str:
            connection.execute(sa.delete(LOCKS).where(LOCKS.c.lock_id == self.lock_id, self._has_expired()))
            now, expiry = self._now()
            row = {"lock_id": self.lock_id, "acquired_at": now, "expire_time_seconds": expiry}
            connection.execute(sa.insert(LOCKS).values(row))
            return str(
                connection.execute(sa.select(_acquired_at()).where(LOCKS.c.lock_id == self.lock_id)).scalar_one()
            )

        inserted = self.database.change(insert, is_done=lambda _: False)
        assert inserted is not None, "a change whose answer was lost is an error here"
        return inserted

    def _release(self, row: _Row) -> bool:
        """Delete our row; return False if another writer removed it. Raises StorageUnavailable.

        Repeated while the database does not answer: until the row expires, all others would wait for it.
        """
        ours = sa.and_(LOCKS.c.lock_id == self.lock_id, _acquired_at() == row.acquired_at)

        def delete() -> int | None:
            return self.database.change(
                lambda connection: connection.execute(sa.delete(LOCKS).where(ours)).rowcount, is_done=lambda _: False
            )

        return _RELEASE.call(delete, on=(StorageUnavailable,), clock=self.clock) == 1

    def _holder(self) -> str:
        """Return a phrase about the writer that has the lock."""
        query = sa.select(_acquired_at(), LOCKS.c.expire_time_seconds).where(LOCKS.c.lock_id == self.lock_id)
        row = self.database.read(lambda connection: connection.execute(query).first(), empty=None)
        if row is None:
            return f"the lock {self.lock_id} was taken by other writers again and again"
        return (
            f"the lock {self.lock_id} was taken by another writer at {row[0]} by the database's clock, and expires "
            f"{row[1]} s later"
        )

    def _now(self) -> tuple[sa.ColumnElement[Any], int]:
        """Return the time of a new row, and the seconds after which it expires.

        Digits below the second make the row known as ours, and Java does not read them. MySQL keeps whole seconds: the
        time there lies before now, by chance, and the expiry is as much longer.
        """
        match self.database.address.dialect:
            case address.SQLITE:
                digits = f".{int(self.clock.uniform(0, 1_000_000)):06d}"
                return sa.func.strftime("%Y-%m-%d %H:%M:%S", "now") + digits, _EXPIRY_SECONDS
            case address.MYSQL:
                shift = int(self.clock.uniform(0, _MOST_SHIFT_SECONDS))
                time = sa.func.timestampadd(sa.text("SECOND"), -shift, sa.func.now())
                return time, _EXPIRY_SECONDS + shift
            case _:
                return sa.func.current_timestamp(), _EXPIRY_SECONDS

    def _has_expired(self) -> sa.ColumnElement[bool]:
        age: sa.ColumnElement[Any]
        match self.database.address.dialect:
            case address.SQLITE:
                age = sa.func.strftime("%s", "now") - sa.func.strftime("%s", LOCKS.c.acquired_at)
            case address.MYSQL:
                age = sa.func.timestampdiff(sa.text("SECOND"), LOCKS.c.acquired_at, sa.func.now())
            case _:
                age = sa.extract("epoch", sa.func.current_timestamp() - LOCKS.c.acquired_at)
        expired: sa.ColumnElement[bool] = age > LOCKS.c.expire_time_seconds
        return expired


def _acquired_at() -> sa.ColumnElement[str]:
    """The time of a row as text, to the microsecond."""
    return sa.cast(LOCKS.c.acquired_at, sa.String(40))
