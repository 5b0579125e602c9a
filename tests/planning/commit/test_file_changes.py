"""What a staged commit becomes: the entries of its one or two snapshots, and the snapshot that follows another."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.commit.file_changes import (
    Changes,
    WrittenLists,
    append_changes,
    check_staged,
    compact_changes,
    new_files,
    next_snapshot,
    overwritten,
    upgraded,
    with_removed,
)
from lakehouse_core.table.bucket_folders import BucketFolders
from lakehouse_core.table.commit_message import (
    Append,
    CommitKind,
    CommitMessage,
    DynamicOverwrite,
    StagedCommit,
    StaticOverwrite,
    WriteMode,
)
from lakehouse_core.table.data_file import EMPTY_ROW
from lakehouse_core.table.manifest import EntryKind, ManifestEntry
from lakehouse_core.table.manifest.entry import NamedListFile
from lakehouse_core.table.snapshot import Snapshot
from tests.planning.change_vocabulary import (
    add,
    append_schema,
    data_file,
    delete,
    key_schema,
    partition,
)


def message(in_partition: bytes = EMPTY_ROW, bucket: int = 0, total_buckets: int = 1, **files: Any) -> CommitMessage:
    return CommitMessage(partition=in_partition, bucket=bucket, total_buckets=total_buckets, **files)


def staged(*messages: CommitMessage, mode: WriteMode | None = None, **more: Any) -> StagedCommit:
    fields: dict[str, Any] = {"table": "db.t", "commit_user": "u", "commit_identifier": 1, "schema_id": 0}
    return StagedCommit(mode=mode or Append(), messages=messages, **(fields | more))


def shown(entries: tuple[ManifestEntry, ...]) -> str:
    signs = {EntryKind.ADD: "+", EntryKind.DELETE: "-"}
    return " ".join(f"{signs[one.kind]}{one.file.file_name}@{one.file.level}" for one in entries)


WORKED = message(
    new_files=(data_file("f3", 1, 9),),
    changelog_files=(data_file("log"),),
    compact_before=(data_file("f1", 1, 5, level=5), data_file("f3", 1, 9)),
    compact_after=(data_file("f4", 1, 9, level=5),),
)


def test_an_append_with_compaction_output_is_two_changes() -> None:
    first, second = append_changes(staged(WORKED)), compact_changes([WORKED])

    assert (first.kind, shown(first.entries), shown(first.changelog)) == (CommitKind.APPEND, "+f3@0", "+log@0")
    assert (second.kind, shown(second.entries), shown(second.changelog)) == (
        CommitKind.COMPACT,
        "-f1@5 -f3@0 +f4@5",
        "",
    )


def test_deleting_files_makes_an_append_an_overwrite() -> None:
    changes = append_changes(staged(message(new_files=(data_file("b"),), deleted_files=(data_file("a"),))))

    assert (changes.kind, shown(changes.entries)) == (CommitKind.OVERWRITE, "+b@0 -a@0")


def test_an_overwrite_keeps_no_changelog_files() -> None:
    files = message(new_files=(data_file("b"),), changelog_files=(data_file("log"),))
    changes = append_changes(staged(files, mode=StaticOverwrite()))

    assert (changes.kind, shown(changes.changelog)) == (CommitKind.OVERWRITE, "")


def test_a_commit_of_nothing_is_empty() -> None:
    assert append_changes(staged()).is_empty
    assert append_changes(staged(message())).is_empty
    assert compact_changes([message()]).is_empty


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"commit_user": ""}, "needs a commit user"),
        ({"commit_identifier": -1}, "identifier -1 of u: expected 0 to"),
        ({"commit_identifier": 2**63}, "expected 0 to 9223372036854775807"),
        ({"properties": {"lakehouse.ledger": "{}"}}, r"'lakehouse\.ledger' is reserved"),
        ({"properties": {"lakehouse.nonce": ""}}, r"'lakehouse\.nonce' is reserved"),
        ({"mode": DynamicOverwrite(), "messages": (message(deleted_files=(data_file("a"),)),)}, "may not delete any"),
        ({"messages": (message(new_files=(data_file("a", external_path="s3://x/a"),)),)}, "a lies outside the table"),
    ],
)
def test_what_no_table_can_take_is_refused(change: Mapping[str, Any], expected: str) -> None:
    with pytest.raises(InvalidRequest, match=expected):
        check_staged(replace(staged(), **change))


def test_any_other_commit_is_taken() -> None:
    check_staged(staged(WORKED, properties={"lakehouse.run-id": "r"}, commit_identifier=2**63 - 1))


JAN, FEB, NULL = partition("2024-01"), partition("2024-02"), partition(None)


def covered(mode: WriteMode, *new: bytes) -> str | None:
    """Return the partitions of January, February and null that an overwrite with new files in `new` replaces."""
    messages = [message(one, new_files=(data_file(f"f{place}"),)) for place, one in enumerate(new)]
    covers = overwritten(staged(*messages, mode=mode), append_schema(partitioned=True))
    if covers is None:
        return None
    return " ".join(name for name, row in (("jan", JAN), ("feb", FEB), ("null", NULL)) if covers(row))


@pytest.mark.parametrize(
    ("mode", "new", "expected"),
    [
        (StaticOverwrite(), (JAN,), "jan feb null"),
        (StaticOverwrite(), (), "jan feb null"),
        (StaticOverwrite({"dt": "2024-01"}), (JAN,), "jan"),
        (StaticOverwrite({"dt": "2024-01"}), (), "jan"),
        (StaticOverwrite({"dt": "__DEFAULT_PARTITION__"}), (), "null"),
        (DynamicOverwrite(), (JAN, NULL), "jan null"),
        (DynamicOverwrite(), (), None),
        (Append(), (JAN,), None),
    ],
)
def test_an_overwrite_replaces_the_partitions_it_names_or_brings(
    mode: WriteMode, new: tuple[bytes, ...], expected: str | None
) -> None:
    assert covered(mode, *new) == expected


def test_a_message_without_new_files_brings_no_partition() -> None:
    compacted = message(JAN, compact_before=(data_file("a"),))

    assert overwritten(staged(compacted, mode=DynamicOverwrite()), append_schema(partitioned=True)) is None


def test_without_partitions_a_dynamic_overwrite_replaces_the_table() -> None:
    covers = overwritten(staged(mode=DynamicOverwrite()), append_schema())

    assert covers is not None
    assert covers(EMPTY_ROW)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (StaticOverwrite({"dt": "2024-02"}), r"The overwrite of dt=2024-02 has rows of other partitions"),
        (StaticOverwrite({"day": "2024-02"}), r"Column 'day' is no partition key\. The partition keys are: dt"),
    ],
)
def test_a_static_overwrite_stays_within_its_partition(mode: WriteMode, expected: str) -> None:
    with pytest.raises(InvalidRequest, match=expected):
        covered(mode, JAN)


def test_what_an_overwrite_removes_comes_first() -> None:
    changes = with_removed(append_changes(staged(WORKED, mode=StaticOverwrite())), [add(data_file("old"))])

    assert shown(changes.entries) == "-old@0 +f3@0"


@pytest.mark.parametrize(
    ("files", "levels"),
    [
        ([("a", 1, 5), ("b", 6, 9)], [5, 5]),
        ([("b", 6, 9), ("a", 1, 5)], [5, 5]),
        ([("a", 1, 6), ("b", 6, 9)], [0, 0]),
        ([("a", 1, 9)], [5]),
    ],
)
def test_disjoint_files_of_an_overwrite_go_to_the_top_level(
    files: list[tuple[str, int, int]], levels: list[int]
) -> None:
    entries = tuple(add(data_file(*file)) for file in files)
    changes = upgraded(Changes(kind=CommitKind.OVERWRITE, entries=entries), key_schema())

    assert [one.file.level for one in changes.entries] == levels


def test_files_with_deletes_wait_for_their_merge_and_each_bucket_decides_alone() -> None:
    entries = (
        add(data_file("a", 1, 5, delete_row_count=1)),
        add(data_file("b", 1, 5), bucket=1),
        delete(data_file("c", 1, 5), bucket=1),
    )
    changes = upgraded(Changes(kind=CommitKind.OVERWRITE, entries=entries), key_schema(num_levels="4"))

    assert shown(changes.entries) == "+a@0 +b@3 -c@0"


def test_append_tables_have_no_levels_to_go_to() -> None:
    changes = Changes(kind=CommitKind.OVERWRITE, entries=(add(data_file("a")),))

    assert upgraded(changes, append_schema()) is changes


LISTS = WrittenLists(
    base=NamedListFile(name="base", size=1),
    delta=NamedListFile(name="delta", size=2),
    changelog=NamedListFile(name="changelog", size=3),
    checksums={},
)
PREVIOUS = Snapshot(
    id=7,
    schema_id=2,
    base_manifest_list="b",
    delta_manifest_list="d",
    index_manifest="index-1",
    commit_user="other",
    commit_identifier=3,
    commit_kind=CommitKind.APPEND,
    time_millis=5000,
    total_record_count=100,
    watermark=40,
    statistics="stat-1",
    properties={"lakehouse.run-id": "of-the-other"},
    next_row_id=12,
)


def after(previous: Snapshot | None, changes: Changes, **more: Any) -> Snapshot:
    fields: dict[str, Any] = {
        "schema_id": 2,
        "commit_user": "u",
        "commit_identifier": 1,
        "properties": {"lakehouse.run-id": "mine"},
        "uuid": "U",
        "nonce": "N",
        "now_millis": 9000,
    }
    return next_snapshot(previous, changes, LISTS, **(fields | more))


CHANGES = Changes(
    kind=CommitKind.COMPACT,
    entries=(delete(data_file("a", row_count=30)), add(data_file("b", row_count=20))),
    changelog=(add(data_file("c", row_count=5)),),
)


def test_a_snapshot_carries_on_what_its_changes_do_not_touch() -> None:
    snapshot = after(PREVIOUS, CHANGES)

    assert (snapshot.id, snapshot.index_manifest, snapshot.statistics, snapshot.next_row_id, snapshot.watermark) == (
        8,
        "index-1",
        "stat-1",
        12,
        40,
    )
    assert snapshot.properties == {
        "lakehouse.run-id": "mine",
        "lakehouse.nonce": "N",
        "lakehouse.checksums": '{"blake2b-64":{}}',
    }


def test_row_counts_add_up() -> None:
    snapshot = after(PREVIOUS, CHANGES)

    assert (snapshot.delta_record_count, snapshot.total_record_count, snapshot.changelog_record_count) == (-10, 90, 5)
    assert after(PREVIOUS, Changes(kind=CommitKind.APPEND)).changelog_record_count is None
    assert after(replace_count(PREVIOUS, None), CHANGES).total_record_count is None


def replace_count(snapshot: Snapshot, count: int | None) -> Snapshot:
    return snapshot.model_copy(update={"total_record_count": count})


def test_the_first_snapshot_starts_from_nothing() -> None:
    snapshot = after(None, CHANGES)

    assert (snapshot.id, snapshot.total_record_count, snapshot.watermark, snapshot.statistics) == (1, -10, None, None)
    assert (snapshot.base_manifest_list, snapshot.base_manifest_list_size) == ("base", 1)
    assert (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size) == ("changelog", 3)


@pytest.mark.parametrize(("given", "expected"), [(None, 40), (30, 40), (50, 50)])
def test_the_watermark_never_goes_down(given: int | None, expected: int) -> None:
    assert after(PREVIOUS, CHANGES, watermark=given).watermark == expected


@pytest.mark.parametrize(("now", "expected"), [(4000, 5000), (5001, 5001)])
def test_time_never_goes_back(now: int, expected: int) -> None:
    assert after(PREVIOUS, CHANGES, now_millis=now).time_millis == expected


def test_statistics_of_another_schema_are_dropped() -> None:
    assert after(PREVIOUS, CHANGES, schema_id=3).statistics is None


def test_the_files_that_must_lie_on_disk_are_those_that_come() -> None:
    found = new_files(CHANGES, BucketFolders(key_schema()))

    assert [file.key for file in found] == ["bucket-0/b", "bucket-0/c"]
