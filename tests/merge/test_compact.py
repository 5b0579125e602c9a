"""A compaction that tells what it changes: the tables of docs/semantics/changelog.md, row by row.

Versions of one key are written `level:kind:value`, the oldest run first; `^` behind the level: the record lies beyond
the compaction and was looked up. A case is the versions, what is told, and what stays.
"""

from typing import Any

import pyarrow as pa
import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.merge.chunk import LEVEL, MergeRule
from lakehouse_core.merge.compact import (
    NOWHERE,
    POSITION_BITS,
    ROW_ADDRESS,
    ChangelogFilter,
    Compacted,
    merge_full_compaction,
    merge_lookup,
)
from lakehouse_core.merge.frontier import RunSlice
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import new_schema

KINDS = ("+I", "-U", "+U", "-D")
NAMES = ["k", "v", "n", "kind"]
TOP = 5


def rule(*, drops_deletes: bool = True, **options: str) -> MergeRule:
    columns = {"k": "INT NOT NULL", "v": "STRING", "n": "INT"}
    given = {"bucket": "1"} | {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = new_schema(columns, primary_keys=["k"], options=given, now_millis=0)
    return MergeRule(spec=merge_spec(schema), kind_column="kind", drops_deletes=drops_deletes)


def parts(*keys: str, places: bool = False) -> tuple[list[RunSlice], frozenset[int]]:
    """Return one run for each place of a version, and which runs lie beyond; keys are numbered from 0.

    A value is the text and, behind a `/`, the number.
    """
    versions = [[version.split(":") for version in key.split()] for key in keys]
    runs, beyond = [], set()
    for run in range(max(map(len, versions))):
        rows = [(k, *key[run]) for k, key in enumerate(versions) if run < len(key) and key[run][0] != "."]
        beyond |= {run} if any("^" in level for _, level, *_ in rows) else set()
        columns: dict[str, Any] = {
            "k": pa.array([k for k, *_ in rows], pa.int32()),
            "v": pa.array([value.partition("/")[0] for *_, value in rows]),
            "n": pa.array([int(value.partition("/")[2] or 0) for *_, value in rows], pa.int32()),
            "kind": pa.array([KINDS.index(kind) for _, _, kind, _ in rows], pa.int8()),
            LEVEL: pa.array([int(level.rstrip("^")) for _, level, *_ in rows], pa.int8()),
        }
        if places:
            row_places = [(run << POSITION_BITS) + k if "^" in level else NOWHERE for k, level, *_ in rows]
            columns[ROW_ADDRESS] = pa.array(row_places, pa.int64())
        runs.append(RunSlice(run, (pa.RecordBatch.from_pydict(columns),)))
    return runs, frozenset(beyond)


def shown(batch: pa.RecordBatch | None) -> str:
    rows = [] if batch is None else batch.to_pylist()
    return " ".join(f"{KINDS[row['kind']]}:{row['v']}{'/' + str(row['n']) if row['n'] else ''}" for row in rows) or "-"


def looked_up(by: MergeRule, *keys: str, changelog_filter: ChangelogFilter | None = ChangelogFilter()) -> Compacted:  # noqa: B008
    runs, beyond = parts(*keys)
    return merge_lookup(runs, by, NAMES, changelog_filter, looked_up=beyond)


INTO_TOP = [
    # top          merged
    ("0:+I:a", "+I:a", "+I:a"),
    ("3:+I:a 0:+U:b", "+I:b", "+U:b"),
    ("0:-D:a", "-", "-"),
    ("3:+I:a 0:-D:a", "-", "-"),
    ("5:+I:a", "-", "+I:a"),
    ("5:+I:a 0:-D:a", "-D:a", "-"),
    ("5:+I:a 0:-U:a", "-D:a", "-"),
    ("5:+I:a 0:+I:b", "-U:a +U:b", "+I:b"),
    ("5:+I:a 3:-D:a 0:+I:b", "-U:a +U:b", "+I:b"),
    ("5:+I:a 0:+I:a", "-U:a +U:a", "+I:a"),
]


@pytest.mark.parametrize(("versions", "told", "stays"), INTO_TOP)
def test_a_full_compaction_tells_what_changes_in_the_top_level(versions: str, told: str, stays: str) -> None:
    compacted = merge_full_compaction(parts(versions)[0], rule(), NAMES, ChangelogFilter(), top_level=TOP)

    assert (shown(compacted.changelog), shown(compacted.records)) == (told, stays)


def test_all_keys_of_a_chunk_are_told_in_key_order_each_before_its_after() -> None:
    keys = ["5:+I:a 0:+U:b", "5:+I:c", ".:: 0:+I:d", "5:+I:e 0:-D:e"]

    compacted = merge_full_compaction(parts(*keys)[0], rule(), NAMES, ChangelogFilter(), top_level=TOP)

    assert shown(compacted.changelog) == "-U:a +U:b +I:d -D:e"
    assert shown(compacted.records) == "+U:b +I:c +I:d"


@pytest.mark.parametrize(
    ("compared", "told"),
    [
        (None, "-U:a/1 +U:a/1 -U:a/1 +U:a/2 -U:a/1 +U:b/1"),
        (("v", "n"), "-U:a/1 +U:a/2 -U:a/1 +U:b/1"),
        (("v",), "-U:a/1 +U:b/1"),
        ((), "-"),
    ],
    ids=["every update", "row-deduplicate", "a column ignored", "all ignored"],
)
def test_updates_of_equal_values_go_untold_where_the_table_says_so(compared: tuple[str, ...] | None, told: str) -> None:
    for level in ("5", "5^"):
        keys = [f"{level}:+I:a/1 0:+I:{value}" for value in ("a/1", "a/2", "b/1")]
        changelog_filter = ChangelogFilter(compared=compared)
        runs, beyond = parts(*keys)

        if beyond:
            compacted = merge_lookup(runs, rule(), NAMES, changelog_filter, looked_up=beyond)
        else:
            compacted = merge_full_compaction(runs, rule(), NAMES, changelog_filter, top_level=TOP)

        assert shown(compacted.changelog) == told


def test_partial_updates_and_sums_are_told_as_they_are_merged() -> None:
    partial = rule(merge_engine="partial-update")
    summed = rule(merge_engine="aggregation", fields__n__aggregate_function="sum")
    runs, _ = parts("5:+I:a/1 0:+I:b/2 0:+I:c/3")

    assert (
        shown(merge_full_compaction(runs, partial, NAMES, ChangelogFilter(), top_level=TOP).changelog)
        == "-U:a/1 +U:c/3"
    )
    assert (
        shown(merge_full_compaction(runs, summed, NAMES, ChangelogFilter(), top_level=TOP).changelog) == "-U:a/1 +U:c/6"
    )


WITH_LOOKUP = [
    # Nothing before, or a delete.
    ("0:+I:b", "+I:b", "+I:b"),
    ("0:-D:b", "-", "-"),
    ("0:+I:a 0:+I:b", "+I:b", "+I:b"),
    ("0:+I:a 0:-D:a", "-", "-"),
    ("4^:-D:a 0:+I:b", "+I:b", "+I:b"),
    ("4^:-D:a 0:-D:b", "-", "-"),
    ("2:-D:a 0:+I:b", "+I:b", "+I:b"),
    # A row before, within the compaction or beyond it.
    ("1:+I:a 0:+I:b", "-U:a +U:b", "+I:b"),
    ("4^:+I:a 0:+I:b", "-U:a +U:b", "+I:b"),
    ("1:+I:a 0:-D:a", "-D:a", "-"),
    ("4^:+I:a 0:-D:a", "-D:a", "-"),
    ("4^:+I:a 0:-D:a 0:+I:b", "-U:a +U:b", "+I:b"),
    ("4^:+I:a 0:+I:a", "-U:a +U:a", "+I:a"),
    # The lowest level says all that lies above it; within goes before beyond.
    ("5^:+I:z 4^:+I:a 0:+I:b", "-U:a +U:b", "+I:b"),
    ("5^:+I:z 2:+I:a 0:+I:b", "-U:a +U:b", "+I:b"),
    ("3:+I:z 1:+I:a 0:+I:b", "-U:a +U:b", "+I:b"),
    ("5^:+I:z 2:-D:a 0:+I:b", "+I:b", "+I:b"),
    # Without news nothing is told, and what lies beyond stays there.
    ("2:+I:a 1:+I:b", "-", "+I:b"),
    ("4^:+I:a 1:+I:b", "-", "+I:b"),
    ("1:+I:a", "-", "+I:a"),
    ("4^:+I:a", "-", "-"),
]


@pytest.mark.parametrize(("versions", "told", "stays"), WITH_LOOKUP)
def test_a_lookup_tells_what_records_of_level_0_change(versions: str, told: str, stays: str) -> None:
    compacted = looked_up(rule(), versions)

    assert (shown(compacted.changelog), shown(compacted.records)) == (told, stays)


def test_a_lookup_without_a_producer_merges_the_same_and_tells_nothing() -> None:
    for versions, _, stays in WITH_LOOKUP:
        compacted = looked_up(rule(), versions, changelog_filter=None)

        assert (compacted.changelog, shown(compacted.records)) == (None, stays)


def test_deletes_stay_where_something_older_may_lie_below() -> None:
    assert shown(looked_up(rule(drops_deletes=False), "4^:+I:a 0:-D:b").records) == "-D:b"


@pytest.mark.parametrize(
    ("versions", "told", "stays"),
    [
        ("0:+I:a/1", "+I:a/1", "+I:a/1"),
        ("4^:+I:a/1 0:+I:b/2", "-U:a/1 +U:b/3", "+I:b/3"),
        ("5^:+I:z/9 4^:+I:a/1 0:+I:b/2", "-U:a/1 +U:b/3", "+I:b/3"),
        ("2:+I:a/1 0:+I:b/2 0:+I:c/3", "-U:a/1 +U:c/6", "+I:c/6"),
        ("4^:+I:a/5 0:-U:a/5 0:+U:b/1", "-U:a/5 +U:b/1", "+I:b/1"),
    ],
)
def test_what_is_looked_up_is_merged_with_the_news(versions: str, told: str, stays: str) -> None:
    compacted = looked_up(rule(merge_engine="aggregation", fields__n__aggregate_function="sum"), versions)

    assert (shown(compacted.changelog), shown(compacted.records)) == (told, stays)


@pytest.mark.parametrize(
    ("versions", "told", "stays"),
    [
        ("0:+I:a 0:+I:b", "+I:a", "+I:a"),
        ("0:+U:a", "+U:a", "+U:a"),
        ("4^:+I:a 0:+I:b", "-", "-"),
        ("2:+I:a 0:+I:b", "-", "+I:a"),
        ("2:+I:a", "-", "+I:a"),
        ("4^:+I:z 2:+I:a 0:+I:b", "-", "+I:a"),
    ],
)
def test_a_first_row_is_told_once_as_it_came(versions: str, told: str, stays: str) -> None:
    compacted = looked_up(rule(merge_engine="first-row"), versions)

    assert (shown(compacted.changelog), shown(compacted.records)) == (told, stays)


def test_a_first_row_takes_no_retract_even_a_lone_one() -> None:
    with pytest.raises(InvalidRequest, match="first-row: found a -D or -U record"):
        looked_up(rule(merge_engine="first-row"), "0:-D:a")


def test_the_places_of_records_beyond_that_news_supersede_are_told() -> None:
    # Superseded by an update and by a delete; no news; superseded within; nothing beyond.
    keys = ["4^:+I:a 0:+I:b", "4^:+I:a 0:-D:a", "4^:+I:a", ".:: 1:+I:a 0:+I:b", ".:: 0:+I:b"]
    runs, beyond = parts(*keys, places=True)

    compacted = merge_lookup(runs, rule(), NAMES, None, looked_up=beyond)

    assert compacted.superseded is not None
    assert [divmod(place, 1 << POSITION_BITS) for place in compacted.superseded.tolist()] == [(0, 0), (0, 1)]
    assert shown(compacted.records) == "+I:b +I:b +I:b"


def test_records_beyond_that_answer_for_nothing_are_superseded_all_the_same() -> None:
    # By an update, by a delete, by nothing.
    runs, beyond = parts("0^:+I:a 0:+I:b", "0^:+I:a 0:-D:a", "0^:+I:a", places=True)

    compacted = merge_lookup(runs, rule(), NAMES, ChangelogFilter(), looked_up=beyond)

    assert compacted.superseded is not None
    assert [divmod(place, 1 << POSITION_BITS) for place in compacted.superseded.tolist()] == [(0, 0), (0, 1)]
    assert (shown(compacted.records), shown(compacted.changelog)) == ("+I:b", "+I:b")
