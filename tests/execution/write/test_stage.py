"""Staging: what is staged ahead of its commit keeps its place in the order of writes."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_core as lc

USER = "pipeline"
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])


def table_of(folder: Path, **options: str) -> lc.Table:
    catalog = lc.connect(str(folder))
    catalog.create_database("db", exist_ok=True)
    columns = {"k": "INT NOT NULL", "v": "STRING"}
    return catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": "1", **options})


def files_on_disk(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("data-*") if path.is_file()}


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


def batches_read(count: list[int], value: str) -> Iterator[pa.RecordBatch]:
    count.append(1)
    yield pa.RecordBatch.from_pylist([{"k": 1, "v": value}], schema=SCHEMA)


@pytest.mark.parametrize("mode", [lc.Append(), lc.StaticOverwrite({})], ids=["append", "overwrite"])
def test_what_was_committed_is_not_written_again_nor_is_its_data_read(
    tmp_path: Path, mode: lc.Append | lc.StaticOverwrite
):
    """As a stream does that repeats its last batch."""
    table = table_of(tmp_path)
    read: list[int] = []
    for _ in range(2):
        data = pa.RecordBatchReader.from_batches(SCHEMA, batches_read(read, "mine"))
        report = table.commit(table.stage(data, commit_user=USER, commit_identifier=1, mode=mode))

    assert report.replayed
    assert report.snapshot_ids == (1,)
    assert read == [1]
    assert files_on_disk(tmp_path) == {file.file_name for file in table.files()}


def test_what_was_committed_is_known_behind_later_commits_of_its_user(tmp_path: Path):
    table = table_of(tmp_path, **{"write-only": "true"})
    for number in (1, 2):
        table.commit(table.stage([{"k": number, "v": "a"}], commit_user=USER, commit_identifier=number))
    before = files_on_disk(tmp_path)

    again = table.stage([{"k": 1, "v": "a"}], commit_user=USER, commit_identifier=1)

    assert table.commit(again).snapshot_ids == (1,)
    assert files_on_disk(tmp_path) == before


def test_a_commit_that_nobody_can_tell_of_any_more_is_refused_before_a_file_is_written(tmp_path: Path):
    table = table_of(tmp_path, **{"write-only": "true", "lakehouse.read.grace": "0 s"})
    for number in (1, 2):
        table.commit(table.stage([{"k": number, "v": "a"}], commit_user=USER, commit_identifier=number))
    table.expire_snapshots(retain_max=1)
    before = files_on_disk(tmp_path)

    with pytest.raises(lc.StaleCommit, match="has committed 2 already"):
        table.stage([{"k": 1, "v": "a"}], commit_user=USER, commit_identifier=1)

    assert files_on_disk(tmp_path) == before


def test_a_second_user_with_the_same_identifier_is_no_repetition(tmp_path: Path):
    table = table_of(tmp_path)
    for user in ("one", "other"):
        table.commit(table.stage([{"k": 1, "v": user}], commit_user=user, commit_identifier=1))

    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": "other"}]


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

    with pytest.raises(lc.InvalidRequest, match=r"db\.t: Partition dt='2024-01-31' is not a time as"):
        table.write([{"dt": "20240201", "v": 2}, {"dt": "2024-01-31", "v": 3}])

    assert table.scan().to_arrow()["v"].to_pylist() == [1]
    assert len([path for path in tmp_path.rglob("data-*") if path.is_file()]) == 1


@pytest.mark.parametrize("bucket", ["1", "-1", "-2"])
def test_a_lone_retract_that_no_compaction_could_merge_is_refused_by_the_write(tmp_path: Path, bucket: str):
    table = table_of(tmp_path, **{"bucket": bucket, "merge-engine": "first-row"})
    table.write([{"k": 1, "v": "a"}])
    before = files_on_disk(tmp_path)

    with pytest.raises(lc.InvalidRequest, match="first-row: found a -D or -U record, expected"):
        table.write([{"k": 2, "v": "b", "op": "-D"}], rowkind_column="op")

    assert files_on_disk(tmp_path) == before
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": "a"}]
