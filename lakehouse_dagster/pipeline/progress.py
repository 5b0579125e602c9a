"""Progress of a long verb in the log of its run: a line from time to time, none for a quick verb."""

import time
from collections.abc import Callable
from typing import Any

import lakehouse_core as lc

# The page of a run keeps every line; a line each half minute shows that a long verb continues.
EVERY_SECONDS = 30.0


def logged_progress(
    log: Callable[[str], Any], *, every_seconds: float = EVERY_SECONDS, now: Callable[[], float] = time.monotonic
) -> Callable[[lc.Progress], None]:
    """Return a listener for `progress` that logs at most one line in a number of seconds, and none before they have
    passed.
    """
    last = now()

    def listen(progress: lc.Progress) -> None:
        nonlocal last
        if now() - last >= every_seconds:
            last = now()
            log(progress_text(progress))

    return listen


def progress_text(progress: lc.Progress) -> str:
    """Return a line for a reader, as in `sales.orders: compacting, 3 of 12 tasks`."""
    if not progress.unit:
        return f"{progress.table}: {progress.phase}"
    of = "" if progress.total is None else f" of {progress.total:,}"
    return f"{progress.table}: {progress.phase}, {progress.done:,}{of} {progress.unit}"
