"""Changelogs of several buckets in one object: Flink's own task writes them and we read, we write them and Java reads.

The judge calls the task that Flink's sink runs before a commit; formats of such files are known to the Flink jar alone.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.judge import Judge, JudgeError

pytestmark = pytest.mark.interop

Told = list[tuple[Any, ...]]
FIELDS = [("p", "INT NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")]


@pytest.fixture(scope="module")
def bundle() -> Iterator[Judge]:
    with Judge("1.4.2") as java:
        yield java


class Pair:
    """One table, ours and Java's, in a warehouse of its own."""

    def __init__(self, judge: Judge, warehouse: Path, **options: str) -> None:
        self._judge = judge
        self._warehouse = str(warehouse)
        self.folder = warehouse / "db.db" / "t"
        defaults = {"bucket": "3", "precommit-compact": "true", "lakehouse.read.grace": "0 s"}
        self.java(
            "create",
            fields=[{"name": name, "type": type_} for name, type_ in FIELDS],
            primaryKeys=["p", "k"],
            partitionKeys=["p"],
            options=defaults | options,
        )
        self.table = lc.connect(self._warehouse).table("db.t")

    def java(self, verb: str, *, judge: Judge | None = None, **request: Any) -> Any:
        return (judge or self._judge).call(verb, table="db.t", warehouse=self._warehouse, **request)

    def ours(self, snapshot_id: int) -> Told:
        rows = self.table.changes(after=snapshot_id - 1, until=snapshot_id).to_arrow().to_pylist()
        return sorted((row["rowkind"], row["p"], row["k"], row["v"]) for row in rows)

    def theirs(self, snapshot_id: int, judge: Judge | None = None) -> Told:
        steps = self.java("stream-read", judge=judge, **{"from": snapshot_id, "to": snapshot_id})["snapshots"]
        rows = [row for step in steps if step["snapshot"] == snapshot_id for row in step["rows"]]
        return sorted((row["_kind"], row["p"], row["k"], row["v"]) for row in rows)

    def check(self) -> dict[int, Told]:
        """Both read the same rows and the same changelog of every snapshot, and find nothing amiss; return it."""
        told = {snapshot.id: self.ours(snapshot.id) for snapshot in self.table.snapshots()}
        assert told == {snapshot_id: self.theirs(snapshot_id) for snapshot_id in told}
        assert values(self.table.scan().to_arrow().to_pylist()) == values(self.java("read")["rows"])
        assert self.table.verify(data=True).findings == ()
        assert self.java("orphan-clean", olderThanMillis=2**52, dryRun=True)["files"] == []
        return told

    def objects(self) -> list[str]:
        return sorted(path.name.rpartition(".")[2] for path in self.folder.rglob("compacted-changelog-*"))


def rows(value: str, keys: int = 14) -> list[dict[str, Any]]:
    return [{"p": k % 2, "k": k, "v": f"{value}{k}"} for k in range(keys)]


def values(found: Iterable[dict[str, Any]]) -> Told:
    return sorted((row["p"], row["k"], row["v"]) for row in found)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_what_flink_joins_we_read_and_expire(judge: Judge, tmp_path: Path, producer: str, file_format: str) -> None:
    pair = Pair(judge, tmp_path, **{"changelog-producer": producer, "file.format": file_format})
    for value in "xyz":
        pair.java("write", rows=rows(value), joinChangelog=True)
    told = pair.check()
    assert pair.objects() == [f"cc-{file_format}"] * 6
    assert sum(map(len, told.values())) == (42 if producer == "input" else 70)
    audit = pair.table.system("audit_log").to_arrow()
    assert audit.num_rows == 14

    pair.table.expire_snapshots(retain_max=2, retain_min=1, older_than=timedelta(0))

    left = pair.check()
    assert left == {snapshot_id: told[snapshot_id] for snapshot_id in left}
    assert len(pair.objects()) < 6


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_what_we_join_java_reads_and_expires(judge: Judge, tmp_path: Path, producer: str, file_format: str) -> None:
    pair = Pair(judge, tmp_path, **{"changelog-producer": producer, "changelog-file.format": file_format})
    for value in "xyz":
        pair.table.write(rows(value))
    told = pair.check()
    assert pair.objects() == [f"cc-{file_format}"] * 6
    assert sum(map(len, told.values())) == (42 if producer == "input" else 70)

    pair.java("expire", retainMax=2, retainMin=1)

    left = pair.check()
    assert left == {snapshot_id: told[snapshot_id] for snapshot_id in left}
    assert len(pair.objects()) < 6


def test_both_write_in_turn(judge: Judge, tmp_path: Path) -> None:
    pair = Pair(judge, tmp_path, **{"changelog-producer": "lookup"})
    for number in range(4):
        if number % 2:
            pair.table.write(rows(f"ours{number}-"))
        else:
            pair.java("write", rows=rows(f"theirs{number}-"), joinChangelog=True)

    told = pair.check()
    assert [len(some) for some in told.values() if some] == [14, 28, 28, 28]


def test_without_the_flink_jar_java_reads_the_rows_and_says_what_it_misses_of_the_changelog(
    bundle: Judge, tmp_path: Path
) -> None:
    pair = Pair(bundle, tmp_path, **{"changelog-producer": "input"})
    for value in "xy":
        pair.table.write(rows(value))

    assert len(pair.java("read")["rows"]) == 14
    with pytest.raises(JudgeError, match="cc-parquet"):
        pair.theirs(1)
    pair.java("expire", retainMax=1, retainMin=1)
    assert pair.objects() == ["cc-parquet"] * 2
    assert pair.table.verify(data=True).findings == ()
    assert len(pair.ours(2)) == 14


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_data_files_that_we_pack_are_new_files_to_java(judge: Judge, tmp_path: Path, file_format: str) -> None:
    warehouse = str(tmp_path)
    catalog = lc.connect(warehouse)
    catalog.create_database("db")
    options = {"precommit-compact": "true", "target-file-row-num": "3", "file.format": file_format}
    table = catalog.create_table("db.t", dict(FIELDS), partition_keys=["p"], options=options)
    for value in "xy":
        table.write(rows(value))

    assert [file.row_count for file in table.files()] == [7] * 4
    found = judge.call("read", table="db.t", warehouse=warehouse)["rows"]
    assert values(found) == values(row for value in "xy" for row in rows(value))
    steps = judge.call("stream-read", table="db.t", warehouse=warehouse, **{"from": 1})["snapshots"]
    assert [len(step["rows"]) for step in steps] == [14, 14]
    judge.call("compact", table="db.t", warehouse=warehouse, strategy="full")
    assert len(table.scan().to_arrow()) == 28
