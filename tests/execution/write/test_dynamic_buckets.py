"""Dynamic buckets: each key is in one bucket, which its index names, whatever is written, in turn or at once."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse_core as lc
from lakehouse_core.api import table_writes
from lakehouse_core.data_files.hash_index import read_hashes
from lakehouse_core.errors import CommitConflict, CorruptTable, InvalidRequest
from lakehouse_core.execution.row_changes import change
from lakehouse_core.format.binary_row import hash_rows
from lakehouse_core.planning.commit.hash_indexes import live_indexes
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.tasks.write.keys.bucket_index import positions_in

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())])


def table_of(folder: Path, *, partitioned: bool = False, **options: str) -> lc.Table:
    catalog = lc.connect(str(folder))
    catalog.create_database("db", exist_ok=True)
    columns = (
        {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "BIGINT"}
        if partitioned
        else {"k": "INT NOT NULL", "v": "BIGINT"}
    )
    named = {name.replace("__", "-"): value for name, value in options.items()}
    named = {"dynamic-bucket.target-row-num": "3", "write-only": "true", **named}
    return catalog.create_table(
        "db.t",
        columns,
        primary_keys=["p", "k"] if partitioned else ["k"],
        partition_keys=["p"] if partitioned else [],
        options=named,
    )


def rows(keys: Iterable[int], v: int = 0) -> list[dict[str, Any]]:
    return [{"k": key, "v": v} for key in keys]


def indexed(table: lc.Table) -> dict[int, set[int]]:
    """Return the hashes in the index of each bucket of a table without partitions."""
    context = table._context
    latest = context.snapshots.latest()
    assert latest is not None
    found = live_indexes(context.manifests.index_entries(latest))
    return {bucket: set(read_hashes(context.store, INDEX_FOLDER, file).tolist()) for (_, bucket), file in found.items()}


def hashes_of(keys: Iterable[int]) -> set[int]:
    field = {"k": "INT NOT NULL"}
    types = [lc.declared_schema(field, primary_keys=["k"]).fields[0].type]
    return set(hash_rows([pa.array(list(keys), pa.int32())], types).tolist())


def keys_by_bucket(table: lc.Table) -> dict[int, list[int]]:
    """Return the keys in the data files of each bucket."""
    context = table._context
    folders = DataLayout(context.schemas.latest())
    latest = context.snapshots.latest()
    found: dict[int, set[int]] = {}
    for entry in context.manifests.live_entries(latest):
        with context.store.open_read(f"{folders.bucket(entry.partition, entry.bucket)}/{entry.file.file_name}") as file:
            found.setdefault(entry.bucket, set()).update(pq.read_table(file)["k"].to_pylist())
    return {bucket: sorted(keys) for bucket, keys in sorted(found.items())}


def is_sound(table: lc.Table) -> None:
    """Assert that each key is in one bucket, whose index has its hash, and that verify agrees."""
    of_bucket, indexes = keys_by_bucket(table), indexed(table)
    every = [key for keys in of_bucket.values() for key in keys]
    assert len(every) == len(set(every))
    assert all(hashes_of(keys) <= indexes[bucket] for bucket, keys in of_bucket.items())
    assert sum(map(len, indexes.values())) == len(set().union(*indexes.values()))
    assert table.verify(data=True).findings == ()


def values(table: lc.Table) -> dict[int, int]:
    found = table.scan().to_arrow().to_pylist()
    assert len({row["k"] for row in found}) == len(found)
    return {row["k"]: row["v"] for row in sorted(found, key=lambda row: row["k"])}


def test_staged_rows_whose_keys_another_commit_put_into_other_buckets_are_told_before_their_commit(tmp_path: Path):
    table = table_of(tmp_path, **{"dynamic-bucket.target-row-num": "1"})
    table.write(rows([1]))
    # Key 2 opens bucket 1.
    staged = table.stage(rows([2]), commit_user="mine", commit_identifier=0)
    fine = table.stage(rows([1], v=7), commit_user="other", commit_identifier=0)
    table.write(rows([3]))
    table.write(rows([2]))
    found, none = table.why_not_committed([staged, fine])

    assert found is not None
    assert "another commit put 1 of its keys into bucket 2" in found
    assert none is None
    with pytest.raises(CommitConflict):
        table.commit(staged)
    table.commit(fine)
    is_sound(table)


SETS = st.sets(st.integers(-5, 5))


@given(known=SETS, keys=SETS, is_same=st.booleans())
def test_known_hashes_are_found_among_those_of_a_write(known: set[int], keys: set[int], is_same: bool) -> None:
    keys = known if is_same else keys

    found = positions_in(np.array(sorted(known), np.int32), np.array(sorted(keys), np.int32))

    assert [sorted(keys)[position] for position in found.tolist()] == sorted(known & keys)


def test_a_table_with_a_key_has_dynamic_buckets_unless_it_says_otherwise(tmp_path: Path) -> None:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "BIGINT"}, primary_keys=["k"])

    table.write(rows([1, 2]))
    table.write(rows([2, 3], v=1))

    assert values(table) == {1: 0, 2: 1, 3: 1}
    assert indexed(table) == {0: hashes_of([1, 2, 3])}
    is_sound(table)


def test_known_keys_keep_their_bucket_and_new_ones_fill_the_others(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows(range(7)))
    before = keys_by_bucket(table)
    assert [len(keys) for keys in before.values()] == [3, 3, 1]

    table.write(rows(range(10), v=1))

    after = keys_by_bucket(table)
    assert [len(keys) for keys in after.values()] == [3, 3, 3, 1]
    assert all(set(keys) <= set(after[bucket]) for bucket, keys in before.items())
    assert values(table) == dict.fromkeys(range(10), 1)
    is_sound(table)


def test_a_write_of_known_keys_alone_changes_no_index(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    first = table.write(rows(range(7)))
    second = table.write(rows(range(7), v=1))

    manifests = {table._context.snapshots.snapshot(report.snapshot_id).index_manifest for report in (first, second)}
    assert len(manifests) == 1
    assert values(table) == dict.fromkeys(range(7), 1)


@pytest.mark.parametrize("spillable", ["true", "false"])
def test_a_write_larger_than_its_buffer_assigns_every_key_once(tmp_path: Path, spillable: str) -> None:
    small = {"write-buffer-size": "1 b", "write-buffer-spillable": spillable}
    table = table_of(tmp_path, **small)
    batches = [pa.record_batch([[1, 2], [0, 0]], SCHEMA), pa.record_batch([[2, 3], [1, 1]], SCHEMA)]
    batches += [pa.record_batch([[4, 5, 1], [2, 2, 2]], SCHEMA)]

    table.write(pa.Table.from_batches(batches))

    assert values(table) == {1: 2, 2: 1, 3: 1, 4: 2, 5: 2}
    assert sorted(map(len, indexed(table).values())) == [2, 3]
    is_sound(table)


def test_each_partition_has_buckets_of_its_own(tmp_path: Path) -> None:
    table = table_of(tmp_path, partitioned=True)
    table.write([{"p": p, "k": k, "v": 0} for p in (1, 2) for k in range(4)])
    table.write([{"p": 2, "k": 9, "v": 0}])

    buckets = sorted((row["p"], row["bucket"]) for row in _buckets(table))
    assert buckets == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert table.verify(data=True).findings == ()


def _buckets(table: lc.Table) -> list[dict[str, Any]]:
    return [{"p": int(one.partition["p"]), "bucket": one.bucket} for one in table.buckets()]


def test_a_delete_of_an_unknown_key_takes_a_place_and_an_ignored_one_takes_none(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write([{"k": 1, "v": 0, "op": "-D"}], rowkind_column="op")
    assert indexed(table) == {0: hashes_of([1])}

    ignoring = table_of(tmp_path / "other", ignore__delete="true")
    ignoring.write([{"k": 1, "v": 0, "op": "-D"}, {"k": 2, "v": 0, "op": "+I"}], rowkind_column="op")
    assert indexed(ignoring) == {0: hashes_of([2])}


def test_beyond_the_largest_count_of_buckets_new_keys_share_those_that_are_there(tmp_path: Path) -> None:
    most = {"dynamic-bucket.max-buckets": "2"}
    table = table_of(tmp_path, **most)
    table.write(rows(range(20)))
    table.write(rows(range(15, 30), v=1))

    assert set(indexed(table)) == {0, 1}
    assert values(table) == {**dict.fromkeys(range(15), 0), **dict.fromkeys(range(15, 30), 1)}
    is_sound(table)


def test_an_overwrite_begins_at_bucket_0_and_removes_the_old_indexes(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows(range(10)))

    table.overwrite(rows([8, 9], v=1))

    assert indexed(table) == {0: hashes_of([8, 9])}
    assert values(table) == {8: 1, 9: 1}
    table.write(rows(range(3), v=2))
    assert values(table) == {0: 2, 1: 2, 2: 2, 8: 1, 9: 1}
    is_sound(table)


def test_an_overwrite_of_a_partition_leaves_the_indexes_of_the_others(tmp_path: Path) -> None:
    table = table_of(tmp_path, partitioned=True)
    table.write([{"p": p, "k": k, "v": 0} for p in (1, 2) for k in range(7)])

    table.overwrite([{"p": 1, "k": 5, "v": 1}], partition={"p": 1})

    context = table._context
    counts = [entry.row_count for entry in context.manifests.index_entries(context.snapshots.latest())]
    assert sorted(counts) == [1, 1, 3, 3]
    assert table.verify(data=True).findings == ()


def test_a_bucket_that_is_compacted_to_nothing_keeps_its_index(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows(range(7)))
    table.write([{"k": k, "v": 0, "op": "-D"} for k in range(7)], rowkind_column="op")

    table.compact(full=True)

    assert table.files() == []
    assert sum(map(len, indexed(table).values())) == 7
    table.write(rows([3], v=3))
    assert values(table) == {3: 3}
    is_sound(table)


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_compactions_lookups_and_expiry_know_dynamic_buckets(tmp_path: Path, vectors: str) -> None:
    options = {"deletion-vectors.enabled": vectors, "snapshot.num-retained.min": "1", "lakehouse.read.grace": "0 s"}
    table = table_of(tmp_path, **options, write__only="false")
    for number in range(8):
        table.write(rows(range(number, number + 9), v=number))
    table.compact(full=True)
    expected = {**{key: key for key in range(7)}, **dict.fromkeys(range(7, 16), 7)}

    assert values(table) == expected
    assert table.lookup([3, 12, 99]).to_pylist() == [{"k": 3, "v": 3}, {"k": 12, "v": 7}]
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert values(table) == expected
    kept = {path.name for path in (tmp_path / "db.db/t/index").iterdir()}
    context = table._context
    assert kept == {entry.file_name for entry in context.manifests.index_entries(context.snapshots.latest())}
    is_sound(table)


def test_an_append_of_keys_that_two_writers_bring_at_once_unites_their_indexes(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows([1]))
    ours = table.stage(rows([1, 2], v=1), commit_user="ours", commit_identifier=1)
    theirs = table.stage(rows([1, 3], v=2), commit_user="theirs", commit_identifier=1)
    table.commit(theirs)
    table.commit(ours)

    assert values(table) == {1: 1, 2: 1, 3: 2}
    assert indexed(table) == {0: hashes_of([1, 2, 3])}
    is_sound(table)
    assert table.commit(ours).replayed


def test_the_index_files_that_a_united_one_replaces_are_deleted(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    first = table.stage(rows([1]), commit_user="first", commit_identifier=1)
    second = table.stage(rows([2]), commit_user="second", commit_identifier=1)
    table.commit(first)
    table.commit(second)

    context = table._context
    named = {
        entry.file_name
        for snapshot in table.snapshots()
        for entry in context.manifests.index_entries(context.snapshots.snapshot(snapshot.id))
    }
    assert {path.name for path in (tmp_path / "db.db/t/index").iterdir()} == named


def clash(table: lc.Table) -> tuple[lc.StagedCommit, list[dict[str, Any]]]:
    """Return a staged commit and rows, of which some new key gets different buckets when both begin here."""
    # Alone key 7 is in bucket 0; among the others it is the last in the order of hashes, or not in the first bucket.
    ordered = sorted(range(30), key=lambda key: hashes_of([key]).pop())
    last = ordered[-1]
    return table.stage(rows(ordered, v=1), commit_user="many", commit_identifier=1), rows([last], v=2)


def test_a_key_in_two_buckets_is_a_conflict_and_nothing_is_applied(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    many, one = clash(table)
    table.write(one)

    with pytest.raises(CommitConflict, match=r"another commit put 1 of its keys into bucket 0\. Nothing was applied"):
        table.commit(many)

    assert list(values(table).values()) == [2]
    is_sound(table)


def test_a_write_whose_key_came_to_another_bucket_meanwhile_is_staged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path)
    many, one = clash(table)
    stage, meanwhile = table_writes.stage_files, [many]

    def stage_then_be_overtaken(*args: Any, **kwargs: Any) -> lc.StagedCommit:
        staged = stage(*args, **kwargs)
        if meanwhile:
            table.commit(meanwhile.pop())
        return staged

    monkeypatch.setattr(table_writes, "stage_files", stage_then_be_overtaken)
    table.write(one)

    assert len(values(table)) == 30
    assert values(table)[one[0]["k"]] == 2
    is_sound(table)


def test_a_stream_of_rows_is_not_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path)
    many, one = clash(table)
    stage, meanwhile = table_writes.stage_files, [many]

    def stage_then_be_overtaken(*args: Any, **kwargs: Any) -> lc.StagedCommit:
        staged = stage(*args, **kwargs)
        if meanwhile:
            table.commit(meanwhile.pop())
        return staged

    monkeypatch.setattr(table_writes, "stage_files", stage_then_be_overtaken)
    reader = pa.Table.from_pylist(one, SCHEMA).to_reader()

    with pytest.raises(CommitConflict, match="another commit put 1 of its keys into bucket"):
        table.write(reader)
    assert set(values(table).values()) == {1}


def test_rows_staged_behind_others_go_to_the_buckets_of_those(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    first, one = clash(table)
    second = table.stage(one, commit_user="one", commit_identifier=1, behind=[first])
    third = table.stage(rows(range(40), v=3), commit_user="third", commit_identifier=1, behind=[first, second])
    for staged in (first, second, third):
        table.commit(lc.StagedCommit.from_json(staged.to_json()))

    assert values(table) == dict.fromkeys(range(40), 3)
    is_sound(table)


def test_rows_staged_behind_two_that_do_not_know_each_other_see_the_keys_of_both(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    first = table.stage(rows([1]), commit_user="first", commit_identifier=1)
    second = table.stage(rows([2]), commit_user="second", commit_identifier=1)
    third = table.stage(rows([1, 2], v=3), commit_user="third", commit_identifier=1, behind=[first, second])
    for staged in (first, second, third):
        table.commit(staged)

    assert values(table) == {1: 3, 2: 3}
    is_sound(table)


def test_a_joint_commit_unites_the_indexes_of_its_parts(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows([0]))
    first = table.stage(rows([1]), commit_user="first", commit_identifier=1)
    second = table.stage(rows([1, 2], v=2), commit_user="second", commit_identifier=1, behind=[first])
    third = table.stage(rows([3], v=3), commit_user="third", commit_identifier=1)

    table.commit_together([first, second, third], commit_user="all", commit_identifier=1)

    assert values(table) == {0: 0, 1: 2, 2: 2, 3: 3}
    is_sound(table)


def test_rows_staged_before_an_overwrite_of_their_keys_bring_their_keys_again(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows([1, 2]))
    staged = table.stage(rows([1], v=1), commit_user="late", commit_identifier=1)
    table.overwrite(rows([5], v=5))

    table.commit(staged)

    assert values(table) == {1: 1, 5: 5}
    is_sound(table)


def test_a_commit_whose_base_has_expired_compares_the_hashes_themselves(tmp_path: Path) -> None:
    table = table_of(tmp_path, **{"snapshot.num-retained.min": "1", "lakehouse.read.grace": "0 s"})
    table.write(rows([1]))
    staged = table.stage(rows([1, 2], v=1), commit_user="late", commit_identifier=1)
    for key in range(3, 9):
        table.write(rows([key]))
    table.expire_snapshots(retain_max=1, retain_min=1)

    table.commit(staged)

    assert values(table) == {**dict.fromkeys(range(3, 9), 0), 1: 1, 2: 1}
    is_sound(table)


def test_of_known_keys_whose_index_has_expired_the_rows_tell_the_hashes(tmp_path: Path) -> None:
    table = table_of(tmp_path, **{"snapshot.num-retained.min": "1", "lakehouse.read.grace": "0 s"})
    table.write(rows([1]))
    staged = table.stage(rows([1], v=1), commit_user="late", commit_identifier=1)
    table.write(rows([2]))
    table.expire_snapshots(retain_max=1, retain_min=1)

    table.commit(staged)

    assert values(table) == {1: 1, 2: 0}
    is_sound(table)


def test_a_failed_write_leaves_no_index_file(tmp_path: Path) -> None:
    table = table_of(tmp_path, **{"write-buffer-size": "1 b", "write-buffer-spillable": "false"})

    with pytest.raises(InvalidRequest, match="row 2 holds null"):
        table.write([*rows([1, 2]), {"k": None, "v": 0}])

    assert [path.name for path in (tmp_path / "db.db/t").rglob("index-*")] == []


def doubled(table: lc.Table, tmp_path: Path) -> None:
    """Leave a key in two buckets, as a lost hash makes another engine do."""
    first = table.stage(rows(range(4)), commit_user="first", commit_identifier=1)
    table.commit(first)
    bucket = next(bucket for bucket, keys in keys_by_bucket(table).items() if len(keys) == 3)
    context = table._context
    latest = context.snapshots.latest()
    (file,) = (
        file for (_, one), file in live_indexes(context.manifests.index_entries(latest)).items() if one == bucket
    )
    path = tmp_path / f"db.db/t/index/{file.file_name}"
    # The index has as many hashes as before, of other keys.
    path.write_bytes(b"".join(number.to_bytes(4, "big") for number in (1, 2, 3)))


@pytest.mark.damage
def test_verify_finds_keys_that_their_index_lacks_and_then_the_doubled_ones(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    doubled(table, tmp_path)
    assert [finding.promise.value for finding in table.verify(data=True).findings] == ["I22"]
    assert "the index of the bucket lacks 3 of its keys" in str(table.verify(data=True).findings[0])
    assert table.verify().findings == ()

    table.write(rows(range(4), v=1))

    told = " ".join(map(str, table.verify(data=True).findings))
    assert "of its keys are in bucket-" in told
    with pytest.raises(AssertionError):
        values(table)
    table.rescale()
    assert values(table) == dict.fromkeys(range(4), 1)
    is_sound(table)


@pytest.mark.damage
def test_a_write_to_an_index_with_one_key_in_two_buckets_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows(range(4)))
    context = table._context
    files = list(live_indexes(context.manifests.index_entries(context.snapshots.latest())).values())
    large, small = sorted(files, key=lambda file: -file.row_count)
    path = tmp_path / "db.db/t/index"
    (path / small.file_name).write_bytes((path / large.file_name).read_bytes()[:4])

    with pytest.raises(CorruptTable, match="Rescale the partition"):
        table.write(rows(range(4), v=1))

    table.rescale()
    table.write(rows(range(4), v=1))
    is_sound(table)


def test_a_copy_has_the_indexes_too(tmp_path: Path) -> None:
    table = table_of(tmp_path / "from")
    table.write(rows(range(7)))
    there = lc.connect(str(tmp_path / "to"))
    there.create_database("db")
    there.copy_table(table, "db.t")

    copied = there.table("db.t")
    copied.write(rows(range(9), v=1))
    assert values(copied) == dict.fromkeys(range(9), 1)
    is_sound(copied)


def test_changed_rows_stay_in_the_bucket_of_their_key_and_change_no_index(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows(range(7)))
    before, indexes = keys_by_bucket(table), indexed(table)
    assert len(before) == 3

    table.update({"v": 1}, "k < 4")
    table.delete("k = 5")

    assert keys_by_bucket(table) == before
    assert indexed(table) == indexes
    assert values(table) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 0, 6: 0}
    is_sound(table)
    table.write(rows([5], v=2))
    assert keys_by_bucket(table) == before


@pytest.mark.damage
def test_rows_are_changed_where_they_are_also_if_the_index_has_lost_them(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    doubled(table, tmp_path)

    table.update({"v": 1}, "k < 2")
    table.delete("k = 3")

    assert values(table) == {0: 1, 1: 1, 2: 0}


def test_a_truncate_removes_the_indexes_and_keys_begin_at_bucket_0(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows(range(4)))
    table.delete("k < 4")
    table.compact(full=True)
    table.write(rows([20]))
    assert (len(indexed(table)), len(keys_by_bucket(table))) == (2, 1)

    table.truncate()

    assert indexed(table) == {}
    table.write(rows([9, 3]))
    assert indexed(table) == {0: hashes_of([9, 3])}
    is_sound(table)


def test_dropped_partitions_lose_their_indexes_alone(tmp_path: Path) -> None:
    table = table_of(tmp_path, partitioned=True)
    table.write([{"p": p, "k": k, "v": 0} for p in (1, 2) for k in range(7)])

    table.drop_partitions({"p": 1})

    context = table._context
    counts = [entry.row_count for entry in context.manifests.index_entries(context.snapshots.latest())]
    assert sorted(counts) == [1, 3, 3]
    table.write([{"p": 1, "k": 5, "v": 1}])
    assert table.verify(data=True).findings == ()
    assert table.scan().count() == 8


@pytest.mark.parametrize("has_files", [True, False])
def test_a_truncate_that_a_write_of_known_keys_overtakes_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_files: bool
) -> None:
    """If it removed the index, the rows of that write would be without one."""
    table = table_of(tmp_path)
    table.write(rows(range(7)))
    if not has_files:
        # One bucket still has files, or there would be nothing to truncate.
        kept = keys_by_bucket(table)[2]
        table.delete(f"k <> {kept[0]}")
        table.compact(full=True)
        assert list(keys_by_bucket(table)) == [2]
    overtaken, known = [], keys_by_bucket(lc.connect(str(tmp_path)).table("db.t"))
    commit = change.commit_or_discard

    def commit_after_another(*args: Any, **kwargs: Any) -> Any:
        if not overtaken:
            overtaken.append(table.write(rows([0 if has_files else next(k for k in range(7) if k not in known[2])])))
        return commit(*args, **kwargs)

    monkeypatch.setattr(change, "commit_or_discard", commit_after_another)
    report = table.truncate()

    assert report.runs == 2
    assert values(table) == {}
    assert indexed(table) == {}
    table.write(rows(range(3)))
    is_sound(table)
