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
from threading import Lock
from typing import Any, Protocol, TypeVar

from lakehouse_core.storage import LocalStore, system_calls

CHANGING = ("create", "write", "fsync", "close", "link", "replace", "rename_new", "unlink", "mkdir", "rmdir")
LOOKING = ("open_file", "open_folder", "stat", "lstat", "fstat", "entries", "lock")
NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


class Disk(Protocol):
    """What stands between the local store and the system."""

    def call(self, name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Answer the system call of this name, which `real` carries out."""
        ...


D = TypeVar("D", bound=Disk)


@dataclass(slots=True)
class FailingDisk:
    """Numbers the system calls and lets the one at number `at` (from 1; 0: none) end in the error `code`.

    `counted`: the calls that have numbers.
    """

    code: int = errno.EIO
    at: int = 0
    takes_effect: bool = False
    counted: tuple[str, ...] = (*CHANGING, *LOOKING)
    lock: Lock = field(default_factory=Lock)
    calls: list[str] = field(default_factory=list)
    has_failed: bool = False

    def call(self, name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if name not in self.counted:
            return real(*args, **kwargs)
        with self.lock:
            self.calls.append(name)
            is_reached = len(self.calls) == self.at
        if not is_reached or not self._can_answer(name):
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
def installed(disk: D, *, sinks_at_once: int = 1) -> Iterator[D]:
    """Let every local store of this process work on `disk`; one by one, calls have the same numbers each time."""
    real = {name: getattr(system_calls, name) for name in (*CHANGING, *LOOKING)}

    def through(name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: disk.call(name, real[name], *args, **kwargs)

    before = LocalStore.sinks_at_once
    try:
        LocalStore.sinks_at_once = sinks_at_once
        for name in real:
            setattr(system_calls, name, through(name))
        yield disk
    finally:
        LocalStore.sinks_at_once = before
        for name, call in real.items():
            setattr(system_calls, name, call)
