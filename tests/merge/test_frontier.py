"""Frontier chunks keep all versions of a key together, in key order, and never lose a row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.merge.frontier import RunSlice, frontier_chunks
from tests.merge.test_order import KEY_TYPES, array
from tests.oracle import merge as oracle

MERGEABLE = sorted(set(KEY_TYPES) - {"dictionary"})


@st.composite
def runs_of_batches(
    draw: st.DrawFn, *, repeats_keys: bool = False
) -> tuple[list[list[oracle.Version]], list[list[pa.RecordBatch]]]:
    """Sorted runs, each key once unless it may be repeated, cut into batches of any size, empty ones too."""
    names = draw(st.lists(st.sampled_from(MERGEABLE), min_size=1, max_size=2))
    pools = [draw(st.lists(KEY_TYPES[name][1], min_size=1, max_size=8)) for name in names]
    runs, batches = [], []
    for run in range(draw(st.integers(1, 4))):
        keys = draw(st.lists(st.tuples(*[st.sampled_from(pool) for pool in pools]), max_size=20))
        versions = [oracle.Version(key=key, value=(run, i)) for i, key in enumerate(keys)]
        rows = oracle.ordered(versions) if repeats_keys else oracle.deduplicate(versions)
        columns = [array(KEY_TYPES[name][0], [row.key[i] for row in rows]) for i, name in enumerate(names)]
        columns.append(pa.array([f"{row.value}" for row in rows], pa.string()))
        whole = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
        cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4)))
        runs.append(rows)
        batches.append([whole.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)])
    return runs, batches


def rows_of(part: RunSlice) -> list[str]:
    return [value for batch in part.batches for value in batch.column(batch.num_columns - 1).to_pylist()]


@given(runs_of_batches(), st.integers(1, 12), st.sampled_from([1, 60, 1 << 30]), st.data())
def test_every_chunk_holds_all_versions_of_its_keys_and_keys_rise_from_chunk_to_chunk(
    drawn, chunk_rows, max_bytes, data
):
    runs = len(drawn[0])
    shares = data.draw(st.none() | st.lists(st.floats(0, 1), min_size=runs, max_size=runs), label="shares")

    _check_chunks(*drawn, chunk_rows=chunk_rows, max_chunk_bytes=max_bytes, shares=shares)


@given(runs_of_batches(repeats_keys=True), st.integers(1, 12), st.sampled_from([1, 60, 1 << 30]))
def test_chunks_of_runs_that_repeat_keys_hold_all_their_versions_too(drawn, chunk_rows, max_bytes):
    _check_chunks(*drawn, chunk_rows=chunk_rows, max_chunk_bytes=max_bytes, repeats_keys=True)


def _check_chunks(runs: list[list[oracle.Version]], batches: list[list[pa.RecordBatch]], **bounds: Any) -> None:
    key_of = {f"{row.value}": row.key for run in runs for row in run}
    key_columns = range(batches[0][0].num_columns - 1)

    chunks = list(frontier_chunks(batches, key_columns, **bounds))

    given_back: list[list[str]] = [[] for _ in runs]
    highest: Any = None
    for chunk in chunks:
        assert [part.run for part in chunk] == sorted({part.run for part in chunk})
        keys = [key_of[row] for part in chunk for row in rows_of(part)]
        assert keys
        for key in keys:
            assert highest is None or oracle.compare_keys(highest, key) < 0
        highest = max([oracle.Version(key=key) for key in keys], key=_position(runs)).key
        for part in chunk:
            given_back[part.run] += rows_of(part)
    assert given_back == [[f"{row.value}" for row in run] for run in runs]


def _position(runs: list[list[oracle.Version]]) -> Any:
    ordered = oracle.deduplicate(oracle.Version(key=row.key) for run in runs for row in run)

    def position(version: oracle.Version) -> int:
        return next(i for i, other in enumerate(ordered) if oracle.compare_keys(other.key, version.key) == 0)

    return position


def numbers(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["k"])


def test_rows_behind_the_frontier_of_a_run_that_goes_on_wait_for_the_next_chunk():
    left = [numbers(1, 2, 3), numbers(7, 8, 20)]
    right = [numbers(2, 5, 6, 7, 9)]

    chunks = list(frontier_chunks([left, right], [0], chunk_rows=12))

    assert [[[k for b in part.batches for k in b.column(0).to_pylist()] for part in chunk] for chunk in chunks] == [
        [[1, 2, 3], [2]],
        [[7, 8], [5, 6, 7, 9]],
        [[20]],
    ]


def test_a_run_is_read_no_further_than_half_its_share_of_the_chunk():
    read: list[int] = []

    def run(start: int):
        for i in range(50):
            read.append(start)
            yield numbers(*range(start + 10 * i, start + 10 * i + 10))

    chunks = frontier_chunks([run(0), run(10_000)], [0], chunk_rows=80)
    next(chunks)

    assert read.count(0) == 2
    assert read.count(10_000) == 2


def test_runs_that_share_a_chunk_by_their_rows_are_merged_in_few_chunks():
    def run(count: int, batch_rows: int):
        keys = [800 // count * number for number in range(count)]
        return [numbers(*keys[start : start + batch_rows]) for start in range(0, count, batch_rows)]

    by_rows = frontier_chunks([run(800, 80), run(80, 8), run(8, 1)], [0], chunk_rows=89, shares=[0.9, 0.09, 0.01])
    alike = frontier_chunks([run(800, 30), run(80, 30), run(8, 30)], [0], chunk_rows=90)

    assert len(list(by_rows)) < 2 * 888 / 89
    assert len(list(alike)) > 2 * 888 / 90


def test_a_key_that_goes_on_beyond_what_is_buffered_is_read_to_its_end_and_no_further():
    read: list[int] = []

    def run(*keys: int):
        for key in keys:
            read.append(key)
            yield numbers(key, key)

    chunks = frontier_chunks([run(1, 1, 1, 1, 2, 3, 4, 5), run(1, 1, 9)], [0], chunk_rows=4, repeats_keys=True)
    first = next(chunks)

    assert [part.row_count for part in first] == [8, 4]
    assert sorted(read) == [1, 1, 1, 1, 1, 1, 2, 9]
