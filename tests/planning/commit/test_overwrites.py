"""An overwrite replaces the partitions that it names or brings, and its files go as high as they may."""

import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.commit.file_changes import FileChanges, append_changes
from lakehouse_core.planning.commit.overwrites import overwritten, with_removed, with_upgraded_files
from lakehouse_core.table.commit_message import Append, CommitKind, DynamicOverwrite, StaticOverwrite, WriteMode
from lakehouse_core.table.data_file import EMPTY_ROW
from tests.planning.change_vocabulary import (
    FEB,
    JAN,
    NULL,
    WORKED,
    add,
    append_schema,
    data_file,
    delete,
    key_schema,
    message,
    shown,
    staged,
)


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
        (StaticOverwrite({"day": "2024-02"}), r"Column 'day' is not a partition key\. The partition keys are: dt"),
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
    changes = with_upgraded_files(FileChanges(kind=CommitKind.OVERWRITE, entries=entries), key_schema())

    assert [one.file.level for one in changes.entries] == levels


def test_files_with_deletes_wait_for_their_merge_and_each_bucket_decides_alone() -> None:
    entries = (
        add(data_file("a", 1, 5, delete_row_count=1)),
        add(data_file("b", 1, 5), bucket=1),
        delete(data_file("c", 1, 5), bucket=1),
    )
    changes = with_upgraded_files(FileChanges(kind=CommitKind.OVERWRITE, entries=entries), key_schema(num_levels="4"))

    assert shown(changes.entries) == "+a@0 +b@3 -c@0"


def test_files_beside_others_that_stay_wait_for_their_merge() -> None:
    entries = (add(data_file("a", 1, 5)), add(data_file("b", 1, 5), bucket=1), delete(data_file("c", 1, 5), bucket=1))
    live = (add(data_file("c", 1, 5), bucket=1), add(data_file("d", 8, 9)))
    changes = with_upgraded_files(
        FileChanges(kind=CommitKind.OVERWRITE, entries=entries), key_schema(num_levels="4"), live
    )

    assert shown(changes.entries) == "+a@0 +b@3 -c@0"


def test_append_tables_have_no_levels_to_go_to() -> None:
    changes = FileChanges(kind=CommitKind.OVERWRITE, entries=(add(data_file("a")),))

    assert with_upgraded_files(changes, append_schema()) is changes
