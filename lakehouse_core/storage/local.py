"""The local disk: objects are files, whole and durable before their name appears. Linux and other POSIX systems.

`create_new` is a hard link, which fails for ever when the name is taken; "does it exist? then rename" loses races.
Source: the reliability guide's table of primitives.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

import pyarrow as pa

from lakehouse_core.clock import Clock, SystemClock
from lakehouse_core.errors import (
    InvalidRequest,
    NotFound,
    StorageUnavailable,
)
from lakehouse_core.storage.keys import child, is_hidden, joined, temp_name
from lakehouse_core.storage.local_files import (
    FileSink,
    create_file,
    entries_of,
    finishing,
    link_new,
    make_folders,
    reading,
    remove_files,
    rename_new,
    sync_folder,
    translated,
    try_lock,
    writing,
)
from lakehouse_core.storage.object_store import Children, ObjectInfo, StoreSpec

# A compare-and-set holds its lock for a few milliseconds; whoever waits this long waits for a stopped process.
_LOCK_DEADLINE_SECONDS = 10.0
_LOCK_PAUSE_SECONDS = 0.002

_LONGEST_NAME_BYTES = 255
_FOLDER_ATTEMPTS = 5


class LocalStore:
    """An ObjectStore on this machine's disk, below `root` (made at the first write)."""

    def __init__(self, root: str, *, clock: Clock | None = None) -> None:
        if not os.path.isabs(root) or "\0" in root:
            raise InvalidRequest(f"Storage root {root!r}: expected an absolute path. Give the whole path.")
        self._root = os.path.realpath(root)
        self._clock = clock or SystemClock()

    @property
    def spec(self) -> StoreSpec:
        return StoreSpec("file", self._root)

    def at(self, prefix: str) -> "LocalStore":
        return LocalStore(self._path(prefix), clock=self._clock)

    def uri(self, key: str) -> str:
        """Return `file://` and the path as it is: Hadoop's and Paimon's readers do not decode percent signs."""
        return f"file://{self._path(key)}"

    def read(self, key: str) -> bytes:
        path = self._path(key)
        with reading(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                return file.read()

    def open_read(self, key: str) -> pa.NativeFile:
        # Not a memory map: mapped pages count as resident memory, and a file cut short under a map kills the process.
        path = self._path(key)
        with reading(path):
            if stat.S_ISDIR(os.stat(path).st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            return pa.OSFile(path, "rb")

    def size(self, key: str) -> int:
        path = self._path(key)
        with reading(path):
            found = os.stat(path)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            return found.st_size

    def create_new(self, key: str, data: bytes) -> bool:
        path = self._path(key)
        with writing(path):
            # Most losers of a race learn it here, without writing a byte.
            if os.path.lexists(path):
                return False
        temp = self._write_temp(path, data)
        try:
            with writing(path):
                if not link_new(temp, path):
                    return False
        finally:
            remove_files([temp])
        with finishing(path):
            sync_folder(os.path.dirname(path))
        return True

    def write(self, key: str, data: bytes, *, lasts: bool = True) -> None:
        path = self._path(key)
        self._publish_temps({path: self._write_temp(path, data, lasts=lasts)}, lasts=lasts)

    def write_all(self, objects: Mapping[str, bytes]) -> None:
        paths = {self._path(key): data for key, data in objects.items()}
        temps: dict[str, str] = {}
        try:
            for path, data in paths.items():
                temps[path] = self._write_temp(path, data)
        except BaseException:
            remove_files(temps.values())
            raise
        self._publish_temps(temps)

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        path = self._path(key)
        temp, descriptor = self._open_temp(path)
        try:
            with FileSink(descriptor, path) as sink:
                yield sink
                with writing(path):
                    os.fsync(descriptor)
        except BaseException:
            remove_files([temp])
            raise
        self._publish_temps({path: temp})

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        try:
            data = self.read(key)
        except NotFound:
            return None
        return data, _version(data)

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        if if_version is None:
            return self.create_new(key, data)
        path = self._path(key)
        with self._locked(os.path.dirname(path)):
            found = self.read_versioned(key)
            if found is None or found[1] != if_version:
                return False
            self.write(key, data)
            return True

    def children(self, prefix: str) -> Children:
        files: list[str] = []
        folders: list[str] = []
        for entry in entries_of(self._path(prefix)):
            if not is_hidden(entry.name):
                (folders if entry.is_dir() else files).append(entry.name)
        return Children(files=tuple(sorted(files)), folders=tuple(sorted(folders)))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        # Links are not followed, and no link is listed: what is behind them is not ours to size, date or delete.
        pending = [joined("", prefix)]
        while pending:
            folder = pending.pop()
            for entry in entries_of(self._path(folder)):
                key = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append(key)
                elif entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        yield ObjectInfo(key, found.st_size, found.st_mtime_ns // 1_000_000)

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        left, folders = [], set()
        for key in keys:
            path = self._path(key)
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError:
                left.append(key)
            else:
                folders.add(os.path.dirname(path))
        for folder in folders:
            # A name that came back after a power cut would name files that were deleted after it.
            with finishing(folder), suppress(FileNotFoundError):
                sync_folder(folder)
        return left

    def delete_empty_folders(self, prefix: str) -> None:
        for folder, _, _ in os.walk(self._path(prefix), topdown=False):
            try:
                os.rmdir(folder)
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EBUSY, errno.ENOTDIR}:
                    raise translated(error, folder) from error

    def rename_folder(self, source: str, target: str) -> bool:
        old, new = self._path(source), self._path(target)
        with reading(old):
            if not stat.S_ISDIR(os.stat(old).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "is not a folder")
        with writing(new):
            make_folders(os.path.dirname(new))
            if not rename_new(old, new):
                return False
        with finishing(new):
            for folder in {os.path.dirname(old), os.path.dirname(new)}:
                sync_folder(folder)
        return True

    def now_millis(self) -> int:
        temp, descriptor = self._open_temp(self._path("now"))
        with writing(temp):
            try:
                return os.fstat(descriptor).st_mtime_ns // 1_000_000
            finally:
                os.close(descriptor)
                os.unlink(temp)

    def _path(self, key: str) -> str:
        with reading(key):
            return child(self._root, key)

    def _open_temp(self, path: str) -> tuple[str, int]:
        """Return the hidden name and the descriptor of a new file beside `path`; makes its folders."""
        folder, name = os.path.split(path)
        temp = os.path.join(folder, temp_name(name, self._clock.uuid()))
        with writing(path):
            # The hidden name is cut, so its length proves nothing about the visible one.
            if len(os.fsencode(name)) > _LONGEST_NAME_BYTES:
                raise OSError(errno.ENAMETOOLONG, "the name is too long")
            for _ in range(_FOLDER_ATTEMPTS):
                # Cleaning removes empty folders, perhaps this one just after we made it.
                with suppress(FileNotFoundError):
                    return temp, create_file(temp)
                with suppress(FileNotFoundError):
                    make_folders(folder)
            raise OSError(errno.ENOENT, "its folder vanishes again and again")

    def _write_temp(self, path: str, data: bytes, *, lasts: bool = True) -> str:
        """Return the hidden name under which `data` now lies."""
        temp, descriptor = self._open_temp(path)
        try:
            with FileSink(descriptor, path) as sink:
                sink.write(data)
                if lasts:
                    with writing(path):
                        os.fsync(descriptor)
        except BaseException:
            remove_files([temp])
            raise
        return temp

    def _publish_temps(self, temps: Mapping[str, str], *, lasts: bool = True) -> None:
        """Give each hidden file its visible path; `temps` holds them by path."""
        left = dict(temps)
        try:
            for path, temp in temps.items():
                with writing(path):
                    os.replace(temp, path)
                del left[path]
        except BaseException:
            remove_files(left.values())
            raise
        if lasts:
            for folder in {os.path.dirname(path) for path in temps}:
                with finishing(folder):
                    sync_folder(folder)

    @contextmanager
    def _locked(self, folder: str) -> Iterator[None]:
        """Hold the folder's advisory lock, which dies with its process. The folder exists when a version was read."""
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            # Without a folder there is no object: the comparison that follows says so.
            yield
            return
        deadline = self._clock.monotonic_seconds() + _LOCK_DEADLINE_SECONDS
        try:
            while not try_lock(descriptor, folder):
                if self._clock.monotonic_seconds() > deadline:
                    raise StorageUnavailable(
                        f"{folder}: its lock is held for more than {_LOCK_DEADLINE_SECONDS:.0f} s. "
                        "Look for a stopped process, then try again."
                    )
                self._clock.sleep(_LOCK_PAUSE_SECONDS)
            yield
        finally:
            os.close(descriptor)


def _version(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
