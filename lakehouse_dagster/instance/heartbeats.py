"""Heartbeats: what the worker of a run stores in the instance, for daemons that cannot see its process.

Rule: no clock of another machine is compared. A worker is silent when its heartbeat stays the same while we look.
"""

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import dagster as dg

from lakehouse_dagster.instance.dagster_internals import forget_value, values_below
from lakehouse_dagster.instance.workers import Worker

_PREFIX = "lakehouse/heartbeat/"
_OVER = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
INTERVAL_SECONDS = 5
# Nine heartbeats. Run monitoring finds the run dead within one more poll, and it is executed again within two minutes.
SILENT_SECONDS = 45
# The time between two looks counts as no more than this. After an outage of the database nothing was seen for long,
# and a worker that lives is about to be heard again.
_MOST_BETWEEN_LOOKS = 20
# How often the first heartbeat is tried: without it, a daemon elsewhere calls the run dead at its first look.
_FIRST_TRIES = 5
_FIRST_WAIT_SECONDS = 2
# A run that nobody has asked about for so long is over.
_FORGET_SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a worker has stored last. `count` rises each time."""

    worker: Worker
    count: int


def store_heartbeat(instance: dg.DagsterInstance, heartbeat: Heartbeat) -> None:
    """Replace the heartbeat of the worker's run."""
    text = json.dumps({**asdict(heartbeat.worker), "count": heartbeat.count})
    instance.daemon_cursor_storage.set_cursor_values({_key(heartbeat.worker.run_id): text})


def read_heartbeat(instance: dg.DagsterInstance, run_id: str) -> Heartbeat | None:
    """Return the last heartbeat of a run; None when its worker has stored none, or it cannot be read."""
    text = instance.daemon_cursor_storage.get_cursor_values({_key(run_id)}).get(_key(run_id), "")
    try:
        fields = json.loads(text)
        return Heartbeat(count=fields.pop("count"), worker=Worker(**fields))
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def forget_heartbeat(instance: dg.DagsterInstance, run_id: str) -> None:
    """Delete the heartbeat of a run that is over. It stays if the database does not answer, and harms nothing."""
    try:
        forget_value(instance, _key(run_id))
    except Exception as error:
        print(f"cannot delete the heartbeat of run {run_id}: {error}", file=sys.stderr)


def forget_the_dead(instance: dg.DagsterInstance) -> None:
    """Delete the heartbeats that killed workers left: of runs that are over, and of processes that are seen to be gone.

    A worker that lives deletes its own, also if it stores one after this call. They stay if the database does not
    answer.
    """
    try:
        left = [key.removeprefix(_PREFIX) for key in values_below(instance, _PREFIX)]
        over = dg.RunsFilter(run_ids=left, statuses=_OVER)
        ended = {record.dagster_run.run_id for record in (instance.get_run_records(over) if left else ())}
        for run_id in left:
            beat = None if run_id in ended else read_heartbeat(instance, run_id)
            if run_id in ended or (beat is not None and beat.worker.is_visible() and not beat.worker.is_alive()):
                forget_value(instance, _key(run_id))
    except Exception as error:
        print(f"cannot delete the heartbeats of killed workers: {error}", file=sys.stderr)


def keep_beating(instance: dg.DagsterInstance, worker: Worker) -> threading.Thread:
    """Store the first heartbeat of this process, and go on in a thread until the run or the process ends.

    Raises the error of the storage if it does not take the first heartbeat in several tries.
    """
    first = Heartbeat(worker=worker, count=0)
    for left in reversed(range(_FIRST_TRIES)):
        try:
            store_heartbeat(instance, first)
            break
        except Exception as error:  # As later ones: the database may have failed for a moment.
            if not left:
                raise
            _tell(first, error)
            time.sleep(_FIRST_WAIT_SECONDS)
    thread = threading.Thread(target=_go_on, args=(instance.get_ref(), first), daemon=True)
    thread.start()
    return thread


def _go_on(reference: Any, heartbeat: Heartbeat) -> None:
    while True:
        try:
            with dg.DagsterInstance.from_ref(reference) as instance:
                _store_until_over(instance, heartbeat)
            return
        except Exception as error:  # To open an instance is to connect to its database. The next time may succeed.
            _tell(heartbeat, error)
            time.sleep(INTERVAL_SECONDS)


def _store_until_over(instance: dg.DagsterInstance, heartbeat: Heartbeat) -> None:
    while True:
        time.sleep(INTERVAL_SECONDS)
        heartbeat = replace(heartbeat, count=heartbeat.count + 1)
        try:
            store_heartbeat(instance, heartbeat)
            run = instance.get_run_by_id(heartbeat.worker.run_id)
        except Exception as error:  # The next one may reach the database; the run has its own errors.
            _tell(heartbeat, error)
            continue
        # A process stores its first heartbeat before it makes the run that it executes by itself.
        if run is not None and run.is_finished:
            forget_heartbeat(instance, heartbeat.worker.run_id)
            return


def _tell(heartbeat: Heartbeat, error: Exception) -> None:
    print(f"cannot store the heartbeat of run {heartbeat.worker.run_id}: {error}", file=sys.stderr)


@dataclass(slots=True)
class _Silence:
    count: int
    seconds: float
    looked_at: float


class Silences:
    """For how long the heartbeat of each run has stayed the same, by the looks and the clock of this process."""

    def __init__(self) -> None:
        self._of_runs: dict[str, _Silence] = {}

    def seconds(self, heartbeat: Heartbeat, *, now: float) -> float:
        """Take note of a look at a heartbeat; return for how long it has been the same, from the first look on.

        `now`: seconds of a clock that is never set back.
        """
        self._of_runs = {run: each for run, each in self._of_runs.items() if now - each.looked_at < _FORGET_SECONDS}
        run_id = heartbeat.worker.run_id
        before = self._of_runs.get(run_id)
        if before is None or before.count != heartbeat.count:
            self._of_runs[run_id] = _Silence(count=heartbeat.count, seconds=0, looked_at=now)
            return 0
        before.seconds += min(now - before.looked_at, _MOST_BETWEEN_LOOKS)
        before.looked_at = now
        return before.seconds


def _key(run_id: str) -> str:
    return f"{_PREFIX}{run_id}"
