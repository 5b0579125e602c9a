"""Sections by exact key ranges: an interval partition, against a quadratic twin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.sections import oldest_first, sections
from lakehouse_core.table.sorted_run import KeyedFile, SortedRun
from tests.oracle import merge as oracle


def keyed(low: int, high: int, *, sequence: tuple[int, int] = (0, 0), name: str = "") -> KeyedFile:
    file = DataFile(
        file_name=name or f"data-{low}-{high}.parquet",
        file_size=high - low + 1,
        row_count=high - low + 1,
        min_sequence_number=sequence[0],
        max_sequence_number=sequence[1],
        schema_id=0,
    )
    return KeyedFile(file, (low,), (high,))


def shown(found: tuple[tuple[SortedRun, ...], ...]) -> str:
    """Runs of a section are divided by "|", sections by "  "."""
    return "  ".join(
        " | ".join(" ".join(f"{file.min_key[0]}-{file.max_key[0]}" for file in run.files) for run in section)
        for section in found
    )


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ("", ""),
        ("1-2", "1-2"),
        # The example of the specification.
        (
            "1-2 3-4 5-180 5-190 200-600 210-700",
            "1-2  3-4  5-180 | 5-190  200-600 | 210-700",
        ),
        # Ranges that touch at one key overlap.
        ("1-2 2-3", "1-2 | 2-3"),
        # A long file holds short ones together, which share one run.
        ("1-2 3-4 5-6 1-100", "1-2 3-4 5-6 | 1-100"),
        # Order of arrival does not matter.
        ("7-9 1-3 4-6", "1-3  4-6  7-9"),
    ],
)
def test_files_that_share_no_key_lie_in_different_sections(files, expected):
    ranges = [tuple(map(int, part.split("-"))) for part in files.split()]

    assert shown(sections([keyed(low, high) for low, high in ranges])) == expected


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=20))
def test_sections_and_runs_are_those_of_the_slow_twin(drawn):
    ranges = [(low, low + length) for low, length in drawn]

    found = sections([keyed(low, high) for low, high in ranges])

    as_ranges = [[[(f.min_key[0], f.max_key[0]) for f in run.files] for run in section] for section in found]
    expected = oracle.sections(ranges)
    assert [sorted(map(sorted, section)) for section in as_ranges] == [sorted(map(sorted, s)) for s in expected]
    for section in found:
        for run in section:
            assert all(a.max_key < b.min_key for a, b in zip(run.files, run.files[1:], strict=False))


def test_runs_come_oldest_first_and_disjoint_sequence_numbers_decide_between_versions():
    (section,) = sections(
        [keyed(1, 9, sequence=(20, 29), name="c"), keyed(1, 8, sequence=(0, 9)), keyed(2, 7, sequence=(10, 19))]
    )

    ordered, is_decided = oldest_first(section)

    assert [run.data_files[0].max_sequence_number for run in ordered] == [9, 19, 29]
    assert is_decided


@pytest.mark.parametrize("newer", [(9, 12), (5, 6)], ids=["touching", "inside"])
def test_overlapping_sequence_numbers_of_concurrent_writers_decide_nothing(newer):
    (section,) = sections([keyed(1, 9, sequence=(0, 9)), keyed(1, 8, sequence=newer)])

    assert oldest_first(section)[1] is False


def test_a_run_packed_from_an_old_and_a_new_file_decides_nothing():
    (section,) = sections(
        [keyed(1, 4, sequence=(0, 9)), keyed(5, 9, sequence=(90, 99)), keyed(2, 8, sequence=(50, 59))]
    )

    assert len(section) == 2
    assert oldest_first(section)[1] is False
