"""When rows of a later commit may lose to those of an earlier one, and by how much their numbers must rise."""

import pytest

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.planning.commit_order import crossed_files, needed_shift
from lakehouse_core.table.data_file import DataFile
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

    assert needed_shift(files(arrived), files(new), KEY) == int(shift)
    assert (crossed_files(files(arrived), files(new), KEY) is None) == (shift == "0")


def test_floating_point_keys_compare_as_the_merge_orders_them() -> None:
    double = [parse_type("DOUBLE NOT NULL")]
    ends = {name: serialize_row((value,), double) for name, value in (("min_key", 1.0), ("max_key", float("nan")))}
    one, other = data_file("a", **ends), data_file("b", **{**ends, "min_key": ends["max_key"]})

    assert needed_shift([one], [other], double) == 10
