"""Azurite, a server of Azure Blob Storage for tests, on this machine only. npm brings it into the folder `build`.

It checks keys, tokens, their times and permissions, and conditions. The container is `lake`.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from tests.limits import HANGS_AFTER_SECONDS

VERSION = "3.35.0"
ACCOUNT = "canary"
KEY = base64.b64encode(b"canary-secret-account-key").decode()
_HOME = Path(__file__).resolve().parents[2] / "build" / "azurite"
_PROGRAM = _HOME / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
_END_SECONDS = 20


def install() -> None:
    """Install the server where it is missing. Raises RuntimeError if it cannot be had."""
    about = _HOME / "node_modules" / "azurite" / "package.json"
    if about.exists() and json.loads(about.read_text())["version"] == VERSION:
        return
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise RuntimeError(f"Azurite needs Node.js ({tool} is not on the PATH). Install it, then run it again.")
    words = ["npm", "install", "--prefix", str(_HOME), "--no-audit", "--no-fund", "--no-save", f"azurite@{VERSION}"]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"Azurite cannot be installed: npm ends with: {run.stderr[-500:]}")


class Azurite:
    """A running server. `endpoint`: of its one account."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    @property
    def storage(self) -> dict[str, str]:
        """The settings by which `lc.connect` reaches it."""
        return {**self._patient, "account-key": KEY}

    def storage_by_token(self, token: str) -> dict[str, str]:
        return {**self._patient, "sas-token": token}

    @property
    def _patient(self) -> dict[str, str]:
        """On a busy machine the server needs longer than the default of 20 seconds to delete hundreds of objects."""
        return {"endpoint": self.endpoint, "account": ACCOUNT, "timeout": f"{HANGS_AFTER_SECONDS}"}

    def token(self, permissions: str, *, valid_from: timedelta = timedelta(hours=-1)) -> str:
        """Return a token for the container, valid for two hours. `permissions`: letters, such as rwdlc."""
        start = datetime.now(UTC) + valid_from
        first, last = (f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in (start, start + timedelta(hours=2)))
        resource = f"/blob/{ACCOUNT}/lake"
        signed = [permissions, first, last, resource, "", "", "https,http", "2018-11-09", "c", *[""] * 6]
        given = {"sp": permissions, "st": first, "se": last, "spr": "https,http", "sv": "2018-11-09", "sr": "c"}
        return urlencode({**given, "sig": _signature(signed)})

    def create_container(self, name: str) -> None:
        last = "2999-01-01T00:00:00Z"
        signed = [ACCOUNT, "c", "b", "c", "", last, "", "", "2018-11-09", ""]
        given = {"sp": "c", "ss": "b", "srt": "c", "se": last, "sv": "2018-11-09", "sig": _signature(signed)}
        address = f"{self.endpoint}/{name}?restype=container&{urlencode(given)}"
        with urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=HANGS_AFTER_SECONDS):
            pass


def _signature(signed: list[str]) -> str:
    digest = hmac.new(base64.b64decode(KEY), "\n".join(signed).encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


@contextmanager
def azurite_server(folder: Path) -> Iterator[Azurite]:
    install()
    command = ["node", str(_PROGRAM), "--blobHost", "127.0.0.1", "--blobPort", "0", "--location", str(folder)]
    command += ["--skipApiVersionCheck", "--disableTelemetry"]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    # Each request is told on a line: into a file, for nobody would read a pipe.
    told = folder / "told"
    with told.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield _opened(server, told)
    finally:
        server.terminate()
        try:
            server.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _opened(server: "subprocess.Popen[bytes]", told: Path) -> Azurite:
    end = time.monotonic() + HANGS_AFTER_SECONDS
    while server.poll() is None and time.monotonic() < end:
        found = re.search(r"successfully listens on (http://127\.0\.0\.1:\d+)", told.read_text())
        if found:
            azurite = Azurite(f"{found[1]}/{ACCOUNT}")
            azurite.create_container("lake")
            return azurite
        time.sleep(0.05)
    raise RuntimeError(f"Azurite does not start: {told.read_text()[-500:]}")
