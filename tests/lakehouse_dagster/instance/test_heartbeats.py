"""Workers that nobody here can see: they live while their heartbeat changes, and are dead when it has not for long."""

import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin

from lakehouse_dagster import ProcessRunLauncher, executed_here, write_instance_settings
from lakehouse_dagster.instance import heartbeats, launcher, workers
from lakehouse_dagster.instance import worker as worker_process
from lakehouse_dagster.instance.dagster_internals import LaunchRunContext, WorkerStatus
from lakehouse_dagster.instance.heartbeats import Heartbeat, Silences, read_heartbeat, store_heartbeat
from lakehouse_dagster.instance.launcher import WORKER_TAG
from lakehouse_dagster.instance.workers import Worker, this_process, write_record

ELSEWHERE = {
    "another machine": {"boot_id": "another", "host": "far"},
    "another container of this machine": {"pid_namespace": "pid:[1]", "host": "far"},
}


@dg.job
def job() -> None: ...


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_instance_settings(folder)
    (folder / "workers").mkdir()
    return folder


@pytest.fixture(scope="module")
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


@dataclass
class Watched:
    """A started run of which the daemon of this machine asks whether its worker lives, at times that the test says."""

    instance: dg.DagsterInstance
    run: dg.DagsterRun
    now: float = 1000.0

    @property
    def launcher(self) -> ProcessRunLauncher:
        made = self.instance.run_launcher
        assert isinstance(made, ProcessRunLauncher)
        return made

    def worker(self, **change: Any) -> Worker:
        return replace(this_process(self.run.run_id), **change)

    def beats(self, worker: Worker, count: int = 0) -> None:
        store_heartbeat(self.instance, Heartbeat(worker=worker, count=count))

    def health(self) -> str:
        found = self.launcher.check_run_worker_health(self.run)
        return "lives" if found.status is WorkerStatus.RUNNING else f"{found.status.name}: {found.msg}"


@pytest.fixture
def watched(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Watched:
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={WORKER_TAG: "far"})
    made = Watched(instance, run)
    monkeypatch.setattr(launcher.time, "monotonic", lambda: made.now)
    return made


def test_a_heartbeat_is_read_as_it_was_stored_last(watched: Watched):
    before = read_heartbeat(watched.instance, watched.run.run_id)
    for count in (0, 1):
        watched.beats(watched.worker(), count)

    assert before is None
    assert read_heartbeat(watched.instance, watched.run.run_id) == Heartbeat(worker=watched.worker(), count=1)


def test_a_heartbeat_that_cannot_be_read_is_none(instance: dg.DagsterInstance):
    for text in ("", "{", "[]", "7", '{"count": 1}', '{"count": 1, "unknown": 2}'):
        instance.daemon_cursor_storage.set_cursor_values({"lakehouse/heartbeat/unreadable": text})

        assert read_heartbeat(instance, "unreadable") is None, text


SILENCE = """
# The first look says nothing about the time before it.
looks   0:7
silent  0

looks   0:7  15:7  30:7  45:7
silent  0    15    30    45

# Whatever changes is a sign of life, also a count that falls: another process executes the run.
looks   0:7  15:7  30:8  45:8  60:2
silent  0    15    0     15    0

# The database did not answer for ten minutes. A worker that lives has 40 more seconds to be heard.
looks   0:7  15:7  615:7  630:7  645:8
silent  0    15    35     50     0
looks   0:7  615:7  630:8
silent  0    20     0

# Nobody asked for a quarter of an hour: nothing is known of the run.
looks   0:7  15:7  915:7
silent  0    15    0

# Many looks in a short time are no silence.
looks   0:7  1:7  2:7  3:7
silent  0    1    2    3
"""


def test_a_worker_is_silent_for_as_long_as_its_heartbeat_is_seen_to_be_the_same():
    lines = [line.split() for line in SILENCE.splitlines() if line and line[0] != "#"]
    for (_, *looks), (_, *expected) in zip(lines[::2], lines[1::2], strict=True):
        silences = Silences()
        seen = [look.split(":") for look in looks]
        beats = [(float(now), Heartbeat(worker=this_process("run"), count=int(count))) for now, count in seen]

        assert [silences.seconds(beat, now=now) for now, beat in beats] == [float(each) for each in expected], looks


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_worker_elsewhere_lives_while_its_heartbeat_changes(watched: Watched, where: str, home: Path):
    far = watched.worker(**ELSEWHERE[where])
    # In a home that both machines share.
    write_record(home / "workers", far)
    for count in range(10):
        watched.beats(far, count)
        for _ in range(2):
            assert watched.health() == "lives"
            watched.now += 15


def test_a_worker_elsewhere_is_dead_within_a_minute_of_its_last_heartbeat(watched: Watched):
    far = watched.worker(**ELSEWHERE["another machine"])
    watched.beats(far, 3)
    answers = []
    for _ in range(4):
        answers.append(watched.health())
        watched.now += 15

    assert answers[:3] == ["lives"] * 3
    assert answers[3].startswith(f"FAILED: process {far.pid} on far has stored no heartbeat for 45 s, and ")


def test_a_worker_elsewhere_without_a_heartbeat_is_dead(watched: Watched, home: Path):
    far = watched.worker(**ELSEWHERE["another machine"])
    write_record(home / "workers", far)

    assert watched.health() == f"FAILED: process {far.pid} on far has stored no heartbeat"


def test_a_worker_whose_process_is_seen_needs_no_heartbeat(watched: Watched, home: Path):
    write_record(home / "workers", watched.worker())
    for _ in range(10):
        assert watched.health() == "lives"
        watched.now += 15


def test_a_worker_of_another_home_is_seen_by_its_heartbeat_and_found_dead_at_once(watched: Watched):
    with subprocess.Popen(["sleep", "60"]) as process:
        ticks = workers._started_ticks(process.pid)
        watched.beats(watched.worker(pid=process.pid, started_ticks=ticks, host="near"))
        alive = watched.health()
        process.kill()
    dead = watched.health()

    assert (alive, dead) == ("lives", f"FAILED: process {process.pid} on near is gone")


def test_heartbeats_go_on_until_the_run_is_over(watched: Watched, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(heartbeats, "INTERVAL_SECONDS", 0.01)
    run_id = watched.run.run_id
    thread = heartbeats.keep_beating(watched.instance, watched.worker())
    while (found := read_heartbeat(watched.instance, run_id)) is None or found.count < 2:
        assert thread.is_alive()
    watched.instance.report_run_failed(watched.run)
    thread.join()

    assert found.worker == watched.worker()
    assert read_heartbeat(watched.instance, run_id) is None
    assert stored(watched.instance, run_id) == {}


def stored(instance: dg.DagsterInstance, run_id: str) -> dict[str, str]:
    return dict(instance.daemon_cursor_storage.get_cursor_values({f"lakehouse/heartbeat/{run_id}"}))


def test_heartbeats_of_other_runs_stay_when_one_is_deleted(watched: Watched):
    watched.beats(watched.worker())
    watched.beats(watched.worker(run_id="other"))

    heartbeats.forget_heartbeat(watched.instance, "other")
    heartbeats.forget_heartbeat(watched.instance, "none")

    assert (len(stored(watched.instance, watched.run.run_id)), stored(watched.instance, "other")) == (1, {})


def test_what_killed_workers_left_goes_and_what_may_be_of_a_living_one_stays(watched: Watched):
    with subprocess.Popen(["sleep", "60"]) as process:
        ticks = workers._started_ticks(process.pid)
        process.kill()
    gone = {"pid": process.pid, "started_ticks": ticks}
    over = watched.instance.create_run_for_job(job, status=dg.DagsterRunStatus.FAILURE)
    far = ELSEWHERE["another machine"]
    stays = {watched.run.run_id: far, "not made yet": {}, "not made yet, far": far}
    goes = {over.run_id: far, "deleted": gone}
    for run_id, change in {**stays, **goes}.items():
        watched.beats(watched.worker(run_id=run_id, **change))
    watched.instance.daemon_cursor_storage.set_cursor_values({"lakehouse/other": "stays", "another": "stays"})

    heartbeats.forget_the_dead(watched.instance)

    assert {run_id for run_id in {**stays, **goes} if stored(watched.instance, run_id)} == stays.keys()
    others = watched.instance.daemon_cursor_storage.get_cursor_values({"lakehouse/other", "another"})
    assert others == {"lakehouse/other": "stays", "another": "stays"}


def test_the_launch_of_a_run_deletes_what_killed_workers_left(watched: Watched):
    over = watched.instance.create_run_for_job(job, status=dg.DagsterRunStatus.FAILURE)
    watched.beats(watched.worker(run_id=over.run_id))
    origin = JobPythonOrigin(
        "job",
        # A worker that ends at once.
        RepositoryPythonOrigin("/bin/true", ModuleCodePointer("nowhere", "job", None)),
    )
    run = watched.instance.create_run_for_job(job, job_code_origin=origin)

    watched.launcher.launch_run(LaunchRunContext(dagster_run=run, workspace=None))

    assert stored(watched.instance, over.run_id) == {}


@pytest.mark.parametrize(("failing", "is_stored"), [(1, True), (4, True), (5, False)])
def test_the_first_heartbeat_is_tried_again(
    watched: Watched,
    failing: int,
    is_stored: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(heartbeats, "_FIRST_WAIT_SECONDS", 0)
    left, store = [failing], heartbeats.store_heartbeat

    def fails(instance: dg.DagsterInstance, heartbeat: Heartbeat) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionError("no answer")
        store(instance, heartbeat)

    monkeypatch.setattr(heartbeats, "store_heartbeat", fails)
    if is_stored:
        heartbeats.keep_beating(watched.instance, watched.worker())
    else:
        with pytest.raises(ConnectionError):
            heartbeats.keep_beating(watched.instance, watched.worker())

    assert (read_heartbeat(watched.instance, watched.run.run_id) is not None) == is_stored
    assert capsys.readouterr().err.count("no answer") == min(failing, 4)


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """The errors of the next connections to the instance; none is left when all were met."""
    opened = dg.DagsterInstance.from_ref
    left: list[Exception] = [ConnectionError("no answer")]

    def from_ref(reference: Any) -> dg.DagsterInstance:
        if left:
            raise left.pop()
        return opened(reference)

    monkeypatch.setattr(dg.DagsterInstance, "from_ref", from_ref)
    return left


def test_a_worker_watches_its_run_after_a_failed_connection(
    watched: Watched,
    failures: list[Exception],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(worker_process, "POLL_SECONDS", 0.01)
    reference = watched.instance.get_ref()
    watched.instance.report_run_failed(watched.run)

    assert worker_process.wait_for_end(
        lambda: dg.DagsterInstance.from_ref(reference), watched.run.run_id, threading.Event()
    )
    assert failures == []
    assert f"cannot read the status of run {watched.run.run_id}: no answer" in capsys.readouterr().err


def test_heartbeats_go_on_after_a_failed_connection(
    watched: Watched,
    failures: list[Exception],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(heartbeats, "INTERVAL_SECONDS", 0.01)
    run_id = watched.run.run_id
    thread = heartbeats.keep_beating(watched.instance, watched.worker())
    while (found := read_heartbeat(watched.instance, run_id)) is None or found.count < 2:
        assert thread.is_alive()
    watched.instance.report_run_failed(watched.run)
    thread.join()

    assert failures == []
    assert f"cannot store the heartbeat of run {run_id}: no answer" in capsys.readouterr().err


def test_a_process_that_executes_a_run_of_an_ephemeral_instance_stores_no_heartbeat():
    with dg.DagsterInstance.ephemeral() as ephemeral:
        run_id, tags = executed_here(ephemeral)
        result = job.execute_in_process(instance=ephemeral, run_id=run_id, tags=tags)

        assert result.success
        assert read_heartbeat(ephemeral, run_id) is None


def test_a_run_whose_worker_nobody_sees_is_told_to_end_and_not_called_canceled(watched: Watched):
    watched.beats(watched.worker(**ELSEWHERE["another machine"]))
    told = watched.launcher.terminate(watched.run.run_id)
    run = watched.instance.get_run_by_id(watched.run.run_id)

    assert told
    assert run is not None
    assert run.status is dg.DagsterRunStatus.CANCELING
