"""The directory for local files of this process, which is deleted after the process ends, however it ends.

Rule: a process holds the lock of its directory from before the lock file is visible until the process ends. So a
process that gets the lock of another directory knows that its owner has ended, and removes the directory.
"""

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Final

_PREFIX: Final = "lakehouse-lookup-"
_LOCK: Final = "lock"


@cache
def process_directory() -> str:
    """Return the new directory of this process; first remove the directories of ended processes."""
    _remove_left_behind(tempfile.gettempdir())
    directory = tempfile.mkdtemp(prefix=_PREFIX)
    lock = _locked(directory)
    owner = os.getpid()

    def remove() -> None:
        # A forked child does not remove the directory of its parent.
        if os.getpid() == owner:
            shutil.rmtree(directory, ignore_errors=True)
            if lock is not None:
                os.close(lock)

    atexit.register(remove)
    return directory


def _locked(directory: str) -> int | None:
    """Lock the directory until the process ends. None if the file system has no locks; then no process removes the
    directory of another one.
    """
    unfinished = os.path.join(directory, f"{_LOCK}.new")
    lock = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(unfinished, os.path.join(directory, _LOCK))
    except OSError:
        os.close(lock)
        return None
    return lock


def _remove_left_behind(parent: str) -> None:
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError), _lock_of_dead(entry.path):
                    shutil.rmtree(entry.path, ignore_errors=True)


@contextmanager
def _lock_of_dead(directory: str) -> Iterator[None]:
    """Hold the lock of an ended process's directory. Raises OSError if the process still runs, or if this module did
    not make the directory.
    """
    found = os.lstat(directory)
    # Other users may put files into a folder for temporary files.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise NotADirectoryError(directory)
    lock = os.open(os.path.join(directory, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)
