"""What a full compaction does to a bucket, as a table of cases.

A file is `level:low-high`, its size the number of its keys, with `d` behind it when it holds deletes.
Steps: `[…]` is merged and rewritten, `^…` only changes its level; what is not named stays as it is.
"""

from __future__ import annotations

import pytest

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.planning.compaction import (
    CompactionPlan,
    Upgrade,
    drops_deletes,
    plan_append_compaction,
    plan_full_compaction,
)
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.levels import Levels, levels_of

KEY = [parse_type("INT NOT NULL")]

CASES = """
# The vectors of the specification: three levels, files below size 2 are small.
0:1-3 1:1-5 1:6-7                                     -> [0:1-3 1:1-5] ^1:6-7
0:1-3 0:1-5 0:6-8                                     -> [0:1-3 0:1-5] ^0:6-8
0:1-1 0:2-2                                           -> [0:1-1 0:2-2]
0:1-5 0:6-6 1:7-8 1:9-10                              -> ^0:1-5 ^0:6-6 ^1:7-8 ^1:9-10
0:1-5 0:6-6 1:7-7 1:9-10                              -> ^0:1-5 [0:6-6 1:7-7] ^1:9-10
0:1-5 0:6-6 1:1-4 1:6-8 1:10-10 2:1-3 2:4-6           -> [2:1-3 1:1-4 0:1-5 2:4-6 0:6-6 1:6-8 1:10-10]
# Nothing there, or everything at the top: nothing to do, however small the files.
                                                      -> nothing
2:1-1 2:2-2 2:3-9                                     -> nothing
# A single file of level 0 is lifted; with deletes it is rewritten, for the top level holds none.
0:1-9                                                 -> ^0:1-9
0:1-9d                                                -> [0:1-9d]
1:1-1d                                                -> [1:1-1d]
# A large file at the top that shares no key stays where it is.
0:1-5 2:7-9                                           -> ^0:1-5
# A lone small file between large ones is lifted too.
0:1-5 0:7-7 2:8-9                                     -> ^0:1-5 ^0:7-7
# A small one beside an overlap joins its rewrite.
0:1-5 0:4-6 0:7-7 2:8-9                               -> [0:1-5 0:4-6 0:7-7]
"""


def bucket(text: str) -> Levels:
    files = []
    for number, part in enumerate(text.split()):
        level, keys = part.split(":")
        low, high = (int(key) for key in keys.rstrip("d").split("-"))
        files.append(
            DataFile(
                file_name=part,
                file_size=high - low + 1,
                row_count=high - low + 1,
                min_key=serialize_row((low,), KEY),
                max_key=serialize_row((high,), KEY),
                min_sequence_number=number,
                max_sequence_number=number,
                schema_id=0,
                level=int(level),
                delete_row_count=1 if keys.endswith("d") else 0,
            )
        )
    return levels_of(files, KEY, level_count=3)


def shown(plan: CompactionPlan | None) -> str:
    if plan is None:
        return "nothing"
    parts = []
    for step in plan.steps:
        if isinstance(step, Upgrade):
            parts.append(f"^{step.file.file_name}")
        else:
            ordered = sorted(
                (file for section in step.sections for run in section for file in run.files),
                key=lambda file: (file.min_key, file.max_key),
            )
            parts.append(f"[{' '.join(file.file.file_name for file in ordered)}]")
    return " ".join(parts)


@pytest.mark.parametrize("line", [line for line in CASES.splitlines() if line and not line.startswith("#")])
def test_a_full_compaction_merges_what_overlaps_and_lifts_the_rest(line):
    files, expected = (part.strip() for part in line.split("->"))

    assert shown(plan_full_compaction(bucket(files), min_file_size_bytes=2)) == expected


def test_a_full_compaction_forgets_deletes_and_says_why_it_runs():
    plan = plan_full_compaction(bucket("0:1-3 0:2-4"), min_file_size_bytes=2)

    assert plan is not None
    assert plan.drops_deletes
    assert plan.output_level == 2
    assert plan.reason == "full compaction"
    assert plan.rewritten_bytes == 6


@pytest.mark.parametrize(
    ("files", "output_level", "expected"),
    [("0:1-3 0:2-4", 0, False), ("0:1-3 1:2-4", 1, True), ("0:1-3 2:2-4", 1, False), ("0:1-3 2:2-4", 2, True)],
)
def test_deletes_are_forgotten_only_where_nothing_older_lies_below(files, output_level, expected):
    assert drops_deletes(output_level, bucket(files)) is expected


def append_files(*sizes: int) -> list[DataFile]:
    return [
        DataFile(
            file_name=f"data-{number}",
            file_size=size,
            row_count=10,
            min_sequence_number=10 * number,
            max_sequence_number=10 * number + 9,
            schema_id=0,
            creation_time_millis=number,
        )
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "is_ordered", "expected"),
    [
        ((), False, []),
        ((10,), False, []),
        ((10, 20), False, [[0, 1]]),
        ((70, 71, 300), False, []),
        # Only files below 70 % of the target are small; large ones between them stay where order does not count.
        ((10, 100, 20, 69), False, [[0, 2, 3]]),
        # A group ends when two target files are full; what is left needs a second file to be worth a rewrite.
        ((60, 60, 60, 60, 60, 60), False, [[0, 1, 2, 3], [4, 5]]),
        ((60, 60, 60, 60, 60), False, [[0, 1, 2, 3]]),
        # Where order counts, only neighbours are packed.
        ((10, 100, 20, 69), True, [[2, 3]]),
        ((10, 20, 100, 30, 100, 5, 6, 7), True, [[0, 1], [5, 6, 7]]),
        ((100, 10, 100), True, []),
    ],
)
def test_small_files_of_an_append_table_are_packed(sizes, is_ordered, expected):
    plan = plan_append_compaction(
        append_files(*sizes), target_file_size_bytes=100, small_file_ratio=0.7, is_ordered=is_ordered
    )

    groups = [] if plan is None else [[int(file.file_name[5:]) for file in group] for group in plan.groups]
    assert groups == expected
