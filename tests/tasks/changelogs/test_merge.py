"""What a compaction that looks up reads of the files beyond it: values, or only which keys they have and where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.data_files.parquet.reader import ParquetFileReader

COLUMNS = {"k": "INT NOT NULL", "v": "INT", "w": "STRING", "list": "ARRAY<INT>"}
VECTORS = {"deletion-vectors.enabled": "true"}
LOOKUP = {"changelog-producer": "lookup"}
KEYS, ALL = {"k"}, set(COLUMNS)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (VECTORS, KEYS),
        ({"force-lookup": "true"}, set()),
        ({"merge-engine": "first-row"}, KEYS),
        ({"merge-engine": "first-row", **LOOKUP}, KEYS),
        (LOOKUP, ALL),
        ({**VECTORS, **LOOKUP}, ALL),
        ({**VECTORS, "sequence.field": "v"}, ALL),
        ({**VECTORS, "ignore-delete": "true"}, ALL),
        ({**VECTORS, "merge-engine": "partial-update"}, ALL),
    ],
    ids=["vectors", "force-lookup", "first-row", "first-row told", "told", "both", "sequence", "ignored", "partial"],
)
def test_only_the_keys_are_read_of_files_beyond_where_no_value_of_theirs_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], expected: set[str]
) -> None:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1", **options})
    keys = pa.array(range(0, 4000, 2), pa.int32())
    table.write(pa.table({"k": keys, "v": keys, "w": [f"old {k}" for k in range(2000)], "list": [[1]] * 2000}))
    table.compact(full=True)
    (old,) = table.files()
    read: set[str] = set()
    batches = ParquetFileReader.batches

    def recorded(reader, fields, **how):
        if reader._entry.file_name == old.file_name:
            read.update(field.name for field in fields)
        return batches(reader, fields, **how)

    with monkeypatch.context() as patch:
        patch.setattr(ParquetFileReader, "batches", recorded)
        table.write([{"k": 3, "v": 9000, "w": "new", "list": None}, {"k": 8, "v": 9000, "w": "new", "list": [2]}])

    assert read == expected
    assert {file.level for file in table.files()} == {4, 5}
    wins = options.get("merge-engine") != "first-row"
    found = {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
    assert len(found) == 2001
    assert found[3] == {"k": 3, "v": 9000, "w": "new", "list": None}
    assert found[8] == (
        {"k": 8, "v": 9000, "w": "new", "list": [2]} if wins else {"k": 8, "v": 8, "w": "old 4", "list": [1]}
    )


def test_rows_staged_early_and_committed_late_win_over_those_beyond(tmp_path: Path) -> None:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1", **VECTORS})
    rows = [{"k": k, "v": 0, "w": "staged late", "list": None} for k in range(2000)]
    # A delete among them, so that the file is written anew and not only moved up.
    changes = [
        {"k": 8, "v": 1, "w": "staged early", "list": None, "op": "+I"},
        {"k": 2001, "v": 1, "w": "", "list": None, "op": "-D"},
    ]
    early = table.stage(changes, commit_user="early", commit_identifier=1, rowkind_column="op")
    table.write(rows)
    table.write(rows)
    table.compact(full=True)
    table.commit(early)
    table.compact()

    found = {row["k"]: row["w"] for row in table.scan().to_arrow().to_pylist()}
    assert len(found) == 2000
    assert found[8] == "staged early"


@pytest.mark.damage
def test_a_row_of_a_writer_that_did_not_look_loses_to_a_later_number_beyond(tmp_path: Path) -> None:
    """As in Java: the number decides, also where no other value of the files beyond counts."""
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1", **VECTORS})
    rows = [{"k": k, "v": 7, "w": "beyond", "list": [k]} for k in range(2000)]
    changes = [{"k": 8, "v": 1, "w": "early", "list": None}, {"k": 2001, "v": 1, "w": "new", "list": None}]
    early = table.stage(changes, commit_user="early", commit_identifier=1)
    table.write(rows)
    table.write(rows)
    table.compact(full=True)
    table.commit(replace(early, base_snapshot_id=table.snapshots()[-1].id, base_time_millis=None))
    table.compact()

    found = {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
    assert len(found) == 2001
    assert found[8] == rows[8]
    assert found[2001] == changes[1]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@pytest.mark.parametrize(("ignored", "told"), [("w", ["v"]), ("w,v", []), ("", ["v", "w"])])
def test_an_update_of_columns_that_do_not_count_is_not_told(
    tmp_path: Path, producer: str, ignored: str, told: list[str]
) -> None:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    deduplicate = "changelog-producer.row-deduplicate"
    options = {"bucket": "1", "changelog-producer": producer, deduplicate: "true"}
    if ignored:
        options[f"{deduplicate}-ignore-fields"] = ignored
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=options)
    old = {"k": 1, "v": 1, "w": "a", "list": [1]}
    table.write([old])
    for changed, value in (("v", 2), ("w", "b")):
        before = table.snapshots()[-1].id
        table.write([old | {changed: value}])
        changes = table.changes(after=before, until=table.snapshots()[-1].id).to_arrow().to_pylist()
        assert [row["rowkind"] for row in changes] == (["-U", "+U"] if changed in told else [])
        table.write([old])
