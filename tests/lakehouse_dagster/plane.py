"""A Dagster plane on this machine: a code server and a daemon as processes of their own, runs as from asset pages."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import yaml
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_graphql.client.query import LAUNCH_PIPELINE_EXECUTION_MUTATION
from dagster_graphql.test.utils import execute_dagster_graphql

import lakehouse_core as lc
from lakehouse_dagster import write_instance_settings
from tests.limits import HANGS_AFTER_SECONDS

T = TypeVar("T")
CHECKOUT = Path(__file__).parent.parent.parent
ORDERS = (("mine", "sales", "orders", "ingest"), ("mine", "sales", "orders"))


class Plane:
    """The processes of one instance; `root` has the warehouse, the home, the workspace and the marks of the feed.

    `commands`: what each process runs as, by its name. `location`: the name of the code location in the workspace.
    """

    def __init__(
        self, root: Path, *, commands: Mapping[str, Sequence[str]], environ: Mapping[str, str], location: str = "shop"
    ) -> None:
        self.root = root
        self.home = root / "home"
        self.workspace = root / "workspace.yaml"
        self.commands = commands
        self.location = location
        self.environ = {
            "DYING_ROOT": str(root),
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "PYTHONPATH": str(CHECKOUT),
            **environ,
        }
        self.instance = dg.DagsterInstance.from_config(str(self.home))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", *self.commands[name]],
                env=os.environ | self.environ,
                stdout=log,
                stderr=log,
                cwd=self.root,
            )

    def kill(self, name: str) -> None:
        """End a process as the kernel does: it does not get to say anything."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for run in self.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
            for pid in self.workers(run.run_id):
                os.kill(pid, signal.SIGKILL)
        for name in list(self.processes):
            self.kill(name)
        self.instance.dispose()

    def launch(self, *days: str) -> str:
        """Start a run of the table and its files as the button of an asset's page does; return its identifier."""
        ends = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
        tags = dict(zip(ends, (days[0], days[-1]), strict=True)) if len(days) > 1 else {"dagster/partition": days[0]}
        return self._launch("__ASSET_JOB", {"assetSelection": [{"path": list(key)} for key in ORDERS]}, tags)

    def launch_job(self, name: str) -> str:
        """Start a run of a job as the button of its page does; return its identifier."""
        return self._launch(name, {}, {})

    def _launch(self, job: str, selection: Mapping[str, Any], tags: Mapping[str, str]) -> str:
        parameters = {
            "selector": {
                "repositoryLocationName": self.location,
                "repositoryName": "__repository__",
                "pipelineName": job,
                **selection,
            },
            "runConfigData": "{}",
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }
        answer = self.graphql(LAUNCH_PIPELINE_EXECUTION_MUTATION, executionParams=parameters)
        launched = answer["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run_id: str = launched["run"]["runId"]
        return run_id

    def graphql(self, query: str, **variables: Any) -> Any:
        """The answer of the web server to a query."""
        with self.requests() as context:
            return execute_dagster_graphql(context, query, variables=variables).data

    @contextmanager
    def requests(self) -> Iterator[Any]:
        """The web server's view of the workspace, in this process."""
        target = WorkspaceFileTarget([str(self.workspace)])
        with WorkspaceProcessContext(self.instance, target) as process:
            yield process.create_request_context()

    def wait_for(self, what: str, look: Callable[[], T | None]) -> T:
        """Wait until `look` finds something, and return it."""
        deadline = time.monotonic() + HANGS_AFTER_SECONDS
        while not (found := look()):
            ended = {name: process.poll() for name, process in self.processes.items() if process.poll() is not None}
            assert not ended, f"{what}: processes ended: {ended}\n{self.told()}"
            assert time.monotonic() < deadline, f"{what}: not in {HANGS_AFTER_SECONDS} s\n{self.told()}"
            time.sleep(0.2)
        return found

    def waits(self, day: str) -> int:
        """Wait until a run waits for the rows of a day; return the process of its worker."""
        mark = self.root / f"waits-{day}"
        pid = int(self.wait_for(f"a run takes {day}", lambda: (mark.exists() and mark.read_text()) or None))
        mark.unlink()
        return pid

    def hold(self, day: str = "") -> None:
        """Let runs wait for the rows of a day, or of each day."""
        unfinished = self.root / "wait.new"
        unfinished.write_text(day)
        unfinished.rename(self.root / "wait")

    def release(self) -> None:
        (self.root / "wait").unlink()

    def ends(self, run_id: str, status: dg.DagsterRunStatus) -> dg.DagsterRun:
        """Wait until a run has ended so."""

        def look() -> dg.DagsterRun | None:
            run = self.instance.get_run_by_id(run_id)
            assert run is not None
            return run if run.is_finished else None

        run = self.wait_for(f"run {run_id} ends", look)
        assert run.status == status, self.told()
        return run

    def children(self, run_id: str) -> list[dg.DagsterRun]:
        return list(self.instance.get_runs(dg.RunsFilter(tags={"dagster/parent_run_id": run_id})))

    def child(self, run_id: str) -> dg.DagsterRun:
        """Wait until a run is executed again; return the new run."""
        return self.wait_for(f"run {run_id} is executed again", lambda: next(iter(self.children(run_id)), None))

    def workers(self, run_id: str) -> list[int]:
        """The live processes that execute a run."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                arguments = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"lakehouse_dagster.instance.worker" in arguments and run_id.encode() in arguments:
                found.append(int(folder.name))
        return found

    def ids(self) -> list[int]:
        """The rows of the table, which nothing may double or lose."""
        table = lc.connect(str(self.root / "warehouse")).table("sales.orders")
        return sorted(row["id"] for row in table.scan().to_arrow().to_pylist())

    def told(self) -> str:
        """What the processes wrote and the runs, for the message of a failure."""
        files = [*self.root.glob("*.log"), *(self.home / "workers").glob("*.log")]
        runs = [f"{run.run_id} {run.status} {dict(run.tags)}" for run in self.instance.get_runs()]
        return "\n".join([*runs, *(f"{file.name}:\n{file.read_text()[-3000:]}" for file in files)])


@contextmanager
def plane(
    root: Path, *, alerts: str = "", module: str = "tests.lakehouse_dagster.dying_location", **settings: Any
) -> Iterator[Plane]:
    """A code server and a daemon with the settings that ship, and those that are given instead.

    `alerts` is the address that failed runs are posted to, and `module` the code location.
    """
    written = write_instance_settings(root / "home")
    written.write_text(yaml.safe_dump({**yaml.safe_load(written.read_text()), **settings}))
    port = free_port()
    server = {"host": "127.0.0.1", "port": port, "location_name": "shop"}
    (root / "workspace.yaml").write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
    commands = {
        "code": ["dagster", "api", "grpc", "-h", "127.0.0.1", "-p", str(port), "-m", module, "-d", str(CHECKOUT)],
        "daemon": ["dagster._daemon", "run", "-w", str(root / "workspace.yaml")],
    }
    made = Plane(root, commands=commands, environ={"DYING_ALERTS": alerts})
    try:
        made.start("code")
        made.start("daemon")
        made.wait_for("the code server answers", lambda: answers(port))
        yield made
    finally:
        made.stop()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
