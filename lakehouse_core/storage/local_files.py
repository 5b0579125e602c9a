"""Local files: written under hidden names, then renamed to their visible names and made durable.

Rule: an error of a call that gives a file its name does not prove that nothing happened, because network and user-space
file systems lose answers and repeat requests. So the result of each such call is read back by the file's identity.
"""

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lakehouse_core.clock import Clock
from lakehouse_core.errors import (
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageFull,
    StorageUnavailable,
    UnsupportedFeature,
    WriteOutcomeUnknown,
)
from lakehouse_core.storage import system_calls

# A compare-and-set holds its lock for a few milliseconds; after this wait the holder is a stopped process.
_LOCK_DEADLINE_SECONDS = 10.0
_LOCK_PAUSE_SECONDS = 0.002

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}

# Errors of a check before any change: rights, room, file kinds. All others may follow the change: EIO, ETIMEDOUT,
# ESTALE, EINTR, EAGAIN, ECONNRESET and any error that a file server returns when it loses an answer.
_TURNED_DOWN = {
    errno.EEXIST,
    errno.ENOTEMPTY,
    *_FULL,
    *_NO_LINKS,
    errno.EACCES,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.EXDEV,
    errno.EINVAL,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
}
# A link keeps the hidden file, so a repeated request fails with EEXIST for the visible name, never with this error.
_LINK_TURNED_DOWN = {*_TURNED_DOWN, errno.ENOENT}


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a file or folder on the disk, independent of its name."""

    device: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Identity":
        return cls(found.st_dev, found.st_ino)

    def is_at(self, path: str) -> bool | None:
        """Return whether the file or folder has the name `path` now, None if the disk does not answer."""
        try:
            return Identity.of(system_calls.lstat(path)) == self
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class HiddenFile:
    """A file with a hidden name, to be renamed to `path`."""

    name: str
    path: str
    identity: Identity

    def link_new(self) -> bool:
        """Link the file to its visible name; return False if another file has that name. Raises OSError,
        WriteOutcomeUnknown.
        """
        try:
            system_calls.link(self.name, self.path)
        except OSError as error:
            linked = self.identity.is_at(self.path)
            if linked:
                return True
            if linked is None or error.errno not in _LINK_TURNED_DOWN:
                raise _unknown(error, self.path) from error
            if error.errno == errno.EEXIST:
                return False
            if error.errno in _NO_LINKS:
                return self._rename_new()
            raise
        return True

    def replace(self) -> None:
        """Rename the file to its visible name and replace a file of that name. Raises OSError, WriteOutcomeUnknown."""
        try:
            system_calls.replace(self.name, self.path)
        except OSError as error:
            if self._was_renamed(error):
                return
            raise

    def _rename_new(self) -> bool:
        try:
            rename_new(self.name, self.path)
        except OSError as error:
            if self._was_renamed(error):
                return True
            if error.errno == errno.EEXIST:
                return False
            raise
        return True

    def _was_renamed(self, error: OSError) -> bool:
        """Return whether a rename with this error took effect. If it did not, a repeated request cannot: its source is
        deleted.
        """
        if self.identity.is_at(self.path):
            return True
        try:
            system_calls.unlink(self.name)
        except OSError:
            raise _unknown(error, self.path) from error
        return False


class FileSink(io.FileIO):
    """The sink of a hidden file: it continues short writes, and raises the core's errors."""

    def __init__(self, descriptor: int, path: str) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._path = path

    def write(self, data: Any, /) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        with writing(self._path):
            while left:
                left = left[system_calls.write(self.fileno(), left) :]
        return size

    def close(self) -> None:
        """Do nothing: the block that opened the file syncs and closes it."""

    def __exit__(self, *_: object) -> None:
        descriptor = self.fileno()
        super().close()
        with writing(self._path):
            system_calls.close(descriptor)


def remove_files(paths: Iterable[str]) -> None:
    """Remove the files; ignore those that cannot be removed."""
    for path in paths:
        with suppress(OSError):
            system_calls.unlink(path)


def make_folders(folders: Iterable[str], *, below: str | None = None) -> None:
    """Make the folders and their missing parents; each new name is durable before a name below it is made.

    `below`: a folder that is not made. Raises FileNotFoundError without it.
    """
    missing: set[str] = set()
    for folder in folders:
        name = folder
        while name not in missing and not os.path.isdir(name):
            if name == below:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            missing.add(name)
            name = os.path.dirname(name)
    by_depth: dict[int, list[str]] = {}
    for name in sorted(missing):
        by_depth.setdefault(name.count(os.sep), []).append(name)
    for depth in sorted(by_depth):
        _make_named(by_depth[depth])


def _make_named(names: Sequence[str]) -> None:
    """Make folders whose parents exist, and sync each parent once."""
    tried = []
    try:
        for name in names:
            tried.append(name)
            with suppress(FileExistsError):
                system_calls.mkdir(name)
        for parent in dict.fromkeys(map(os.path.dirname, names)):
            sync_folder(parent)
    except OSError:
        # A process that finds a folder counts it as durable.
        for name in tried:
            with suppress(OSError):
                system_calls.rmdir(name)
        raise


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    descriptor = system_calls.open_folder(folder)
    try:
        sync_names(descriptor)
    finally:
        system_calls.close(descriptor)


def sync_names(descriptor: int) -> None:
    """Make the names in an open folder durable."""
    try:
        system_calls.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a folder and need not.
        if error.errno != errno.EINVAL:
            raise


def rename_new(source: str, target: str) -> None:
    """Rename unless `target` exists. Raises OSError; UnsupportedFeature for a file system without such a rename."""
    try:
        system_calls.rename_new(source, target)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EINVAL):
            raise UnsupportedFeature(
                f"{target}: the file system has neither hard links nor a rename that keeps an existing file, so "
                "two writers could overwrite each other. Keep the warehouse on another disk."
            ) from error
        raise


def rename_folder_new(source: str, target: str) -> bool:
    """Move a folder, or a link to one; False when `target` exists. Raises OSError, NotFound, WriteOutcomeUnknown."""
    with reading(source):
        if not stat.S_ISDIR(system_calls.stat(source).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is not a folder")
        identity = Identity.of(system_calls.lstat(source))
    try:
        rename_new(source, target)
    except OSError as error:
        moved = identity.is_at(target)
        if moved:
            return True
        if error.errno == errno.ENOENT and identity.is_at(source) is False:
            raise NotFound(f"{source}: another process moved or dropped the folder. Look for it.") from error
        if moved is None or error.errno not in _TURNED_DOWN:
            raise _unknown(error, target) from error
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        raise
    return True


@contextmanager
def locked(folder: str, clock: Clock) -> Iterator[None]:
    """Hold the folder's advisory lock, which ends with its process. The folder exists if a version was read."""
    try:
        descriptor = system_calls.open_folder(folder)
    except FileNotFoundError:
        # Without a folder there is no object, which the comparison after this finds.
        yield
        return
    except OSError as error:
        raise translated(error, folder) from error
    deadline = clock.monotonic_seconds() + _LOCK_DEADLINE_SECONDS
    try:
        while not _try_lock(descriptor, folder):
            if clock.monotonic_seconds() > deadline:
                raise StorageUnavailable(
                    f"{folder}: its lock has been held for more than {_LOCK_DEADLINE_SECONDS:.0f} s. Look for "
                    "a stopped process, then try again."
                )
            clock.sleep(_LOCK_PAUSE_SECONDS)
        yield
    finally:
        with suppress(OSError):
            system_calls.close(descriptor)


def _try_lock(descriptor: int, folder: str) -> bool:
    """Try to take the folder's advisory lock, and return whether this process holds it; closing the descriptor releases
    it.
    """
    try:
        system_calls.lock(descriptor)
    except BlockingIOError:
        return False
    except OSError as error:
        raise translated(error, folder) from error
    return True


def has_gone(folder: str) -> bool:
    """Return whether a folder is missing where it was. A disk that is away, or gives no answer, tells nothing."""
    try:
        system_calls.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.isdir(os.path.dirname(folder))
    except OSError:
        pass
    return False


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of `folder`, none if it does not exist."""
    try:
        return system_calls.entries(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise translated(error, folder) from error


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Translate OSErrors of reading an object that should exist."""
    try:
        yield
    except OSError as error:
        if error.errno in _ABSENT:
            raise NotFound(f"{path}: the object does not exist. Check the name.") from error
        raise translated(error, path) from error


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Translate OSErrors before the visible name exists: nothing was written."""
    try:
        yield
    except OSError as error:
        raise translated(error, path) from error


@contextmanager
def finishing(path: str) -> Iterator[None]:
    """Translate OSErrors after the visible name appeared: it may not survive a power cut."""
    try:
        yield
    except OSError as error:
        raise WriteOutcomeUnknown(
            f"{path}: the file was written, but the disk did not confirm that it is durable ({_reason(error)}). "
            "Check whether it exists before anything else."
        ) from error


def translated(error: OSError, path: str) -> LakehouseError:
    """Return the core's error for an error of the disk."""
    if error.errno in _FULL:
        return StorageFull(f"{path}: no space left ({_reason(error)}). Make room, then call again.")
    if error.errno == errno.ENAMETOOLONG:
        return InvalidRequest(f"{path}: a name is longer than the file system allows (255 bytes). Shorten it.")
    return StorageUnavailable(f"{path}: the disk refused ({_reason(error)}). Correct that, then call again.")


def _unknown(error: OSError, path: str) -> WriteOutcomeUnknown:
    return WriteOutcomeUnknown(
        f"{path}: the disk failed while it renamed the file ({_reason(error)}), which may have taken effect. "
        "Check whether it exists before anything else."
    )


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
