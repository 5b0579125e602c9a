"""Worker: the process that executes one run, `python -m lakehouse_dagster.instance.worker FOLDER RUN ARGUMENTS`.

Rule: a worker whose run is over for Dagster (canceled, or taken for dead) ends itself, so that no run has two workers.
"""

import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import dagster as dg

from lakehouse_dagster.instance.dagster_internals import instance_of
from lakehouse_dagster.instance.heartbeats import forget_heartbeat, keep_beating
from lakehouse_dagster.instance.workers import this_process, write_record

# How soon a click on "Terminate" reaches the run.
POLL_SECONDS = 2
# Less than `cancel_timeout_seconds`: when Dagster calls the run canceled, its process is gone.
KILL_AFTER_SECONDS = 45
_OVER = frozenset(
    {dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE},
)


def main(arguments: Sequence[str]) -> None:
    """Execute the run as Dagster's own worker does, after saying which process does it."""
    folder, run_id, execution = arguments
    worker = this_process(run_id)
    write_record(Path(folder), worker)
    with instance_of(execution) as instance:
        keep_beating(instance, worker)
    # A daemon that was started in the background of a shell ignores it, and its children would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    done = threading.Event()
    threading.Thread(target=_interrupt_when_over, args=(execution, run_id, done), daemon=True).start()
    sys.argv = ["dagster", "api", "execute_run", execution]
    try:
        runpy.run_module("dagster", run_name="__main__", alter_sys=True)
    finally:
        done.set()
        _forget(execution, run_id)


def _forget(execution: str, run_id: str) -> None:
    try:
        with instance_of(execution) as instance:
            forget_heartbeat(instance, run_id)
    except Exception as error:  # The run is over, and its heartbeat harms nothing.
        print(f"cannot delete the heartbeat of run {run_id}: {error}", file=sys.stderr)


def _interrupt_when_over(execution: str, run_id: str, done: threading.Event) -> None:
    if not wait_for_end(partial(instance_of, execution), run_id, done):
        return
    os.kill(os.getpid(), signal.SIGINT)
    if not done.wait(KILL_AFTER_SECONDS):
        os.kill(os.getpid(), signal.SIGKILL)


def wait_for_end(open_instance: Callable[[], dg.DagsterInstance], run_id: str, done: threading.Event) -> bool:
    """Wait until the run is over for Dagster, or its process is `done` with it; return whether it is over."""
    while not done.is_set():
        try:
            with open_instance() as instance:
                return _wait_for_end(instance, run_id, done)
        except Exception as error:  # To open an instance is to connect to its database. The next time may succeed.
            _tell(run_id, error)
            done.wait(POLL_SECONDS)
    return False


def _wait_for_end(instance: dg.DagsterInstance, run_id: str, done: threading.Event) -> bool:
    while not done.wait(POLL_SECONDS):
        try:
            run = instance.get_run_by_id(run_id)
        except Exception as error:  # The watch goes on whatever the database answers; the run has its own errors.
            _tell(run_id, error)
            continue
        if run is None or run.status in _OVER:
            return True
    return False


def _tell(run_id: str, error: Exception) -> None:
    print(f"cannot read the status of run {run_id}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
