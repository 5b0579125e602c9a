"""A disk that knows what would be left after a power cut: what was synced, under names that were synced.

At each snapshot that gets its name, it looks for files and folders of the warehouse that would not be left.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock, get_ident
from typing import Any

# These may be lost: readers and writers take them for hints.
_HINTS = {"LATEST", "EARLIEST"}


class LastingDisk:
    """Counts the snapshots that got their names, and keeps what was not durable by then.

    `pause_seconds`: what a sync takes at least, so that whoever does not wait for it comes too early.
    """

    def __init__(self, root: Path, *, pause_seconds: float = 0.002) -> None:
        self.snapshots = 0
        self.lost: list[str] = []
        self.threads_of_syncs: set[int] = set()
        self._root = root
        self._pause_seconds = pause_seconds
        self._lock = Lock()
        self._paths: dict[int, str] = {}
        # Inodes by path, and sizes by inode.
        self._names: dict[str, int] = {}
        self._contents: dict[int, int] = {}
        for entry in _below(root):
            self._names[entry.path] = entry.inode()
            self._contents[entry.inode()] = entry.stat().st_size

    def call(self, name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        match name:
            case "create" | "open_file" | "open_folder":
                descriptor = real(*args, **kwargs)
                if "inside" not in kwargs:
                    self._paths[descriptor] = args[0]
                return descriptor
            case "close":
                self._paths.pop(args[0], None)
                return real(*args, **kwargs)
            case "fsync":
                return self._sync(real, args[0])
            case "link" if Path(args[1]).name.startswith("snapshot-"):
                self._look(args[0])
                self.snapshots += 1
        return real(*args, **kwargs)

    def _sync(self, real: Callable[..., Any], descriptor: int) -> None:
        # Only what is there when the sync begins is durable after it.
        path = self._paths.get(descriptor)
        found = os.fstat(descriptor)
        entries = list(os.scandir(path)) if path is not None and os.path.isdir(path) else []
        names = {entry.path: entry.inode() for entry in entries}
        time.sleep(self._pause_seconds)
        real(descriptor)
        with self._lock:
            self.threads_of_syncs.add(get_ident())
            self._names.update(names)
            if not names:
                self._contents[found.st_ino] = found.st_size

    def _look(self, snapshot: str) -> None:
        found = os.stat(snapshot)
        with self._lock:
            if self._contents.get(found.st_ino) != found.st_size:
                self.lost.append(snapshot)
            for entry in _below(self._root):
                if entry.name in _HINTS or entry.name.startswith("."):
                    continue
                is_there = self._names.get(entry.path) == entry.inode()
                is_whole = entry.is_dir() or self._contents.get(entry.inode()) == entry.stat().st_size
                if not (is_there and is_whole):
                    self.lost.append(entry.path)


def _below(folder: str | Path) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry
            if entry.is_dir():
                yield from _below(entry.path)
