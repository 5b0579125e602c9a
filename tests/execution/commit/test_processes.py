"""Real processes on a real disk: all commits land, none is there twice, and a full disk harms nobody."""

import multiprocessing
import resource
from pathlib import Path
from typing import Any

import pytest

from lakehouse_core.clock import SystemClock
from lakehouse_core.errors import StorageFull
from lakehouse_core.storage import LocalStore
from tests.execution.commit.commit_vocabulary import CommitTable, commit_table
from tests.limits import HANGS_AFTER_SECONDS
from tests.planning.change_vocabulary import key_schema

PROCESSES = 4
COMMITS = 6


def write(root: str, user: str, started: Any, answers: Any) -> None:
    table = CommitTable(LocalStore(root), SystemClock())
    started.wait()
    made = [
        table.commit(table.append(f"{user}-{number}", user=user, identifier=number)).snapshot_ids
        for number in range(COMMITS)
    ]
    answers.put((user, made))


@pytest.mark.program
def test_processes_that_commit_at_once_all_succeed(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    schema = key_schema(**{"manifest.merge_min_count": "5"})
    table = commit_table(schema, store=LocalStore(root), clock=SystemClock())
    context = multiprocessing.get_context("spawn")
    started, answers = context.Barrier(PROCESSES), context.Queue()
    users = [f"user{number}" for number in range(PROCESSES)]
    workers = [context.Process(target=write, args=(root, user, started, answers)) for user in users]
    for worker in workers:
        worker.start()
    acknowledged = dict(answers.get(timeout=HANGS_AFTER_SECONDS) for _ in workers)
    for worker in workers:
        worker.join()

    assert table.live() == " ".join(sorted(f"{user}-{number}@0" for user in users for number in range(COMMITS)))
    ids = sorted(snapshot_id for made in acknowledged.values() for (snapshot_id,) in made)
    assert ids == list(range(1, PROCESSES * COMMITS + 1))
    for user, made in acknowledged.items():
        for number, (snapshot_id,) in enumerate(made):
            snapshot = table.context.snapshots.snapshot(snapshot_id)
            assert (snapshot.commit_user, snapshot.commit_identifier) == (user, number)
    assert table.unreferenced() == []
    assert [info.key for info in table.store.list("") if info.key.endswith(".tmp")] == []


def test_a_full_disk_is_said_and_the_same_commit_succeeds_once_there_is_room(tmp_path: Path) -> None:
    table = commit_table(store=LocalStore(str(tmp_path / "t")), clock=SystemClock())
    table.commit(table.append("before", user="earlier"))
    staged = table.append("after")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(StorageFull, match="Make room, then call again"):
            table.commit(staged)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert table.live() == "before@0"
    assert table.unreferenced() == []
    assert table.commit(staged).snapshot_ids == (2,)
    assert table.live() == "after@0 before@0"
