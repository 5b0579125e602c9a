"""When rows of a later commit may lose to those of an earlier one, and by how much their numbers must rise."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import DataType, parse_type
from lakehouse_core.planning.commit_order import crossing_files, needed_shifts
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.sorted_run import KeyedFile, keyed_files
from tests.oracle.commit_order import shifts_by_pairs
from tests.planning.change_vocabulary import data_file

KEY = [parse_type("INT NOT NULL")]

# What arrived first, what is new, by how much the new numbers must rise: files as keys:numbers.
CASES = """
1-9:0-9                   1-9:10-19                  0    the later numbers are higher
1-9:0-9                   1-9:9-18                   1    one number is equal
1-9:0-9                   1-9:0-9                    10   both writers saw the same
1-9:0-99                  1-9:0-9                    100
1-9:0-9                   10-19:0-9                  0    no key in common
1-9:0-9                   9-19:0-9                   10   ranges that touch at one key overlap
1-9:0-9 20-29:50-59       1-9:0-9                    60   above all, not only above what it meets
1-9:0-9                   20-29:0-9 1-9:10-19        0    only the file without a common key is low
20-29:0-9                 20-29:0-9 1-9:10-19        10   all new files rise together
1-9:0-9 1-9:10-19         1-9:5-7 1-9:8-9            15
-                         1-9:0-9                    0
"""


def files(text: str) -> list[DataFile]:
    found = []
    for number, word in enumerate(text.split()):
        if word != "-":
            (low, high), (first, last) = (map(int, part.split("-")) for part in word.split(":"))
            found.append(data_file(f"f{number}", low, high, min_sequence_number=first, max_sequence_number=last))
    return found


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_numbers_rise_where_a_row_could_lose_to_an_earlier_one(case: str) -> None:
    arrived, new, shift, *_ = (part.strip() for part in case.split("  ") if part.strip())

    assert needed_shifts(files(arrived), [files(new)], KEY) == [int(shift)]
    assert any(crossing_files(files(arrived), files(new), KEY)) == (shift != "0")


def test_floating_point_keys_compare_as_the_merge_orders_them() -> None:
    double = [parse_type("DOUBLE NOT NULL")]
    ends = {name: serialize_row((value,), double) for name, value in (("min_key", 1.0), ("max_key", float("nan")))}
    one, other = data_file("a", **ends), data_file("b", **{**ends, "min_key": ends["max_key"]})

    assert needed_shifts([one], [[other]], double) == [10]


@st.composite
def some_files(draw: st.DrawFn, least: int) -> list[DataFile]:
    ranges = draw(st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=least, max_size=4))
    words = (f"{min(a, b)}-{max(a, b)}:{min(c, d)}-{max(c, d)}" for a, b, c, d in ranges)
    return files(" ".join(words))


@given(arrived=some_files(0), parts=st.lists(some_files(1), max_size=6))
def test_each_part_rises_above_those_before_it_as_pairs_of_files_say(
    arrived: list[DataFile], parts: list[list[DataFile]]
) -> None:
    assert needed_shifts(arrived, parts, KEY) == shifts_by_pairs(arrived, parts, KEY)


def test_the_keys_of_many_parts_are_decoded_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def counted(found: Sequence[DataFile], types: Sequence[DataType]) -> tuple[KeyedFile, ...]:
        decoded.append(len(found))
        return keyed_files(found, types)

    monkeypatch.setattr("lakehouse_core.planning.commit_order.keyed_files", counted)
    parts = [files("1-9:0-9 20-29:0-9")] * 300

    assert needed_shifts([], parts, KEY) == [10 * number for number in range(300)]
    assert sum(decoded) == 600
