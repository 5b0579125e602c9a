"""Indexes that we give to files that are there, as Java reads them, and those of Java's procedure, as we read them."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.data_files.file_index import stored_bodies
from lakehouse_core.table.data_layout import DataLayout
from tests.interop.engines import Java

pytestmark = pytest.mark.interop

FIELDS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING", "n": "INT"}
KINDS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "append, partitions": ([], ["p"], {"bucket": "-1"}),
    "append, vectors, orc": ([], [], {"bucket": "-1", "deletion-vectors.enabled": "true", "file.format": "orc"}),
    "key": (["k"], [], {"bucket": "2"}),
    "key, avro, lookup": (["k"], [], {"bucket": "1", "changelog-producer": "lookup", "file.format": "avro"}),
}
INDEXES = {
    "file-index.bloom-filter.columns": "v",
    "file-index.bloom-filter.v.items": "100",
    "file-index.bitmap.columns": "n",
    "file-index.range-bitmap.columns": "k",
}
# Java makes the decision about the place of an index once more by its own size, which has no checksum.
PLACES = {"beside": "1 b", "inside": "1 mb"}


def table_of(path: Path) -> lc.Table:
    return lc.connect(path).table("db.t")


def lived(java: Java, kind: str) -> None:
    """A table that Java wrote in three commits and compacted in part, without indexes until now."""
    keys, partitions, options = KINDS[kind]
    fields = [{"name": name, "type": type_} for name, type_ in FIELDS.items()]
    java("create", fields=fields, primaryKeys=keys, partitionKeys=partitions, options=options)
    for start in (0, 20, 35):
        rows = [{"k": k, "p": k % 2, "v": f"v{k}", "n": k if k % 5 else None} for k in range(start, start + 20)]
        java("write", rows=rows)
        if start == 20:
            java("compact", strategy="full")


def ask(java: Java, options: dict[str, str]) -> None:
    java("alter", changes=[{"op": "set-option", "key": key, "value": value} for key, value in options.items()])


def indexes(path: Path) -> dict[str, Any]:
    """The indexes of each data file, by column and kind."""
    context = table_of(path)._context
    latest = context.snapshots.latest()
    assert latest is not None
    layout = DataLayout(context.schemas.latest())
    return {
        entry.file.file_name: stored_bodies(context.store, layout.bucket(entry.partition, entry.bucket), entry.file)
        for entry in context.manifests.live_entries(latest)
    }


def same_in_both(java: Java, path: Path) -> list[tuple[Any, ...]]:
    found = sorted((row["k"], row["v"], row["n"] or 0) for row in table_of(path).scan().to_arrow().to_pylist())
    assert found == sorted((row["k"], row["v"], row["n"] or 0) for row in java("read")["rows"])
    where = [{"field": "v", "op": "=", "value": "v23"}, {"field": "n", "op": "=", "value": 23}]
    ours = table_of(path).scan(where="v = 'v23' AND n = 23").to_arrow().to_pylist()
    theirs = java("read", filter=where, executeFilter=True)["rows"]
    assert {row["k"] for row in ours} == {row["k"] for row in theirs} == {23}
    assert table_of(path).verify(data=True).findings == ()
    assert java("files")["missing"] == []
    return found


@pytest.mark.parametrize("index_place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_both_give_the_same_indexes_and_read_those_of_the_other(
    java: Java, tmp_path: Path, kind: str, index_place: str
) -> None:
    lived(java, kind)
    rows = same_in_both(java, tmp_path)
    ask(java, {**INDEXES, "file-index.in-manifest-threshold": PLACES[index_place]})

    made = table_of(tmp_path).rewrite_file_index()
    assert made.files_indexed == made.files_examined > 1
    ours = indexes(tmp_path)
    assert same_in_both(java, tmp_path) == rows
    # Java writes index files anew with each call; their bodies are the same.
    java("rewrite-file-index")
    assert indexes(tmp_path) == ours
    assert same_in_both(java, tmp_path) == rows
    assert table_of(tmp_path).rewrite_file_index().snapshot_id is None

    # Both go on, and expire what only the former entries needed.
    java("write", rows=[{"k": 900, "p": 0, "v": "java", "n": 900}])
    table_of(tmp_path).write([{"k": 901, "p": 1, "v": "ours", "n": 901}])
    table_of(tmp_path).rewrite_file_index()
    java("expire", retainMax=2, retainMin=1, retainMillis=0)
    assert len(same_in_both(java, tmp_path)) == len(rows) + 2
    table_of(tmp_path).expire_snapshots(retain_max=1, older_than=timedelta(0))
    java("compact", strategy="full")
    assert len(same_in_both(java, tmp_path)) == len(rows) + 2


def test_what_java_leaves_beside_an_entry_is_cleared_and_unwanted_indexes_go(java: Java, tmp_path: Path) -> None:
    lived(java, "append, partitions")
    ask(java, {**INDEXES, "file-index.in-manifest-threshold": "1 b"})
    java("rewrite-file-index")
    assert table_of(tmp_path).rewrite_file_index().snapshot_id is None
    # Java 2.0.0 leaves the name of the file in the entry when the index moves into it.
    ask(java, {"file-index.in-manifest-threshold": "1 mb"})
    java("rewrite-file-index")
    assert table_of(tmp_path).rewrite_file_index().files_indexed == len(indexes(tmp_path))
    java("rewrite-file-index")
    same_in_both(java, tmp_path)

    # It keeps such an index, although no option asks for it any more; here it goes.
    java("alter", changes=[{"op": "remove-option", "key": key} for key in INDEXES])
    java("rewrite-file-index")
    assert None not in indexes(tmp_path).values()
    assert table_of(tmp_path).rewrite_file_index().indexes_dropped == len(indexes(tmp_path))
    assert set(map(repr, indexes(tmp_path).values())) == {"None"}
    same_in_both(java, tmp_path)
    # Forth and back: Java takes an entry for deleted that was removed in any manifest, also if it is live again.
    for options in (INDEXES, {"file-index.in-manifest-threshold": "1 b"}, {"file-index.in-manifest-threshold": "1 mb"}):
        ask(java, options)
        assert table_of(tmp_path).rewrite_file_index().files_indexed == len(indexes(tmp_path))
        same_in_both(java, tmp_path)


def test_files_of_an_older_schema_are_read_by_java_by_the_indexes_of_their_own_columns(
    java: Java, tmp_path: Path
) -> None:
    lived(java, "append, partitions")
    table_of(tmp_path).alter(lc.RenameColumn("v", "w"), lc.AddColumn("x", "STRING"), lc.UpdateColumnType("n", "BIGINT"))
    table_of(tmp_path).write([{"k": 950, "p": 0, "w": "w", "n": 2**40, "x": "x"}])
    options = {"file-index.bitmap.columns": "w,n,x", "file-index.in-manifest-threshold": "1 b"}
    ask(java, options)

    table_of(tmp_path).rewrite_file_index()

    for column, value, keys in (("w", "v23", [23]), ("x", "x", [950]), ("w", "none", [])):
        found = java("read", filter=[{"field": column, "op": "=", "value": value}], executeFilter=True)["rows"]
        assert [row["k"] for row in found] == keys
        ours = table_of(tmp_path).scan(where=f"{column} = '{value}'").to_arrow().column("k").to_pylist()
        assert ours == keys
    assert java("files")["missing"] == []
