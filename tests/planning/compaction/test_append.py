"""Which files of append tables are copied into few, as tables of cases.

A file is its size, oldest first, ten rows in each; `a3` behind it: the index file `a` marks 3 of its rows (`a?`: not
told how many). A target file is 100, files below 70 are small, opening one costs 4. Groups stand in brackets.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.options import BucketFunction, CompactionOptions, TableOptions
from lakehouse_core.planning.compaction.append import AppendCompactionPlan, MarkedRows, plan_append_compaction
from lakehouse_core.table.bucketing import Fixed, Unaware
from lakehouse_core.table.data_file import DataFile

LOOSE_MINOR = """
# Too few small files wait; five are enough.
                                     -> nothing
10 20 30 40                          -> nothing
10 20 30 40 50                       -> [10 20 30 40 50]
# Smallest first; large ones stay.
50 100 10 40 300 20 30               -> [10 20 30 40 50]
# 70 is not a small file.
70 10 20 30 40                       -> nothing
# A bin is full when it weighs two target files, each file with the cost of opening it: four here, and the rest waits.
60 60 60 60                          -> [60 60 60 60]
60 60 60 60 60                       -> [60 60 60 60]
40 40 40 40 40 40                    -> [40 40 40 40 40]
5 5 5 5 5 69 69 69                   -> [5 5 5 5 5 69 69 69]
# A large file counts when more than a fifth of its rows are deleted, or nobody knows how many.
300a2                                -> nothing
300a3                                -> [300a3]
300a?                                -> [300a?]
# Files marked by one index file go together, alone if need be; small ones always, the others as ever.
10a1                                 -> [10a1]
10a1 20b1                            -> [10a1 20b1]
69a1 69a1 69a1 300b2 20c1            -> [20c1 69a1 69a1 69a1]
69a1 69a1 69a1 69b1 20 30            -> [69b1 69a1 69a1 69a1]
10a1 20 30 40 50 60                  -> [10a1] [20 30 40 50 60]
"""

LOOSE_FULL = """
                                     -> nothing
10                                   -> nothing
10 20                                -> [10 20]
70 71 300                            -> nothing
# Only files below 70 % of the target are small; large ones between them stay where order does not count.
10 100 20 69                         -> [10 20 69]
# Oldest first. A group ends when two target files are full; what is left needs a second file.
60 60 60 60 60 50                    -> [60 60 60 60] [60 50]
60 60 60 60 60                       -> [60 60 60 60]
# No deleted row stays.
300a1                                -> [300a1]
300a1 10 500a1 600b1                 -> [600b1 300a1 500a1]
"""

ORDERED_AUTO = """
10 20 30 40                          -> nothing
10 20 30 40 50                       -> [10 20 30 40 50]
10 20 30 40 1 2                      -> [10 20 30 40 1]
# Once two target files are full the oldest is let go; a large one between small ones comes along.
300 10 20 30 40 50                   -> [10 20 30 40 50]
10 150 20 30 40 50                   -> nothing
10 80 20 30 40 50                    -> [10 80 20 30 40]
90 90 90 90 90 90                    -> nothing
"""

ORDERED_FULL = """
                                     -> nothing
10                                   -> nothing
# Large ones in front stay; the rest is copied when most of it is small and there are three.
100 100 10 20 30                     -> [10 20 30]
100 10 200 30 40                     -> [10 200 30 40]
10 20 100 30 100 5 6 7               -> [10 20 100 30 100 5 6 7]
# Otherwise small neighbours only.
10 20                                -> [10 20]
100 10 100                           -> nothing
10 20 100 100 5 100 6 7              -> [10 20 100 100 5 100 6 7]
10 100 100 5 6                       -> [10 100 100 5 6]
10 100 100 100 5 6                   -> [5 6]
# No deleted row stays.
100 100a1 100                        -> [100a1 100]
"""

ALL_FULL = """
300                                  -> [300]
10 300 20                            -> [10 300] [20]
"""


def options(**compaction: Any) -> TableOptions:
    return TableOptions(
        explicit_target_file_size_bytes=100,
        split_open_cost_bytes=4,
        compaction=CompactionOptions(**compaction),
    )


def lines(cases: str) -> list[str]:
    return [line for line in cases.splitlines() if line and not line.startswith("#")]


def file(number: int, text: str) -> DataFile:
    size = re.match(r"\d+", text)
    assert size is not None
    return DataFile(
        file_name=f"{number} {text}",
        file_size=int(size[0]),
        row_count=10,
        min_sequence_number=10 * number,
        max_sequence_number=10 * number + 9,
        schema_id=0,
        creation_time_millis=number,
    )


def marked(files: list[DataFile]) -> dict[str, MarkedRows]:
    found = {}
    for one in files:
        if match := re.search(r"([a-z])(\d+|\?)$", one.file_name):
            found[one.file_name] = MarkedRows(index_file=match[1], count=None if match[2] == "?" else int(match[2]))
    return found


def plan(text: str, *, full: bool, ordered: bool = False, **settings: Any) -> AppendCompactionPlan | None:
    files = [file(number, part) for number, part in enumerate(text.split())]
    bucketing = Fixed(1, BucketFunction.DEFAULT) if ordered else Unaware()
    return plan_append_compaction(files[::-1], options(**settings), bucketing, full=full, marked=marked(files))


def shown(found: AppendCompactionPlan | None) -> str:
    if found is None:
        return "nothing"
    return " ".join(f"[{' '.join(one.file_name.partition(' ')[2] for one in group)}]" for group in found.groups)


CASES = [
    pytest.param(line, arguments, id=f"{name}: {line}")
    for name, cases, arguments in (
        ("loose minor", LOOSE_MINOR, {"full": False}),
        ("loose full", LOOSE_FULL, {"full": True}),
        ("ordered auto", ORDERED_AUTO, {"full": False, "ordered": True}),
        ("ordered full", ORDERED_FULL, {"full": True, "ordered": True}),
        ("all files", ALL_FULL, {"full": True, "rewrites_all_files": True}),
        ("all files, ordered", "10 300 20 -> [10 300 20]", {"full": True, "ordered": True, "rewrites_all_files": True}),
    )
    for line in lines(cases)
]


@pytest.mark.parametrize(("line", "arguments"), CASES)
def test_small_files_of_an_append_table_are_copied_into_few(line, arguments):
    files, expected = (part.strip() for part in line.split("->"))

    assert shown(plan(files, **arguments)) == expected


@pytest.mark.parametrize(
    ("text", "settings", "reason"),
    [
        ("10 20", {}, "small files"),
        ("10 20a1", {}, "deleted rows"),
        ("10 300", {"rewrites_all_files": True}, "rewrite requested"),
    ],
)
def test_a_plan_says_why_it_is_there(text, settings, reason):
    found = plan(text, full=True, **settings)

    assert found is not None
    assert found.reason == reason


@given(st.lists(st.integers(0, 250), max_size=30), st.booleans())
def test_no_file_is_copied_twice_and_order_is_kept_where_it_counts(sizes, full):
    text = " ".join(map(str, sizes))
    loose, ordered = plan(text, full=full), plan(text, full=full, ordered=True)

    for found in filter(None, (loose, ordered)):
        assert len({one.file_name for one in found.files}) == len(found.files)
    if ordered is not None:
        numbers = [one.min_sequence_number // 10 for one in ordered.files]
        assert numbers == sorted(numbers)
        for group in ordered.groups:
            first = group[0].min_sequence_number // 10
            assert [one.min_sequence_number // 10 for one in group] == list(range(first, first + len(group)))
