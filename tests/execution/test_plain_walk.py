"""A table without options walks past the features that it does not use: their callers know that it has none.

What a commit and a write pass on their way is listed here.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.api.arguments import GivenRows
from lakehouse_core.execution.commit.outcome import CommitResult, Committed
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.planning.commit.steps import AppendStep, StepPlan
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.manifest import ManifestEntry
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.tasks.write.rows import InputRows

CORE = str(Path(lc.__file__).parent)
# Modules, or folders of modules, and what a table uses that enters them.
FEATURES = {
    "execution/commit/keys": "buckets or partitions that keys are given",
    "execution/commit/order": "commits of others since its rows were staged",
    "execution/commit/manifest_merge": "many manifests",
    "execution/compaction/deletion_vectors": "deletion vectors",
    "execution/compaction/moves": "rows that wait for their buckets",
    "execution/compaction/precommit": "pre-commit compaction",
    "execution/expiry/tag_success": "success files of tags",
    "execution/key_places": "keys that move between partitions",
    "execution/write/auto_tags": "automatic tags",
    "planning/commit/hash_indexes": "dynamic buckets",
    "planning/commit/index_files": "index files",
    "planning/commit/overwrites": "overwrites",
    "planning/commit/waiting": "rows that wait for their buckets",
    "planning/compaction/changelog_steps": "changelogs that compactions write",
    "planning/manifests": "conditions on partitions",
    "planning/read/limit": "limits",
    "tasks/keys": "keys that move between partitions",
    "tasks/matching": "conditions on rows",
    "tasks/waiting": "rows that wait for their buckets",
}


# What rows, and a staged commit, are on their way to a snapshot and a report, alone or in a list.
CARRIED = (
    GivenRows
    | pa.RecordBatch
    | pa.Table
    | InputRows
    | DataFile
    | CommitMessage
    | StagedCommit
    | AppendStep
    | StepPlan
    | FileChanges
    | ManifestEntry
    | Committed
    | CommitResult
)
# Where each way begins, and what reads the table's state.
UNCOUNTED = {"api/table", "metadata/manifest_reader", "metadata/lru"}
# The modules on the ways, in order.
WRITE = ["execution/write/stage", "planning/commit/checks", "execution/engines/local", "tasks/write", "data_files"]
COMMIT = [
    "execution/commit/loop",
    "planning/commit/steps",
    "planning/commit/file_changes",
    "execution/commit/replay",
    "execution/commit/state",
    "execution/commit/snapshot_files",
    "metadata/manifest_writer",
    "planning/commit/snapshot",
    "planning/commit/ledger",
    "execution/commit/publish",
    "metadata/snapshot_log",
    "execution/commit/outcome",
    "execution/compaction/after_commit",
    "api/report_building",
]


def entered(call: Callable[[], object]) -> set[str]:
    """Return the modules of the core whose functions the call runs, as paths without an ending."""
    files: set[str] = set()

    def seen(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return {file.removeprefix(f"{CORE}/").removesuffix(".py") for file in files if file.startswith(CORE)}


@pytest.fixture
def table(tmp_path: Path) -> lc.Table:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("db")
    made = catalog.create_table(
        "db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1"}
    )
    for _ in range(3):
        made.write([{"k": 1, "v": "a"}])
    return made


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(lambda table: table.write([{"k": 2, "v": "b"}]), id="write"),
        pytest.param(
            lambda table: table.commit(table.stage([{"k": 2}], commit_user="u", commit_identifier=1)), id="commit"
        ),
        pytest.param(lambda table: table.scan().to_arrow(), id="read"),
        pytest.param(lambda table: table.compact(full=True), id="compact"),
        pytest.param(lambda table: table.expire_snapshots(retain_max=1, retain_min=1), id="expire"),
    ],
)
def test_a_plain_table_enters_no_module_of_a_feature_that_it_does_not_use(
    table: lc.Table, verb: Callable[[lc.Table], object]
) -> None:
    modules = entered(lambda: verb(table))

    assert "metadata/snapshot_log" in modules
    assert {name for name in modules for feature in FEATURES if f"{name}/".startswith(f"{feature}/")} == set()


def test_a_table_that_uses_them_enters_them(tmp_path: Path) -> None:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("db")
    options = {"bucket": "-1", "tag.automatic-creation": "process-time"}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)

    modules = entered(lambda: table.write([{"k": 1}]))

    assert {"execution/commit/keys/hash_indexes", "execution/write/auto_tags"} <= modules


def way(call: Callable[[], object], given: object, snapshot_id: int) -> list[str]:
    """Return the modules of the core that are called with `given`, or with what becomes of it until it is the snapshot
    of this id, in the order of their first calls.

    Modules of values are left out, and what wraps all verbs. What writes files counts once: `tasks/write` with its
    modules, `data_files`, and a module of `metadata` with those that it calls. So does the compaction after a commit.
    """
    passed: list[str] = []
    inside: list[FrameType] = []

    def carries(value: Any) -> bool:
        if isinstance(value, Snapshot):
            return value.id == snapshot_id
        if isinstance(value, list | tuple) and value is not given:
            value = next(iter(value), None)
        return value is not None and (value is given or isinstance(value, CARRIED))

    def seen(frame: FrameType, event: str, arg: Any) -> None:
        if event == "return" and inside and inside[-1] is frame:
            inside.pop()
        code = frame.f_code
        if event != "call" or inside or not code.co_filename.startswith(CORE):
            return
        module = code.co_filename.removeprefix(f"{CORE}/").removesuffix(".py")
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if module in UNCOUNTED or module.startswith("table/"):
            return
        if not any(carries(frame.f_locals.get(name)) for name in arguments):
            return
        if module.startswith("metadata/") or module == "execution/compaction/after_commit":
            inside.append(frame)
        station = next((room for room in ("tasks/write", "data_files") if module.startswith(f"{room}/")), module)
        if station not in passed:
            passed.append(station)

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return passed


def test_a_staged_commit_passes_sixteen_modules(table: lc.Table) -> None:
    staged = table.stage([{"k": 2}], commit_user="u", commit_identifier=1)

    found = way(lambda: table.commit(staged), staged, snapshot_id=4)

    assert found == ["api/table_writes", "planning/commit/checks", *COMMIT]


def test_rows_pass_four_more(table: lc.Table) -> None:
    rows = [{"k": 2, "v": "b"}]

    found = way(lambda: table.write(rows), rows, snapshot_id=4)

    assert found == ["api/table_writes", *WRITE, *COMMIT]
