"""A table without options walks past the features that it does not use: their callers know that it has none."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lakehouse_core as lc

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
