"""CALL of procedures about tags, consumers, rollbacks and buckets: each does what its verb does, and answers alike."""

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.format.strict_json import CHECKSUM_FIELD


@pytest.fixture
def table(empty):
    made = empty.create_table("s.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1"})
    for value in "abc":
        made.write([{"k": 1, "v": value}])
    return made


@pytest.fixture
def call(empty, table):
    return lambda text: empty.sql(f"CALL sys.{text}", database="s").to_arrow().to_pylist()


def value(table, **more):
    return [row["v"] for row in table.scan(**more).to_arrow().to_pylist()]


def test_tags_are_replaced_renamed_and_expired(table, call):
    done = [{"result": True}]
    assert call("create_tag('t', 'eod', 1)") == done
    assert call("replace_tag(table => 't', tag => 'eod', snapshot => 2, time_retained => '1 d')") == done
    assert call("rename_tag('t', 'eod', 'noon')") == done
    (tag,) = table.tags()
    assert (tag.name, tag.snapshot_id, tag.time_retained_millis) == ("noon", 2, 86_400_000)
    assert call("replace_tag('t', 'noon')") == done
    assert table.tags()[0].snapshot_id == 3
    assert call("expire_tags('t')") == [{"expired_tags": "No expired tags."}]
    assert call("expire_tags('t', older_than => '2200-01-01')") == [{"expired_tags": "noon"}]
    assert table.tags() == []


def test_a_tag_is_made_of_the_first_snapshot_of_a_time_or_later(table, call):
    times = [snapshot.time_millis for snapshot in table.snapshots()]
    first = min(index for index, time in enumerate(times) if time == times[1])
    expected = {"tagName": "eod", "snapshot": first + 1, "commit_time": times[1], "watermark": "null"}
    assert call(f"create_tag_from_timestamp('t', 'eod', {times[1]}, '1 d')") == [expected]
    assert call("create_tag_from_timestamp('t', 'first', 0)")[0]["snapshot"] == 1


def test_orphans_are_removed_from_a_table_or_from_all_of_a_database(empty, table, call):
    def leave():
        staged = table.stage([{"k": 2, "v": "left"}], commit_user="killed", commit_identifier=1)
        (message,) = staged.messages
        data = Path(table.uri.removeprefix("file://")) / "bucket-0" / message.new_files[0].file_name
        two_days_ago = time.time() - 2 * 86_400
        os.utime(data, (two_days_ago, two_days_ago))
        return {"deletedFileCount": 1, "deletedFileTotalLenInBytes": data.stat().st_size}

    other = empty.create_table("s.other", {"k": "INT"})
    expected = leave()
    nothing = {"deletedFileCount": 0, "deletedFileTotalLenInBytes": 0}
    three_days_ago = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - 3 * 86_400))
    assert call(f"remove_orphan_files('t', '{three_days_ago}')") == [nothing]
    assert call("remove_orphan_files('t', dry_run => true, parallelism => 2, mode => 'local')") == [expected]
    assert call("remove_orphan_files('t')") == [expected]
    assert call("remove_orphan_files('t')") == [nothing]
    expected = leave()
    answer = empty.sql("CALL sys.remove_orphan_files('s.*')")
    assert answer.to_arrow().to_pylist() == [expected]
    assert [report.table for report in answer.reports] == [other.name, table.name]
    assert value(table) == ["c"]


def test_the_watermark_of_an_expired_snapshot_is_that_of_the_tag_which_holds_it(table, call):
    # As another engine commits a watermark.
    store, key = table._context.store, "snapshot/snapshot-1"
    made = json.loads(store.read(key))
    del made[CHECKSUM_FIELD]
    store.write({key: json.dumps({**made, "watermark": 1700}).encode()})
    table.create_tag("kept", at=1)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert [snapshot.id for snapshot in table.snapshots()] == [3]

    (row,) = call("create_tag_from_timestamp('t', 'eod', 0)")

    assert (row["snapshot"], row["watermark"]) == (1, "1700")


def test_consumers_are_set_removed_and_cleared_by_patterns(table, call):
    def names():
        return table.system("consumers").to_arrow().to_pydict()["consumer_id"]

    for name in ("a1", "a2", "b1"):
        assert call(f"reset_consumer('t', '{name}', 2)") == [{"result": True}]
    call("reset_consumer(table => 't', consumerId => 'b1', nextSnapshotId => 3)")
    assert table.system("consumers").to_arrow().to_pylist()[-1] == {"consumer_id": "b1", "next_snapshot_id": 3}
    call("reset_consumer('t', 'b1')")
    assert names() == ["a1", "a2"]
    call("clear_consumers('t', 'a.', 'a2')")
    assert names() == ["a2"]
    call("clear_consumers(table => 't', includingConsumers => '')")
    assert names() == []


def test_a_table_is_rolled_back_by_javas_names(table, call):
    call("create_tag('t', 'first', 1)")
    assert call("rollback('t', '2')") == [{"previous_snapshot_id": 3, "current_snapshot_id": 4}]
    assert value(table) == ["b"]
    assert call("rollback(table => 't', version => 'first')") == [{"previous_snapshot_id": 4, "current_snapshot_id": 5}]
    assert value(table) == ["a"]
    assert call("rollback(table => 't', snapshot => 3)") == [{"previous_snapshot_id": 5, "current_snapshot_id": 6}]
    assert value(table) == ["c"]
    assert call("rollback(table => 't', tag => 'first')") == [{"previous_snapshot_id": 6, "current_snapshot_id": 7}]
    assert call("rollback_to_as_latest('t', snapshot_id => 2)") == [
        {"previous_snapshot_id": 7, "rolled_back_snapshot_id": 2, "current_snapshot_id": 8}
    ]
    assert call("rollback_to_as_latest('t', 'first')")[0]["rolled_back_snapshot_id"] == 1
    # The table has the state already.
    assert call("rollback('t', '1')") == [{"previous_snapshot_id": 9, "current_snapshot_id": 9}]


def test_a_table_is_rolled_back_to_a_time_and_to_a_watermark(table, call):
    last = table.snapshots()[-1]
    table.write([{"k": 1, "v": "d"}])
    call(f"rollback_to_timestamp('t', {last.time_millis})")
    newest = max(one.id for one in table.snapshots()[:-1] if one.time_millis <= last.time_millis)
    assert value(table) == value(table, at=lc.AtSnapshot(newest))
    with pytest.raises(lc.NotFound, match="no snapshot has the watermark 5 or an earlier one"):
        call("rollback_to_watermark('t', 5)")


def test_a_table_is_rescaled_and_so_are_its_partitions_by_javas_name(empty, table, call):
    assert call("rescale('t', 3)") == [{"result": True}]
    assert {file.total_buckets for file in empty.table("s.t").files()} == {3}
    assert value(empty.table("s.t")) == ["c"]
    columns = {"k": "INT NOT NULL", "p": "INT NOT NULL"}
    parts = empty.create_table("s.p", columns, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1"})
    parts.write([{"k": k, "p": k % 3} for k in range(9)])
    parts.alter(lc.SetOption("bucket", "2"))
    assert call("rescale(table => 'p', bucket_num => 2, partitions => 'p=0;p=1')") == [{"result": True}]
    counts = {(file.partition["p"], file.total_buckets) for file in empty.table("s.p").files()}
    assert counts == {("0", 2), ("1", 2), ("2", 1)}
    parts = empty.create_table("s.d", columns, primary_keys=["p", "k"], partition_keys=["p"])
    parts.write([{"k": k, "p": k % 3} for k in range(9)])
    assert call("rescale(table => 'd', partitions => 'p=0;p=1')") == [{"result": True}]
    assert call("rescale('d', -1)") == [{"result": True}]
    assert [snapshot.commit_kind for snapshot in parts.snapshots()] == ["APPEND", "OVERWRITE", "OVERWRITE", "OVERWRITE"]


def test_indexes_are_given_to_files_with_the_counts_of_java(empty, call):
    columns = {"k": "INT", "p": "INT NOT NULL"}
    parts = empty.create_table("s.p", columns, partition_keys=["p"], options={"bucket": "-1"})
    parts.write([{"k": k, "p": k % 3} for k in range(9)])
    parts.alter(lc.SetOption("file-index.bitmap.columns", "k"))
    counts = [{"written_partitions": 1, "written_indexes": 1}, {"written_partitions": 2, "written_indexes": 2}]
    assert call("rewrite_file_index(table => 'p', where => 'p = 1')") == counts[:1]
    assert call("rewrite_file_index('p')") == counts[1:]
    assert call("rewrite_file_index('p')") == [{"written_partitions": 0, "written_indexes": 0}]


# A condition on the partition columns, and the partitions for which it is true.
RANGES = {
    "day > '2013-01-01'": ["2013-01-02 1", "2013-01-03 0", "2013-01-03 None"],
    "day BETWEEN DATE '2013-01-02' AND '2013-01-03' AND h IS NOT NULL": ["2013-01-02 1", "2013-01-03 0"],
    "h IS NULL OR day < '2013-01-02'": ["2013-01-01 0", "2013-01-03 None"],
    "h IN (1, 2) AND NOT day = '2013-01-09'": ["2013-01-02 1"],
    "day = '2013-01-03'": ["2013-01-03 0", "2013-01-03 None"],
    "day > '2014-01-01'": [],
    "  ": ["2013-01-01 0", "2013-01-02 1", "2013-01-03 0", "2013-01-03 None"],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("where", "wanted"), RANGES.items(), ids=RANGES)
def test_a_condition_names_all_partitions_for_which_it_is_true(empty, call, where, wanted):
    columns = {"k": "INT", "day": "DATE NOT NULL", "h": "INT"}
    rows = [
        {"k": n, "day": f"2013-01-0{day}", "h": h} for n in (1, 2) for day, h in ((1, 0), (2, 1), (3, 0), (3, None))
    ]
    parts = empty.create_table("s.p", columns, partition_keys=["day", "h"], options={"bucket": "-1"})
    for row in rows:
        parts.write([row])

    assert call(f'compact(table => "p", where => "{where}")') == [{"result": True}]

    counts = Counter(f"{file.partition['day']} {file.partition['h']}" for file in parts.files())
    assert sorted(name for name, count in counts.items() if count == 1) == wanted


def test_the_partitions_of_a_range_are_rescaled(empty, call):
    columns = {"k": "INT NOT NULL", "p": "INT NOT NULL"}
    parts = empty.create_table("s.p", columns, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1"})
    parts.write([{"k": k, "p": k % 3} for k in range(9)])
    parts.alter(lc.SetOption("bucket", "2"))

    assert call("rescale(table => 'p', bucket_num => 2, where => 'p >= 1')") == [{"result": True}]
    assert {(file.partition["p"], file.total_buckets) for file in empty.table("s.p").files()} == {
        ("0", 1),
        ("1", 2),
        ("2", 2),
    }


NO_PARTITION = {
    "p = 1 AND p = 0": 0,
    "p = 1 AND q = 'a' AND q = 'b'": 0,
    "p = 1 AND p = 1.5": 0,
    "p = 1 AND q = 'a' AND p = 1.0": 1,
}


@pytest.mark.parametrize(("where", "changed"), NO_PARTITION.items(), ids=NO_PARTITION)
def test_a_condition_that_asks_for_two_values_of_a_column_is_true_for_no_partition(empty, call, where, changed):
    columns = {"k": "INT", "p": "INT NOT NULL", "q": "STRING NOT NULL"}
    parts = empty.create_table("s.p", columns, partition_keys=["p", "q"], options={"bucket": "-1"})
    for _ in range(2):
        parts.write([{"k": k, "p": k % 3, "q": "a"} for k in range(9)])
    parts.alter(lc.SetOption("file-index.bitmap.columns", "k"))

    rewritten = call(f'rewrite_file_index(table => "p", where => "{where}")')
    assert rewritten == [{"written_partitions": changed, "written_indexes": 2 * changed}]
    assert call(f'compact(table => "p", where => "{where}")') == [{"result": True}]
    assert len(parts.files()) == 6 - changed


def test_partitions_that_give_a_column_two_values_are_refused(table, call):
    with pytest.raises(
        lc.InvalidRequest, match=r"gives dt two values: '1' and '2'\. Separate partitions by semicolons"
    ):
        call("compact(table => 't', partitions => 'dt=1,dt=2')")


def test_branches_are_created_renamed_and_deleted(table, call):
    done = [{"result": True}]

    def names():
        return [(branch.name, branch.snapshot_id) for branch in table.branches()]

    call("create_tag('t', 'eod', 2)")
    assert call("create_branch('t', 'empty')") == done
    assert call("create_branch(table => 't', branch => 'trial', tag => 'eod')") == done
    assert call("create_branch(table => 't', branch => 'trial', ignoreIfExists => true)") == done
    assert names() == [("empty", None), ("trial", 2)]
    assert call("rename_branch(table => 't', from_branch => 'trial', to_branch => 'tried')") == done
    with pytest.raises(lc.NotFound, match="Branch 'nix' does not exist"):
        call("delete_branch('t', 'empty,nix')")
    assert names() == [("empty", None), ("tried", 2)]
    call("create_branch('t', 'next')")
    with pytest.raises(lc.InvalidRequest, match="branch 'next' has no snapshot"):
        call("fast_forward('t', 'next')")
    with pytest.raises(lc.UnsupportedFeature, match="a rollback removes no snapshot here"):
        call("rollback(table => 't', snapshot => 1, exclusive => true)")
    call("rollback('t', 'eod')")
    call("rollback('t', '2')")
    assert call("fast_forward(table => 't', branch => 'tried')") == done
    assert call("delete_branch('t', 'empty, tried, next')") == done
    assert names() == []
    with pytest.raises(lc.InvalidRequest, match="A name is used once"):
        call("create_branch('t', 'trial', 'eod')")


VECTORS = {"deletion-vectors.enabled": "true"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ([], VECTORS),
        ([], {**VECTORS, "bucket": "2", "bucket-key": "k"}),
        (["p", "k"], {**VECTORS, "bucket": "1"}),
        (["p", "k"], {**VECTORS, "bucket": "-1"}),
    ],
)
def test_no_deletion_vector_stays_when_they_are_materialized(empty, keys, options):
    columns = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
    table = empty.create_table("s.m", columns, primary_keys=keys, partition_keys=["p"], options=options)
    table.write([{"p": p, "k": k, "v": "a"} for p in (1, 2) for k in range(20)])
    table.compact(full=True)
    table.delete("k IN (3, 4)")
    rows = sorted(map(repr, table.scan().to_arrow().to_pylist()))

    assert marked(table) == {1, 2}
    empty.sql("CALL sys.materialize_deletion_vectors(table => 's.m', where => 'p = 1')")
    assert marked(table) == {2}
    assert empty.sql("CALL sys.materialize_deletion_vectors('s.m')").to_arrow().to_pylist() == [{"result": True}]

    assert marked(table) == set()
    assert sorted(map(repr, table.scan().to_arrow().to_pylist())) == rows
    assert table.verify(data=True).findings == ()
    assert empty.sql("CALL sys.materialize_deletion_vectors('s.m')").report.noop_reason is not None


def marked(table):
    """Return the partitions that have files with deletion vectors."""
    return {p for p in (1, 2) if any(split.deletions for split in table.scan(where=f"p = {p}").plan().splits)}
