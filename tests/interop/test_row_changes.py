"""Rows that we delete and update, as Java reads them at every snapshot; Java writes and compacts, and we go on."""

from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.judge import Judge

pytestmark = pytest.mark.interop

VECTORS = {"deletion-vectors.enabled": "true"}
KEYED = {"bucket": "2"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}
KINDS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "append": ([], [], {}),
    "append, partitions": ([], ["p"], {}),
    "append, buckets": ([], [], {"bucket": "2", "bucket-key": "k"}),
    "append, vectors": ([], [], VECTORS),
    "append, vectors, partitions": ([], ["p"], VECTORS),
    "append, vectors, 64 bits": ([], [], {**VECTORS, "deletion-vectors.bitmap64": "true"}),
    "deduplicate": (["k"], [], KEYED),
    "deduplicate, partitions": (["p", "k"], ["p"], KEYED),
    "deduplicate, input": (["k"], [], {**KEYED, "changelog-producer": "input"}),
    "deduplicate, lookup": (["k"], [], {**KEYED, "changelog-producer": "lookup"}),
    "deduplicate, vectors": (["k"], [], {**KEYED, **VECTORS}),
    "deduplicate, ignore-delete": (["k"], [], {**KEYED, "ignore-delete": "true"}),
    "deduplicate, dynamic": (["k"], [], DYNAMIC),
    "deduplicate, dynamic, partitions": (["p", "k"], ["p"], DYNAMIC),
    "deduplicate, dynamic, vectors": (["k"], [], {**DYNAMIC, **VECTORS}),
    "partial-update, dynamic": (["k"], [], {**DYNAMIC, "merge-engine": "partial-update"}),
    "partial-update": (["k"], [], {**KEYED, "merge-engine": "partial-update"}),
    "partial-update, removes": (
        ["k"],
        [],
        {**KEYED, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    ),
    "aggregation": (["k"], [], {**KEYED, "merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}),
    "first-row": (["k"], [], {**KEYED, "merge-engine": "first-row", "changelog-producer": "lookup"}),
}
ROWS = [{"k": k, "p": k % 2, "a": None if k % 5 == 0 else k, "v": "xyz"[k % 3]} for k in range(1, 13)]


def sorted_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(((row["k"], row["p"], row["a"], row["v"]) for row in rows), key=repr)


def clauses(kind: str) -> list[Any]:
    """Insert; update and delete where a merge into such a table may."""
    found: list[Any] = [lc.WhenNotMatched(insert={"k": "k", "p": "p", "a": 3, "v": "'merged'"})]
    if kind not in ("aggregation", "first-row"):
        found.append(lc.WhenMatched(update={"a": "t.a + 1", "v": "'merged'"}, where="t.k = 4"))
    if kind.startswith("append") or "removes" in kind or (kind.startswith("dedup") and "ignore" not in kind):
        found.append(lc.WhenMatched(delete=True))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_what_our_row_changes_leave_and_goes_on(judge: Judge, tmp_path: Path, kind: str) -> None:
    keys, partitions, options = KINDS[kind]

    def java(verb: str, **request: Any) -> Any:
        return judge.call(verb, table="db.t", warehouse=str(tmp_path), **request)

    fields = {"k": "INT NOT NULL", "p": "INT NOT NULL", "a": "INT", "v": "STRING"}
    java(
        "create",
        fields=[{"name": name, "type": type_} for name, type_ in fields.items()],
        primaryKeys=keys,
        partitionKeys=partitions,
        options=options,
    )
    table = lc.connect(tmp_path).table("db.t")
    java("write", rows=ROWS)
    table.write([{"k": 20 + k, "p": k % 2, "a": 1, "v": "w"} for k in range(4)])
    table.delete("v = 'x' OR k = 21")
    if kind not in ("aggregation", "first-row"):
        table.update({"a": "COALESCE(a, 0) + 100", "v": "'new'"}, "a < 5 OR a IS NULL")
    merged = table.merge([{"k": 4, "p": 0}, {"k": 8, "p": 0}, {"k": 50, "p": 0}], "t.k = s.k", *clauses(kind))
    assert merged.rows_inserted == 1
    java("write", rows=[{"k": 3, "p": 1, "a": 7, "v": "java"}, {"k": 40, "p": 0, "a": 7, "v": "java"}])
    table.delete("v = 'java' AND k = 40")
    java("compact", strategy="full")
    if kind != "first-row":
        new = [{"k": 6, "p": 0, "a": 9, "v": "y"}, {"k": 60, "p": 1, "a": 9, "v": "y"}]
        assert table.overwrite(new, where="v = 'y'").rows_inserted == 2
    table.delete("k = 22")
    if partitions:
        table.drop_partitions({"p": 1})
        table.overwrite([{"k": 2, "p": 0, "a": 5, "v": "part"}], where="p = 0")
    else:
        table.delete("k > 9")

    for snapshot in table.snapshots():
        ours = sorted_rows(table.scan(at=lc.AtSnapshot(snapshot.id)).to_arrow().to_pylist())
        theirs = sorted_rows(java("read", options={"scan.snapshot-id": str(snapshot.id)})["rows"])
        assert ours == theirs, (snapshot.id, snapshot.commit_kind, snapshot.operation)
    assert ours
    assert java("files")["missing"] == []
    table.truncate()
    assert java("read")["rows"] == []
    java("write", rows=ROWS)
    assert sorted_rows(table.scan().to_arrow().to_pylist()) == sorted_rows(ROWS)
    assert table.verify(data=True).findings == ()
