"""What a read of a bucket opens and merges, before and after a compaction, as a table of cases.

A file is `level:low-high*size`, older files first; `-n` behind it: n of its ten rows are deletes, `/n`: a deletion
vector marks n of them. A target file is 100. Figures are files, sorted runs, bytes and merged bytes.
"""

from __future__ import annotations

import re

import pytest

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.planning.compaction.append import MarkedRows
from lakehouse_core.planning.fleet.reading import Reading
from lakehouse_core.planning.fleet.survey import BucketState, CompactionWork, survey_partition
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.schema import TableSchema, new_schema

KEY = [parse_type("INT NOT NULL")]

FULL = """
# One run in the top level: nothing to do.
5:1-9*100                             -> 1 1 100 0        stays
# A file that shares no key with others is not merged, whatever its level, and rises without a rewrite.
0:1-4*90 5:5-9*90                     -> 2 2 180 0        2 1 180 0
# Files that overlap are merged into as many as their bytes need.
0:1-9*100 0:5-6*50                    -> 2 2 150 150      2 1 150 0
5:1-9*300 0:5-6*10                    -> 2 2 310 310      4 1 310 0
# Deletes and marked rows are dropped, and nothing else is known to be.
5:1-9*100 0:5-6*100-5                 -> 2 2 200 200      2 1 150 0
5:1-9*100/4                           -> 1 1 100 0        1 1 60 0
5:1-9*100 0:1-9*100-10                -> 2 2 200 200      1 1 100 0
"""
MINOR = """
# The strategy takes the newest runs, and leaves a large old one that they overlap.
5:1-9*9000 0:1-5*10 0:1-5*10 0:1-5*10 0:1-5*10 -> 5 5 9040 9040  2 2 9040 9040
# Fewer runs than the trigger.
5:1-9*90 0:1-9*10                     -> 2 2 100 100      stays
"""
APPEND = """
10 20 100                             -> 3 0 130 0        2 0 130 0
# A file with marked rows is rewritten apart from the others.
10 20 30/5                            -> 3 0 60 0         2 0 45 0
"""


def lines(cases: str) -> list[str]:
    return [line for line in cases.splitlines() if line and not line.startswith("#")]


def schema(**options: str) -> TableSchema:
    given = {"bucket": "1", "target-file-size": "100 b", **options}
    return new_schema({"k": "INT NOT NULL"}, primary_keys=["k"], options=given, now_millis=0)


def bucket(text: str) -> BucketState:
    files, marked = [], {}
    for number, each in enumerate(text.split()):
        found = re.fullmatch(r"(?:(\d):(\d)-(\d)\*)?(\d+)(?:-(\d+))?(?:/(\d+))?", each)
        assert found is not None
        level, low, high, size, deletes, rows = found.groups()
        name = f"data-{number}.parquet"
        files.append(
            DataFile(
                file_name=name,
                file_size=int(size),
                row_count=10,
                **(
                    {}
                    if low is None
                    else {"min_key": serialize_row((int(low),), KEY), "max_key": serialize_row((int(high),), KEY)}
                ),
                min_sequence_number=number,
                max_sequence_number=number,
                schema_id=0,
                level=int(level or 0),
                delete_row_count=int(deletes or 0),
                creation_time_millis=number,
            )
        )
        if rows:
            marked[name] = MarkedRows(count=int(rows), index_file="index")
    return BucketState(files=files, marked=marked)


def figures(reading: Reading) -> str:
    return f"{reading.files} {reading.runs} {reading.bytes} {reading.merged_bytes}"


def check(line: str, table: TableSchema, *, full: bool) -> None:
    files, _, expected = (part.strip() for part in line.partition("->"))
    found = survey_partition({}, [bucket(files)], table, manifests=1, local_now_millis=0)
    after = [figures(outlook.after) for outlook in found.compactions if outlook.full is full]
    assert f"{figures(found.now)} {after[0] if after else 'stays'}" == re.sub(" +", " ", expected)


@pytest.mark.parametrize("line", lines(FULL))
def test_a_full_compaction_of_a_key_table(line: str) -> None:
    check(line, schema(), full=True)


@pytest.mark.parametrize("line", lines(MINOR))
def test_the_compaction_of_the_strategy(line: str) -> None:
    check(line, schema(), full=False)


@pytest.mark.parametrize("line", lines(APPEND))
def test_a_full_compaction_of_an_append_table(line: str) -> None:
    options = {"bucket": "-1", "target-file-size": "100 b"}
    check(line, new_schema({"k": "INT"}, options=options, now_millis=0), full=True)


def test_rows_that_readers_skip_until_they_are_compacted_count_as_merged() -> None:
    table = schema(**{"deletion-vectors.enabled": "true"})
    found = survey_partition(
        {}, [bucket("5:1-9*100 0:1-4*10"), bucket("5:1-9*100")], table, manifests=1, local_now_millis=0
    )

    assert figures(found.now) == "3 3 210 110"


def work(*, files: int, rewritten: int, written: int) -> CompactionWork:
    return CompactionWork(files=files, rewritten_bytes=rewritten, looked_up_bytes=0, written_files=written)


def test_the_figures_of_a_partition_are_those_of_its_buckets_together() -> None:
    table = schema(**{"num-sorted-run.stop-trigger": "5"})
    runs = " ".join(["0:1-9*10-1"] * 6)
    found = survey_partition(
        {"dt": "1"}, [bucket(runs), bucket("0:1-9*10 0:1-2*20")], table, manifests=1, local_now_millis=0
    )

    assert (found.buckets, found.most_sorted_runs, found.small_file_count) == (2, 6, 8)
    assert (found.deleted_row_count, found.newest_millis) == (6, 5)
    full, minor = found.compactions
    assert (full.full, full.buckets, full.work) == (True, 2, work(files=8, rewritten=90, written=2))
    assert (minor.full, minor.buckets, minor.work) == (False, 1, work(files=6, rewritten=60, written=1))
    assert found.urgent == (
        "a bucket has 6 sorted runs, and beyond 5 (num-sorted-run.stop-trigger) writers should wait"
    )


def test_an_append_partition_is_urgent_far_beyond_the_files_that_are_worth_a_rewrite() -> None:
    table = new_schema({"k": "INT"}, options={"bucket": "-1", "compaction.min.file-num": "2"}, now_millis=0)

    def urgent(count: int) -> str | None:
        return survey_partition({}, [bucket("10 " * count)], table, manifests=1, local_now_millis=0).urgent

    assert urgent(40) is None
    assert urgent(41) == "41 small files, more than 20 times 2 (compaction.min.file-num)"
