"""Rows of decided keys: what the database says of each key, and the statements that change it.

Rule: a row changes only from the nonce that its reader saw; a key that was deleted keeps a row for a while, so that a
writer that was overtaken finds that out.
Source: docs/decisions/0024-commits-by-a-database.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

import sqlalchemy as sa

from lakehouse_core.catalog.sql.database import RowExists, SqlDatabase
from lakehouse_core.catalog.sql.tables import COMMITS
from lakehouse_core.clock import Clock
from lakehouse_core.errors import StorageUnavailable
from lakehouse_core.storage.keys import joined

_KEYS_AT_ONCE: Final = 200
# How long a writer that was overtaken may sleep before the row that tells it so is removed.
_KEPT_MILLIS: Final = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class CommitRow:
    """What the database says of a key. `content` None: deleted. `is_written`: the file says the same."""

    nonce: str
    content: bytes | None
    is_written: bool


class CommitRows:
    """The rows of the keys below `prefix`, under the catalog key of the database."""

    def __init__(self, database: SqlDatabase, clock: Clock, prefix: str) -> None:
        self._database = database
        self._clock = clock
        self._prefix = prefix

    def of(self, keys: Iterable[str]) -> dict[str, CommitRow]:
        """Return the rows of those keys that have one."""
        asked = {self.name(key): key for key in keys}
        columns = COMMITS.c
        found: dict[str, CommitRow] = {}
        for some in self._in_parts(list(asked.values())):
            query = sa.select(columns.object_key, columns.nonce, columns.content, columns.is_written).where(
                self._in_catalog(), some
            )
            for name, nonce, content, is_written in self._ask(query):
                found[asked[name]] = CommitRow(nonce, None if content is None else bytes(content), bool(is_written))
        return found

    def unsettled_below(self, prefix: str) -> tuple[set[str], list[str]]:
        """Return the deleted keys below a prefix, and the keys whose file may not say what their row says."""
        columns = COMMITS.c
        folder = self.name(prefix) if joined(self._prefix, prefix) else ""
        # "0" follows "/".
        below = [columns.object_key >= f"{folder}/", columns.object_key < f"{folder}0"] if folder else []
        query = sa.select(columns.object_key, columns.content.is_(None), columns.is_written).where(
            self._in_catalog(), sa.or_(columns.content.is_(None), columns.is_written == 0), *below
        )
        root = f"{self._prefix}/" if self._prefix else ""
        rows = [
            (unquote(name, errors="surrogateescape").removeprefix(root), gone, is_written)
            for name, gone, is_written in self._ask(query)
        ]
        return {key for key, gone, _ in rows if gone}, [key for key, _, is_written in rows if not is_written]

    def decide(self, key: str, data: bytes, *, over: CommitRow | None) -> CommitRow | None:
        """Give the key this content if its row is still `over`, and return its new row; else None.

        Raises WriteOutcomeUnknown, StorageUnavailable.
        """
        row = CommitRow(self._clock.uuid(), data, is_written=False)
        values = {"nonce": row.nonce, "content": data, "is_written": 0, "changed_millis": self._clock.now_millis()}

        def change(connection: sa.Connection) -> bool:
            if over is None:
                connection.execute(sa.insert(COMMITS).values({**self._identity(key), **values}))
                return True
            update = sa.update(COMMITS).where(*self._is(key), COMMITS.c.nonce == over.nonce).values(values)
            return connection.execute(update).rowcount == 1

        try:
            is_ours = self._database.change(
                change, is_done=lambda connection: self._nonce(connection, key) == row.nonce
            )
        except RowExists:
            return None
        return None if is_ours is False else row

    def mark_written(self, key: str, row: CommitRow) -> bool:
        """Say that the file is as the row says; return False if the row has changed."""

        def mark(connection: sa.Connection) -> bool:
            update = sa.update(COMMITS).where(*self._is(key), COMMITS.c.nonce == row.nonce).values(is_written=1)
            return connection.execute(update).rowcount == 1

        marked = self._database.change(mark, is_done=lambda connection: self._nonce(connection, key) == row.nonce)
        return marked is not False

    def delete(self, keys: Sequence[str]) -> str:
        """Empty the rows of keys, which deletes their objects for readers. Return the nonce that the rows then have."""
        nonce = self._clock.uuid()
        values = {"nonce": nonce, "content": None, "is_written": 0, "changed_millis": self._clock.now_millis()}

        def change(connection: sa.Connection) -> None:
            for some in self._in_parts(keys):
                connection.execute(sa.update(COMMITS).where(self._in_catalog(), some).values(values))

        self._database.change(change, is_done=lambda connection: self._nonce(connection, keys[-1]) == nonce)
        return nonce

    def mark_deleted(self, keys: Sequence[str], nonces: Iterable[str]) -> int | None:
        """Say that the files of these rows are gone, where no writer changed the row since; return the number of these
        rows, None if the database did not answer. Remove rows of objects that were deleted long ago.
        """
        columns = COMMITS.c
        are_ours = columns.nonce.in_(list(nonces))
        old = sa.delete(COMMITS).where(
            self._in_catalog(),
            columns.content.is_(None),
            columns.is_written == 1,
            columns.changed_millis < self._clock.now_millis() - _KEPT_MILLIS,
        )

        def change(connection: sa.Connection) -> int:
            updates = [
                sa.update(COMMITS).where(self._in_catalog(), some, are_ours).values(is_written=1)
                for some in self._in_parts(keys)
            ]
            found = sum(connection.execute(update).rowcount for update in updates)
            connection.execute(old)
            return found

        # The files are gone; who meets a row that does not say so deletes them again.
        with suppress(StorageUnavailable):
            return self._database.change(change, is_done=lambda _: True)
        return None

    def name(self, key: str) -> str:
        """Return the key below the warehouse in ASCII, which every database orders alike."""
        return quote(joined(self._prefix, key), safe="/", errors="surrogateescape")

    def _in_parts(self, keys: Sequence[str]) -> Iterator[sa.ColumnElement[bool]]:
        """Yield conditions that together hold for the rows of these keys."""
        names = [self.name(key) for key in keys]
        for first in range(0, len(names), _KEYS_AT_ONCE):
            yield COMMITS.c.object_key.in_(names[first : first + _KEYS_AT_ONCE])

    def _ask(self, query: sa.Select[Any]) -> Sequence[Any]:
        empty: Sequence[Any] = []
        return self._database.read(lambda connection: connection.execute(query).all(), empty=empty)

    def _nonce(self, connection: sa.Connection, key: str) -> str | None:
        return connection.execute(sa.select(COMMITS.c.nonce).where(*self._is(key))).scalar()

    def _is(self, key: str) -> tuple[sa.ColumnElement[bool], ...]:
        return (self._in_catalog(), COMMITS.c.object_key == self.name(key))

    def _in_catalog(self) -> sa.ColumnElement[bool]:
        return COMMITS.c.catalog_key == self._database.address.catalog_key

    def _identity(self, key: str) -> dict[str, str]:
        return {"catalog_key": self._database.address.catalog_key, "object_key": self.name(key)}
