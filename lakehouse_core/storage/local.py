"""The local disk: objects are files, whole and durable before their name appears. Linux and other POSIX systems.

`create_new` is a hard link, which fails for ever when the name is taken; "does it exist? then rename" loses races.
Source: the reliability guide's table of primitives.
"""

import ctypes
import errno
import fcntl
import hashlib
import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

import pyarrow as pa

from lakehouse_core.clock import Clock, SystemClock
from lakehouse_core.errors import (
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageFull,
    StorageUnavailable,
    UnsupportedFeature,
    WriteOutcomeUnknown,
)
from lakehouse_core.storage.keys import child, is_hidden, joined, temp_name
from lakehouse_core.storage.object_store import Children, ObjectInfo, StoreSpec

# A compare-and-set holds its lock for a few milliseconds; whoever waits this long waits for a stopped process.
_LOCK_DEADLINE_SECONDS = 10.0
_LOCK_PAUSE_SECONDS = 0.002

_LONGEST_NAME_BYTES = 255
_FOLDER_ATTEMPTS = 5
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


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
        with _reading(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                return file.read()

    def open_read(self, key: str) -> pa.NativeFile:
        # Not a memory map: mapped pages count as resident memory, and a file cut short under a map kills the process.
        path = self._path(key)
        with _reading(path):
            if stat.S_ISDIR(os.stat(path).st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            return pa.OSFile(path, "rb")

    def size(self, key: str) -> int:
        path = self._path(key)
        with _reading(path):
            found = os.stat(path)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            return found.st_size

    def create_new(self, key: str, data: bytes) -> bool:
        path = self._path(key)
        with _writing(path):
            # Most losers of a race learn it here, without writing a byte.
            if os.path.lexists(path):
                return False
        temp = self._write_temp(path, data)
        try:
            with _writing(path):
                if not _link_new(temp, path):
                    return False
        finally:
            _remove([temp])
        with _finishing(path):
            _sync_folder(os.path.dirname(path))
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
            _remove(temps.values())
            raise
        self._publish_temps(temps)

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        path = self._path(key)
        temp, descriptor = self._open_temp(path)
        try:
            with _Sink(descriptor, path) as sink:
                yield sink
                with _writing(path):
                    os.fsync(descriptor)
        except BaseException:
            _remove([temp])
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
        for entry in _entries(self._path(prefix)):
            if not is_hidden(entry.name):
                (folders if entry.is_dir() else files).append(entry.name)
        return Children(files=tuple(sorted(files)), folders=tuple(sorted(folders)))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        # Links are not followed, and no link is listed: what is behind them is not ours to size, date or delete.
        pending = [joined("", prefix)]
        while pending:
            folder = pending.pop()
            for entry in _entries(self._path(folder)):
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
            with _finishing(folder), suppress(FileNotFoundError):
                _sync_folder(folder)
        return left

    def delete_empty_folders(self, prefix: str) -> None:
        for folder, _, _ in os.walk(self._path(prefix), topdown=False):
            try:
                os.rmdir(folder)
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EBUSY, errno.ENOTDIR}:
                    raise _translated(error, folder) from error

    def rename_folder(self, source: str, target: str) -> bool:
        old, new = self._path(source), self._path(target)
        with _reading(old):
            if not stat.S_ISDIR(os.stat(old).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "is not a folder")
        with _writing(new):
            _make_folders(os.path.dirname(new))
            if not _rename_new(old, new):
                return False
        with _finishing(new):
            for folder in {os.path.dirname(old), os.path.dirname(new)}:
                _sync_folder(folder)
        return True

    def now_millis(self) -> int:
        temp, descriptor = self._open_temp(self._path("now"))
        with _writing(temp):
            try:
                return os.fstat(descriptor).st_mtime_ns // 1_000_000
            finally:
                os.close(descriptor)
                os.unlink(temp)

    def _path(self, key: str) -> str:
        with _reading(key):
            return child(self._root, key)

    def _open_temp(self, path: str) -> tuple[str, int]:
        """Return the hidden name and the descriptor of a new file beside `path`; makes its folders."""
        folder, name = os.path.split(path)
        temp = os.path.join(folder, temp_name(name, self._clock.uuid()))
        with _writing(path):
            # The hidden name is cut, so its length proves nothing about the visible one.
            if len(os.fsencode(name)) > _LONGEST_NAME_BYTES:
                raise OSError(errno.ENAMETOOLONG, "the name is too long")
            for _ in range(_FOLDER_ATTEMPTS):
                # Cleaning removes empty folders, perhaps this one just after we made it.
                with suppress(FileNotFoundError):
                    return temp, _create(temp)
                with suppress(FileNotFoundError):
                    _make_folders(folder)
            raise OSError(errno.ENOENT, "its folder vanishes again and again")

    def _write_temp(self, path: str, data: bytes, *, lasts: bool = True) -> str:
        """Return the hidden name under which `data` now lies."""
        temp, descriptor = self._open_temp(path)
        try:
            with _Sink(descriptor, path) as sink:
                sink.write(data)
                if lasts:
                    with _writing(path):
                        os.fsync(descriptor)
        except BaseException:
            _remove([temp])
            raise
        return temp

    def _publish_temps(self, temps: Mapping[str, str], *, lasts: bool = True) -> None:
        """Give each hidden file its visible path; `temps` holds them by path."""
        left = dict(temps)
        try:
            for path, temp in temps.items():
                with _writing(path):
                    os.replace(temp, path)
                del left[path]
        except LakehouseError:
            _remove(left.values())
            raise
        if lasts:
            for folder in {os.path.dirname(path) for path in temps}:
                with _finishing(folder):
                    _sync_folder(folder)

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
            while not _try_lock(descriptor, folder):
                if self._clock.monotonic_seconds() > deadline:
                    raise StorageUnavailable(
                        f"{folder}: its lock is held for more than {_LOCK_DEADLINE_SECONDS:.0f} s. "
                        "Look for a stopped process, then try again."
                    )
                self._clock.sleep(_LOCK_PAUSE_SECONDS)
            yield
        finally:
            os.close(descriptor)


class _Sink(io.FileIO):
    """The writing end of a hidden file: short writes are continued, errors speak the core's language."""

    def __init__(self, descriptor: int, path: str) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, data: Any, /) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        with _writing(self._path):
            while left:
                left = left[super().write(left) :]
        return size

    def close(self) -> None:
        """Keep the file open: the block that opened it syncs it first, then closes it."""

    def __exit__(self, *_: object) -> None:
        with _writing(self._path):
            super().close()


def _create(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _remove(temps: Iterable[str]) -> None:
    for temp in temps:
        with suppress(OSError):
            os.unlink(temp)


def _make_folders(folder: str) -> None:
    """Make `folder` and what is missing above it; each new name is durable before anything is put below it."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for name in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(name)
        _sync_folder(os.path.dirname(name))


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a folder and need not.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def _link_new(temp: str, path: str) -> bool:
    """Give `temp` its second, visible name; False when that is taken."""
    try:
        os.link(temp, path, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _rename_new(temp, path)
    return True


def _rename_new(source: str, target: str) -> bool:
    """Rename unless `target` exists; False when it does. UnsupportedFeature where nobody promises it."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    code = errno.ENOSYS
    if rename is not None:
        paths = os.fsencode(source), os.fsencode(target)
        if rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], ctypes.c_uint(_RENAME_NOREPLACE)) == 0:
            return True
        code = ctypes.get_errno()
    if code in (errno.EEXIST, errno.ENOTEMPTY):
        return False
    if code in (errno.ENOSYS, errno.EINVAL):
        raise UnsupportedFeature(
            f"{target}: this file system has neither hard links nor a rename that keeps what exists, so two writers "
            "could overwrite each other. Keep the warehouse on another disk."
        )
    raise OSError(code, os.strerror(code))


def _try_lock(descriptor: int, folder: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _translated(error, folder) from error
    return True


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what lies in `folder`; nothing when there is no such folder."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _translated(error, folder) from error


def _version(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _ABSENT:
            raise NotFound(f"{path}: there is no such object. Check the name.") from error
        raise _translated(error, path) from error


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Errors before the name appears: nothing was written."""
    try:
        yield
    except OSError as error:
        raise _translated(error, path) from error


@contextmanager
def _finishing(path: str) -> Iterator[None]:
    """Errors after the name appeared: it may not survive a power cut."""
    try:
        yield
    except OSError as error:
        raise WriteOutcomeUnknown(
            f"{path}: it was written, but the disk did not confirm that it will last ({_reason(error)}). "
            "Look whether it is there before anything else."
        ) from error


def _translated(error: OSError, path: str) -> LakehouseError:
    if error.errno in _FULL:
        return StorageFull(f"{path}: no space left ({_reason(error)}). Make room, then call again.")
    if error.errno == errno.ENAMETOOLONG:
        return InvalidRequest(f"{path}: a name is longer than the file system allows (255 bytes). Shorten it.")
    return StorageUnavailable(f"{path}: the disk refused ({_reason(error)}). See to it, then call again.")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
