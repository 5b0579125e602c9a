"""A store whose conditional writes a SQL database decides, for services that have none.

Rule: the row of a key is its object; the file is a copy of it, which any process that meets an unwritten row may
write.
Source: docs/decisions/0024-commits-by-a-database.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import IO, Any, Final

import pyarrow as pa

from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.claim import Claim
from lakehouse_core.catalog.sql.commit_rows import CommitRow, CommitRows
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.tables import COMMITS
from lakehouse_core.clock import Clock
from lakehouse_core.errors import InvalidRequest, NotFound, StorageUnavailable, WriteOutcomeUnknown
from lakehouse_core.retry import Retry
from lakehouse_core.storage import Children, ObjectInfo, ObjectStore
from lakehouse_core.storage.decider_marks import MARKS_FOLDER
from lakehouse_core.storage.keys import joined, key_parts
from lakehouse_core.storage.outcomes import begun

# Folders of data files and manifests, whose names are used once, and files that are hints: no row is asked for them.
_BULK_FOLDERS: Final = ("manifest", "index", "statistics")
_BULK_PREFIX: Final = "bucket-"
_HINTS: Final = ("LATEST", "EARLIEST")
# Folders of objects that verbs write without a condition: no call gives them a row while another one deletes them.
_PLAIN_FOLDERS: Final = ("consumer", "pending", "queue", "tag-success-file")
_LONGEST_KEY: Final = 1024
# Each further attempt means that another process changed the object meanwhile.
_OVERTAKEN: Final = Retry(20)


def decided_store(metastore: str, options: Mapping[str, str], inner: ObjectStore, clock: Clock) -> "DecidedStore":
    """Return the store that the database at an address decides about, without connecting. Raises as `connect` does."""
    address = sql_address(metastore, options)
    if address.takes_lock:
        raise InvalidRequest(
            "metastore_options: lock.enabled is for tables that Java writes. In a store without conditional writes "
            "the database decides, which Java does not know: write there by this package alone, and leave the lock out."
        )
    return DecidedStore(inner, SqlDatabase(address, (COMMITS,)), clock)


class DecidedStore:
    """An ObjectStore over `inner`. `prefix`: where this store is rooted below the warehouse, whose `claim` it has."""

    folders = None

    def __init__(
        self,
        inner: ObjectStore,
        database: SqlDatabase,
        clock: Clock,
        prefix: str = "",
        claim: Claim | None = None,
    ) -> None:
        self._inner = inner
        self.spec = inner.spec
        self.requests_at_once = inner.requests_at_once
        self.sinks_at_once = inner.sinks_at_once
        self._database = database
        self._clock = clock
        self._prefix = prefix
        self._claim = claim or Claim(inner, database, clock)
        self._rows = CommitRows(database, clock, prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        return DecidedStore, (self._inner, self._database, self._clock, self._prefix, self._claim)

    def at(self, prefix: str, *, is_table: bool = False) -> "DecidedStore":
        # Not `is_table` to the inner one: a table may be there that has rows and no file yet.
        deeper = joined(self._prefix, prefix)
        return DecidedStore(self._inner.at(prefix), self._database, self._clock, deeper, self._claim)

    def uri(self, key: str) -> str:
        return self._inner.uri(key)

    def read(self, key: str) -> bytes:
        row = self._found([key]).get(key)
        if row is None:
            return self._inner.read(key)
        if row.content is None:
            raise NotFound(f"{self.uri(key)}: the object does not exist. Check the name.")
        return row.content

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        asked = list(keys)
        rows = self._found(asked)
        files = self._inner.read_found([key for key in asked if key not in rows])
        contents = {key: row.content for key, row in rows.items() if row.content is not None}
        return {
            key: contents[key] if key in contents else files[key] for key in asked if key in contents or key in files
        }

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        row = self._found([key]).get(key)
        if row is None:
            return self._inner.read_versioned(key)
        return None if row.content is None else (row.content, row.nonce)

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        return self._inner.open_read(key, size) if self._is_bulk(key) else pa.BufferReader(self.read(key))

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        asked = list(keys)
        gone = {key for key, row in self._found(asked).items() if row.content is None}
        return self._inner.infos([key for key in asked if key not in gone])

    def children(self, prefix: str) -> Children:
        gone = self._gone_below(prefix)
        found = self._inner.children(prefix)
        return Children(tuple(name for name in found.files if joined(prefix, name) not in gone), found.folders)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        gone = self._gone_below(prefix)
        marks = "" if joined(self._prefix, prefix) else f"{MARKS_FOLDER}/"
        return (
            info
            for info in self._inner.list(prefix)
            if info.key not in gone and not (marks and info.key.startswith(marks))
        )

    def create_new(self, key: str, data: bytes) -> bool:
        self._check_decidable(key)
        self._claim.check()
        row = self._row(key)
        if row is None and self._inner.infos([key]):
            return False
        if row is not None and row.content is not None:
            return False
        return self._decided(key, data, over=row)

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        if if_version is None:
            return self.create_new(key, data)
        self._check_decidable(key)
        self._claim.check()
        row = self._row(key)
        if row is None:
            # A file that came here without the database.
            found = self._inner.read_versioned(key)
            return found is not None and found[1] == if_version and self._decided(key, data, over=None)
        return row.content is not None and row.nonce == if_version and self._decided(key, data, over=row)

    def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
        for key in objects:
            key_parts(key)
        self._claim.check()
        bulk = {key: data for key, data in objects.items() if self._is_bulk(key)}
        self._inner.write(bulk, durable=durable)
        for key, data in objects.items():
            if key not in bulk:
                self._write(key, data, durable=durable)

    def _write(self, key: str, data: bytes, *, durable: bool) -> None:
        for _ in _OVERTAKEN.attempts():
            row = self._row(key)
            if row is None:
                self._inner.write({key: data}, durable=durable)
                return
            if self._decided(key, data, over=row):
                return
        raise self._restless(key)

    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        key_parts(key)
        self._claim.check()
        return self._inner.open_write(key)

    def make_last(self, keys: Iterable[str]) -> None:
        asked = list(keys)
        for key, row in self._rows_of(asked).items():
            self._settle(key, row)
        self._inner.make_last(asked)

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        asked = list(keys)
        rows = self._rows_of(asked)
        if asked:
            self._claim.check()
        live = [key for key, row in rows.items() if row.content is not None]
        # A row that was deleted before may have a file that an overtaken writer left.
        unsettled = {key: row.nonce for key, row in rows.items() if row.content is None and not row.is_written}
        nonces = set(unsettled.values())
        if live:
            nonces.add(self._rows.delete(live))
        left = self._inner.delete(asked)
        ours = [key for key in (*live, *unsettled) if key not in left]
        settled = rows.keys() - {*live, *unsettled}
        others = [key for key in asked if key in settled or (key not in rows and self._may_get_row(key))]
        if nonces and self._rows.mark_deleted(ours, nonces) != len(ours):
            others += ours
        # The deletion is done, whatever becomes of this.
        with suppress(StorageUnavailable, WriteOutcomeUnknown):
            self._restore(others)
        return left

    def _restore(self, keys: Sequence[str]) -> None:
        """Write the files of objects that were made after a deletion emptied or missed their rows, and before it
        deleted the files.
        """
        for key, row in (self._rows.of(keys) if keys else {}).items():
            if row.content is not None:
                self._settle(key, replace(row, is_written=False))

    def now_millis(self) -> int:
        return self._inner.now_millis()

    def _decided(self, key: str, data: bytes, *, over: CommitRow | None) -> bool:
        """Let the database decide: the key gets this content if its row is still `over`. Then write the file.

        Raises WriteOutcomeUnknown where the row or the file may not be written; the next reader of the key finishes it.
        """
        row = self._rows.decide(key, data, over=over)
        if row is None:
            return False
        with begun(f"The database has the content of {self.uri(key)}; its next reader writes the file."):
            self._settle(key, row)
        return True

    def _settle(self, key: str, row: CommitRow) -> None:
        """Make the file say what the row says. Another one may have changed the row meanwhile: then what that says."""
        for _ in _OVERTAKEN.attempts():
            if row.is_written:
                return
            self._claim.check()
            if row.content is None:
                if left := self._inner.delete([key]):
                    raise StorageUnavailable(f"{self.uri(left[0])}: the store did not delete it. Try again.")
            else:
                self._inner.write({key: row.content})
            if self._rows.mark_written(key, row):
                return
            # The file may be ours now, and the row another's, who wrote the file before us.
            found = self._row(key)
            if found is None:
                return
            row = replace(found, is_written=False)
        raise self._restless(key)

    def _found(self, keys: Sequence[str]) -> Mapping[str, CommitRow]:
        """Return the rows of keys, after a try to finish what their writers did not."""
        rows = self._rows_of(keys)
        for key, row in rows.items():
            # The row is what counts; who may not write the file can still read.
            with suppress(StorageUnavailable):
                self._settle(key, row)
        return rows

    def _rows_of(self, keys: Iterable[str]) -> Mapping[str, CommitRow]:
        return self._rows.of(key for key in keys if not self._is_bulk(key))

    def _row(self, key: str) -> CommitRow | None:
        return self._rows_of([key]).get(key)

    def _gone_below(self, prefix: str) -> set[str]:
        """Return the deleted keys below a prefix, after files are written that their writers did not write."""
        gone, unwritten = self._rows.unsettled_below(prefix)
        self._found(unwritten)
        return gone

    def _is_bulk(self, key: str) -> bool:
        folder = self._folder(key)
        return key.rpartition("/")[2] in _HINTS or folder in _BULK_FOLDERS or folder.startswith(_BULK_PREFIX)

    def _folder(self, key: str) -> str:
        """Return the name of the folder that the object is in."""
        return joined(self._prefix, key).rpartition("/")[0].rpartition("/")[2]

    def _may_get_row(self, key: str) -> bool:
        """Return whether verbs write an object of that kind by condition."""
        return not self._is_bulk(key) and self._folder(key) not in _PLAIN_FOLDERS

    def _check_decidable(self, key: str) -> None:
        if self._is_bulk(key):
            raise InvalidRequest(f"{self.uri(key)}: data files, manifests and hints are not written by condition.")
        if (length := len(self._rows.name(key))) > _LONGEST_KEY:
            raise InvalidRequest(
                f"{self.uri(key)}: the name has {length} letters in the database, at most "
                f"{_LONGEST_KEY} can be stored. Choose a shorter name."
            )

    def _restless(self, key: str) -> StorageUnavailable:
        return StorageUnavailable(
            f"{self.uri(key)}: it was changed in each of {_OVERTAKEN.max_attempts} attempts. Try again."
        )
