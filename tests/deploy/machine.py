"""Another machine, as far as this one allows: processes with a host name, numbers and a boot of their own.

The network is shared: the machine reaches the database and the code server. Nobody else sees its processes.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.shared_instance import SharedPlane

# It goes on without its daemon, as a machine does. The number of its first process is 1.
BOOT = """
set -e
hostname "$1"
mount --bind "$2" /proc/sys/kernel/random/boot_id
shift 2
"$@" &
exec sleep infinity
"""


class Machine:
    """A machine with a home and a daemon of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def processes(self) -> list[int]:
        """Everything that runs there, the first process last."""
        found = [self.process.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += [int(child) for child in children.read_text().split()]
        return found[:0:-1]

    def kill_daemon(self) -> None:
        """End the daemon alone; the runs that it has started go on."""
        (daemon,) = (pid for pid in self.processes() if "dagster._daemon" in command_line(pid))
        os.kill(daemon, signal.SIGKILL)

    def lose(self) -> None:
        """End the machine: the kernel kills whatever runs there together with the first process."""
        if self.process.poll() is None:
            os.kill(self.processes()[-1], signal.SIGKILL)
            self.process.wait()


@contextmanager
def machine(dagster: SharedPlane, name: str) -> Iterator[Machine]:
    """A machine that has the daemon of an instance."""
    home, boot = dagster.root / name, dagster.root / f"{name}-boot"
    shutil.copytree(dagster.home, home, ignore=shutil.ignore_patterns("workers"))
    boot.write_text(f"the boot of {name}\n")
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    apart = ["unshare", *as_root, "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]
    daemon = [sys.executable, "-W", "ignore", "-m", *dagster.commands["daemon"]]
    with (dagster.root / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [*apart, "sh", "-c", BOOT, "sh", name, str(boot), *daemon],
            env=os.environ | dagster.environ | {"DAGSTER_HOME": str(home)},
            stdout=log,
            stderr=log,
            cwd=dagster.root,
        )
    made = Machine(process)
    try:
        yield made
    finally:
        made.lose()


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
