"""Local store: objects are files on disk, complete and durable before their name appears. For POSIX systems.

Rule: `create_new` is a hard link, which always fails if the name is taken; a check followed by a rename has a race.
Source: docs/reliability/store.md#local-disk.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import IO

import pyarrow as pa

from lakehouse_core.clock import Clock, SystemClock
from lakehouse_core.errors import (
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    TableDropped,
    WriteOutcomeUnknown,
)
from lakehouse_core.retry import Retry
from lakehouse_core.storage import system_calls
from lakehouse_core.storage.keys import child, is_hidden, joined, leads_within, temp_name
from lakehouse_core.storage.local_files import (
    FileSink,
    HiddenFile,
    Identity,
    entries_of,
    finishing,
    has_gone,
    locked,
    make_folders,
    reading,
    remove_files,
    sync_folder,
    writing,
)
from lakehouse_core.storage.local_folders import LocalFolders, deletable_parts
from lakehouse_core.storage.local_removal import remove_names
from lakehouse_core.storage.object_store import NOT_THERE, Children, ObjectInfo, StoreSpec, each_found

_LONGEST_NAME_BYTES = 255
_MAKING_FOLDERS = Retry()


class LocalStore:
    """An ObjectStore on this machine's disk, below `root` (made at the first write)."""

    requests_at_once = 1
    # File systems write the journal once for the syncs that wait for it: eight take the time of one.
    sinks_at_once = 8

    def __init__(self, root: str, *, clock: Clock | None = None, is_table: bool = False) -> None:
        if not os.path.isabs(root) or "\0" in root:
            raise InvalidRequest(f"Storage root {root!r}: expected an absolute path. Give the whole path.")
        self._root = os.path.realpath(root)
        self._clock = clock or SystemClock()
        self.spec = StoreSpec("file", self._root, is_table=is_table)
        self.folders = LocalFolders(self._root)

    def at(self, prefix: str, *, is_table: bool = False) -> "LocalStore":
        return LocalStore(self._path(prefix), clock=self._clock, is_table=is_table)

    def uri(self, key: str) -> str:
        """Return `file://` and the unescaped path: Hadoop's and Paimon's readers do not decode percent signs."""
        return f"file://{self._path(key)}"

    def read(self, key: str) -> bytes:
        path = self._path(key)
        try:
            with reading(path):
                descriptor = system_calls.open_file(path)
                try:
                    with os.fdopen(descriptor, "rb", closefd=False) as file:
                        return file.read()
                finally:
                    with suppress(OSError):
                        system_calls.close(descriptor)
        except NotFound as error:
            # Faster than `_there`: a commit reads some thirty objects.
            self._check_there(error)
            raise

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        return each_found(self.read, keys)

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        # Not a memory map: mapped pages count as resident memory, and a file cut short under a map kills the process.
        path = self._path(key)
        with self._there(reading(path)):
            _check_file(system_calls.stat(path))
            return pa.OSFile(path, "rb")

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        folders: set[str] = set()
        return each_found(lambda key: self._info(key, folders), keys)

    def create_new(self, key: str, data: bytes) -> bool:
        path = self._path(key)
        with writing(path):
            # Most calls that lose a race end here, without writing a byte.
            if os.path.lexists(path):
                return False
        hidden = self._write_hidden(path, data)
        try:
            with self._there(writing(path)):
                if not hidden.link_new():
                    return False
        finally:
            remove_files([hidden.name])
        with finishing(path):
            sync_folder(os.path.dirname(path))
        return True

    def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
        paths = {self._path(key): data for key, data in objects.items()}
        if len(paths) > 1:
            with self._there(writing(self._root)):
                self._make_folders({os.path.dirname(path) for path in paths})
        files: list[HiddenFile] = []
        try:
            for path, data in paths.items():
                files.append(self._write_hidden(path, data, durable=durable))
        except BaseException:
            remove_files(file.name for file in files)
            raise
        self._publish(files, durable=durable)

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        path = self._path(key)
        hidden, descriptor = self._open_hidden(path)
        try:
            with FileSink(descriptor, path) as sink:
                yield sink
                with writing(path):
                    system_calls.fsync(descriptor)
        except BaseException:
            remove_files([hidden.name])
            raise
        self._publish([hidden])

    def make_last(self, keys: Iterable[str]) -> None:
        for folder in {os.path.dirname(self._path(key)) for key in keys}:
            with finishing(folder), suppress(FileNotFoundError):
                sync_folder(folder)

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        found = self.read_found([key])
        return (found[key], _version(found[key])) if key in found else None

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        if if_version is None:
            return self.create_new(key, data)
        path = self._path(key)
        with locked(os.path.dirname(path), self._clock):
            found = self.read_versioned(key)
            if found is None or found[1] != if_version:
                return False
            self.write({key: data})
            return True

    def children(self, prefix: str) -> Children:
        files: list[str] = []
        folders: list[str] = []
        for entry in entries_of(self._path(prefix)):
            # Links that no verb follows are skipped; otherwise one of them would make all other names unreachable.
            if is_hidden(entry.name) or (entry.is_symlink() and not leads_within(entry.path, self._root)):
                continue
            if entry.is_dir():
                folders.append(entry.name)
            elif entry.is_file():
                files.append(entry.name)
        if not files and not folders:
            self._check_there()
        return Children(files=tuple(sorted(files)), folders=tuple(sorted(folders)))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        # Links are neither followed nor listed: the files behind them are outside the store.
        pending, is_empty = [joined("", prefix)], True
        while pending:
            folder = pending.pop()
            for entry in entries_of(self._path(folder)):
                key = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append(key)
                elif entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        is_empty = False
                        yield ObjectInfo(key, found.st_size, found.st_mtime_ns // 1_000_000)
        if is_empty:
            self._check_there()

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        by_folder: dict[tuple[str, ...], list[str]] = {}
        for key in keys:
            *folder, name = deletable_parts(key)
            by_folder.setdefault(tuple(folder), []).append(name)
        left: list[str] = []
        for parts, names in by_folder.items():
            kept = remove_names(self._root, parts, names)
            if kept is None:
                self._check_there()
            left += ["/".join([*parts, name]) for name in kept or ()]
        return left

    def now_millis(self) -> int:
        hidden, descriptor = self._open_hidden(self._path("now"))
        try:
            with writing(hidden.name):
                return system_calls.fstat(descriptor).st_mtime_ns // 1_000_000
        finally:
            with suppress(OSError):
                system_calls.close(descriptor)
            remove_files([hidden.name])

    def _info(self, key: str, folders: set[str] | None = None) -> ObjectInfo:
        path = self._path(key, folders)
        with self._there(reading(path)):
            found = system_calls.stat(path)
            _check_file(found)
        return ObjectInfo(key, found.st_size, found.st_mtime_ns // 1_000_000)

    def _path(self, key: str, folders: set[str] | None = None) -> str:
        with reading(key):
            return child(self._root, key, folders)

    def _open_hidden(self, path: str) -> tuple[HiddenFile, int]:
        """Return a new file beside `path`, and its descriptor; makes its folders."""
        folder, name = os.path.split(path)
        temp = os.path.join(folder, temp_name(name, self._clock.uuid()))
        with self._there(writing(path)):
            # The hidden name is shortened, so a valid hidden name does not prove that the visible one is short enough.
            if len(os.fsencode(name)) > _LONGEST_NAME_BYTES:
                raise OSError(errno.ENAMETOOLONG, "the name is too long")
            descriptor = self._create(temp)
            try:
                return HiddenFile(temp, path, Identity.of(system_calls.fstat(descriptor))), descriptor
            except OSError:
                with suppress(OSError):
                    system_calls.close(descriptor)
                remove_files([temp])
                raise

    def _create(self, temp: str) -> int:
        try:
            for _ in _MAKING_FOLDERS.attempts():
                # A clean-up removes empty folders, possibly this one just after it was made.
                with suppress(FileNotFoundError):
                    return system_calls.create(temp)
                with suppress(FileNotFoundError):
                    self._make_folders([os.path.dirname(temp)])
        except OSError:
            # The file may have been created before the error.
            remove_files([temp])
            raise
        raise OSError(errno.ENOENT, "its folder was removed in every attempt")

    def _make_folders(self, folders: Iterable[str]) -> None:
        make_folders(folders, below=self._root if self.spec.is_table else None)

    @contextmanager
    def _there(self, translating: AbstractContextManager[None]) -> Iterator[None]:
        """Raise TableDropped for an error inside if the folder of the table is gone; but for an unknown outcome."""
        try:
            with translating:
                yield
        except WriteOutcomeUnknown:
            raise
        except (NotFound, StorageUnavailable) as error:
            self._check_there(error)
            raise

    def _check_there(self, cause: LakehouseError | None = None) -> None:
        if self.spec.is_table and has_gone(self._root):
            raise TableDropped(f"{self.uri('')}: {NOT_THERE}") from cause

    def _write_hidden(self, path: str, data: bytes, *, durable: bool = True) -> HiddenFile:
        """Write `data` to a new file with a hidden name, and return the file."""
        hidden, descriptor = self._open_hidden(path)
        try:
            with FileSink(descriptor, path) as sink:
                sink.write(data)
                if durable:
                    with writing(path):
                        system_calls.fsync(descriptor)
        except BaseException:
            remove_files([hidden.name])
            raise
        return hidden

    def _publish(self, files: Sequence[HiddenFile], *, durable: bool = True) -> None:
        """Give each hidden file its visible name."""
        left = list(files)
        try:
            for file in files:
                with self._there(writing(file.path)):
                    file.replace()
                left.remove(file)
        except BaseException:
            remove_files(file.name for file in left)
            raise
        if durable:
            for folder in {os.path.dirname(file.path) for file in files}:
                with finishing(folder):
                    sync_folder(folder)


def _check_file(found: os.stat_result) -> None:
    # Opening something else than a file or folder, such as a pipe, could wait for ever.
    if not stat.S_ISREG(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is not a file")


def _version(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
