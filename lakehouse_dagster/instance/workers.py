"""Worker records: which process executes a run, and whether it lives.

Rule: a process identifier alone proves nothing. The same number is the same process only with the same start and boot.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

_PROC = Path("/proc")
# Records and logs of dead workers show why they died. They are kept for a week.
_KEEP_SECONDS = 7 * 24 * 3600
_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The process of one run. `started_ticks` counts from the boot; 0 where the system does not say."""

    run_id: str
    pid: int
    started_ticks: int
    boot_id: str
    host: str
    # The numbers of processes are those of a container. Empty where the system does not say.
    pid_namespace: str = ""

    def is_visible(self) -> bool:
        """Return whether this process would see the worker if it lived: on this boot of this machine or container."""
        return self.boot_id == _boot_id() and self.pid_namespace in {"", _pid_namespace()}

    def is_alive(self) -> bool:
        """Return whether this very process still runs. A zombie does not. REQUIRES: `is_visible()`."""
        if not _PROC.joinpath("self", "stat").exists():
            return _takes_signals(self.pid)
        return self.started_ticks == _started_ticks(self.pid)


def this_process(run_id: str) -> Worker:
    """Return the calling process as the worker of a run."""
    pid = os.getpid()
    return Worker(
        run_id=run_id,
        pid=pid,
        started_ticks=_started_ticks(pid) or 0,
        boot_id=_boot_id(),
        host=socket.gethostname(),
        pid_namespace=_pid_namespace(),
    )


def record_path(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}.json"


def log_path(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}.log"


def write_record(folder: Path, worker: Worker) -> None:
    """Write the record of a worker, whole or not at all."""
    path = record_path(folder, worker.run_id)
    unfinished = path.with_suffix(f".{worker.pid}.tmp")
    unfinished.write_text(json.dumps(asdict(worker)))
    unfinished.replace(path)


def read_record(folder: Path, run_id: str) -> Worker | None:
    """Return the worker of a run; None when no worker has begun with it here, or its record cannot be read."""
    try:
        return Worker(**json.loads(record_path(folder, run_id).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def last_lines(folder: Path, run_id: str) -> str:
    """Return the end of what the worker of a run wrote on its outputs."""
    try:
        with log_path(folder, run_id).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return log.read().decode(errors="replace").strip()
    except OSError:
        return ""


def remove_old_records(folder: Path) -> None:
    """Remove the records and logs of workers that have been gone for a week."""
    for path in _older_than(folder, time.time() - _KEEP_SECONDS):
        worker = read_record(folder, path.stem)
        if worker is None or not (worker.is_visible() and worker.is_alive()):
            path.unlink(missing_ok=True)


def _older_than(folder: Path, moment: float) -> Iterator[Path]:
    for path in folder.iterdir():
        try:
            if path.stat().st_mtime < moment:
                yield path
        except FileNotFoundError:
            continue


def _started_ticks(pid: int) -> int | None:
    """Return when a process started; None when it is gone or a zombie."""
    try:
        # The name of the program is in brackets and may have any character; the fields behind it are numbered from 3.
        fields = _PROC.joinpath(str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _boot_id() -> str:
    try:
        return (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


def _pid_namespace() -> str:
    try:
        return os.readlink(_PROC / "self" / "ns" / "pid")
    except OSError:
        return ""


def _takes_signals(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
