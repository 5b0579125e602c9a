"""Staging: what is staged ahead of its commit keeps its place in the order of writes."""

from pathlib import Path

import pytest

import lakehouse_core as lc

USER = "pipeline"


def table_of(folder: Path, **options: str) -> lc.Table:
    catalog = lc.connect(str(folder))
    catalog.create_database("db", exist_ok=True)
    columns = {"k": "INT NOT NULL", "v": "STRING"}
    return catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": "1", **options})


def staged_ahead(table: lc.Table, *values: str) -> list[lc.StagedCommit]:
    """Stage a commit for each value of key 1, all before the first is committed."""
    staged: list[lc.StagedCommit] = []
    for number, value in enumerate(values):
        rows = [{"k": 1, "v": value}]
        staged.append(table.stage(rows, commit_user=USER, commit_identifier=number, behind=tuple(staged)))
    return staged


@pytest.mark.parametrize(
    ("options", "wins"),
    [
        ({"merge-engine": "deduplicate", "write-only": "true"}, "third"),
        ({"merge-engine": "deduplicate"}, "third"),
        ({"merge-engine": "first-row"}, "first"),
        ({"merge-engine": "partial-update", "write-only": "true"}, "third"),
    ],
    ids=lambda value: ",".join(value.values()) if isinstance(value, dict) else value,
)
def test_commits_that_were_staged_ahead_count_in_their_order(tmp_path: Path, options: dict[str, str], wins: str):
    table = table_of(tmp_path, **options)
    for staged in staged_ahead(table, "first", "second", "third"):
        table.commit(staged)

    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": wins}]


def test_rows_staged_behind_others_are_numbered_after_them_and_after_what_is_committed(tmp_path: Path):
    table = table_of(tmp_path, **{"write-only": "true"})
    table.write([{"k": key, "v": "committed"} for key in range(5)])

    numbers = [
        message.new_files[0].min_sequence_number for s in staged_ahead(table, "a", "b") for message in s.messages
    ]

    assert numbers == [5, 6]


def test_a_compaction_that_comes_with_a_commit_has_its_properties(tmp_path: Path):
    table = table_of(tmp_path, **{"changelog-producer": "lookup"})

    table.write([{"k": 1, "v": "a"}], properties={"lakehouse.batch": "2013-02-08"})

    assert [(str(s.commit_kind), s.properties["lakehouse.batch"]) for s in table.snapshots()] == [
        ("APPEND", "2013-02-08"),
        ("COMPACT", "2013-02-08"),
    ]


def test_partitions_that_are_not_the_times_a_strict_table_describes_are_not_written_to(tmp_path: Path):
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("db")
    options = {"partition.timestamp-format.strict": "true", "partition.timestamp-formatter": "yyyyMMdd"}
    table = catalog.create_table("db.t", {"dt": "STRING", "v": "INT"}, partition_keys=["dt"], options=options)
    table.write([{"dt": "20240131", "v": 1}])

    with pytest.raises(lc.InvalidRequest, match=r"db\.t: Partition dt='2024-01-31' is no time as"):
        table.write([{"dt": "20240201", "v": 2}, {"dt": "2024-01-31", "v": 3}])

    assert table.scan().to_arrow()["v"].to_pylist() == [1]
    assert len([path for path in tmp_path.rglob("data-*") if path.is_file()]) == 1
