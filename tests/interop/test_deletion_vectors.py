"""Deletion vectors both ways: Java marks rows and we read, count and compact them; Java reads what we made of them."""

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.judge import Judge

pytestmark = pytest.mark.interop

Rows = list[tuple[Any, ...]]


class Pair:
    """One table, ours and Java's."""

    def __init__(self, judge: Judge, warehouse: Path) -> None:
        self._judge = judge
        self._warehouse = str(warehouse)
        self.table: lc.Table

    def create(self, *, keys: list[str], partitions: list[str], options: dict[str, str]) -> None:
        fields = [("k", "INT NOT NULL"), ("p", "INT"), ("a", "INT"), ("v", "STRING")]
        self.java(
            "create",
            fields=[{"name": name, "type": type_} for name, type_ in fields],
            primaryKeys=keys,
            partitionKeys=partitions,
            options=options,
        )
        self.table = lc.connect(self._warehouse).table("db.t")

    def java(self, verb: str, **request: Any) -> Any:
        return self._judge.call(verb, table="db.t", warehouse=self._warehouse, **request)

    def check(self) -> Rows:
        """Both read the same rows, filtered and counted too; return them."""
        (latest,) = self.table.snapshots()[-1:]
        return self.check_at(latest.id)

    def check_all(self) -> None:
        """Both read the same rows at every snapshot, and no file is missing or damaged."""
        for snapshot in self.table.snapshots():
            self.check_at(snapshot.id)
        assert self.java("files")["missing"] == []
        assert self.table.verify(data=True).findings == ()

    def check_at(self, snapshot_id: int) -> Rows:
        at = lc.AtSnapshot(snapshot_id)
        expected = self.theirs(str(snapshot_id))
        assert self.ours(at=at) == expected, snapshot_id
        assert self.table.scan(at=at).count() == len(expected)
        assert self.ours(at=at, where="a > 10") == [row for row in expected if (row[2] or 0) > 10]
        return expected

    def ours(self, **how: Any) -> Rows:
        rows = self.table.scan(**how).to_arrow().to_pylist()
        return sorted(((row["k"], row["p"], row["a"], row["v"]) for row in rows), key=repr)

    def theirs(self, snapshot_id: str) -> Rows:
        rows = self.java("read", options={"scan.snapshot-id": snapshot_id})["rows"]
        return sorted(((row["k"], row["p"], row["a"], row["v"]) for row in rows), key=repr)


@pytest.fixture
def pair(judge: Judge, tmp_path: Path) -> Pair:
    return Pair(judge, tmp_path)


@pytest.mark.parametrize(
    ("partitions", "options"),
    [
        ([], {}),
        ([], {"deletion-vectors.bitmap64": "true"}),
        (["p"], {}),
        # Vectors of large files stay behind in index files that the compaction touches.
        ([], {"deletion-vector.index-file.target-size": "60 b", "target-file-size": "2 kb"}),
    ],
    ids=["narrow", "wide", "partitioned", "rolled"],
)
def test_marks_of_java_fold_into_our_compactions(pair: Pair, partitions: list[str], options: dict[str, str]) -> None:
    numbers = itertools.count()

    def rows(count: int) -> list[dict[str, Any]]:
        found = [next(numbers) for _ in range(count)]
        return [{"k": k, "p": k % 2, "a": k % 30, "v": f"value {k * 7919}"} for k in found]

    pair.create(keys=[], partitions=partitions, options={"deletion-vectors.enabled": "true", **options})
    for _ in range(3):
        pair.java("write", rows=rows(10))
        pair.table.write(rows(10))
    pair.java("write", rows=rows(300))
    for marks in (
        {"field": "a", "op": "=", "value": 7},
        {"field": "k", "op": "<", "value": 15},
        {"field": "k", "op": "in", "values": [20, 33, 44, 250]},
    ):
        pair.java("delete-rows", filter=marks)
    before = pair.check()

    pair.table.compact(full=False)
    assert pair.check() == before
    pair.java("delete-rows", filter={"field": "k", "op": "=", "value": 51})
    pair.table.compact(full=True)

    assert pair.check() == [row for row in before if row[0] != 51]
    pair.java("delete-rows", filter={"field": "k", "op": "=", "value": 52})
    pair.table.write(rows(10))
    pair.java("compact", strategy="full")
    assert len(pair.check()) == len(before) - 2 + 10
    pair.check_all()


@pytest.mark.parametrize("seed", range(8))
def test_key_tables_whose_compactions_look_keys_up_are_read_like_java_does(pair: Pair, seed: int) -> None:
    chance = random.Random(seed)
    engine = ("deduplicate", "partial-update", "aggregation", "first-row")[seed % 4]
    options = {
        "bucket": str(chance.choice([1, 2])),
        "merge-engine": engine,
        "num-sorted-run.compaction-trigger": str(chance.choice([2, 3, 5])),
    }
    if engine != "first-row":
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.merge-on-read"] = chance.choice(["true", "false"])
        options["deletion-vectors.bitmap64"] = chance.choice(["true", "false"])
    if engine == "aggregation":
        options["fields.a.aggregate-function"] = "sum"
    kinds = ["+I", "+I", "+I", "-D"] if engine == "deduplicate" else ["+I"]
    pair.create(keys=["k"], partitions=[], options=options)
    for _ in range(8):
        rows = [
            {
                "_kind": chance.choice(kinds),
                "k": chance.randrange(40),
                "p": 0,
                "a": chance.choice([None, *range(20)]),
                "v": chance.choice([None, "x", "y"]),
            }
            for _ in range(chance.randrange(1, 40))
        ]
        # Some writers leave what they wrote to a later compaction.
        alone = chance.random() < 0.3
        pair.java(
            "write",
            rows=rows,
            options={"write-only": "true"} if alone else {},
            compact="none" if alone else chance.choice(["none", "minor", "full"]),
        )

    pair.check_all()
