"""Process run launcher: each run in a process and session of its own, on the machine of the daemon.

Rule: a run outlives the code server, the web server and the daemon, and is found again by the record of its worker. A
worker that this machine cannot see is dead when it is silent.
"""

import socket
import subprocess
import time
import uuid
from pathlib import Path

import dagster as dg

from lakehouse_dagster.instance.dagster_internals import (
    CheckRunHealthResult,
    LaunchRunContext,
    WorkerStatus,
    execution_arguments,
)
from lakehouse_dagster.instance.heartbeats import (
    SILENT_SECONDS,
    Heartbeat,
    Silences,
    forget_the_dead,
    keep_beating,
    read_heartbeat,
)
from lakehouse_dagster.instance.workers import (
    Worker,
    last_lines,
    log_path,
    read_record,
    remove_old_records,
    this_process,
    write_record,
)

# The tag of runs that this launcher started: the host of their worker. Other runs are none of its business.
WORKER_TAG = "lakehouse/worker_host"


class ProcessRunLauncher(dg.DefaultRunLauncher):
    """Starts each run as a process that does not depend on any other one, and tells run monitoring whether it lives.

    In dagster.yaml: `run_launcher: {module: lakehouse_dagster, class: ProcessRunLauncher}`. Runs are processes of the
    machine or container that has the daemon. The records and logs of workers are in `workers` below DAGSTER_HOME, their
    heartbeats in the storage of the instance.
    """

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start the worker of a run; return as soon as there is a process."""
        run, origin = context.dagster_run, context.job_code_origin
        arguments = execution_arguments(context, self._instance)
        assert origin is not None
        self._workers.mkdir(parents=True, exist_ok=True)
        remove_old_records(self._workers)
        forget_the_dead(self._instance)
        self._instance.add_run_tags(run.run_id, {WORKER_TAG: socket.gethostname()})
        # -P: a stray module in the folder where the daemon was started would shadow an installed one.
        command = [origin.executable_path, "-P", "-m", "lakehouse_dagster.instance.worker"]
        with log_path(self._workers, run.run_id).open("ab") as log:
            process = subprocess.Popen(
                [*command, str(self._workers), run.run_id, arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._reap()
        self._children[run.run_id] = process
        self._run_ids.add(run.run_id)

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return whether the worker of a started run lives."""
        self._reap()
        if WORKER_TAG not in run.tags:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "executed by a process that this launcher did not start")
        worker, heartbeat = self._worker(run.run_id)
        if worker is None:
            return CheckRunHealthResult(
                WorkerStatus.FAILED, f"there is no worker record in {self._workers}, and no heartbeat"
            )
        status, words = self._health(worker, heartbeat)
        return CheckRunHealthResult(status, words, run_worker_id=f"{worker.host}/{worker.pid}")

    def get_run_worker_debug_info(self, run: dg.DagsterRun, include_container_logs: bool | None = True) -> str | None:
        """Return the last lines that the worker of a run wrote."""
        lines = last_lines(self._workers, run.run_id)
        return f"The last lines of {log_path(self._workers, run.run_id)}:\n{lines}" if lines else None

    def terminate(self, run_id: str) -> bool:
        """Ask the worker of a run to end, wherever it is; return False when the run is over already.

        The worker looks at the status of its run every two seconds. If the worker is seen to be gone, the run is
        canceled at once.
        """
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        if WORKER_TAG not in run.tags:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        self._reap()
        self._instance.report_run_canceling(run)
        worker, _ = self._worker(run_id)
        if worker is not None and worker.is_visible() and not worker.is_alive():
            self._instance.report_run_canceled(run, f"Canceled: {_named(worker)} is gone.")
        return True

    def _worker(self, run_id: str) -> tuple[Worker | None, Heartbeat | None]:
        """Return the worker of a run, by its record here if that is of this machine, else by its heartbeat."""
        heartbeat, record = read_heartbeat(self._instance, run_id), read_record(self._workers, run_id)
        if heartbeat is None or (record is not None and record.is_visible()):
            return record, heartbeat
        return heartbeat.worker, heartbeat

    def _health(self, worker: Worker, heartbeat: Heartbeat | None) -> tuple[WorkerStatus, str]:
        if worker.is_visible():
            if worker.is_alive():
                return WorkerStatus.RUNNING, f"{_named(worker)} lives"
            return WorkerStatus.FAILED, f"{_named(worker)} is gone"
        # From this version on, a worker stores a heartbeat before its run is started.
        if heartbeat is None:
            return WorkerStatus.FAILED, f"{_named(worker)} has stored no heartbeat"
        silent = self._silences.seconds(heartbeat, now=time.monotonic())
        if silent < SILENT_SECONDS:
            return WorkerStatus.RUNNING, f"{_named(worker)} was silent for {silent:.0f} s"
        here = socket.gethostname()
        return (
            WorkerStatus.FAILED,
            f"{_named(worker)} has stored no heartbeat for {silent:.0f} s, and {here} does not see its processes",
        )

    @property
    def _workers(self) -> Path:
        return _folder(self._instance)

    @property
    def _children(self) -> dict[str, "subprocess.Popen[bytes]"]:
        """Processes that this one started and has not seen end. `__init__` is Dagster's, with Dagster's arguments."""
        children: dict[str, subprocess.Popen[bytes]] = self.__dict__.setdefault("_processes", {})
        return children

    @property
    def _silences(self) -> Silences:
        silences: Silences = self.__dict__.setdefault("_silences_of_runs", Silences())
        return silences

    def _reap(self) -> None:
        """Take leave of children that have ended: they would stay as zombies."""
        for run_id, process in list(self._children.items()):
            if process.poll() is not None:
                del self._children[run_id]


def executed_here(instance: dg.DagsterInstance) -> tuple[str, dict[str, str]]:
    """Say that this process executes a run by itself, so that run monitoring notices when it dies.

    Return the identifier and the tags that the run must have: `run_id` and `tags` of `execute_in_process`.
    """
    run_id, folder = str(uuid.uuid4()), _folder(instance)
    folder.mkdir(parents=True, exist_ok=True)
    worker = this_process(run_id)
    write_record(folder, worker)
    # An ephemeral instance is of this process alone: no daemon asks for heartbeats, and no thread can open it again.
    if not instance.is_ephemeral:
        keep_beating(instance, worker)
    return run_id, {WORKER_TAG: socket.gethostname()}


def _folder(instance: dg.DagsterInstance) -> Path:
    return Path(instance.root_directory) / "workers"


def _named(worker: Worker) -> str:
    return f"process {worker.pid} on {worker.host}"
