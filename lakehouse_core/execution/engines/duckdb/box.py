"""DuckDB's box: a database in this process that reaches no variable of Python, no extension, no setting, and no file
but those of the tables whose folders it was opened for.

To open one takes as long as a small query, so that queries share the last one. It is closed before a fork, because a
forked process would wait for the threads that it lacks. A box with an answer that is half read stays open, and the
forked process neither uses nor closes it.
"""

import atexit
import ctypes
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from threading import RLock
from typing import Any, Final

from lakehouse_core.planning.sql.duckdb.spark_functions import MACROS

# What a database begins with; then the box is closed for good.
_SETTINGS: Final = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
_NUMBERS: Final = count()
# Of folders that one box knows.
_MOST_FOLDERS: Final = 64


class _Box:
    def __init__(self, duckdb: Any, folders: frozenset[str]) -> None:
        self.folders = folders
        self.users = 0
        self.database = boxed_connection(duckdb, sorted(folders))


@contextmanager
def box_cursor(duckdb: Any, folders: Collection[str]) -> Iterator[Any]:
    """Yield a connection with its own views to a box that reads files in these folders."""
    process = os.getpid()
    box = _shared.taken(duckdb, frozenset(folders))
    try:
        cursor = box.database.cursor()
        try:
            yield cursor
        finally:
            if os.getpid() == process:
                cursor.close()
            else:
                never_freed(cursor)
    finally:
        if os.getpid() == process:
            _shared.give_back(box)
        else:
            never_freed(box)


def never_freed(inherited: object) -> None:
    """Keep an object of DuckDB from another process until this process ends. Even the end of the interpreter would
    free what a variable holds, and so wait for missing threads.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


def boxed_connection(duckdb: Any, folders: Collection[str] = ()) -> Any:
    """Return a connection to a new database that reaches nothing outside but files in these folders, and what is
    registered in it.
    """
    connection = duckdb.connect(":memory:", config=_SETTINGS)
    for statement in (
        f"SET temp_directory = {quoted(_temporary_folder())}",
        "SET GLOBAL TimeZone = 'UTC'",
        "SET allow_community_extensions = false",
        # Contents of files would fill the memory that the queries have.
        "SET enable_external_file_cache = false",
        f"SET allowed_directories = [{', '.join(map(quoted, folders))}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ):
        connection.execute(statement)
    connection.execute(MACROS)
    return connection


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _temporary_folder() -> str:
    """Return a folder for the spills of one database. DuckDB creates it at the first spill."""
    return f"{tempfile.gettempdir()}/lakehouse-sql-{os.getpid()}-{next(_NUMBERS)}"


class _SharedBox:
    """The last box, which the next query takes if it reads the folders that this needs."""

    def __init__(self) -> None:
        # The collector of garbage may close an answer, which gives its box back, in the midst of a method.
        self.lock = RLock()
        self._last: _Box | None = None

    def taken(self, duckdb: Any, folders: frozenset[str]) -> _Box:
        with self.lock:
            last = self._last
            if last is None or not folders <= last.folders:
                together = folders if last is None else folders | last.folders
                box = _Box(duckdb, together if len(together) <= _MOST_FOLDERS else folders)
                self.forget()
                self._last = last = box
            last.users += 1
            return last

    def give_back(self, box: _Box) -> None:
        with self.lock:
            box.users -= 1
            if box is not self._last and not box.users:
                box.database.close()

    def forget(self) -> None:
        """Open a new box for the next query; the last user of the old one closes it."""
        box, self._last = self._last, None
        if box is not None and not box.users:
            box.database.close()

    def before_fork(self) -> None:
        self.lock.acquire()
        self.forget()


_shared = _SharedBox()
os.register_at_fork(
    before=_shared.before_fork, after_in_parent=_shared.lock.release, after_in_child=_shared.lock.release
)
atexit.register(_shared.forget)
