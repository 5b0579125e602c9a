"""Which new files become one before a commit: small ones of one partition, until they weigh a target file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.options import TableOptions
from lakehouse_core.planning.compaction.precommit import (
    NewFile,
    changelog_groups,
    data_file_groups,
    with_packed,
    with_segments,
)
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.joined_changelog import segment_of
from tests.planning.change_vocabulary import data_file, partition

# Of a target of 100 bytes 70 are small no more.
OPTIONS = {"target-file-size": "100 b"}

# Messages are `partition/bucket sizes`, files `size` with a letter for what is special: `o` an ORC file, `c` one of a
# compaction, `x` one with a file beside it. What is joined is shown as `bucket:size` in its order.
CHANGELOG_CASES = """
# Small files of all buckets of a partition go together.
a/0 10, a/1 20, a/2 30          -> 0:10 1:20 2:30

# Tasks end in any order: buckets are taken in theirs.
a/2 30, a/0 10, a/1 20          -> 0:10 1:20 2:30

# Partitions have files of their own, and a lone file stays as it is.
a/0 10, b/0 20, a/1 30, c/0 5   -> 0:10 1:30

# What weighs 70 percent of the target is not small.
a/0 69 70, a/1 20               -> 0:69 1:20

# A group that weighs the target is complete; the next begins anew, and a lone rest stays.
a/0 60, a/1 60, a/2 60          -> 0:60 1:60
a/0 60, a/1 60, a/2 60, a/3 1   -> 0:60 1:60 | 2:60 3:1
a/0 60, a/1 39, a/2 1           -> 0:60 1:39 2:1

# Several files of one bucket, too.
a/0 10 20                       -> 0:10 0:20

# The name of a segment says the format of the object: formats do not mix.
a/0 10, a/1 20o, a/2 30, a/3 5o -> 0:10 2:30 | 1:20 3:5

# Files of a compaction come with a snapshot of their own.
a/0 10 5c, a/1 20 6c            -> 0:10 1:20 | 0:5 1:6

# A file with another beside it stays.
a/0 10x, a/1 20, a/2 30         -> 1:20 2:30
a/0 10x, a/1 20                 ->
"""


def cases(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.strip().splitlines() if line and not line.startswith("#")]
    return [(before.strip(), after.strip()) for before, after in (line.split("->") for line in lines)]


def changelog_file(name: str, text: str) -> DataFile:
    ending = "orc" if "o" in text else "parquet"
    extra = (f"{name}.index",) if "x" in text else ()
    return data_file(f"{name}.{ending}", file_size=int(text.rstrip("ocx")), extra_files=extra)


def messages(text: str) -> list[CommitMessage]:
    found = []
    for number, part in enumerate(text.split(",")):
        place, *sizes = part.split()
        day, bucket = place.split("/")
        files = [(size, changelog_file(f"f{number}-{index}", size)) for index, size in enumerate(sizes)]
        found.append(
            CommitMessage(
                partition=partition(day),
                bucket=int(bucket),
                total_buckets=4,
                changelog_files=tuple(file for size, file in files if "c" not in size),
                compact_changelog_files=tuple(file for size, file in files if "c" in size),
            )
        )
    return found


def shown(groups: list[tuple[NewFile, ...]], of: list[CommitMessage]) -> str:
    return " | ".join(" ".join(f"{of[new.index].bucket}:{new.file.file_size}" for new in group) for group in groups)


@pytest.mark.parametrize(("before", "after"), cases(CHANGELOG_CASES))
def test_small_changelog_files_of_a_partition_go_together(before: str, after: str) -> None:
    given_messages = messages(before)

    assert shown(changelog_groups(given_messages, TableOptions.parse(OPTIONS)), given_messages) == after


@pytest.mark.parametrize(
    ("options", "most_bytes"),
    [
        ({}, 128 << 20),
        ({"target-file-size": "100 mb"}, 70 << 20),
        ({"target-file-size": "100 mb", "compaction.small-file-ratio": "0.2"}, 20 << 20),
        ({"target-file-size": "1 gb", "changelog.precommit-compact.buffer-size": "1 mb"}, 1 << 20),
        # As Java has it, 256 MB for tables with a key, too.
        ({"changelog.precommit-compact.buffer-size": "1 gb"}, int((256 << 20) * 0.7)),
    ],
)
def test_small_is_what_options_say(options: dict[str, str], most_bytes: int) -> None:
    def joined(size: int) -> bool:
        given_messages = messages(f"a/0 {size}, a/1 1")
        return bool(changelog_groups(given_messages, TableOptions.parse(options)))

    assert (joined(most_bytes - 1), joined(most_bytes)) == (True, False)


def test_joined_files_keep_all_but_their_names() -> None:
    before = messages("a/0 10 80, a/1 20 7c, b/0 30")
    (group,) = changelog_groups(before, TableOptions.parse(OPTIONS))
    after = with_segments(before, {"compacted-changelog-u$0-10.cc-parquet": group})

    names = [[file.file_name for file in message.changelog_files] for message in after]
    assert names == [
        ["compacted-changelog-u$0-10.cc-parquet", "f0-1.parquet"],
        ["compacted-changelog-u$0-10-10-20.cc-parquet"],
        ["f2-0.parquet"],
    ]
    assert after[1].compact_changelog_files == before[1].compact_changelog_files
    sizes = [[file.file_size for file in message.changelog_files] for message in after]
    assert sizes == [[10, 80], [20], [30]]


@given(
    sizes=st.lists(st.lists(st.integers(1, 120), max_size=4), min_size=1, max_size=6),
    partitions=st.lists(st.sampled_from("ab"), min_size=6, max_size=6),
)
def test_whatever_comes_every_file_is_there_once_and_every_object_is_full(
    sizes: list[list[int]], partitions: list[str]
) -> None:
    text = ", ".join(
        f"{day}/{bucket} {' '.join(map(str, some))}"
        for bucket, (some, day) in enumerate(zip(sizes, partitions, strict=False))
    )
    before = messages(text)
    groups = changelog_groups(before, TableOptions.parse(OPTIONS))
    names = {
        f"compacted-changelog-u{n}$0-{group[0].file.file_size}.cc-parquet": group for n, group in enumerate(groups)
    }
    after = with_segments(before, names)

    assert all(len(group) > 1 for group in groups)
    assert all(sum(new.file.file_size for new in group[:-1]) < 100 for group in groups)
    assert [[file.file_size for file in one.changelog_files] for one in after] == [
        [file.file_size for file in one.changelog_files] for one in before
    ]
    for first, group in names.items():
        segments = [
            segment
            for message in after
            for file in message.changelog_files
            if (segment := segment_of(f"bucket-0/{file.file_name}")) and segment.key.endswith(first)
        ]
        ends = sorted(segment.end for segment in segments)
        assert [segment.offset for segment in sorted(segments, key=lambda one: one.offset)] == [0, *ends[:-1]]
        assert ends[-1] == sum(new.file.file_size for new in group)


def append_messages(*sizes: tuple[int, ...]) -> list[CommitMessage]:
    return [
        CommitMessage(
            partition=partition("a"),
            bucket=0,
            total_buckets=-1,
            new_files=tuple(data_file(f"f{number}-{n}", file_size=size) for n, size in enumerate(some)),
        )
        for number, some in enumerate(sizes)
    ]


def test_small_data_files_of_several_tasks_are_written_as_one_and_the_others_stay() -> None:
    before = append_messages((90, 10), (20,), (80,), (60,), (50,))
    groups = data_file_groups(before, TableOptions.parse(OPTIONS))
    assert [[new.file.file_name for new in group] for group in groups] == [["f0-1", "f1-0", "f3-0", "f4-0"]]

    after = with_packed(before, [(groups[0], [data_file("one"), data_file("two")])])

    assert [[file.file_name for file in message.new_files] for message in after] == [["f0-0", "one", "two"], ["f2-0"]]


def test_a_changelog_file_in_the_buffer_size_is_no_matter_to_data_files() -> None:
    before = append_messages((50,), (40,))
    options = TableOptions.parse(OPTIONS | {"changelog.precommit-compact.buffer-size": "10 b"})

    assert len(data_file_groups(before, options)) == 1
