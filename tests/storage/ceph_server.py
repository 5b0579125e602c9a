"""Ceph's S3 gateway on this machine: a monitor, an object daemon on a sparse file, a gateway, on loopback only.

In a test: `with ceph_server(folder) as ceph`. By hand: `python -m tests.storage.ceph_server FOLDER`, which prints how
it is reached and ends with its standard input. It runs as root, from Debian's packages, which it installs where
apt-get is there.
"""

import os
import random
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import boto3

ACCESS, SECRET = "canary-access", "canary-secret-key"
PACKAGES = ("ceph-mon", "ceph-osd", "radosgw", "libfaketime")
PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
_START_SECONDS = 120
_END_SECONDS = 20
_OWN_FILES = {"admin-socket": "socket", "pid-file": "pid", "log-file": "log"}

# Daemons trust each other: they are reached from this machine only. The gateway checks signatures all the same.
_SETTINGS = """
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{monitor_port}/0]
mon initial members = a
mon data = {folder}/monitor
osd data = {folder}/objects
osd objectstore = bluestore
bluestore block create = true
bluestore block size = 8589934592
bluestore cache autotune = false
bluestore cache size = 268435456
osd memory target = 939524096
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
ms mon service mode = crc
ms mon cluster mode = crc
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail crit = 1
run dir = {folder}
admin socket = {folder}/$name.socket
log file = {folder}/$name.log
pid file = {folder}/$name.pid
crash dir = {folder}/crashes
keyring = {folder}/keyring
[client.gateway]
rgw thread pool size = 64
rgw enable usage log = false
rgw sts key = 0123456789abcdef
"""


def install() -> None:
    """Install the packages where they are missing. Raises RuntimeError if they cannot be had."""
    if all(map(shutil.which, PROGRAMS)) and faked_clock() is not None:
        return
    if shutil.which("apt-get") is None:
        raise RuntimeError(f"Ceph is missing, and there is no apt-get. Install the packages {', '.join(PACKAGES)}.")
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run = subprocess.run(["apt-get", *words], capture_output=True, text=True, env=environment, check=False)
        if run.returncode:
            raise RuntimeError(f"Ceph cannot be installed: apt-get {words[0]} ends with: {run.stderr[-500:]}")


def faked_clock(ahead_seconds: int = 0) -> dict[str, str] | None:
    """Return the environment in which a program's clock is ahead by so much; None if the library is missing."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        return None
    return {"LD_PRELOAD": f"{found[0]}", "FAKETIME": f"+{ahead_seconds}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


class CephServer:
    """`folder`: where everything lies. The bucket `lake` belongs to a user with the keys `ACCESS` and `SECRET`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._settings = folder / "ceph.conf"
        self._monitor_port, self._port = _free_port(), _free_port()
        self._started: list[subprocess.Popen[bytes]] = []
        self._gateway: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return _endpoint(self._port)

    @property
    def storage(self) -> dict[str, str]:
        """The settings by which `lc.connect` reaches it."""
        return {"endpoint": self.endpoint, "access-key": ACCESS, "secret-key": SECRET}

    def client(self, service: str = "s3", endpoint: str | None = None) -> Any:
        """Return a client of Amazon's own, as an opinion from outside."""
        return boto3.client(
            service,
            endpoint_url=endpoint or self.endpoint,
            aws_access_key_id=ACCESS,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def start(self) -> None:
        """Make an empty store and start all three daemons."""
        for name in ("monitor", "objects"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "keyring").touch()
        fsid, disk, names = str(uuid.uuid4()), str(uuid.uuid4()), str(self.folder / "monmap")
        self._settings.write_text(_SETTINGS.format(fsid=fsid, folder=self.folder, monitor_port=self._monitor_port))
        address = f"[v2:127.0.0.1:{self._monitor_port}/0]"
        self._run("monmaptool", "--create", "--addv", "a", address, "--fsid", fsid, names)
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", names)
        self._start("ceph-mon", "-i", "a")
        # The monitor must know the daemon before it makes its file.
        self._run("ceph", "--connect-timeout", f"{_START_SECONDS}", "osd", "new", disk)
        self._run("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", disk)
        self._start("ceph-osd", "-i", "0")
        self.new_user("owner", ACCESS, SECRET, "--caps", "user-policy=*")
        self.start_gateway()
        self.client().create_bucket(Bucket="lake")

    def stop(self) -> None:
        while self._started:
            self._end(self._started[-1])

    def new_user(self, name: str, access: str, secret: str, *more: str) -> None:
        words = ["--uid", name, "--display-name", name, "--access-key", access, "--secret-key", secret]
        self._run("radosgw-admin", "user", "create", *words, *more)

    def start_gateway(self) -> None:
        """Start the gateway at its port and wait until it answers."""
        self._gateway = self._new_gateway(self._port)

    def kill_gateway(self) -> None:
        """End the gateway at once, in the middle of whatever it does."""
        assert self._gateway is not None
        self._gateway.kill()
        self._gateway.wait()
        self._started.remove(self._gateway)

    @contextmanager
    def token_gateway(self, *, ahead_seconds: int = 0) -> Iterator[str]:
        """Yield the address of a second gateway to the same objects, which takes session tokens, and whose clock is
        ahead by so much.
        """
        port = _free_port()
        clock = faked_clock(ahead_seconds) if ahead_seconds else None
        gateway = self._new_gateway(port, "--rgw-s3-auth-use-sts=true", environment=clock)
        try:
            yield _endpoint(port)
        finally:
            self._end(gateway)

    def _new_gateway(
        self, port: int, *options: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        own = [f"--{name}={self.folder}/gateway-{port}.{end}" for name, end in _OWN_FILES.items()]
        words = ["-n", "client.gateway", f"--rgw-frontends=beast endpoint=127.0.0.1:{port}", *own, *options]
        gateway = self._start("radosgw", *words, environment=environment)
        end = time.monotonic() + _START_SECONDS
        while gateway.poll() is None and time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
                return gateway
            time.sleep(0.05)
        raise RuntimeError(f"Ceph: the gateway does not answer (ended with {gateway.poll()}). Look into {self.folder}.")

    def _start(
        self, program: str, *words: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{program}.out").open("ab") as output:
            process = subprocess.Popen(
                [program, "-f", "--conf", str(self._settings), *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={**os.environ, **(environment or {})},
            )
        self._started.append(process)
        return process

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        self._started.remove(process)
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _run(self, program: str, *words: str) -> None:
        command = [program, "--conf", str(self._settings), *words]
        run = subprocess.run(command, capture_output=True, text=True, timeout=_START_SECONDS, check=False)
        if run.returncode:
            raise RuntimeError(f"Ceph: {' '.join(command)} ends with: {run.stderr[-500:]}")


@contextmanager
def ceph_server(folder: Path) -> Iterator[CephServer]:
    install()
    server = CephServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _endpoint(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _free_port() -> int:
    """Return a port below those that are given out for connections: nothing takes it while a daemon restarts."""
    choose = random.SystemRandom()
    while True:
        port = choose.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def main(stdin: IO[str] = sys.stdin) -> None:
    with ceph_server(Path(sys.argv[1]).resolve()) as server:
        print(f"{server.endpoint} {ACCESS} {SECRET}", flush=True)
        stdin.read()


if __name__ == "__main__":
    main()
