"""Whether the process of a run lives: asked of real processes, also dead, replaced and restarted ones."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse_dagster.instance import workers
from lakehouse_dagster.instance.workers import (
    last_lines,
    log_path,
    read_record,
    record_path,
    remove_old_records,
    this_process,
    write_record,
)

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as process:
        yield process
        process.kill()


def recorded(process: subprocess.Popen[bytes]) -> workers.Worker:
    ticks = workers._started_ticks(process.pid)
    assert ticks is not None
    return replace(this_process("run"), pid=process.pid, started_ticks=ticks)


def test_a_record_is_read_as_it_was_written(tmp_path: Path):
    write_record(tmp_path, this_process("run"))

    assert read_record(tmp_path, "run") == this_process("run")
    assert this_process("run").is_alive()
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "7"])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str):
    record_path(tmp_path, "run").write_text(text)

    assert read_record(tmp_path, "run") is None
    assert read_record(tmp_path, "another") is None


def test_a_killed_process_is_gone_before_and_after_its_parent_has_taken_note(sleeper: subprocess.Popen[bytes]):
    worker = recorded(sleeper)
    assert worker.is_alive()
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)

    assert not worker.is_alive(), "a zombie does not execute a run"

    sleeper.wait()
    assert not worker.is_alive()


def test_a_number_that_another_process_has_now_is_not_the_worker(sleeper: subprocess.Popen[bytes]):
    worker = recorded(sleeper)

    assert not replace(worker, started_ticks=worker.started_ticks - 1).is_alive()


def test_nobody_sees_the_workers_of_another_boot_machine_or_container():
    here = this_process("run")

    assert here.is_visible()
    assert replace(here, pid_namespace="").is_visible(), "of a version that did not say"
    assert not replace(here, boot_id="another").is_visible()
    assert not replace(here, pid_namespace="pid:[1]").is_visible()


def test_a_name_with_brackets_and_spaces_hides_no_process(tmp_path: Path):
    program = tmp_path / "a) Z 1 ("
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "60"]) as process:
        worker = recorded(process)
        alive = worker.is_alive()
        process.kill()

    assert alive


def test_the_end_of_the_log_is_kept(tmp_path: Path):
    log_path(tmp_path, "run").write_text("x" * 5000 + "\nImportError: no module\n")

    assert last_lines(tmp_path, "run").endswith("ImportError: no module")
    assert len(last_lines(tmp_path, "run")) <= 2000
    assert last_lines(tmp_path, "another") == ""


def test_records_are_removed_a_week_after_their_worker_has_gone(tmp_path: Path):
    long_ago = 8 * 24 * 3600
    gone = replace(this_process("gone"), boot_id="another")
    for worker in (gone, this_process("lives"), replace(gone, run_id="fresh")):
        write_record(tmp_path, worker)
        log_path(tmp_path, worker.run_id).write_text("")
        if worker.run_id != "fresh":
            for path in (record_path(tmp_path, worker.run_id), log_path(tmp_path, worker.run_id)):
                os.utime(path, (path.stat().st_mtime - long_ago,) * 2)

    remove_old_records(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {"lives.json", "lives.log", "fresh.json", "fresh.log"}


def test_a_record_names_the_process_for_people_too(tmp_path: Path):
    write_record(tmp_path, this_process("run"))

    assert json.loads(record_path(tmp_path, "run").read_text())["pid"] == os.getpid()
