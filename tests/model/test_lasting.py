"""Threads sync the files of a task, many at once. A snapshot gets its name after all of them, and never if one failed.

The verbs write many files: into many buckets and partitions, small ones and such that do not stay in memory.
"""

import concurrent.futures.thread
import errno
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.storage import LocalStore, overlap
from tests.model.fault_verbs import catalog_of, check_sound, left_over
from tests.pairs import in_turn
from tests.storage.failing_disk import FailingDisk, installed, quick_folder
from tests.storage.lasting_disk import LastingDisk

AT_ONCE = 8
COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
TOLD = {"changelog-producer": "full-compaction"}
MARKED = {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"}
UNAWARE = {"bucket": "-1"}


# These need no threads.
ONE_FILE_A_TASK = ("commit, overtaken", "delete")


@dataclass(frozen=True)
class Many:
    """A verb on a table with some files. `keys`: none for an append table."""

    run: Callable[[lc.Table], object]
    options: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ("p", "k")
    prepare: Callable[[lc.Table], object] = lambda table: None


def _rows(version: int, partitions: int = 3) -> list[dict[str, object]]:
    return [{"p": key % partitions, "k": key, "v": f"{version}-{key}"} for key in range(version, 40)]


def _write(table: lc.Table) -> object:
    return table.write(_rows(2, partitions=4))


def _compact(table: lc.Table) -> object:
    return table.compact(full=True)


def _stage(table: lc.Table) -> None:
    table.keep_pending(table.stage(_rows(3), commit_user="late", commit_identifier=1))
    table.write(_rows(4))


def _commit(table: lc.Table) -> object:
    staged = table.pending("late", 1)
    assert staged is not None
    return table.commit(staged)


VERBS = {
    "write": Many(_write),
    "write, indexed": Many(_write, {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}),
    "write, avro": Many(_write, {"file.format": "avro"}),
    "write, dynamic buckets": Many(_write, {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}),
    "append": Many(_write, UNAWARE, keys=()),
    "overwrite": Many(lambda table: table.overwrite(_rows(5))),
    "commit, overtaken": Many(_commit, prepare=_stage),
    "compact": Many(_compact),
    "compact, told": Many(_compact, TOLD),
    "compact, marked": Many(_compact, MARKED),
    "append, packed": Many(_compact, {**UNAWARE, "compaction.min.file-num": "2"}, keys=()),
    "delete": Many(lambda table: table.delete("k > 10")),
    "delete, files": Many(lambda table: table.delete("k > 10"), UNAWARE, keys=()),
}


def made(folder: Path, verb: Many) -> LocalStore:
    store = LocalStore(str(folder / "warehouse"))
    catalog = catalog_of(store, 0)
    catalog.create_database("db")
    options = {"bucket": "3", "write-only": "true", **verb.options}
    table = catalog.create_table("db.t", COLUMNS, partition_keys=["p"], primary_keys=list(verb.keys), options=options)
    for version in range(2):
        table.write(_rows(version))
    verb.prepare(table)
    return store


@pytest.fixture(params=["in memory", "as they come"])
def held(request, monkeypatch):
    """Whether files wait in memory until they are written as a whole."""
    if request.param == "as they come":
        monkeypatch.setattr(overlap, "_MOST_HELD_BYTES", 100)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", in_turn(3, VERBS))
def test_when_a_snapshot_gets_its_name_all_files_and_folders_are_durable(held, name):
    verb = VERBS[name]
    with quick_folder() as folder:
        store = made(folder, verb)
        table = catalog_of(store, 1).table("db.t")
        disk = LastingDisk(folder / "warehouse")
        with installed(disk, sinks_at_once=AT_ONCE):
            verb.run(table)

        assert disk.lost == []
        assert disk.snapshots > 0
        assert len(disk.threads_of_syncs) > 1 or name in ONE_FILE_A_TASK
        assert left_over(store) == []
        check_sound(catalog_of(store, 2))


@dataclass(frozen=True)
class State:
    """What a table holds: rows, snapshots, data files."""

    rows: list[tuple[object, ...]]
    ids: list[int]
    files: list[str]


def _state(store: LocalStore) -> State:
    table = catalog_of(store, 3).table("db.t")
    rows = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    files = sorted(info.key for info in store.list("") if "/bucket-" in info.key)
    return State(rows, [snapshot.id for snapshot in table.snapshots()], files)


def _fails(name: str, call: str, *, takes_effect: bool, every: int = 1) -> int:
    """Let each call of this kind, or each third and so on, fail in its turn; return how many did while files were
    written.
    """
    verb = VERBS[name]
    failed = 0
    with quick_folder() as folder:
        first = made(folder, verb)
        before = _state(first)
        for number in count(1, every):
            shutil.rmtree(folder / "failing", ignore_errors=True)
            shutil.copytree(folder / "warehouse", folder / "failing")
            store = LocalStore(str(folder / "failing"))
            disk = FailingDisk(errno.EIO, number, takes_effect=takes_effect, counted=(call,))
            told: lc.LakehouseError | None = None
            with installed(disk, sinks_at_once=AT_ONCE):
                try:
                    verb.run(catalog_of(store, 1).table("db.t"))
                except lc.LakehouseError as error:
                    told = error
            if not disk.has_failed:
                return failed
            check_sound(catalog_of(store, 2))
            found = _state(store)
            if told is None or isinstance(told, lc.CommitOutcomeUnknown):
                # The call belonged to the commit, which comes after the files.
                assert found.ids in (before.ids, [*before.ids, before.ids[-1] + 1])
                continue
            failed += 1
            assert isinstance(told, lc.StorageUnavailable), told
            assert found == before, f"{call} {number}"
            assert left_over(store) == []
    raise AssertionError("unreachable")


FAILS = [
    (name, call, takes_effect)
    for name in ("write", "compact, told")
    for call, takes_effect in (
        ("fsync", False),
        ("fsync", True),
        ("replace", False),
        ("create", False),
        ("write", False),
        ("close", True),
    )
]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("name", "call", "takes_effect"), FAILS)
def test_where_a_file_cannot_be_made_durable_the_verb_fails_and_leaves_no_file(name, call, takes_effect):
    assert _fails(name, call, takes_effect=takes_effect) > 5


@pytest.mark.parametrize("name", ["write", "compact, told"])
def test_where_a_file_is_not_synced_the_verb_fails_and_leaves_no_file(name):
    assert _fails(name, "fsync", takes_effect=False, every=7) > 2


def test_files_are_written_without_threads_where_none_can_be_started(monkeypatch):
    with quick_folder() as folder:
        store = made(folder, VERBS["write"])
        table = catalog_of(store, 1).table("db.t")
        # So it is in a thread that goes on when the main one has ended.
        monkeypatch.setattr(concurrent.futures.thread, "_shutdown", True)
        table.write([{"p": partition, "k": 100, "v": "late"} for partition in range(6)])
        monkeypatch.undo()

        assert table.scan().to_arrow().column("k").to_pylist().count(100) == 6
        check_sound(catalog_of(store, 2))
