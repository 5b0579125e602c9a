"""A MariaDB server on loopback, started from Debian's package: it keeps its data in a folder of its own."""

import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pymysql
from sqlalchemy import make_url

from tests.limits import HANGS_AFTER_SECONDS

NUMBERS = count()
USER, PASSWORD = "ann", "of a test: not a secret"


class MariadbServer:
    """A server with one user, who may do everything. It is known by its process id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "tmp").mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        # It does not run as root by itself.
        self._owner = pwd.getpwuid(os.geteuid()).pw_name
        install = [_program("mariadb-install-db"), *self._options(), "--auth-root-authentication-method=normal"]
        with _alone(), self._log() as log:
            done = subprocess.run(install, check=False, stdout=log, stderr=log, timeout=120)
        assert done.returncode == 0, (folder / "log").read_text()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        with closing(pymysql.connect(unix_socket=str(folder / "s"), user="root")) as connection:
            for statement in (
                f"CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
                f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION",
            ):
                connection.cursor().execute(statement)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = [
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self._folder / 's'}",
            f"--pid-file={self._folder / 'pid'}",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-buffer-pool-size=16M",
            "--innodb-log-file-size=8M",
        ]
        with self._log() as log:
            self._process = subprocess.Popen([_program("mariadbd"), *self._options(), *options], stdout=log, stderr=log)
        deadline = time.monotonic() + HANGS_AFTER_SECONDS
        while not _listens(self.port):
            assert time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the server and all connections."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(timeout=HANGS_AFTER_SECONDS)

    def restart(self) -> None:
        """Kill the server, and start it again on what it has stored."""
        self.stop(signal.SIGKILL)
        self.start()

    def new_database(self, characters: str = "CHARACTER SET utf8mb4") -> str:
        """Create an empty database and return its address, with the password. `characters`: the default of MySQL 8."""
        name = f"names_{next(NUMBERS)}"
        rows_of(self.address("mysql"), f"CREATE DATABASE {name} {characters}")
        return self.address(name)

    def address(self, database: str) -> str:
        return f"mysql://{USER}:{PASSWORD.replace(' ', '%20').replace(':', '%3A')}@127.0.0.1:{self.port}/{database}"

    def _options(self) -> list[str]:
        # A server that starts deletes the temporary tables of others that have the same folder for them.
        folders = [f"--datadir={self._folder / 'data'}", f"--tmpdir={self._folder / 'tmp'}"]
        return ["--no-defaults", *folders, f"--user={self._owner}"]

    def _log(self) -> Any:
        return (self._folder / "log").open("ab")


@contextmanager
def mariadb_server() -> Iterator[MariadbServer]:
    # The path of a socket has at most 107 letters, which folders of tests may exceed.
    folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
    server = None
    try:
        server = MariadbServer(folder)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder)


def rows_of(address: str, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, none for one without."""
    url = make_url(address)
    with closing(
        pymysql.connect(
            host=url.host,
            port=url.port or 3306,
            user=url.username,
            password=str(url.password or ""),
            database=url.database,
            autocommit=True,
        )
    ) as connection:
        cursor = connection.cursor()
        cursor.execute(statement)
        return list(cursor.fetchall())


@contextmanager
def _alone() -> Iterator[None]:
    """Wait for the workers that make a server's data: of two at once, one fails now and then."""
    with (Path(tempfile.gettempdir()) / "lakehouse-tests-mariadb-install").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _program(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
    assert found, f"{name} is not found: MariaDB's server is needed (Debian: apt-get install mariadb-server-core)"
    return found
