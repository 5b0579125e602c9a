"""Files of a local disk under the store: made, linked, renamed, locked and made to last, errors in the core's language.

Linux and other POSIX systems.
"""

import ctypes
import errno
import fcntl
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from lakehouse_core.errors import (
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageFull,
    StorageUnavailable,
    UnsupportedFeature,
    WriteOutcomeUnknown,
)

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


class FileSink(io.FileIO):
    """The writing end of a hidden file: short writes are continued, errors speak the core's language."""

    def __init__(self, descriptor: int, path: str) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, data: Any, /) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        with writing(self._path):
            while left:
                left = left[super().write(left) :]
        return size

    def close(self) -> None:
        """Keep the file open: the block that opened it syncs it first, then closes it."""

    def __exit__(self, *_: object) -> None:
        with writing(self._path):
            super().close()


def create_file(path: str) -> int:
    """Return the descriptor of a new file. Raises FileExistsError, and FileNotFoundError without its folder."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def remove_files(paths: Iterable[str]) -> None:
    """Remove what can be removed of the files."""
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


def make_folders(folder: str) -> None:
    """Make `folder` and what is missing above it; each new name is durable before anything is put below it."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for name in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(name)
        sync_folder(os.path.dirname(name))


def sync_folder(folder: str) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a folder and need not.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def link_new(temp: str, path: str) -> bool:
    """Give `temp` its second, visible name; False when that is taken."""
    try:
        os.link(temp, path, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return rename_new(temp, path)
    return True


def rename_new(source: str, target: str) -> bool:
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


def try_lock(descriptor: int, folder: str) -> bool:
    """Return whether the advisory lock is ours now; it goes with the descriptor."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise translated(error, folder) from error
    return True


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return what lies in `folder`; nothing when there is no such folder."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise translated(error, folder) from error


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Errors of what should be there."""
    try:
        yield
    except OSError as error:
        if error.errno in _ABSENT:
            raise NotFound(f"{path}: there is no such object. Check the name.") from error
        raise translated(error, path) from error


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Errors before the name appears: nothing was written."""
    try:
        yield
    except OSError as error:
        raise translated(error, path) from error


@contextmanager
def finishing(path: str) -> Iterator[None]:
    """Errors after the name appeared: it may not survive a power cut."""
    try:
        yield
    except OSError as error:
        raise WriteOutcomeUnknown(
            f"{path}: it was written, but the disk did not confirm that it will last ({_reason(error)}). "
            "Look whether it is there before anything else."
        ) from error


def translated(error: OSError, path: str) -> LakehouseError:
    """Return what the core calls an error of the disk."""
    if error.errno in _FULL:
        return StorageFull(f"{path}: no space left ({_reason(error)}). Make room, then call again.")
    if error.errno == errno.ENAMETOOLONG:
        return InvalidRequest(f"{path}: a name is longer than the file system allows (255 bytes). Shorten it.")
    return StorageUnavailable(f"{path}: the disk refused ({_reason(error)}). See to it, then call again.")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
