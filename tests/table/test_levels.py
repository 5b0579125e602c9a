"""The runs of a bucket, newest first."""

from __future__ import annotations

import pytest

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.levels import levels_of, run_count
from lakehouse_core.table.sorted_run import keyed_files

KEY = [parse_type("STRING NOT NULL")]


def file(
    name: str, low: str, high: str, *, level: int = 0, sequence: tuple[int, int] = (0, 0), created: int = 0
) -> DataFile:
    return DataFile(
        file_name=name,
        file_size=10,
        row_count=2,
        min_key=serialize_row((low,), KEY),
        max_key=serialize_row((high,), KEY),
        min_sequence_number=sequence[0],
        max_sequence_number=sequence[1],
        schema_id=0,
        level=level,
        creation_time_millis=created,
    )


def test_level_0_comes_first_newest_first_then_each_level_as_one_run_in_key_order():
    found = levels_of(
        [
            file("top-2", "n", "z", level=5),
            file("top-1", "a", "m", level=5),
            file("old", "a", "z", sequence=(0, 9)),
            file("new", "a", "z", sequence=(10, 19)),
            file("mid", "c", "d", level=3),
        ],
        KEY,
        level_count=6,
    )

    assert [(run.level, [f.file_name for f in run.run.data_files]) for run in found.runs] == [
        (0, ["new"]),
        (0, ["old"]),
        (3, ["mid"]),
        (5, ["top-1", "top-2"]),
    ]
    assert (found.max_level, found.highest_filled_level) == (5, 5)


def test_level_0_files_of_one_highest_number_go_by_smallest_number_then_age_then_name():
    found = levels_of(
        [
            file("d", "a", "z", sequence=(5, 9), created=1),
            file("c", "a", "z", sequence=(1, 9), created=2),
            file("b", "a", "z", sequence=(1, 9), created=1),
            file("a", "a", "z", sequence=(1, 9), created=1),
        ],
        KEY,
        level_count=6,
    )

    assert [f.file_name for f in found.files] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("level_count", "expected"), [(6, 8), (12, 11), (1, 8)])
def test_a_level_higher_than_the_options_say_raises_the_number_of_levels(level_count, expected):
    assert levels_of([file("x", "a", "b", level=8)], KEY, level_count=level_count).max_level == expected


def test_a_bucket_without_files_has_no_runs():
    found = levels_of([], KEY, level_count=1)

    assert (found.runs, found.max_level, found.highest_filled_level) == ((), 1, -1)


@pytest.mark.parametrize("second", ["m", "g"], ids=["touching", "inside"])
def test_files_of_one_level_above_0_that_share_a_key_are_corrupt(second):
    with pytest.raises(CorruptTable, match=r"left and right of level 2 share keys"):
        levels_of([file("left", "a", "m", level=2), file("right", second, "z", level=2)], KEY, level_count=6)


def test_a_key_range_that_ends_before_it_begins_is_corrupt():
    with pytest.raises(CorruptTable, match=r"odd: its smallest key \('z',\) is greater than its greatest key \('a',\)"):
        keyed_files([file("odd", "z", "a")], KEY)


def test_a_key_range_that_does_not_decode_is_corrupt_and_names_the_file():
    broken = DataFile(
        file_name="cut", file_size=1, row_count=1, min_key=b"\0\0", max_key=b"", min_sequence_number=0,
        max_sequence_number=0, schema_id=0,
    )  # fmt: skip
    with pytest.raises(CorruptTable, match=r"^cut: "):
        keyed_files([broken], KEY)


@pytest.mark.parametrize(
    ("levels", "count"), [((), 0), ((0,), 1), ((0, 0, 0), 3), ((5, 5), 1), ((0, 1, 1, 5), 3), ((0, 0, 4, 5, 5), 4)]
)
def test_each_file_of_level_0_is_a_run_and_so_is_each_level_above(levels, count):
    assert run_count(file(f"f{number}", "a", "b", level=level) for number, level in enumerate(levels)) == count
