"""Postponed buckets: rows wait as they came, no read has them, and a compaction brings all of them into buckets."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.api.table_reads import stream_step
from lakehouse_core.execution.compaction import compact
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.execution.read.rows import scan_batches
from lakehouse_core.planning import waiting_rows
from lakehouse_core.planning.commit import steps
from lakehouse_core.planning.write_base import write_base
from lakehouse_core.table.data_file import EMPTY_STATS, DataFile
from lakehouse_core.table.waiting_files import in_order
from lakehouse_core.tasks.write.input import input_batches
from lakehouse_core.tasks.write.task import WriteTask, write_batches

Row = dict[str, Any]
KEYED = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT"}


def table_of(folder: Path, **options: str) -> lc.Table:
    catalog = lc.connect(str(folder))
    catalog.create_database("db", exist_ok=True)
    named = {name.replace("__", "."): value for name, value in options.items()}
    return catalog.create_table(
        "db.t",
        KEYED,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "-2", **{name.replace("_", "-"): value for name, value in named.items()}},
    )


AT_ONCE = {"lakehouse__read__grace": "0 s", "snapshot__num_retained__min": "1"}


def keep_newest(table: lc.Table) -> None:
    table.expire_snapshots(retain_max=1, older_than=timedelta(0))


def rows(*keys: int, v: int = 0, p: str = "a", kind: str = "+I") -> list[Row]:
    return [{"p": p, "k": key, "v": v, "kind": kind} for key in keys]


def write(table: lc.Table, *parts: list[Row]) -> lc.CommitReport:
    return table.write([row for part in parts for row in part], rowkind_column="kind")


def seen(table: lc.Table) -> list[tuple[str, int, int]]:
    return sorted((row["p"], row["k"], row["v"]) for row in table.scan().to_arrow().to_pylist())


def waiting(table: lc.Table) -> int:
    return sum(bucket.waiting_row_count for bucket in table.buckets())


def counts(table: lc.Table) -> dict[str, set[int]]:
    """Return the bucket counts of each partition's files."""
    found: dict[str, set[int]] = {}
    for file in table.files():
        found.setdefault(str(file.partition["p"]), set()).add(file.total_buckets)
    return found


def test_waiting_rows_are_stored_as_java_stores_them(tmp_path: Path) -> None:
    table = table_of(tmp_path)

    staged = table.stage(rows(3, 1) + rows(2, kind="-D"), commit_user="job", commit_identifier=1, rowkind_column="kind")

    (message,) = staged.messages
    (file,) = message.new_files
    assert (message.bucket, message.total_buckets) == (-2, -2)
    assert file.file_name.startswith("data--u-job-s-0-w-")
    assert file.file_name.endswith("-0.parquet")
    assert (file.min_sequence_number, file.max_sequence_number, file.level) == (-1, -1, 0)
    assert (file.row_count, file.delete_row_count) == (3, 1)
    assert (file.value_stats, file.value_stats_cols, file.key_stats.null_counts) == (EMPTY_STATS, (), (None,))
    # The first and the last row, whatever their order is.
    assert [key[12] for key in (file.min_key, file.max_key)] == [3, 2]


@pytest.mark.parametrize("user", ["a-s-b", "x/../y", "job of Größe", "u" * 200])
def test_no_commit_user_spoils_the_name_of_a_file(tmp_path: Path, user: str) -> None:
    table = table_of(tmp_path)

    table.commit(table.stage(rows(1), commit_user=user, commit_identifier=1, rowkind_column="kind"))

    (file,) = table.files()
    before, _, after = file.file_name.partition("-s-")
    assert before.startswith("data--u-")
    assert after.startswith("0-w-")
    assert file.path.count("/") == 2


def test_rows_are_read_once_a_compaction_has_moved_them(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    write(table, rows(1, 2, v=1), rows(5, p="b"))
    write(table, rows(2, v=2), rows(1, kind="-D"))

    assert seen(table) == []
    assert table.scan().count() == 0
    assert table.lookup([{"p": "a", "k": 2}]).num_rows == 0
    assert [row["record_count"] for row in table.system("partitions").to_arrow().to_pylist()] == []
    assert waiting(table) == 5
    assert table.health().due[0] == "compact: 5 rows wait for their buckets, and a compaction makes them readable"

    report = table.compact()

    assert report.commit_kind == "COMPACT"
    assert seen(table) == [("a", 2, 2), ("b", 5, 0)]
    assert table.lookup([{"p": "a", "k": 2}, {"p": "a", "k": 1}]).num_rows == 1
    assert waiting(table) == 0
    assert table.verify(data=True).findings == ()
    assert table.compact().noop_reason is not None


def test_a_compaction_that_moves_rows_is_the_newest_change_of_rows_and_no_other_is(tmp_path: Path) -> None:
    table = table_of(tmp_path, **AT_ONCE)
    write(table, rows(1))
    table.compact()
    write(table, rows(2))
    table.compact()
    moved = table.content_snapshot_id()
    table.compact(full=True)
    table.compact_manifests()
    table.alter(lc.SetOption("bucket", "1"))

    assert (moved, table.content_snapshot_id(), table.snapshots()[-1].id) == (4, 4, 7)


def test_a_dry_run_tells_of_the_rows_that_would_be_moved(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    write(table, rows(1, 2))

    report = table.compact(dry_run=True)

    assert [(each["bucket"], each["reason"]) for each in report.buckets] == [(-2, "waiting rows")]
    assert waiting(table) == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 1),
        ({"postpone__default_bucket_num": "3"}, 3),
        ({"postpone__target_row_num_per_bucket": "4"}, 3),
        ({"postpone__target_size_per_bucket": "600 b"}, 3),
        ({"postpone__default_bucket_num": "2", "postpone__target_row_num_per_bucket": "4"}, 2),
    ],
)
def test_options_say_how_many_buckets_a_new_partition_gets(
    tmp_path: Path, options: dict[str, str], expected: int
) -> None:
    table = table_of(tmp_path, **options)
    write(table, rows(*range(9)))

    table.compact()

    assert counts(table) == {"a": {expected}}
    assert len(seen(table)) == 9


def test_a_partition_keeps_its_number_of_buckets(tmp_path: Path) -> None:
    table = table_of(tmp_path, postpone__default_bucket_num="2")
    write(table, rows(*range(9)))
    table.compact()
    table.alter(lc.SetOption("postpone.default-bucket-num", "5"))

    write(table, rows(*range(4, 12), v=1), rows(1, p="b"))
    table.compact(full=True)

    assert counts(table) == {"a": {2}, "b": {5}}
    assert len(seen(table)) == 13
    assert table.verify(data=True).findings == ()


def test_rows_of_later_commits_win_whatever_the_clocks_of_their_writers_say(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    clocks = Random(1)
    parts = [
        table.stage(rows(1, v=v), commit_user=f"job-{v}", commit_identifier=1, rowkind_column="kind") for v in range(9)
    ]
    for part in parts[:7]:
        (message,) = part.messages
        (file,) = message.new_files
        wrong = replace(file, creation_time_millis=clocks.randrange(10**12))
        table.commit(replace(part, messages=(replace(message, new_files=(wrong,)),)))
    table.compact_manifests()
    table.commit_together([parts[8], parts[7]], commit_user="both", commit_identifier=1)

    table.compact()

    assert seen(table) == [("a", 1, 7)]


def test_the_files_of_one_writer_are_moved_in_the_order_of_their_creation(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    write(table, rows(1))
    (entry,) = table._context.manifests.live_entries(table._context.snapshots.latest())

    def file(name: str, created: int) -> DataFile:
        return replace(entry.file, file_name=name, creation_time_millis=created)

    ours, java, java_later = file("data-b-0.parquet", 1), file("data-a-1.avro", 7), file("data-a-10.avro", 7)
    java_first, last = file("data-a-2.avro", 5), file("data-c-0.parquet", 0)

    assert in_order([java_later, ours, java, java_first, last]) == [java_first, ours, java, java_later, last]


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"merge_engine": "first-row"}, "first-row: found a -D"),
        ({"merge_engine": "partial-update"}, "partial-update"),
        ({"merge_engine": "aggregation", "fields__v__aggregate_function": "max"}, "max"),
    ],
)
def test_a_retract_that_the_merge_engine_refuses_is_refused_by_the_write(
    tmp_path: Path, options: dict[str, str], refused: str
) -> None:
    table = table_of(tmp_path, **options)

    with pytest.raises(lc.InvalidRequest, match=refused):
        write(table, rows(1), rows(1, kind="-D"))

    assert table.files() == []
    assert list(tmp_path.rglob("bucket-postpone/*")) == []


def test_an_overwrite_removes_rows_and_waiting_rows_and_leaves_nothing_to_read(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    write(table, rows(1, 2), rows(1, p="b"))
    table.compact()
    write(table, rows(3))

    table.overwrite([{"p": "a", "k": 9, "v": 9}], partition={"p": "a"})

    assert seen(table) == [("b", 1, 0)]
    table.compact()
    assert seen(table) == [("a", 9, 9), ("b", 1, 0)]


def test_partitions_are_dropped_with_their_waiting_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    write(table, rows(1), rows(1, p="b"))
    table.compact()
    write(table, rows(2), rows(2, p="b"))

    table.delete("p = 'a'")
    table.compact()

    assert seen(table) == [("b", 1, 0), ("b", 2, 0)]


def test_the_option_cannot_change_while_rows_wait(tmp_path: Path) -> None:
    table = table_of(tmp_path, postpone__default_bucket_num="2")
    write(table, rows(*range(5)))
    staged = table.stage(rows(7), commit_user="job", commit_identifier=1, rowkind_column="kind")

    with pytest.raises(lc.InvalidRequest, match="5 rows wait for their buckets"):
        table.alter(lc.SetOption("bucket", "2"))
    table.compact()
    with pytest.raises(lc.UnsupportedFeature, match="rescale: bucket is -2"):
        table.rescale(3)
    table.alter(lc.SetOption("bucket", "2"))
    with pytest.raises(lc.CommitConflict, match="no compaction would move them"):
        table.commit(staged)
    write(table, rows(4, 8, v=1))
    table.rescale(3)
    table.alter(lc.SetOption("bucket", "-2"))
    write(table, rows(9))
    table.compact()

    assert [key for _, key, _ in seen(table)] == [0, 1, 2, 3, 4, 8, 9]
    assert counts(table) == {"a": {3}}


def test_rows_staged_for_buckets_do_not_come_to_lie_under_rows_that_were_committed_before(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.alter(lc.SetOption("bucket", "1"))
    late, other = (
        table.stage(rows(1, v=9, p=p), commit_user=p, commit_identifier=1, rowkind_column="kind") for p in "ab"
    )
    table.alter(lc.SetOption("bucket", "-2"))
    write(table, rows(1, v=5))

    with pytest.raises(lc.CommitConflict, match=r"a/1: 1 row waits for its bucket .* came earlier .* stage the data"):
        table.commit(late)
    table.commit(other)
    write(table, rows(1, v=9))
    table.compact()

    assert seen(table) == [("a", 1, 9), ("b", 1, 9)]


def test_a_state_in_which_rows_wait_is_brought_back_only_where_a_compaction_moves_them(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    write(table, rows(1, v=1))
    table.compact()
    write(table, rows(1, v=2), rows(2, v=2))
    table.create_tag("waiting")
    table.compact()
    table.alter(lc.SetOption("bucket", "1"))
    write(table, rows(3, v=3))
    before = table.snapshot(), table.tags(), seen(table)

    for at in (3, lc.AtTag("waiting")):
        for dry_run in (True, False):
            with pytest.raises(
                lc.InvalidRequest,
                match=r"db.t: rollback_to: 2 rows wait for their buckets in snapshot 3\. The table's option bucket "
                r"is 1 now, .* Set bucket to -2, roll back, compact",
            ):
                table.rollback_to(at, dry_run=dry_run)

    assert (table.snapshot(), table.tags(), seen(table)) == before
    assert seen(table.branch(table.create_branch("old", at=lc.AtTag("waiting")).branch)) == [("a", 1, 1)]
    table.rollback_to(2)
    assert seen(table) == [("a", 1, 1)]
    table.alter(lc.SetOption("bucket", "-2"))
    table.rollback_to(lc.AtTag("waiting"))
    table.compact()
    table.alter(lc.SetOption("bucket", "1"))
    write(table, rows(3, v=3))
    assert seen(table) == [("a", 1, 2), ("a", 2, 2), ("a", 3, 3)]
    assert table.verify(data=True).findings == ()


def test_rows_of_partitions_that_compactions_skip_are_not_due(tmp_path: Path) -> None:
    table = table_of(tmp_path, partition__expiration_time="7 d", compaction__skip_expired_partitions="true")
    table.alter(lc.SetOption("compaction.skip-expired-partitions", "false"))
    for v in range(2):
        write(table, rows(1, p="2001-01-01", v=v))
        table.compact()
    write(table, rows(1, p="2001-01-01"), rows(1, p="2999-01-01"))
    assert waiting(table) == 2
    assert len(table.health().due) == 2
    table.alter(lc.SetOption("compaction.skip-expired-partitions", "true"))

    assert waiting(table) == 1
    assert table.health().due == ("compact: 1 row waits for its bucket, and a compaction makes it readable",)
    table.compact()
    assert (waiting(table), table.health().due) == (0, ())
    with pytest.raises(lc.InvalidRequest, match=r"1 row waits .*skip-expired-partitions\): drop these with"):
        table.alter(lc.SetOption("bucket", "2"))
    table.expire_partitions()
    table.alter(lc.SetOption("bucket", "2"))
    assert seen(table) == [("2999-01-01", 1, 0)]


def test_a_compaction_of_some_buckets_says_that_it_moves_no_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    write(table, rows(1))

    empty = table.compact(buckets=[0]).noop_reason
    table.compact(full=True)
    write(table, rows(2))
    placed = table.compact(full=True, buckets=[0]).noop_reason

    moved = "Rows that wait for their buckets are moved into all of them: compact without a list of buckets"
    assert empty == f"there are no files in bucket 0. {moved}"
    assert placed == f"every bucket is one sorted run in its top level. {moved}"
    assert waiting(table) == 1


def alter_as_java(table: lc.Table, bucket: str) -> None:
    """Set the option, whatever waits."""
    schema = table._context.schemas.latest()
    table._context.schemas.create(replace(schema, id=schema.id + 1, options={**schema.options, "bucket": bucket}))


def test_no_rows_come_to_lie_under_others_that_wait_for_the_option_to_be_set_again(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    write(table, rows(1, v=1), rows(1, p="b"))
    table.compact()
    write(table, rows(1, v=2))
    alter_as_java(table, "1")
    table = lc.connect(str(tmp_path)).table("db.t")

    with pytest.raises(lc.UnsupportedFeature, match="Set bucket to -2 again"):
        seen(table)
    with pytest.raises(lc.CommitConflict, match=r"1 row waits for its bucket in the partitions .* set bucket to -2"):
        write(table, rows(1, v=3))
    with pytest.raises(lc.UnsupportedFeature, match="Set bucket to -2 again"):
        table.rescale(2)
    (due, *_) = table.health().due
    assert due == (
        "alter: 1 row waits for its bucket, and bucket is 2: set it to -2, compact the table, and set it again"
    )
    assert stray(table) == set()
    table.alter(lc.SetOption("bucket", "-2"))
    table.compact()
    table.alter(lc.SetOption("bucket", "1"))
    write(table, rows(1, v=3), rows(1, p="b", v=3))
    assert seen(table) == [("a", 1, 3), ("b", 1, 3)]


def test_rows_under_which_others_wait_go_with_their_partition(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    write(table, rows(1, v=1), rows(1, p="b"))
    alter_as_java(table, "1")
    table = lc.connect(str(tmp_path)).table("db.t")

    table.overwrite([{"p": "a", "k": 1, "v": 3}], partition={"p": "a"})
    table.overwrite([{"p": "b", "k": 1, "v": 3}], partition={"p": "b"})

    assert seen(table) == [("a", 1, 3), ("b", 1, 3)]


def test_the_option_is_set_while_a_compaction_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path)
    write(table, rows(1, v=1))
    between(table, lambda other: alter_as_java(other, "1"), monkeypatch)

    table.compact()
    write(lc.connect(str(tmp_path)).table("db.t"), rows(2, v=2))

    assert seen(table) == [("a", 1, 1), ("a", 2, 2)]


def test_a_compaction_and_then_the_option_overtake_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path)
    write(table, rows(1, v=1))

    def overtake(other: lc.Table) -> None:
        other.compact()
        other.alter(lc.SetOption("bucket", "1"))
        write(other, rows(1, v=2))

    between(table, overtake, monkeypatch)

    with pytest.raises(lc.CommitConflict):
        table.compact(full=True)
    assert seen(table) == [("a", 1, 2)]
    assert stray(table) == set()


def test_rows_do_not_come_back_behind_later_ones_that_still_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path)
    write(table, rows(1, v=1))
    between(table, lambda other: write(other, rows(1, v=2)), monkeypatch)
    table.compact()
    assert (seen(table), waiting(table)) == ([("a", 1, 1)], 1)

    with pytest.raises(lc.InvalidRequest, match=r"rollback_to: 1 row waits .* compact the table, then call it again"):
        table.rollback_to(2)
    assert waiting(table) == 1
    table.compact()
    table.rollback_to(2)
    table.compact()

    assert seen(table) == [("a", 1, 2)]


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_changes_are_told_by_the_write_without_a_producer_and_else_by_the_compaction(
    tmp_path: Path, producer: str
) -> None:
    table = table_of(tmp_path, changelog_producer=producer)
    write(table, rows(1, v=1))
    write(table, rows(1, v=2))
    table.compact(full=True)

    told = {
        number: [tuple(row.values()) for row in table.changes(number - 1, number).to_arrow().to_pylist()]
        for number in (1, 2, 3)
    }

    first, second = ("+I", "a", 1, 1), ("+I", "a", 1, 2)
    assert told == {
        "none": {1: [first], 2: [second], 3: []},
        "input": {1: [], 2: [], 3: [first, second]},
    }.get(producer, {1: [], 2: [], 3: [second]})


def test_changes_keep_their_order_when_the_last_part_is_moved_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, changelog_producer="input")
    write(table, rows(1, v=1))
    write(table, rows(1, v=2))
    write(table, rows(1, kind="-D"))
    run = LocalEngine.run
    monkeypatch.setattr(waiting_rows, "_PART_BYTES", 1)
    monkeypatch.setattr(LocalEngine, "run", lambda *call: reversed(list(run(*call))))

    table.compact()

    told = [(row["rowkind"], row["v"]) for row in table.changes(3, 4).to_arrow().to_pylist()]
    assert told == [("+I", 1), ("+I", 2), ("-D", 0)]
    assert seen(table) == []


@pytest.mark.parametrize("producer", ["none", "input"])
def test_changes_from_before_the_option_changed_are_told_as_before(tmp_path: Path, producer: str) -> None:
    table = table_of(tmp_path, changelog_producer=producer)
    write(table, rows(1, v=1))
    table.compact()
    before = table.changes(0, 2).to_arrow().to_pylist()

    table.alter(lc.SetOption("bucket", "1"))
    write(table, rows(2, v=2))

    assert table.changes(0, 2).to_arrow().to_pylist() == before
    assert [row["k"] for row in table.changes(0).to_arrow().to_pylist()] == [1, 2]


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_stream_without_a_producer_begins_with_the_waiting_rows_too(tmp_path: Path, producer: str) -> None:
    table = table_of(tmp_path, changelog_producer=producer)
    write(table, rows(1))
    table.compact()
    write(table, rows(2, 3))

    plan = stream_step(table._context, None, 3, columns=("k",), where=None, with_row_kinds=False)

    begun = [batch["k"].to_pylist() for batch in scan_batches(plan, table._context)]
    assert sorted(k for part in begun for k in part) == ([1, 2, 3] if producer == "none" else [1])


def between(table: lc.Table, act: Callable[[lc.Table], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another process act once the next compaction has written its files."""
    publish = compact._commit
    other = lc.connect(str(table._context.store.spec.root).rsplit("/", 2)[0]).table("db.t")

    def late(context: Any, staged: Any, **more: Any) -> Any:
        monkeypatch.setattr(compact, "_commit", publish)
        act(other)
        return publish(context, staged, **more)

    monkeypatch.setattr(compact, "_commit", late)


def add_to_a_bucket(table: lc.Table) -> None:
    """Write a row into a bucket, as batch jobs of Java's engines do."""
    context = table._context
    schema = context.schemas.latest()
    fixed = replace(schema, options={**schema.options, "bucket": "1"})
    base = write_base(context.manifests.columns(context.manifests.of(table.snapshot())))
    task = WriteTask(store=context.store.spec, schema=fixed, next_sequence_numbers=base.next_numbers)
    messages = write_batches(task, input_batches([{"p": "a", "k": 1, "v": 7}], schema.fields), context.runtime)
    staged = table.stage([], commit_user="java", commit_identifier=2)
    with pytest.MonkeyPatch.context() as java:
        java.setattr(steps, "check_none_waits", lambda *_: None)
        table.commit(replace(staged, messages=tuple(messages)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda table: table.compact(full=True), [("a", 1, 1), ("b", 1, 1)]),
        (lambda table: table.overwrite([], partition={"p": "a"}), [("b", 1, 1)]),
        (add_to_a_bucket, [("a", 1, 1), ("b", 1, 1)]),
    ],
)
@pytest.mark.parametrize("expires", [False, True])
def test_a_partition_that_another_commit_changed_meanwhile_is_left_out_as_a_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[lc.Table], object],
    expected: list[Any],
    expires: bool,
) -> None:
    table = table_of(tmp_path, **AT_ONCE)
    write(table, rows(1, v=0))
    table.compact()
    write(table, rows(1, v=1), rows(1, v=1, p="b"))

    def change(other: lc.Table) -> None:
        act(other)
        if expires:
            keep_newest(other)

    between(table, change, monkeypatch)

    try:
        report = table.compact(full=True)
        assert report.buckets_conflicted > 0
    except lc.CommitConflict:
        assert expected[-1] == ("b", 1, 1)
    table.compact(full=True)

    assert seen(table) == expected
    assert table.verify(data=True).findings == ()
    assert stray(table) == set()


@pytest.mark.parametrize("full", [False, True])
def test_a_compaction_outlives_the_snapshot_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    table = table_of(tmp_path, **AT_ONCE)
    write(table, rows(1, v=0))
    table.compact()
    write(table, rows(1, 2, v=1), rows(1, v=1, p="b"))

    def go_on(other: lc.Table) -> None:
        write(other, rows(2, v=2), rows(1, v=2, p="c"))
        keep_newest(other)

    between(table, go_on, monkeypatch)
    report = table.compact(full=full)

    assert report.buckets_conflicted == 0
    assert seen(table) == [("a", 1, 1), ("a", 2, 1), ("b", 1, 1)]
    assert waiting(table) == 2
    table.compact()
    assert seen(table) == [("a", 1, 1), ("a", 2, 2), ("b", 1, 1), ("c", 1, 2)]
    assert table.verify(data=True).findings == ()


def test_rows_are_moved_above_what_others_have_compacted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, **AT_ONCE)
    for v in range(3):
        write(table, rows(1, 2, v=v))
        table.compact()
    write(table, rows(1, v=9))

    def compact_buckets(other: lc.Table) -> None:
        other.compact(full=True, buckets=[0])
        keep_newest(other)

    between(table, compact_buckets, monkeypatch)
    table.compact()

    assert seen(table) == [("a", 1, 9), ("a", 2, 2)]
    assert table.verify(data=True).findings == ()


def test_a_compaction_survives_a_rollback_that_leaves_its_rows_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, **AT_ONCE)
    write(table, rows(1, v=0))
    table.compact()
    write(table, rows(1, v=1))
    write(table, rows(1, v=2, p="b"))

    def roll_back(other: lc.Table) -> None:
        other.rollback_to(3)
        keep_newest(other)

    between(table, roll_back, monkeypatch)
    table.compact()

    assert seen(table) == [("a", 1, 1)]
    assert waiting(table) == 0
    assert table.verify(data=True).findings == ()


def stray(table: lc.Table) -> set[str]:
    """Return the data files that no snapshot names."""
    context = table._context
    named = {
        name
        for snapshot in table.snapshots()
        for manifest in (*context.manifests.of(snapshot), *context.manifests.changelog(snapshot))
        for entry in context.manifests.entries(manifest)
        for name in entry.file.all_names
    }
    there = {info.key for info in context.store.list("") if "/bucket-" in info.key}
    return {key for key in there if key.rpartition("/")[2] not in named}


ENGINES = [
    {},
    {"changelog_producer": "input"},
    {"changelog_producer": "lookup"},
    {"changelog_producer": "full-compaction"},
    {"deletion_vectors__enabled": "true"},
    {"file__format": "orc"},
]


class History:
    """A table, and what it must hold: `state`, what reads return, and `late`, the rows that wait, in their order."""

    def __init__(self, folder: Path, seed: int, options: dict[str, str]) -> None:
        self.random = Random(seed)
        self.count = str(self.random.randint(1, 3))
        self.table = table_of(folder, postpone__default_bucket_num=self.count, **AT_ONCE, **options)
        self.state: dict[tuple[str, int], int] = {}
        self.late: list[Row] = []
        self.kept: dict[int, tuple[dict[tuple[str, int], int], list[Row]]] = {}

    @property
    def expected(self) -> list[tuple[str, int, int]]:
        return sorted((*key, v) for key, v in self.state.items())

    def random_rows(self, step: int) -> list[Row]:
        choice, below = self.random.choice, self.random.randrange
        return [
            {"p": choice("ab"), "k": below(6), "v": step, "kind": choice(["+I", "-D"])} for _ in range(1 + below(8))
        ]

    def bring(self, made: list[Row]) -> None:
        self.state = self.with_rows(made)

    def with_rows(self, made: list[Row]) -> dict[tuple[str, int], int]:
        """Return the state with these rows."""
        state = dict(self.state)
        for row in made:
            if row["kind"] == "+I":
                state[row["p"], row["k"]] = row["v"]
            else:
                state.pop((row["p"], row["k"]), None)
        return state

    def write(self, step: int) -> None:
        write(self.table, made := self.random_rows(step))
        self.late += made

    def compact(self, *, full: bool) -> None:
        self.table.compact(full=full)
        self.bring(self.late)
        self.late = []

    def overwrite(self, step: int) -> None:
        self.table.overwrite([{"p": "a", "k": 1, "v": step}], partition={"p": "a"})
        self.state = {key: v for key, v in self.state.items() if key[0] != "a"}
        self.late = [row for row in self.late if row["p"] != "a"] + rows(1, v=step)

    def roll_back(self) -> None:
        if ids := [snapshot.id for snapshot in self.table.snapshots() if snapshot.id in self.kept]:
            back = self.random.choice(ids)
            self.table.rollback_to(back)
            self.state, self.late = dict(self.kept[back][0]), list(self.kept[back][1])

    def compact_overtaken(self, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Compact while others write or compact, and drop the snapshot with which it began."""
        made, act = self.random_rows(step), self.random.choice(["write", "compact the buckets", "compact"])
        expires, full = self.random.random() < 0.7, self.random.random() < 0.5

        def overtake(other: lc.Table) -> None:
            if act == "write":
                write(other, made)
            elif act == "compact":
                other.compact()
            else:
                other.compact(full=True, buckets=[0, 1, 2])
            if expires:
                keep_newest(other)

        between(self.table, overtake, monkeypatch)
        try:
            has_conflict = self.table.compact(full=full).buckets_conflicted > 0
        except lc.CommitConflict:
            has_conflict = True
        monkeypatch.undo()
        if act == "write":
            assert not has_conflict
            self.bring(self.late)
            self.late = made
        else:
            self.compact(full=False)

    def fix_the_buckets(self, step: int) -> None:
        """Give the table a number of buckets, write, try to roll back to where rows wait, and postpone again."""
        self.compact(full=False)
        self.table.alter(lc.SetOption("bucket", self.count))
        write(self.table, made := self.random_rows(step))
        self.bring(made)
        for back in [each.id for each in self.table.snapshots() if self.kept.get(each.id, ({}, []))[1]]:
            with pytest.raises(lc.InvalidRequest, match="Set bucket to -2, roll back, compact"):
                self.table.rollback_to(back)
        assert seen(self.table) == self.expected
        self.table.alter(lc.SetOption("bucket", "-2"))

    def check(self) -> None:
        if (latest := self.table.snapshot()) is not None:
            self.kept[latest.id] = dict(self.state), list(self.late)
        assert seen(self.table) == self.expected
        assert self.table.scan().count() == len(self.expected)
        assert waiting(self.table) == len(self.late)
        self.table.alter(lc.SetOption("postpone.merge-on-read", "true"))
        assert seen(self.table) == sorted((*key, v) for key, v in self.with_rows(self.late).items())
        self.table.alter(lc.SetOption("postpone.merge-on-read", "false"))


@pytest.mark.parametrize(
    ("seed", "options"),
    # One in `make test`, and the others in `make test-long`.
    [pytest.param(s, o, marks=[pytest.mark.long] * ((s, o) != (0, ENGINES[2]))) for s in range(8) for o in ENGINES],
)
def test_random_histories_read_what_was_compacted_in_the_order_of_the_writes(
    tmp_path: Path, seed: int, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(tmp_path, seed, options)
    table = history.table
    verbs: dict[str, Callable[[int], object]] = {
        "compact": lambda step: history.compact(full=False),
        "full": lambda step: history.compact(full=True),
        "overtaken": lambda step: history.compact_overtaken(step, monkeypatch) if history.late else None,
        "fix the buckets": history.fix_the_buckets,
        "overwrite": history.overwrite,
        "expire": lambda step: table.expire_snapshots(retain_max=2, older_than=timedelta(0)),
        "roll back": lambda step: history.roll_back(),
        "write": history.write,
    }
    for step in range(14):
        verbs[history.random.choice([*verbs, "write", "write", "write"])](step)
        history.check()

    keys = [{"p": p, "k": k} for p in "ab" for k in range(6)]
    assert table.lookup(keys).num_rows == len(history.state)
    assert table.verify(data=True).findings == ()
    assert stray(table) == set()
    copy = lc.connect(str(tmp_path)).copy_table(table, "db.copy").table
    assert seen(lc.connect(str(tmp_path)).table(copy)) == seen(table)
