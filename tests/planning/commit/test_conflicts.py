"""When a change no longer fits the table. Each case is a line of what is live, one of the change, one of the answer."""

import re

import pytest

from lakehouse_core.errors import CommitConflict
from lakehouse_core.planning.commit.conflicts import (
    conflict_error,
    find_conflicts,
    unseen_files,
)
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.manifest import EntryKind, ManifestEntry
from tests.planning.change_vocabulary import add, data_file, delete, entry, key_schema, partition

# Files are name@level:lowest-highest, with /bucket and #total buckets behind where they are not 0 and 1.
CASES = """
# A compaction of two new files into the top level.
live      a@0:1-9 b@0:3-5
change    -a@0:1-9 -b@0:3-5 +c@5:1-9
conflicts none

# Another compaction was faster with one of them.
live      b@0:3-5 d@5:1-9
change    -a@0:1-9 -b@0:3-5 +c@5:1-9
conflicts bucket 0: a at level 0 is not there any more; bucket 0: c and d would both hold keys of one range at level 5

# A file at another level is another file.
live      a@5:1-9
change    -a@0:1-9 +c@5:20-30
conflicts bucket 0: a at level 0 is not there any more

# An upgrade moves a file without rewriting it.
live      a@0:1-9
change    -a@0:1-9 +a@5:1-9
conflicts none

# Files of level 0 overlap as they like.
live      a@0:1-9
change    +b@0:1-9
conflicts none

# Above level 0 one shared key is too much.
live      a@5:1-9
change    +b@5:9-12
conflicts bucket 0: a and b would both hold keys of one range at level 5

# Each level for itself.
live      a@5:1-9
change    +b@4:1-9
conflicts none

# What others did wrong in a bucket that the change leaves alone is not its fault.
live      a@5:1-9/1#2 b@5:1-9/1#2
change    +c@5:1-9/0#2
conflicts none

# Each bucket is told apart.
live      a@0:1-9/0#2 b@0:1-9/1#2
change    -a@0:1-9/0#2 -x@0:1-9/1#2 +c@5:1-9/0#2
conflicts bucket 1: x at level 0 is not there any more

# The same file twice.
live      a@0:1-9
change    +a@0:1-9
conflicts bucket 0: a at level 0 is there already

# Nobody changes the bucket count in passing.
live      a@0:1-9/0#2
change    +b@0:1-9/3#4
conflicts partition: it has 2 buckets, the new files were written for 4: overwrite the whole partition

# A table without buckets has none to disagree about.
live      a@0/0#-1
change    +b@0/0#-1
conflicts none
"""

FILE = re.compile(
    r"(?P<sign>[+-]?)(?P<name>\w+)@(?P<level>\d+)(:(?P<low>\d+)-(?P<high>\d+))?(/(?P<bucket>\d+)#(?P<total>-?\d+))?"
)


def entries(text: str) -> list[ManifestEntry]:
    return [parsed(word) for word in text.split() if word != "none"]


def parsed(word: str) -> ManifestEntry:
    match = FILE.fullmatch(word)
    assert match, word
    keys = (None, None) if match["low"] is None else (int(match["low"]), int(match["high"]))
    return entry(
        EntryKind.DELETE if match["sign"] == "-" else EntryKind.ADD,
        data_file(match["name"], *keys, level=int(match["level"])),
        bucket=int(match["bucket"] or 0),
        total_buckets=int(match["total"] or 1),
    )


def cases() -> list[object]:
    found = []
    for block in CASES.strip().split("\n\n"):
        title, *lines = block.splitlines()
        fields = dict(line.split(maxsplit=1) for line in lines)
        found.append(pytest.param(fields["live"], fields["change"], fields["conflicts"], id=title.removeprefix("# ")))
    return found


@pytest.mark.parametrize(("live", "change", "expected"), cases())
def test_a_change_is_judged_by_what_is_live(live: str, change: str, expected: str) -> None:
    found = find_conflicts(entries(live), entries(change), key_schema())

    shown = [f"{'partition' if one.bucket is None else f'bucket {one.bucket}'}: {one.reason}" for one in found]
    assert "; ".join(shown) == ("" if expected == "none" else expected)


def test_a_change_that_removes_every_file_of_a_partition_may_change_the_bucket_count() -> None:
    change = entries("-a@0:1-9/0#2 +b@0:1-9/3#4")

    assert find_conflicts(entries("a@0:1-9/0#2"), change, key_schema()) == []
    assert len(find_conflicts(entries("a@0:1-9/0#2 c@0:1-9/1#2"), change, key_schema())) == 1


def test_an_append_table_has_no_key_ranges() -> None:
    from tests.planning.change_vocabulary import append_schema

    assert find_conflicts(entries("a@0"), entries("+b@0"), append_schema()) == []


def test_rows_that_came_after_the_writer_looked_are_unseen_but_compactions_bring_none() -> None:
    jan, feb = partition("2024-01"), partition("2024-02")
    changed = [
        (CommitKind.APPEND, [add(data_file("a"), in_partition=jan), add(data_file("b"), in_partition=feb)]),
        (CommitKind.COMPACT, [delete(data_file("x"), in_partition=jan), add(data_file("c"), in_partition=jan)]),
        (CommitKind.OVERWRITE, [delete(data_file("y"), in_partition=jan)]),
    ]

    assert [one.file.file_name for one in unseen_files(changed, jan.__eq__)] == ["a"]
    assert unseen_files(changed, partition("2024-03").__eq__) == []


def test_the_error_shows_the_first_findings_and_counts_the_others() -> None:
    found = find_conflicts([], entries("-a@0 -b@0 -c@0 -d@0 -e@0"), key_schema())

    error = conflict_error(found, key_schema())
    assert isinstance(error, CommitConflict)
    assert "bucket 0: a at level 0 is not there any more" in str(error)
    assert "and 2 more" in str(error)
    assert "Nothing was applied" in str(error)
