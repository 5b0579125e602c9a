"""The shared instance of `deploy/` without containers: PostgreSQL and the compose file's processes on loopback."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from tests.graphql import ask
from tests.lakehouse_dagster.plane import CHECKOUT, Plane, answers, free_port
from tests.limits import HANGS_AFTER_SECONDS

SHARED = CHECKOUT / "deploy" / "shared"
# The scripts of the compose file, as modules of this interpreter.
MODULES = {"dagster": "dagster", "dagster-webserver": "dagster_webserver", "dagster-daemon": "dagster._daemon"}


class SharedPlane(Plane):
    """The processes of the compose file. Queries go to the web server."""

    web: str = ""

    def graphql(self, query: str, **variables: Any) -> Any:
        return ask(self.web, query, **variables)

    def migrate(self) -> None:
        """Bring the database to the installed version, as the service `migrate` does, and wait for the end."""
        self.start("migrate")
        process = self.processes.pop("migrate")
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 0, self.told()

    def start_all(self) -> None:
        """Start the processes in the order of the compose file, each when the one that it needs answers."""
        self.start("code")
        self.wait_for("the code server answers", lambda: answers(int(self.environ["DAGSTER_CODE_PORT"])))
        self.start("webserver")
        self.wait_for("the web server answers", lambda: answers(int(self.web.rpartition(":")[2])))
        self.start("daemon")

    def stop_all(self) -> None:
        """End the processes as `docker compose down` does: asked first; with the daemon's container go its runs."""
        workers = [pid for run in self.instance.get_runs() for pid in self.workers(run.run_id)]
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(timeout=HANGS_AFTER_SECONDS)
        self.processes.clear()
        for pid in workers:
            os.kill(pid, signal.SIGKILL)


@contextmanager
def shared_instance(root: Path, *, module: str) -> Iterator[SharedPlane]:
    """PostgreSQL, a code server with the definitions of `module`, a web server and a daemon."""
    home, code, web = root / "home", free_port(), free_port()
    home.mkdir()
    for name in ("dagster.yaml", "workspace.yaml"):
        shutil.copy(SHARED / name, home / name)
    (root / "workspace.yaml").symlink_to(home / "workspace.yaml")
    services = yaml.safe_load((SHARED / "compose.yaml").read_text())["services"]
    values = {"DAGSTER_POSTGRES_PASSWORD": "of a test: not a secret"}
    given = services["daemon"]["environment"]
    with postgres(given["DAGSTER_POSTGRES_USER"], given["DAGSTER_POSTGRES_DB"], *values.values()) as database:
        environ = {name: interpolated(value, values) for name, value in given.items()} | {
            "DAGSTER_HOME": str(home),
            "DAGSTER_POSTGRES_HOST": "127.0.0.1",
            "DAGSTER_POSTGRES_PORT": str(database),
            "DAGSTER_CODE_HOST": "127.0.0.1",
            "DAGSTER_CODE_PORT": str(code),
            "DAGSTER_COMPUTE_LOGS": str(root / "logs"),
            "LAKEHOUSE_WAREHOUSE": str(root / "warehouse"),
            "LAKEHOUSE_FEED_CACHE": str(root / "feed"),
        }
        here = {
            "0.0.0.0": "127.0.0.1",
            "4000": str(code),
            "3000": str(web),
            "/opt/lakehouse": str(CHECKOUT),
            "/opt/dagster/workspace.yaml": str(home / "workspace.yaml"),
            "orchestration.definitions": module,
        }
        commands = {
            name: command(service["command"], here) for name, service in services.items() if "command" in service
        }
        with patch.dict(os.environ, environ):
            made = SharedPlane(root, commands=commands, environ=environ, location="lakehouse")
            made.web = f"http://127.0.0.1:{web}"
            try:
                made.migrate()
                made.start_all()
                yield made
            finally:
                made.stop()


def command(words: Sequence[str], here: Mapping[str, str]) -> list[str]:
    """A command of the compose file, with the addresses and folders of this machine."""
    return [MODULES[words[0]], *(here.get(word, word) for word in words[1:])]


def interpolated(value: str, environ: Mapping[str, str]) -> str:
    """A value of the compose file: `${NAME}`, `${NAME:-default}` and `${NAME:?message}` replaced."""
    return re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", lambda found: environ.get(found[1], found[2] or ""), value)


@contextmanager
def postgres(user: str, database: str, password: str) -> Iterator[int]:
    """A PostgreSQL server of its own on loopback, with one database; yield its port."""
    # It refuses to run as root. Folders of tests belong to their user alone, so it has one elsewhere.
    owner = "postgres" if os.geteuid() == 0 else None
    folder, port = Path(tempfile.mkdtemp(prefix="postgres-")), free_port()
    data, secret = folder / "data", folder / "password"
    secret.write_text(password)
    if owner:
        for path in (folder, secret):
            shutil.chown(path, owner)
    server = None
    try:
        with (folder / "log").open("wb") as log:
            quiet: dict[str, Any] = {"user": owner, "cwd": folder, "stdout": log, "stderr": log}
            initdb = [program("initdb"), "-D", data, "-U", user, "--auth=scram-sha-256", f"--pwfile={secret}"]
            subprocess.run(initdb, check=True, **quiet)
            settings = {
                "listen_addresses": "127.0.0.1",
                "port": port,
                "unix_socket_directories": folder,
                "fsync": "off",
            }
            options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
            server = subprocess.Popen([program("postgres"), "-D", data, *options], **quiet)
            place = ["-h", "127.0.0.1", "-p", str(port), "-U", user]
            deadline = time.monotonic() + HANGS_AFTER_SECONDS
            while subprocess.run([program("pg_isready"), *place], check=False, **quiet).returncode:
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.1)
            subprocess.run(
                [program("createdb"), *place, database], check=True, env=os.environ | {"PGPASSWORD": password}, **quiet
            )
        yield port
    finally:
        if server is not None:
            server.send_signal(signal.SIGQUIT)
            server.wait(timeout=HANGS_AFTER_SECONDS)
        shutil.rmtree(folder)


def program(name: str) -> str:
    """The path of a program of PostgreSQL: Debian has the server's outside PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ["PATH"]]))
    assert found, f"{name} is not found: the server of PostgreSQL is needed (Debian: apt-get install postgresql)"
    return found
