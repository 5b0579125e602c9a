"""What a compaction does to a bucket, as tables of cases.

A file is `level:low-high`, its size the number of its keys, with `d` behind it when it holds deletes, `e` when its rows
are expired, `v` when a deletion vector marks some. Steps: `[…]` is merged and rewritten, `^…` only changes its level;
what is not named stays as it is. Three levels, files below size 2 are small.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.options import CompactionOptions, TableOptions
from lakehouse_core.planning.compaction.bucket import (
    drops_deletes,
    expired_files,
    plan_full_compaction,
    plan_minor_compaction,
)
from lakehouse_core.planning.compaction.plan import CompactionPlan, Upgrade
from lakehouse_core.planning.compaction.universal import PickTime
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.levels import Levels, levels_of
from lakehouse_core.table.record_expiry import record_expiry
from lakehouse_core.table.schema import new_schema
from lakehouse_core.table.stats import NOTHING_KNOWN, ColumnBounds, encode_stats

KEY = [parse_type("INT NOT NULL")]

CASES = """
# The vectors of the specification.
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
# A lone large file of expired rows is rewritten, not lifted; so is one with rows marked as deleted (Java lifts it).
0:1-5e 2:7-9                                          -> [0:1-5e]
1:1-5v 2:7-9e                                         -> [1:1-5v] [2:7-9e]
0:1-5 2:7-9v                                          -> ^0:1-5 [2:7-9v]
# At the top, files that must be are rewritten one by one, however small, and no other.
2:1-1e 2:2-2 2:3-9v 2:10-20                           -> [2:1-1e] [2:3-9v]
"""

# Where the table asks for all files to be rewritten.
ALL_CASES = """
2:1-1 2:3-9                                           -> [2:1-1] [2:3-9]
0:1-5 2:7-9                                           -> [0:1-5] [2:7-9]
0:1-5                                                 -> [0:1-5]
                                                      -> nothing
"""

# What the strategy picks with a trigger of 2: the level, what is done, and what lies above.
MINOR_CASES = """
0:1-3 0:2-4 2:1-90     -> L1 [0:1-3 0:2-4] above 2:1-90
0:1-3 0:7-9 2:1-90     -> L1 ^0:1-3 ^0:7-9 above 2:1-90
0:1-3d 0:7-9 2:1-90    -> L1 ^0:1-3d ^0:7-9 above 2:1-90
0:1-3 1:1-3 2:1-90     -> L1 [0:1-3 1:1-3] above 2:1-90
0:1-30 0:1-30 2:1-9    -> L2 [2:1-9 0:1-30 0:1-30] above nothing
0:1-3 2:1-90           -> nothing
2:1-90e                -> nothing
"""


def options(**compaction: Any) -> TableOptions:
    return TableOptions(
        explicit_target_file_size_bytes=10, compaction=CompactionOptions(small_file_ratio=0.2, **compaction)
    )


def lines(cases: str) -> list[str]:
    return [line for line in cases.splitlines() if line and not line.startswith("#")]


def named(text: str, mark: str) -> list[str]:
    return [f"{part}.parquet" for part in text.split() if part.endswith(mark)]


def word(file: DataFile) -> str:
    return file.file_name.removesuffix(".parquet")


def bucket(text: str) -> Levels:
    files = []
    for number, part in enumerate(reversed(text.split())):
        level, keys = part.split(":")
        low, high = (int(key) for key in keys.rstrip("dev").split("-"))
        files.append(
            DataFile(
                file_name=f"{part}.parquet",
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
            parts.append(f"^{word(step.file)}")
        else:
            ordered = sorted(
                (file for section in step.sections for run in section for file in run.files),
                key=lambda file: (file.min_key, file.max_key),
            )
            parts.append(f"[{' '.join(word(file.file) for file in ordered)}]")
    return " ".join(parts)


def full(text: str, **compaction: Any) -> CompactionPlan | None:
    return plan_full_compaction(bucket(text), options(**compaction), expired=named(text, "e"), marked=named(text, "v"))


@pytest.mark.parametrize("line", lines(CASES))
def test_a_full_compaction_merges_what_overlaps_and_lifts_the_rest(line):
    files, expected = (part.strip() for part in line.split("->"))

    assert shown(full(files)) == expected


@pytest.mark.parametrize("line", lines(ALL_CASES))
def test_a_table_may_ask_for_all_files_to_be_rewritten(line):
    files, expected = (part.strip() for part in line.split("->"))

    assert shown(full(files, rewrites_all_files=True)) == expected


@pytest.mark.parametrize("line", lines(MINOR_CASES))
def test_a_minor_compaction_does_what_the_strategy_picks(line):
    files, expected = (part.strip() for part in line.split("->"))
    settings = options(trigger_run_count=2, size_ratio_percent=1)

    plan = plan_minor_compaction(bucket(files), settings, PickTime(local_now_millis=0), expired=named(files, "e"))

    if plan is None:
        assert expected == "nothing"
    else:
        older = " ".join(word(file) for run in plan.older for file in run.data_files) or "nothing"
        assert f"L{plan.output_level} {shown(plan)} above {older}" == expected


def test_a_file_of_another_format_is_rewritten_on_its_way_to_a_level():
    settings = TableOptions.parse({"file.format.per.level": "2:orc"})

    assert shown(plan_full_compaction(bucket("0:1-50"), settings)) == "[0:1-50]"
    assert shown(plan_full_compaction(bucket("0:1-50"), TableOptions())) == "^0:1-50"


def test_a_full_compaction_forgets_deletes_and_says_why_it_runs():
    plan = full("0:1-3 0:2-4")

    assert plan is not None
    assert plan.drops_deletes
    assert plan.output_level == 2
    assert plan.reason == "full compaction"
    assert plan.rewritten_bytes == 6
    assert plan.older == ()


@pytest.mark.parametrize(
    ("files", "compaction", "reason"),
    [
        ("2:1-9e 2:10-19v", {}, "expired rows"),
        ("2:1-9 2:10-19v", {}, "deleted rows"),
        ("2:1-9e", {"rewrites_all_files": True}, "rewrite requested"),
    ],
)
def test_a_bucket_in_its_place_is_rewritten_for_a_reason(files, compaction, reason):
    plan = full(files, **compaction)

    assert plan is not None
    assert (plan.reason, plan.output_level, plan.drops_deletes) == (reason, 2, True)


def test_what_lies_above_the_output_is_told_level_by_level():
    levels = levels_of(bucket("0:1-3 0:2-4 3:1-50 3:51-90 4:1-900").files, KEY, level_count=5)

    plan = plan_minor_compaction(
        levels, options(trigger_run_count=3, size_ratio_percent=1), PickTime(local_now_millis=0)
    )

    assert plan is not None
    assert [[word(file) for file in run.data_files] for run in plan.older] == [["3:1-50", "3:51-90"], ["4:1-900"]]
    assert (plan.output_level, plan.drops_deletes, plan.reason) == (2, False, "size ratio")


@pytest.mark.parametrize(
    ("files", "output_level", "marks_deleted", "expected"),
    [
        ("0:1-3 0:2-4", 0, False, False),
        ("0:1-3 1:2-4", 1, False, True),
        ("0:1-3 2:2-4", 1, False, False),
        ("0:1-3 2:2-4", 2, False, True),
        # A deletion vector marks what is older.
        ("0:1-3 2:2-4", 1, True, True),
        ("0:1-3 2:2-4", 0, True, False),
    ],
)
def test_deletes_are_forgotten_only_where_nothing_older_lies_below(files, output_level, marks_deleted, expected):
    assert drops_deletes(output_level, bucket(files), marks_deleted=marks_deleted) is expected


def test_files_of_expired_rows_are_told_by_their_smallest_time():
    schema = new_schema(
        {"k": "INT", "t": "INT"},
        primary_keys=["k"],
        options={"bucket": "1", "record-level.expire-time": "10 s", "record-level.time-field": "t"},
        now_millis=0,
    )
    types = [field.type for field in schema.fields]
    files = [
        replace(file, value_stats=stats)
        for file, stats in zip(
            bucket("0:1-1 0:2-2 0:3-3").files,
            (
                encode_stats([NOTHING_KNOWN, ColumnBounds(89, 400, 0)], types),
                encode_stats([NOTHING_KNOWN, ColumnBounds(90, 400, 0)], types),
                encode_stats([NOTHING_KNOWN, NOTHING_KNOWN], types),
            ),
            strict=True,
        )
    ]

    expiry = record_expiry(schema, now_millis=100_999)

    assert expired_files(files, expiry, {schema.id: schema}) == {files[0].file_name}
