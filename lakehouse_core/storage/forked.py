"""Forked processes: they have none of the threads of the process that they were forked from, so what one of these had
begun never ends there.
"""

import os

from lakehouse_core.errors import StorageUnavailable


class OneProcess:
    """The process in which this object was made."""

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_this(self) -> bool:
        return os.getpid() == self._id

    def check(self, name: str) -> None:
        """Raise StorageUnavailable in another process. `name`: what is read, for the message."""
        if not self.is_this:
            raise forked_error(name)


def forked_error(name: str) -> StorageUnavailable:
    """Return the error of a forked process. `name`: what it reads or writes."""
    return StorageUnavailable(
        f"{name}: this process was forked from one that may have used the store, where requests can wait for ever. "
        "Start processes by spawn, as in multiprocessing.get_context('spawn')."
    )
