"""What a staged commit becomes: the file changes of its one or two snapshots."""

import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.commit.file_changes import append_changes, check_itself, compact_changes, new_files
from lakehouse_core.table.commit_message import CommitKind, StaticOverwrite
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import ManifestEntry
from tests.planning.change_vocabulary import CHANGES, WORKED, add, data_file, key_schema, message, shown, staged


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


def test_the_files_that_must_lie_on_disk_are_those_that_come() -> None:
    found = new_files(CHANGES, DataLayout(key_schema()))

    assert [file.key for file in found] == ["bucket-0/b", "bucket-0/c"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([add(data_file("a")), add(data_file("b")), add(data_file("a"))], "adds a of bucket 0 twice"),
        (
            [add(data_file("a"), total_buckets=2), add(data_file("b"), bucket=1, total_buckets=4)],
            "with 2 and with 4 buckets",
        ),
    ],
)
def test_a_change_that_contradicts_itself_is_refused(entries: list[ManifestEntry], expected: str) -> None:
    with pytest.raises(InvalidRequest, match=expected):
        check_itself(entries)
