"""Splits group files so that no key is in two of them, and merge only what must be merged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.options import TableOptions
from lakehouse_core.planning.read.packing import FileGroup, append_groups, key_groups, waiting_parts
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.split import Split

INT = parse_type("INT NOT NULL")
MB = 1 << 20
SIZES = {"target_bytes": 128 * MB, "open_cost_bytes": 4 * MB}

# Files as `name[low,high]size`, with @level (0 unless given) and `!` for deletes, `?` for deletes unknown.
CASES = """
# The example of the specification: sections of 64, 32, 128 and 120 MB.
files  a[1,2]64@1 b[3,4]32@1 c[5,180]64@1 d[5,190]64 e[200,600]60@1 f[210,700]60
splits raw(a b) merge(c d) merge(e f)

# One level above 0 is disjoint by its rules: files are packed one by one.
files  a[1,2]64@5 b[3,4]64@5 c[5,6]10@5
splits raw(a b) raw(c)

# Deletes must be dropped, so even a lone file is merged; unknown may be some.
files  a[1,2]10@5! b[3,4]10@5 c[5,6]10@5?
splits raw(b) merge(a c)

# Lone files of level 0 need no merge either.
files  a[1,2]10 b[3,4]10
splits raw(a b)

# Ranges that touch at one key overlap.
files  a[1,3]10 b[3,4]10 c[5,5]10
splits raw(c) merge(a b)

# Opening a file costs as much as reading 4 MB: 32 small files fill a split.
files  a[1,1]130@5 b[2,2]1@5
splits raw(a) raw(b)

files
splits
"""


def parse_cases(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [
        (files.removeprefix("files").strip(), splits.removeprefix("splits").strip())
        for files, splits in zip(lines[::2], lines[1::2], strict=True)
    ]


@pytest.mark.parametrize(("files", "expected"), parse_cases(CASES))
def test_key_files_become_splits(files, expected):
    groups = key_groups([parse_file(text) for text in files.split()], [INT], **SIZES)

    assert shown(groups) == expected


def test_append_files_are_packed_oldest_first():
    files = [
        data_file("b", size=100 * MB, sequence=10),
        data_file("a", size=100 * MB),
        data_file("c", size=MB, sequence=20),
    ]

    assert shown(append_groups(files, **SIZES)) == "raw(a) raw(b c)"


# The bytes of the waiting rows and of each bucket, in MB, and the buckets of each part.
@pytest.mark.parametrize(
    ("waiting", "buckets", "parts"),
    [
        (8, [1] * 32, [32]),
        (800, [0] * 8, [2, 2, 2, 2]),
        (0, [1, 1, 1], [1, 1, 1]),
        (8, [2000, 1, 1], [1, 2]),
    ],
)
def test_buckets_with_the_same_waiting_rows_are_read_in_a_few_parts(waiting, buckets, parts):
    splits = [
        Split(
            snapshot_id=1,
            partition=b"a",
            bucket=number,
            total_buckets=len(buckets),
            folder="",
            files=(data_file("f", size=size * MB),),
            raw=False,
            waiting=(data_file("w", size=waiting * MB),) if waiting else (),
            waiting_share=(number, len(buckets)),
        )
        for number, size in enumerate(buckets)
    ]

    assert [len(part) for part in waiting_parts(splits, TableOptions())] == parts


@given(
    ranges=st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 6), st.integers(1, 60), st.sampled_from([0, 0, 1, None])),
        max_size=12,
    )
)
def test_no_key_is_in_two_splits_and_only_disjoint_files_are_raw(ranges):
    files = [
        data_file(f"f{number}", low=low, high=low + width, size=size * MB, deletes=deletes)
        for number, (low, width, size, deletes) in enumerate(ranges)
    ]

    groups = key_groups(files, [INT], **SIZES)

    assert sorted(file.file_name for group in groups for file in group.files) == sorted(f.file_name for f in files)
    keys = [{key for file in group.files for key in keys_of(file)} for group in groups]
    assert all(left.isdisjoint(right) for index, left in enumerate(keys) for right in keys[:index])
    for group in groups:
        if group.raw:
            assert all(file.delete_row_count == 0 for file in group.files)
            assert sum(len(keys_of(file)) for file in group.files) == len({k for f in group.files for k in keys_of(f)})


def keys_of(file: DataFile) -> range:
    low, high = (int.from_bytes(key[12:16], "little", signed=True) for key in (file.min_key, file.max_key))
    return range(low, high + 1)


def shown(groups: list[FileGroup]) -> str:
    return " ".join(
        f"{'raw' if group.raw else 'merge'}({' '.join(file.file_name for file in group.files)})" for group in groups
    )


def parse_file(text: str) -> DataFile:
    name, rest = text.split("[")
    span, rest = rest.split("]")
    deletes = 1 if rest.endswith("!") else None if rest.endswith("?") else 0
    size, _, level = rest.rstrip("!?").partition("@")
    low, high = map(int, span.split(","))
    return data_file(name, low=low, high=high, size=int(size) * MB, level=int(level or 0), deletes=deletes)


def data_file(
    name: str,
    *,
    low: int = 0,
    high: int = 0,
    size: int = MB,
    level: int = 0,
    sequence: int = 0,
    deletes: int | None = 0,
) -> DataFile:
    return DataFile(
        file_name=name,
        file_size=size,
        row_count=10,
        min_key=serialize_row([low], [INT]),
        max_key=serialize_row([high], [INT]),
        min_sequence_number=sequence,
        max_sequence_number=sequence,
        schema_id=0,
        level=level,
        delete_row_count=deletes,
    )
