"""Compactions that another commit overtook: what still fits is committed, but for what shares an object with them."""

from time import process_time
from typing import Any

from lakehouse_core.planning.commit.file_changes import compact_changes
from lakehouse_core.planning.commit.partial import changes_that_fit
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import EMPTY_ROW, DataFile
from tests.planning.change_vocabulary import add, append_schema, data_file, key_schema, partition


def message(in_partition: bytes = EMPTY_ROW, bucket: int = 0, total_buckets: int = 1, **files: Any) -> CommitMessage:
    return CommitMessage(partition=in_partition, bucket=bucket, total_buckets=total_buckets, **files)


def compaction(before: str, after: str, bucket: int = 0, level: int = 5) -> CommitMessage:
    return message(
        bucket=bucket,
        total_buckets=3,
        compact_before=(data_file(before, 1, 9),),
        compact_after=(data_file(after, 1, 9, level=level),),
    )


def test_a_compaction_goes_on_in_the_buckets_that_nobody_changed() -> None:
    messages = [compaction("a", "x", 0), compaction("b", "y", 1), compaction("c", "z", 2)]
    live = [
        add(data_file("a", 1, 9), bucket=0, total_buckets=3),
        add(data_file("c", 1, 9), bucket=2, total_buckets=3),
        add(data_file("top", 5, 5, level=5), bucket=2, total_buckets=3),
    ]
    left, lost = changes_that_fit(messages, live, key_schema(bucket="3"))

    assert left == compact_changes(messages[:1])
    assert [(one.bucket, one.reason.split()[0]) for one in lost] == [(1, "b"), (2, "z")]


def test_the_cost_of_losing_every_file_of_every_bucket_grows_with_the_files() -> None:
    def seconds(buckets: int) -> float:
        messages = [
            message(
                bucket=bucket,
                total_buckets=buckets,
                compact_before=tuple(data_file(f"{bucket}-{number}", 1, 9) for number in range(10)),
                compact_changelog_files=(data_file(f"compacted-changelog-{bucket}$0-10.cc-parquet"),),
            )
            for bucket in range(buckets)
        ]
        began = process_time()
        left, lost = changes_that_fit(messages, [], key_schema(bucket=str(buckets)))
        assert (left.is_empty, len(lost)) == (True, 10 * buckets)
        return process_time() - began

    few = min(seconds(100) for _ in range(5))
    assert min(seconds(800) for _ in range(3)) < 24 * few


def test_of_an_append_table_only_the_pack_that_lost_a_file_is_given_up() -> None:
    packs = [
        message(compact_before=(data_file("a"), data_file("b")), compact_after=(data_file("ab"),)),
        message(compact_before=(data_file("c"), data_file("d")), compact_after=(data_file("cd"),)),
    ]
    live = [add(data_file(name)) for name in "abc"]
    left, lost = changes_that_fit(packs, live, append_schema())

    assert left == compact_changes(packs[:1])
    assert [one.file_name for one in lost] == ["d"]


def told(bucket: int, changelog: str, day: str = "1") -> CommitMessage:
    """Return a compaction of the file `old<bucket>` that tells its changes in the file `changelog`."""
    return message(
        partition(day),
        bucket=bucket,
        total_buckets=4,
        compact_before=(data_file(f"old{bucket}", 1, 9),),
        compact_after=(data_file(f"new{bucket}", 1, 9, level=5),),
        compact_changelog_files=(data_file(changelog),),
    )


FIRST = "compacted-changelog-u$0-10.cc-parquet"
SECOND = "compacted-changelog-u$0-10-10-10.cc-parquet"
OTHER_FIRST = "compacted-changelog-w$2-10.cc-parquet"


def live(*names: str, day: str = "1") -> list[Any]:
    def bucket(name: str) -> int:
        return int(name[-1])

    return [
        add(data_file(name, 1, 9), in_partition=partition(day), bucket=bucket(name), total_buckets=4) for name in names
    ]


def test_a_bucket_whose_changelog_lies_with_that_of_a_lost_one_is_lost_too() -> None:
    messages = [told(0, FIRST), told(1, SECOND), told(2, OTHER_FIRST), told(3, "changelog-1.parquet")]
    left, lost = changes_that_fit(messages, live("old0", "old2", "old3"), key_schema(partitioned=True, bucket="4"))

    assert left == compact_changes(messages[2:])
    assert [(conflict.bucket, "is in one file" in conflict.reason) for conflict in lost] == [(1, False), (0, True)]


def test_the_object_of_another_partition_has_nothing_to_do_with_it() -> None:
    messages = [told(0, FIRST), told(1, SECOND), told(0, FIRST, day="2")]
    entries = [*live("old0"), *live("old0", day="2")]
    left, _ = changes_that_fit(messages, entries, key_schema(partitioned=True, bucket="4"))

    assert left == compact_changes(messages[2:])


def test_loss_goes_on_from_object_to_object() -> None:
    both: tuple[DataFile, ...] = (data_file(SECOND), data_file(OTHER_FIRST))
    middle = message(
        partition("1"),
        bucket=1,
        total_buckets=4,
        compact_before=(data_file("old1", 1, 9),),
        compact_changelog_files=both,
    )
    messages = [told(0, FIRST), middle, told(2, "compacted-changelog-w$2-10-10-10.cc-parquet"), told(3, "c.parquet")]
    left, _ = changes_that_fit(messages, live("old1", "old2", "old3"), key_schema(partitioned=True, bucket="4"))

    assert left == compact_changes(messages[3:])
