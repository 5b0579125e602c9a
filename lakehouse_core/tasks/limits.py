"""Limits of this process: how many tasks it may carry out at the same time, by its processors and its memory.

Rule: in a container the limits of its control group count, not the machine. Source: the control groups of Linux,
version 2 and version 1.
"""

import os
from functools import cache
from pathlib import Path
from typing import Final

# Of tasks that merge, so many at the same time: each holds a chunk of rows, and a row group of each run and of the file
# that it writes, 200 MB if rows are wide.
MERGES_AT_ONCE: Final = 4
# Each task that writes files anew holds a row group in memory at least.
_MOST_TASKS: Final = 8
_BYTES_OF_A_TASK: Final = 512 << 20
_NO_LIMIT: Final = 1 << 63
_GROUPS: Final = Path("/sys/fs/cgroup")


def tasks_at_once() -> int:
    """Return how many tasks a call may carry out at the same time in threads of this process, one at least."""
    processors, memory_bytes = group_limits(_GROUPS)
    by_memory = min(memory_bytes or _NO_LIMIT, _machine_bytes()) // _BYTES_OF_A_TASK
    return max(1, min(processors or _MOST_TASKS, _processors(), by_memory, _MOST_TASKS))


@cache
def group_limits(root: Path) -> tuple[int | None, int | None]:
    """Return the processors, rounded up, and the memory in bytes that the control group at `root` allows; None: no
    limit that is told.
    """
    quota, period = [*_words(root / "cpu.max"), "", ""][:2]
    if not quota:
        quota, period = (_word(root / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    memory = _word(root / "memory.max") or _word(root / "memory" / "memory.limit_in_bytes")
    processors = -(-int(quota) // int(period)) if quota.isdigit() and period.isdigit() and int(period) else None
    return processors or None, int(memory) if memory.isdigit() else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (OSError, UnicodeDecodeError):
        return []


def _word(path: Path) -> str:
    return next(iter(_words(path)), "")


def _processors() -> int:
    """Return how many processors this process may use, as far as the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else _NO_LIMIT
