"""Local files of a process go with it; those of a killed one with the next process, those of a live one never."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakehouse_core.execution.lookup import process_directory

Start = Callable[..., "Process"]

# The module alone, which needs nothing of the package: many processes start here.
PROGRAM = """
import runpy
import sys
process_directory = runpy.run_path({module!r})["process_directory"]
{before}
print(process_directory(), flush=True)
sys.stdin.read()
"""
# A child that has its parent's directory, until their input ends.
FORK = """
import os
process_directory()
if os.fork() == 0:
    os.close(1)
    sys.stdin.read()
    os._exit(0)
"""


class Process:
    """Another process, with a directory for its local files below `parent` until it ends."""

    def __init__(self, parent: Path, before: str = "") -> None:
        self._running = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(module=process_directory.__file__, before=before)],
            env={**os.environ, "TMPDIR": str(parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._running.stdout is not None
        self.directory = Path(self._running.stdout.readline().strip())

    def end(self) -> None:
        self._running.communicate()

    def kill(self) -> None:
        self._running.send_signal(signal.SIGKILL)
        self._running.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def process(**how: str) -> Process:
        started.append(Process(tmp_path, **how))
        return started[-1]

    yield process
    for one in started:
        one.end()


def test_the_directory_goes_with_its_process(tmp_path: Path, start: Start) -> None:
    process = start()
    (process.directory / "a.lookup").write_text("rows")
    assert process.directory.parent == tmp_path

    process.end()

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_behind_goes_with_the_next_and_what_a_live_one_has_stays(start: Start) -> None:
    killed, live = start(), start()
    for each in (killed, live):
        (each.directory / "a.lookup").write_text("rows")
    killed.kill()
    assert killed.directory.exists()

    another = start()

    assert not killed.directory.exists()
    assert (live.directory / "a.lookup").read_text() == "rows"
    assert another.directory.exists()


def test_a_directory_stays_while_a_child_of_its_process_lives(start: Start) -> None:
    process = start(before=FORK)
    process.kill()

    start()
    assert process.directory.exists()

    # The child reads its parent's input, which ends now.
    process.end()


def test_what_nobody_locked_is_left_alone(tmp_path: Path, start: Start) -> None:
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "lakehouse-lookup-of-an-older-release").mkdir()
    (tmp_path / "lakehouse-lookup-file").write_text("no directory")
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (tmp_path / "lakehouse-lookup-link").symlink_to(elsewhere)
    linked = tmp_path / "lakehouse-lookup-linked-lock"
    linked.mkdir()
    (linked / "lock").symlink_to(elsewhere / "lock")
    before = set(tmp_path.iterdir())

    process = start()

    assert set(tmp_path.iterdir()) == before | {process.directory}
    assert (elsewhere / "lock").exists()


def test_where_locks_are_not_to_be_had_the_directory_is_left_alone(start: Start) -> None:
    refuse = "import fcntl\ndef refused(*_): raise OSError\nfcntl.flock = refused"
    process = start(before=refuse)
    process.kill()

    start()

    assert process.directory.exists()
