"""States that we bring back and tags that we change, as Java reads them; Java goes on, and rolls back in its way."""

from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.judge import Judge

pytestmark = pytest.mark.interop

VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "append": ([], [], {}),
    "append, vectors, partitions": ([], ["p"], VECTORS),
    "key": (["k"], [], {"bucket": "2"}),
    "key, partitions, lookup": (["p", "k"], ["p"], {"bucket": "1", "changelog-producer": "lookup"}),
    "key, vectors": (["k"], [], {"bucket": "2", **VECTORS}),
    "key, dynamic": (["k"], [], {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
}
ROWS = [{"k": k, "p": k % 2, "v": "a"} for k in range(1, 9)]


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["k"], row["p"], row["v"]) for row in rows)


@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_what_a_rollback_brings_back_and_goes_on(judge: Judge, tmp_path: Path, kind: str) -> None:
    keys, partitions, options = KINDS[kind]

    def java(verb: str, **request: Any) -> Any:
        return judge.call(verb, table="db.t", warehouse=str(tmp_path), **request)

    def same_in_both() -> list[tuple[Any, ...]]:
        """Compare all snapshots, and return the rows of the latest."""
        ours: list[tuple[Any, ...]] = []
        for snapshot in table.snapshots():
            ours = in_order(table.scan(at=lc.AtSnapshot(snapshot.id)).to_arrow().to_pylist())
            assert ours == in_order(java("read", options={"scan.snapshot-id": str(snapshot.id)})["rows"]), snapshot.id
        assert java("files")["missing"] == []
        assert table.verify(data=True).findings == ()
        return ours

    fields = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING"}
    java(
        "create",
        fields=[{"name": name, "type": type_} for name, type_ in fields.items()],
        primaryKeys=keys,
        partitionKeys=partitions,
        options=options,
    )
    table = lc.connect(tmp_path).table("db.t")
    java("write", rows=ROWS)
    first = table.snapshot()
    assert first is not None
    table.create_tag("first", at=first.id)
    java("write", rows=[{"k": 1, "p": 1, "v": "b"}, {"k": 20, "p": 0, "v": "b"}])
    table.delete("k = 2")
    java("compact", strategy="full")
    table.overwrite([{"k": 3, "p": 1, "v": "c"}], dynamic=False)
    middle = java("write", rows=[{"k": 4, "p": 0, "v": "d"}])["snapshots"][-1]["id"]
    states = {id: in_order(table.scan(at=lc.AtSnapshot(id)).to_arrow().to_pylist()) for id in (first.id, middle)}

    table.rollback_to(lc.AtTag("first"))
    assert same_in_both() == states[first.id]
    java("write", rows=[{"k": 30, "p": 0, "v": "java"}])
    java("compact", strategy="full")
    assert same_in_both() == sorted([*states[first.id], (30, 0, "java")])
    table.rollback_to(middle)
    assert same_in_both() == states[middle]

    # Java reads the changed tags, and removes what came after one of them.
    table.replace_tag("first", at=middle)
    table.rename_tag("first", "second")
    assert in_order(java("read", options={"scan.tag-name": "second"})["rows"]) == states[middle]
    java("rollback", tag="second")
    assert same_in_both() == states[middle]
    table.write([{"k": 40, "p": 0, "v": "ours"}])
    assert same_in_both() == sorted([*states[middle], (40, 0, "ours")])


class Spoiled:
    """A table with rows that are spoiled and brought back, and Java, which expires its snapshots."""

    def __init__(self, judge: Judge, warehouse: Path, kind: str) -> None:
        keys, partitions, options = KINDS[kind]
        columns = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING"}
        catalog = lc.connect(warehouse)
        catalog.create_database("db")
        self.table = catalog.create_table(
            "db.t", columns, primary_keys=keys, partition_keys=partitions, options=options
        )
        self._judge, self._warehouse = judge, warehouse
        self.table.write(ROWS)
        self.table.write([{"k": 9, "p": 1, "v": "a"}])
        self.table.delete("k = 4")
        self.target = self.latest()
        self._rows = in_order(self.table.scan().to_arrow().to_pylist())

    def latest(self) -> int:
        return self.table.snapshots()[-1].id

    def java(self, verb: str, **request: Any) -> Any:
        return self._judge.call(verb, table="db.t", warehouse=str(self._warehouse), **request)

    def spoil(self) -> None:
        self.table.delete("k = 2")
        self.table.overwrite([{"k": 3, "p": 1, "v": "c"}], dynamic=False)
        self.table.write([{"k": 1, "p": 1, "v": "b"}])
        self.table.compact(full=True)

    def check_rows(self, note: object) -> None:
        assert in_order(self.table.scan().to_arrow().to_pylist()) == self._rows, note
        assert in_order(self.java("read")["rows"]) == self._rows, note
        assert self.table.verify(data=True).findings == (), note

    def expire_in_java(self) -> None:
        """Let Java expire all snapshots but the last, in four steps."""
        for retained in (self.latest() - 1, self.latest() - self.target, 3, 1):
            self.java("expire", retainMax=retained, retainMin=1)
            self.check_rows(retained)


@pytest.mark.parametrize("kind", KINDS)
def test_java_expires_what_lies_before_a_rollback_and_deletes_no_file_that_came_back(
    judge: Judge, tmp_path: Path, kind: str
) -> None:
    spoiled = Spoiled(judge, tmp_path, kind)
    spoiled.spoil()
    # Java looks at the nearest tag only, and this one has not the files.
    spoiled.table.create_tag("spoiled")
    spoiled.table.rollback_to(spoiled.target)
    spoiled.table.write([{"k": 50, "p": 1, "v": "e"}])
    spoiled.spoil()
    spoiled.table.rollback_to(spoiled.target)
    spoiled.check_rows("after the rollback")

    spoiled.expire_in_java()

    spoiled.table.expire_snapshots()
    assert [tag.name for tag in spoiled.table.tags()] == ["spoiled"]
    spoiled.java("delete-tag", tag="spoiled")
    spoiled.check_rows("without tags")


@pytest.mark.parametrize("kind", ["append, vectors, partitions", "key"])
def test_java_deletes_no_file_that_came_back_in_a_rollback_that_is_expired(
    judge: Judge, tmp_path: Path, kind: str
) -> None:
    spoiled = Spoiled(judge, tmp_path, kind)
    spoiled.table.create_tag("good")
    spoiled.spoil()
    spoiled.table.create_tag("spoiled")
    spoiled.table.rollback_to(spoiled.target)
    spoiled.table.write([{"k": 50, "p": 1, "v": "e"}])
    spoiled.java("expire", retainMax=1, retainMin=1)
    spoiled.table.expire_snapshots()
    spoiled.spoil()
    spoiled.table.rollback_to(lc.AtTag("good"))
    spoiled.java("delete-tag", tag="good")

    spoiled.expire_in_java()
