"""System calls of the local store, one function each.

Rule: these functions decide nothing; each raises OSError. Linux and other POSIX systems.
"""

import ctypes
import errno
import fcntl
import os

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


def create(path: str) -> int:
    """Return the descriptor of a new file. Raises FileExistsError, and FileNotFoundError without its folder."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def open_file(path: str) -> int:
    # Without O_NONBLOCK, opening a pipe of this name would wait for ever.
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def open_folder(path: str, *, inside: int | None = None) -> int:
    """Return the descriptor of a folder; with `inside`, `path` is a name in that open folder, and a link is refused."""
    link = os.O_NOFOLLOW if inside is not None else 0
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | link, dir_fd=inside)


def write(descriptor: int, data: memoryview) -> int:
    return os.write(descriptor, data)


def fsync(descriptor: int) -> None:
    os.fsync(descriptor)


def close(descriptor: int) -> None:
    os.close(descriptor)


def link(source: str, target: str) -> None:
    os.link(source, target, follow_symlinks=False)


def replace(source: str, target: str) -> None:
    os.replace(source, target)


def rename_new(source: str, target: str) -> None:
    """Rename the file. Raises FileExistsError if `target` exists.

    Raises ENOSYS or EINVAL on systems without such a rename.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    paths = os.fsencode(source), os.fsencode(target)
    if call(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], ctypes.c_uint(_RENAME_NOREPLACE)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def unlink(path: str, *, inside: int | None = None) -> None:
    os.unlink(path, dir_fd=inside)


def mkdir(path: str) -> None:
    os.mkdir(path)


def rmdir(path: str, *, inside: int | None = None) -> None:
    os.rmdir(path, dir_fd=inside)


def stat(path: str) -> os.stat_result:
    return os.stat(path)


def lstat(path: str) -> os.stat_result:
    return os.lstat(path)


def fstat(descriptor: int) -> os.stat_result:
    return os.fstat(descriptor)


def entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)


def lock(descriptor: int) -> None:
    """Take the advisory lock, which closing the descriptor releases. Raises BlockingIOError if another process holds
    it.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
