"""Every merge engine and changelog producer through both engines: the same snapshots, rows and changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc

pytestmark = pytest.mark.spark

TABLES = {
    "lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "partial-update": {"merge-engine": "partial-update", "changelog-producer": "full-compaction"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "changelog-producer": "lookup",
    },
}
WRITES = [[(k, 10 * number + k) for k in range(number, number + 4)] for number in range(3)]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=name, marks=[pytest.mark.long] * (name != "deletion vectors"))
        for name, options in TABLES.items()
    ],
)
def test_both_engines_make_the_same_snapshots_rows_and_changes(
    spark: Any, tmp_path: Path, options: dict[str, str]
) -> None:
    here = written(lc.connect(str(tmp_path / "here")), options, as_dicts)
    there = written(
        lc.connect(str(tmp_path / "there"), spark=spark),
        options,
        lambda rows: spark.createDataFrame(rows, "k int, v bigint"),
    )

    assert kinds(there) == kinds(here)
    assert sorted(tuple(row) for row in there.scan().to_spark(spark).collect()) == rows_of(here)
    assert changes_of(there) == changes_of(here)


def written(catalog: lc.Catalog, options: dict[str, str], data: Callable[[list[tuple[int, int]]], Any]) -> lc.Table:
    catalog.create_database("db")
    columns = {"k": "INT NOT NULL", "v": "BIGINT"}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": "2", **options})
    for rows in WRITES:
        assert table.write(data(rows)).compaction_failure is None
    return table


def as_dicts(rows: list[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"k": k, "v": v} for k, v in rows]


def kinds(table: lc.Table) -> list[str]:
    return [snapshot.commit_kind.value for snapshot in table.snapshots()]


def rows_of(table: lc.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def changes_of(table: lc.Table) -> list[list[tuple[Any, ...]]]:
    """The changes of each snapshot, those of a key in their order."""
    ids = [snapshot.id for snapshot in table.snapshots()]
    found = [table.changes(after=number - 1, until=number).to_arrow().to_pylist() for number in ids]
    return [sorted((tuple(row.values()) for row in rows), key=lambda change: change[1]) for rows in found]


@pytest.mark.long
def test_both_engines_copy_the_small_files_of_a_bucket_into_one(spark: Any, tmp_path: Path) -> None:
    options = {"bucket": "1", "bucket-key": "k", "compaction.min.file-num": "3"}
    found = []
    for name, session in (("here", None), ("there", spark)):
        catalog = lc.connect(str(tmp_path / name), spark=session)
        catalog.create_database("db")
        table = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "BIGINT"}, options=options)
        for number in range(5):
            rows = [(k, number) for k in range(3)]
            assert table.write(as_dicts(rows) if session is None else spark.createDataFrame(rows, "k int, v bigint"))
        files = sorted(table.files(), key=lambda file: file.min_sequence_number)
        found.append((kinds(table), [file.row_count for file in files], table.scan().to_arrow()["v"].to_pylist()))

    assert found[0] == found[1]
    assert found[0][0] == ["APPEND", "APPEND", "APPEND", "COMPACT", "APPEND", "APPEND", "COMPACT"]
    assert found[0][1:] == ([15], [number for number in range(5) for _ in range(3)])
