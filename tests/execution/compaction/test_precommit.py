"""Small files made one before the commit: the same rows and the same changelog, and nothing half done is believed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakehouse_core as lc
from lakehouse_core.clock import SystemClock
from lakehouse_core.errors import CorruptTable, StorageUnavailable
from lakehouse_core.execution.compaction import compact as compaction
from lakehouse_core.execution.compaction import precommit
from lakehouse_core.execution.compaction.scope import WrittenBuckets
from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.storage import LocalStore
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.joined_changelog import object_name
from lakehouse_core.tasks.changelogs.concatenate import run_join
from lakehouse_core.tasks.runtime import TaskRuntime
from tests.contexts import context_of
from tests.pairs import each_with_one

COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
PRODUCERS = ("input", "lookup", "full-compaction")


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("db")
    return catalog


def key_table(catalog: lc.Catalog, name: str = "t", **options: str) -> lc.Table:
    defaults = {"bucket": "3", "precommit-compact": "true", "changelog-producer": "input"}
    return catalog.create_table(
        f"db.{name}", COLUMNS, primary_keys=["p", "k"], partition_keys=["p"], options=defaults | options
    )


def append_table(catalog: lc.Catalog, name: str = "a", **options: str) -> lc.Table:
    given_options = {"precommit-compact": "true"} | options
    return catalog.create_table(f"db.{name}", COLUMNS, partition_keys=["p"], options=given_options)


def rows(value: str, keys: int = 12) -> list[dict[str, Any]]:
    return [{"p": k % 2, "k": k, "v": f"{value}{k}"} for k in range(keys)]


def told(table: lc.Table, after: int = 0, until: int | None = None) -> list[tuple[Any, ...]]:
    changes = table.changes(after=after, until=until).to_arrow().to_pylist()
    return sorted((row["rowkind"], row["p"], row["k"], row["v"]) for row in changes)


def on_disk(table: lc.Table) -> list[Path]:
    """Return the files below the buckets of the table, by their folders."""
    return sorted(path for path in Path(table.uri.removeprefix("file://")).glob("p=*/bucket-*/*"))


def changelog_objects(table: lc.Table) -> list[str]:
    return [f"{path.parent.parent.name}/{path.parent.name}" for path in on_disk(table) if "changelog" in path.name]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("producer", "file_format"), each_with_one(PRODUCERS, ["parquet", "orc", "avro"]))
def test_the_changelog_of_all_buckets_of_a_partition_lies_in_one_object(
    catalog: lc.Catalog, producer: str, file_format: str
) -> None:
    options = {"changelog-producer": producer, "changelog-file.format": file_format}
    joined = key_table(catalog, "joined", **options)
    plain = key_table(catalog, "plain", **options, **{"precommit-compact": "false"})
    for table in (joined, plain):
        for value in "xyz":
            table.write(rows(value))

    assert told(joined) == told(plain)
    # Of each of three commits one object a partition, where the changelog of five buckets would be.
    assert changelog_objects(joined) == ["p=0/bucket-0"] * 3 + ["p=1/bucket-1"] * 3
    assert len(changelog_objects(plain)) == 15
    assert sorted(path.suffix for path in on_disk(joined) if "changelog" in path.name) == [f".cc-{file_format}"] * 6


def test_an_object_is_its_files_one_behind_the_other(catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = key_table(catalog)
    written: list[bytes] = []

    def noted(task: Any, runtime: TaskRuntime) -> str:
        folder = Path(task.store.root)
        written.extend((folder / key).read_bytes() for key, _ in task.files)
        return run_join(task, runtime)

    monkeypatch.setattr(precommit, "run_join", noted)
    table.write(rows("x"))

    assert b"".join(path.read_bytes() for path in on_disk(table) if "changelog" in path.name) == b"".join(written)


@pytest.mark.parametrize("options", [{}, {"data-file.path-directory": "rows/here"}])
def test_a_table_without_partitions_has_one_object_a_commit(catalog: lc.Catalog, options: dict[str, str]) -> None:
    given_options = {"bucket": "3", "precommit-compact": "true", "changelog-producer": "input"} | options
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=given_options)
    table.write(rows("x"))

    (path,) = Path(table.uri.removeprefix("file://")).rglob("*changelog-*")
    assert path.parent.name == "bucket-0"
    assert len(told(table)) == 12


def test_large_files_and_a_lone_one_stay_as_they_are(catalog: lc.Catalog) -> None:
    small = key_table(catalog, "small", **{"changelog.precommit-compact.buffer-size": "1 kb"})
    small.write(rows("x"))
    assert {path.suffix for path in on_disk(small) if "changelog" in path.name} == {".parquet"}

    alone = key_table(catalog, "alone", bucket="1")
    alone.write(rows("x"))
    assert {path.suffix for path in on_disk(alone) if "changelog" in path.name} == {".parquet"}


def test_an_object_is_complete_at_the_target_size(catalog: lc.Catalog) -> None:
    table = key_table(catalog, bucket="8", **{"target-file-size": "3 kb"})
    table.write(rows("x", keys=100))

    objects = [path.stat().st_size for path in on_disk(table) if path.suffix == ".cc-parquet"]
    assert len(objects) > 2
    # Each partition may have a last one that is lighter.
    assert sum(size < 3 << 10 for size in objects) <= 2
    assert all(size < 6 << 10 for size in objects)
    assert len(told(table)) == 100


def test_an_overwrite_joins_nothing_for_it_keeps_no_changelog(catalog: lc.Catalog) -> None:
    table = key_table(catalog)
    table.write(rows("x"))
    table.overwrite(rows("y"))

    assert len([path for path in on_disk(table) if path.suffix == ".cc-parquet"]) == 2


def changes_of(k: int, v: str, op: str) -> dict[str, Any]:
    return {"p": k % 2, "k": k, "v": v, "op": op}


CHANGES = st.lists(
    st.builds(changes_of, st.integers(0, 15), st.text("abc", max_size=3), st.sampled_from(["+I", "+U", "-D"])),
    min_size=1,
    max_size=12,
)


OPTIONS = st.fixed_dictionaries(
    {
        "changelog-producer": st.sampled_from(PRODUCERS),
        "bucket": st.sampled_from(["1", "2", "5"]),
        "target-file-size": st.sampled_from(["1 kb", "3 kb", "128 mb"]),
        "file.format": st.sampled_from(["parquet", "avro"]),
    }
)


@settings(max_examples=settings.default.max_examples // 3)
@given(batches=st.lists(CHANGES, min_size=1, max_size=4), options=OPTIONS)
def test_rows_and_changelog_of_every_snapshot_are_those_without_the_option(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[dict[str, Any]]],
    options: dict[str, str],
) -> None:
    catalog = lc.connect(str(tmp_path_factory.mktemp("same")))
    catalog.create_database("db")
    joined = key_table(catalog, "joined", **options)
    plain = key_table(catalog, "plain", **options, **{"precommit-compact": "false"})
    for table in (joined, plain):
        for batch in batches:
            table.write(batch, rowkind_column="op")

    ids = [snapshot.id for snapshot in plain.snapshots()]
    assert [snapshot.id for snapshot in joined.snapshots()] == ids
    for id in ids:
        at = lc.AtSnapshot(id)
        assert joined.scan(at=at).to_arrow().sort_by("k").equals(plain.scan(at=at).to_arrow().sort_by("k"))
        assert told(joined, id - 1, id) == told(plain, id - 1, id)
    assert joined.verify(data=True).findings == ()


def test_expiry_takes_an_object_with_its_last_snapshot_and_not_before(catalog: lc.Catalog) -> None:
    table = key_table(catalog, **{"lakehouse.read.grace": "0 s"})
    for value in "xyz":
        table.write(rows(value))
    kept = told(table, after=2)
    third = {path for path in on_disk(table) if path.suffix == ".cc-parquet"}

    report = table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))

    left = {path for path in on_disk(table) if path.suffix == ".cc-parquet"}
    assert (len(third), len(left), report.files_deleted["changelog"]) == (6, 2, 4)
    assert told(table, after=2) == kept


def test_an_object_stays_as_long_as_any_of_its_segments_is_needed(catalog: lc.Catalog) -> None:
    """Flink may lay the changelog of rows and that of their compaction, which are two snapshots, into one object."""
    table = key_table(catalog, **{"lakehouse.read.grace": "0 s"})
    staged = table.stage(rows("x"), commit_user="flink", commit_identifier=1)
    firsts = {object_name(file.file_name) for message in staged.messages for file in message.changelog_files}
    now = tuple(message for message in staged.messages if holds_first(message))
    later = tuple(message for message in staged.messages if not holds_first(message))
    table.commit(replace(staged, messages=now))
    table.commit(replace(staged, messages=later, commit_identifier=2))
    table.write(rows("y"))
    kept = told(table, after=1)
    assert len(firsts) == 2

    table.expire_snapshots(retain_max=2, retain_min=2)
    assert told(table, after=1) == kept

    table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert len([path for path in on_disk(table) if path.suffix == ".cc-parquet"]) == 2
    assert not [path for path in on_disk(table) if path.name in firsts]


def holds_first(message: CommitMessage) -> bool:
    """Whether the first segment of an object is among the changelog files of the message."""
    return any(object_name(file.file_name) == file.file_name for file in message.changelog_files)


def test_an_object_stays_with_the_changelog_that_outlives_its_snapshot(catalog: lc.Catalog) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "lakehouse.read.grace": "0 s"}
    table = key_table(catalog, **options, **{"changelog.num-retained.max": "100"})
    for value in "xyz":
        table.write(rows(value))
    everything = told(table)

    table.expire_snapshots()

    assert [snapshot.id for snapshot in table.snapshots()] == [3]
    assert told(table) == everything


@pytest.mark.damage
@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda path: path.unlink(), "it is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes"),
        (lambda path: path.write_bytes(path.read_bytes()[:-40] + bytes(40)), "cannot be decoded"),
    ],
    ids=["gone", "cut", "overwritten"],
)
def test_verify_and_readers_look_at_the_object(
    catalog: lc.Catalog, damage: Callable[[Path], object], found: str
) -> None:
    table = key_table(catalog)
    table.write(rows("x"))
    path = next(path for path in on_disk(table) if path.suffix == ".cc-parquet")
    damage(path)

    findings = table.verify(data=True).findings

    assert any(found in finding.found for finding in findings), findings
    assert all("compacted-changelog" in finding.object for finding in findings)
    with pytest.raises(CorruptTable):
        told(table)


def failing_at(number: int, error: BaseException) -> Callable[[Any, TaskRuntime], str]:
    def run(task: Any, runtime: TaskRuntime) -> str:
        if task.number == number:
            raise error
        return run_join(task, runtime)

    return run


@pytest.mark.parametrize("number", [0, 1])
def test_a_join_that_fails_leaves_no_file_of_the_write(
    catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    table = key_table(catalog)
    with monkeypatch.context() as patched:
        patched.setattr(precommit, "run_join", failing_at(number, StorageUnavailable("the disk is tired")))
        with pytest.raises(StorageUnavailable, match="tired"):
            table.write(rows("x"))

    assert on_disk(table) == []
    assert table.snapshots() == ()

    table.write(rows("x"))
    assert len(told(table)) == 12


def test_a_compaction_whose_join_fails_is_made_again_by_the_next_and_nothing_is_told_twice(
    catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = key_table(catalog, **{"changelog-producer": "lookup"})
    with monkeypatch.context() as patched:
        patched.setattr(precommit, "run_join", failing_at(1, StorageUnavailable("the disk is tired")))
        table.write(rows("x"))
    before = on_disk(table)

    assert told(table) == []
    assert not [path for path in before if "changelog" in path.name]

    table.compact()
    assert told(table) == [("+I", k % 2, k, f"x{k}") for k in sorted(range(12), key=lambda k: (k % 2, k))]


KILLED = """
import os, signal, sys
import lakehouse_core as lc
from lakehouse_core.execution.compaction import precommit
from lakehouse_core.tasks.changelogs.concatenate import run_join

def dies(task, runtime):
    text = run_join(task, runtime) if task.number < {number} else None
    if task.number == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
    return text

precommit.run_join = dies
table = lc.connect(sys.argv[1]).table("db.t")
table.write([{{"p": k % 2, "k": k, "v": "killed"}} for k in range(12)])
"""


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_a_process_killed_between_two_objects_leaves_nothing_that_is_believed(
    catalog: lc.Catalog, tmp_path: Path, producer: str
) -> None:
    table = key_table(catalog, **{"changelog-producer": producer})
    table.write(rows("x"))
    before = told(table)

    killed = subprocess.run([sys.executable, "-c", KILLED.format(number=1), str(tmp_path)], check=False)

    assert killed.returncode == -signal.SIGKILL
    assert told(table) == before
    # A compaction that dies has its rows committed before it.
    values = {row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert values == ({"killed"} if producer == "lookup" else {f"x{k}" for k in range(12)})

    table.write(rows("y"))
    last = [row for row in told(table) if row not in before]
    assert {row[3] for row in last if row[0] in ("+I", "+U")} == {f"y{k}" for k in range(12)}


def test_a_compaction_overtaken_in_one_bucket_gives_up_the_buckets_that_share_its_object(
    catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = key_table(catalog, **{"changelog-producer": "lookup", "write-only": "true"})
    table.write(rows("x"))
    table.alter(lc.SetOption("write-only", "false"))
    real = compaction.commit_or_discard

    def overtaken(*args: Any, **named: Any) -> Any:
        monkeypatch.setattr(compaction, "commit_or_discard", real)
        store = LocalStore(table.uri.removeprefix("file://"))
        first = serialize_row((0,), [parse_type("INT")])
        compaction.compact(
            context_of(store, SystemClock()),
            WrittenBuckets(places={(first, 0)}),
            full=True,
        )
        return real(*args, **named)

    monkeypatch.setattr(compaction, "commit_or_discard", overtaken)
    report = table.compact(full=True)

    assert (report.buckets_rewritten, report.buckets_conflicted) == (2, 3)
    # The object of partition 0 went with the lost buckets, that of partition 1 is there.
    assert changelog_objects(table) == ["p=0/bucket-0", "p=1/bucket-1"]
    table.compact(full=True)
    assert told(table) == [("+I", k % 2, k, f"x{k}") for k in sorted(range(12), key=lambda k: (k % 2, k))]


# Append tables without buckets. A task writes one file a partition: a limit of rows stands for many tasks.


def test_small_new_files_of_a_partition_are_committed_as_one(catalog: lc.Catalog) -> None:
    table = append_table(catalog, **{"target-file-row-num": "3"})
    table.write(rows("x", keys=20))

    assert sorted((file.partition["p"], file.row_count) for file in table.files()) == [("0", 10), ("1", 10)]
    assert [row["k"] for row in table.scan(where="p = 1").to_arrow().to_pylist()] == list(range(1, 20, 2))
    # Nothing else lies there, and the one snapshot is of new rows.
    assert len(on_disk(table)) == 2
    assert [str(snapshot.commit_kind) for snapshot in table.snapshots()] == ["APPEND"]
    assert len(table.changes(after=0).to_arrow()) == 20


def test_each_commit_stands_alone_and_an_overwrite_packs_too(catalog: lc.Catalog) -> None:
    table = append_table(catalog, **{"target-file-row-num": "3"})
    table.write(rows("x"))
    table.write(rows("y"))
    assert len(table.files()) == 4

    table.overwrite(rows("z"))
    assert sorted(file.row_count for file in table.files()) == [6, 6]


def test_files_with_an_index_beside_them_are_packed_with_one_again(catalog: lc.Catalog) -> None:
    index = {"file-index.bloom-filter.columns": "k", "file-index.in-manifest-threshold": "1 b"}
    table = append_table(catalog, **{"target-file-row-num": "3"}, **index)
    table.write(rows("x"))

    assert sorted(path.suffix for path in on_disk(table)) == [".index", ".index", ".parquet", ".parquet"]
    assert table.scan(where="k = 7").to_arrow().to_pylist() == [{"p": 1, "k": 7, "v": "x7"}]


@pytest.mark.parametrize("options", [{"precommit-compact": "false"}, {"bucket": "1", "bucket-key": "k"}])
def test_files_stay_where_the_table_does_not_ask_or_has_buckets(catalog: lc.Catalog, options: dict[str, str]) -> None:
    table = append_table(catalog, **{"target-file-row-num": "3"}, **options)
    table.write(rows("x"))

    assert [file.row_count for file in table.files()] == [3] * 4


def test_files_that_are_not_small_stay(catalog: lc.Catalog) -> None:
    table = append_table(catalog, **{"target-file-row-num": "3", "compaction.small-file-ratio": "0"})
    table.write(rows("x"))

    assert [file.row_count for file in table.files()] == [3] * 4


def test_a_pack_that_fails_leaves_no_file_of_the_write(catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = append_table(catalog, **{"target-file-row-num": "3"})
    real = precommit.run_rewrite

    def fails(tasks: Any, runtime: TaskRuntime) -> str:
        if tasks[0].folder.startswith("p=1"):
            raise StorageUnavailable("the disk is tired")
        return real(tasks, runtime)

    with monkeypatch.context() as patched:
        patched.setattr(precommit, "run_rewrite", fails)
        with pytest.raises(StorageUnavailable, match="tired"):
            table.write(rows("x"))

    assert on_disk(table) == []
    table.write(rows("x"))
    assert len(table.scan().to_arrow()) == 12


def test_a_process_that_dies_between_two_packs_leaves_nothing_that_is_believed(
    catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = append_table(catalog, **{"target-file-row-num": "3"})

    class Died(BaseException):
        pass

    def dies(*args: Any, **how: Any) -> Any:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(precommit, "with_packed", dies)
        with pytest.raises(Died):
            table.write(rows("x"))
    assert table.snapshots() == ()

    table.write(rows("x"))
    assert len(table.scan().to_arrow()) == 12


@settings(max_examples=15)
@given(
    writes=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=30), min_size=1, max_size=3),
    limit=st.integers(1, 8),
    target=st.sampled_from(["1 kb", "2 kb", "256 mb"]),
    file_format=st.sampled_from(["parquet", "orc", "avro"]),
)
def test_rows_are_those_without_the_option_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, writes: list[list[int]], limit: int, target: str, file_format: str
) -> None:
    catalog = lc.connect(str(tmp_path_factory.mktemp("same")))
    catalog.create_database("db")
    options = {"target-file-row-num": str(limit), "target-file-size": target, "file.format": file_format}
    packed = append_table(catalog, "packed", **options)
    plain = append_table(catalog, "plain", **options, **{"precommit-compact": "false"})
    for table in (packed, plain):
        for keys in writes:
            table.write([{"p": k % 3, "k": k, "v": str(k)} for k in keys])

    for snapshot in plain.snapshots():
        at = lc.AtSnapshot(snapshot.id)
        found, expected = (
            sorted(table.scan(at=at).to_arrow().to_pylist(), key=lambda row: (row["p"], row["k"]))
            for table in (packed, plain)
        )
        assert found == expected
    assert len(packed.files()) <= len(plain.files())
    assert packed.verify(data=True).findings == ()
