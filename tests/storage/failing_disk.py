"""A disk that fails on purpose: one system call of the local store raises, before its effect or after it.

Tasks in this process are served by it too. That something is missing, or that a
name is taken, is believed, so no call says that in vain.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lakehouse_core.storage import system_calls

CHANGING = ("create", "write", "fsync", "close", "link", "replace", "rename_new", "unlink", "mkdir", "rmdir")
LOOKING = ("open_file", "open_folder", "stat", "lstat", "fstat", "entries", "lock")
NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


@dataclass(slots=True)
class FailingDisk:
    """Numbers the system calls and lets the one at number `at` (from 1; 0: none) end in the error `code`."""

    code: int = errno.EIO
    at: int = 0
    takes_effect: bool = False
    calls: list[str] = field(default_factory=list)
    has_failed: bool = False

    def call(self, name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.calls.append(name)
        if len(self.calls) != self.at or not self._can_answer(name):
            return real(*args, **kwargs)
        self.has_failed = True
        if name == "close" or (self.takes_effect and name in CHANGING):
            # A descriptor is closed whatever its closing answers.
            real(*args, **kwargs)
        raise OSError(self.code, os.strerror(self.code))

    def _can_answer(self, name: str) -> bool:
        if self.takes_effect:
            return name in CHANGING
        if name in LOOKING or name in ("unlink", "rmdir"):
            return self.code not in NOT_THERE
        return self.code != errno.EEXIST or name not in ("link", "rename_new")


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder for a store whose speed of syncing does not matter: in memory, where the system has that."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@contextmanager
def installed(disk: FailingDisk) -> Iterator[FailingDisk]:
    """Let every local store of this process work on `disk`."""
    real = {name: getattr(system_calls, name) for name in (*CHANGING, *LOOKING)}

    def through(name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: disk.call(name, real[name], *args, **kwargs)

    try:
        for name in real:
            setattr(system_calls, name, through(name))
        yield disk
    finally:
        for name, call in real.items():
            setattr(system_calls, name, call)
