"""Local lookup files: the rows of a data file in Arrow's format, uncompressed and mapped into memory, in key order.

Rule: a local file is a copy. A lost, cut or changed one is detected and made anew. Processes may share a directory; the
least recently used files are deleted first.
Source: docs/semantics/changelog.md#local-lookup-files.
"""

import errno
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import pyarrow as pa

from lakehouse_core.clock import Clock
from lakehouse_core.errors import CorruptTable, InvalidRequest, StorageUnavailable
from lakehouse_core.execution.lookup.process_directory import process_directory
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.merge.search import SortedKeys, is_rising, search_words, sorted_keys
from lakehouse_core.options import LookupOptions

_ENDING: Final = ".lookup"
_BUILDING: Final = ".building"
_WORD: Final = "_WORD_"
# The end of a file: checksum and length of all bytes before it, a digest of the file's name, and a type mark.
_MAGIC: Final = b"lh-look2"
_TAIL_BYTES: Final = 4 + 8 + 8 + len(_MAGIC)
_MILLI_NANOS: Final = 1_000_000
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class KeyedBatch:
    """Rows in key order, with their keys; `first_row`: the position of the first row in the data file."""

    rows: pa.RecordBatch
    keys: SortedKeys
    first_row: int


@dataclass(frozen=True, slots=True)
class LocalRows:
    """All rows of a data file, batch by batch; `first_keys`: the first key of each batch."""

    batches: tuple[KeyedBatch, ...]
    first_keys: SortedKeys


class LookupCache:
    """The local lookup files in a directory, which is made if absent. Raises InvalidRequest if it cannot be made."""

    def __init__(self, directory: str, clock: Clock) -> None:
        self.directory = directory
        self._clock = clock
        # Files with a verified checksum, by name: the file's inode and size. Verification reads the whole file.
        self._verified: dict[str, tuple[int, int]] = {}
        self._too_large: set[str] = set()
        self._read_rows: dict[str, int] = {}
        self._make_directory()

    def is_worthwhile(self, name: str, row_count: int, of: int, *, size_bytes: float, options: LookupOptions) -> bool:
        """Return whether to build a local file instead of reading `row_count` of the data file's `of` rows now.

        Building takes about as long as one read of all rows, so it pays once a tenth of them has been read, now and
        before.
        """
        if name in self._too_large or size_bytes > options.max_disk_bytes:
            return False
        return self._read_rows.get(name, 0) + row_count > of / 10

    def count_read(self, name: str, row_count: int) -> None:
        """Count rows that were read from the data file itself."""
        self._read_rows[name] = self._read_rows.get(name, 0) + row_count

    def touch(self, name: str) -> bool:
        """Record a use of a file. Return False if the file is no longer the one that was verified: open it again."""
        now = self._clock.now_millis() * _MILLI_NANOS
        try:
            found = os.stat(self._path(name))
            if self._verified.get(name) != (found.st_ino, found.st_size) or _was_written(found):
                return False
            os.utime(self._path(name), ns=(now, now))
        except OSError:
            return False
        return True

    def open(self, name: str, key_columns: Sequence[str]) -> LocalRows | None:
        """Return the rows of a file, None if the file is missing or not whole."""
        path = self._path(name)
        try:
            with pa.memory_map(path) as mapped:
                data = mapped.read_buffer()
            found = os.stat(path)
        except OSError:
            return None
        which = (found.st_ino, len(data))
        try:
            is_known = self._verified.get(name) == which and not _was_written(found)
            if not _is_whole(data, name, check_sum=not is_known):
                raise pa.ArrowInvalid("it is not what was written")
            rows = _rows_in(data, key_columns)
        except pa.ArrowInvalid:
            self._remove(name)
            return None
        self._verified[name] = which
        now = self._clock.now_millis() * _MILLI_NANOS
        with suppress(OSError):
            os.utime(path, ns=(now, now))
        return rows

    def build(
        self,
        name: str,
        batches: Iterable[pa.RecordBatch],
        key_columns: Sequence[str],
        options: LookupOptions,
        *,
        data_file: str,
    ) -> LocalRows | None:
        """Write all rows of a data file, in their order, and return them; None if the disk has no room.

        Raises CorruptTable if the rows are not in key order, StorageUnavailable.
        """
        # A cleaner of temporary folders may have removed the directory.
        self._make_directory()
        temporary = f"{self._path(name)}.{self._clock.uuid()}{_BUILDING}"
        try:
            size_bytes = _write(temporary, name, batches, key_columns, data_file)
            if size_bytes > options.max_disk_bytes:
                self._too_large.add(name)
                return None
            now = self._clock.now_millis() * _MILLI_NANOS
            os.utime(temporary, ns=(now, now))
            os.replace(temporary, self._path(name))
            found = os.stat(self._path(name))
            self._verified[name] = (found.st_ino, size_bytes)
        except OSError as error:
            if error.errno in _FULL:
                return None
            raise StorageUnavailable(
                f"{self.directory}: a lookup file could not be written ({error}). Name another directory."
            ) from error
        finally:
            with suppress(OSError):
                os.remove(temporary)
        self.trim(options)
        return self.open(name, key_columns)

    def forget(self, prefix: str) -> None:
        """Delete the files whose names begin with `prefix`: their data file is no longer part of the table."""
        for name in self._names():
            if name.startswith(prefix):
                self._remove(name)

    def trim(self, options: LookupOptions) -> None:
        """Delete files unused for longer than the retention option, then the least recently used ones, until the rest
        fits the size option.
        """
        earliest = (self._clock.now_millis() - options.retention_millis) * _MILLI_NANOS
        kept: list[tuple[int, int, str]] = []
        with suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                if not entry.name.endswith((_ENDING, _BUILDING)):
                    continue
                with suppress(OSError):
                    found = entry.stat()
                    kept.append((found.st_mtime_ns, found.st_size, entry.name))
        used_bytes = sum(size_bytes for _, size_bytes, _ in kept)
        for used_at, size_bytes, name in sorted(kept):
            is_over = used_bytes > options.max_disk_bytes and name.endswith(_ENDING)
            if used_at < earliest or is_over:
                self._remove_path(os.path.join(self.directory, name))
                used_bytes -= size_bytes

    def _make_directory(self) -> None:
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
        except OSError as error:
            raise InvalidRequest(
                f"{self.directory}: lookup files cannot be kept there ({error.strerror}). Name a directory that can be "
                "made."
            ) from error

    def _names(self) -> Iterator[str]:
        with suppress(OSError):
            for name in os.listdir(self.directory):
                if name.endswith(_ENDING):
                    yield name.removesuffix(_ENDING)

    def _remove(self, name: str) -> None:
        self._verified.pop(name, None)
        self._remove_path(self._path(name))

    def _remove_path(self, path: str) -> None:
        # A process that has the file mapped can still read it.
        with suppress(OSError):
            os.remove(path)

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, f"{name}{_ENDING}")


def own_directory() -> str:
    """Return the directory for lookup files of this process alone. Raises StorageUnavailable."""
    try:
        return process_directory()
    except OSError as error:
        raise StorageUnavailable(
            f"No directory for lookup files could be made in the folder for temporary files ({error}). Set TMPDIR "
            "to another folder, or name a directory: cache=……"
        ) from error


def _was_written(found: os.stat_result) -> bool:
    """Return whether a file was written since its last recorded use: a use sets its time in whole milliseconds."""
    return found.st_mtime_ns % _MILLI_NANOS != 0


def keyed_batch(rows: pa.RecordBatch, key_columns: Sequence[str], data_file: str) -> KeyedBatch:
    """Return rows of a data file with their keys. Raises CorruptTable unless they are in key order."""
    columns = [rows.column(name) for name in key_columns]
    if not is_rising(columns):
        raise _out_of_order(data_file)
    return KeyedBatch(rows, sorted_keys(columns), 0)


def _write(path: str, name: str, batches: Iterable[pa.RecordBatch], key_columns: Sequence[str], data_file: str) -> int:
    """Write the rows and their key words to `path`, and return the file's size in bytes. `name`: the final file
    name.
    """
    with pa.OSFile(path, "wb") as sink:
        writer: pa.ipc.RecordBatchFileWriter | None = None
        last: pa.RecordBatch | None = None
        for batch in batches:
            keys = batch.select(list(key_columns))
            if not _continues(last, keys):
                raise _out_of_order(data_file)
            last = keys.slice(batch.num_rows - 1)
            stored = batch
            for number, word in enumerate(search_words(keys.columns)):
                stored = stored.append_column(f"{_WORD}{number}", pa.array(word))
            if writer is None:
                writer = pa.ipc.new_file(sink, stored.schema)
            writer.write_batch(stored)
        if writer is not None:
            writer.close()
    with pa.memory_map(path) as mapped:
        data = mapped.read_buffer()
    with open(path, "ab") as file:
        file.write(zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(8, "little") + _digest(name) + _MAGIC)
    return len(data) + _TAIL_BYTES


def _continues(last: pa.RecordBatch | None, keys: pa.RecordBatch) -> bool:
    if not is_rising(keys.columns):
        return False
    if last is None:
        return True
    return is_rising([pa.concat_arrays(pair) for pair in zip(last.columns, keys.slice(0, 1).columns, strict=True)])


def _out_of_order(data_file: str) -> CorruptTable:
    return CorruptTable(
        f"{data_file}: its rows are not in key order. Do not compact or expire; run `lakehouse verify` and keep its "
        "report."
    )


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def _is_whole(data: pa.Buffer, name: str, *, check_sum: bool) -> bool:
    """Return whether `data` is a whole file written under this name; a whole file of another name is refused."""
    length = len(data) - _TAIL_BYTES
    if length < 0:
        return False
    tail = data.slice(length).to_pybytes()
    if tail[12:] != _digest(name) + _MAGIC or int.from_bytes(tail[4:12], "little") != length:
        return False
    return not check_sum or zlib.crc32(data.slice(0, length)) == int.from_bytes(tail[:4], "little")


def _rows_in(data: pa.Buffer, key_columns: Sequence[str]) -> LocalRows:
    reader = pa.ipc.open_file(data.slice(0, len(data) - _TAIL_BYTES))
    stored = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    plain = [name for name in reader.schema.names if not name.startswith(_WORD)]
    words = [name for name in reader.schema.names if name.startswith(_WORD)]
    starts = accumulate((batch.num_rows for batch in stored), initial=0)
    batches = []
    for batch, first_row in zip(stored, starts, strict=False):
        columns = [batch.column(name) for name in key_columns]
        keys = sorted_keys(columns, [fixed_values(batch.column(name), "u8") for name in words])
        batches.append(KeyedBatch(batch.select(plain), keys, first_row))
    firsts = [pa.concat_arrays([batch.column(name).slice(0, 1) for batch in stored]) for name in key_columns]
    return LocalRows(tuple(batches), sorted_keys(firsts))
