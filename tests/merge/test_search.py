"""Many sorted keys searched in sorted rows, against counting row by row: every key type, one to three columns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.merge.search import is_rising, search, search_words, sorted_keys
from tests.merge.test_order import KEY_TYPES, columns_of
from tests.oracle import merge as oracle

SEARCHABLE = sorted(set(KEY_TYPES) - {"dictionary"})

Key = tuple[Any, ...]


@st.composite
def rows_and_keys(draw: st.DrawFn) -> tuple[list[pa.DataType], list[Key], list[Key]]:
    """Types of key columns, and two lists of keys, each in order and without repetition."""
    names = draw(st.lists(st.sampled_from(SEARCHABLE), min_size=1, max_size=3))
    pools = [draw(st.lists(KEY_TYPES[name][1], min_size=1, max_size=8)) for name in names]
    some = st.lists(st.tuples(*[st.sampled_from(pool) for pool in pools]), max_size=30)
    return [KEY_TYPES[name][0] for name in names], in_order(draw(some)), in_order(draw(some))


def in_order(keys: list[Key]) -> list[Key]:
    return [version.key for version in oracle.deduplicate(oracle.Version(key=key) for key in keys)]


@given(rows_and_keys(), st.integers(0, 3))
def test_each_key_finds_its_row_or_the_place_where_it_would_stand(drawn, padding):
    types, rows, keys = drawn
    row_columns = columns_of(types, rows, padding=padding)
    key_columns = columns_of(types, keys, padding=padding)

    for words in (None, search_words(row_columns)):
        below, found = search(sorted_keys(row_columns, words), sorted_keys(key_columns))

        compared = [[oracle.compare_keys(row, key) for row in rows] for key in keys]
        assert below.tolist() == [sum(answer < 0 for answer in answers) for answers in compared]
        assert found.tolist() == [0 in answers for answers in compared]


@given(rows_and_keys(), st.integers(0, 5), st.integers(0, 20))
def test_a_slice_of_the_keys_finds_what_they_find_together(drawn, start, count):
    types, rows, keys = drawn
    stop = min(len(keys), start + count)
    start = min(start, stop)
    searched, sought = sorted_keys(columns_of(types, rows)), sorted_keys(columns_of(types, keys))

    below, found = search(searched, sought.slice(start, stop))

    together = search(searched, sought)
    assert below.tolist() == together[0][start:stop].tolist()
    assert found.tolist() == together[1][start:stop].tolist()


@given(st.data())
def test_rows_rise_when_each_key_is_greater_than_the_one_before(data):
    name = data.draw(st.sampled_from(SEARCHABLE))
    kind, values = KEY_TYPES[name]
    rows = data.draw(st.lists(st.tuples(st.integers(0, 1), values), max_size=6))
    columns = columns_of([pa.int64(), kind], rows)

    assert is_rising(columns) == all(oracle.compare_keys(row, after) < 0 for row, after in pairwise(rows))


@pytest.mark.parametrize("count", [1000])
def test_long_prefixes_and_many_rows_of_one_tenant_are_told_apart(count):
    rows = [(f"tenant-{n % 3}", f"user-0000-{n:08}") for n in range(0, count, 2)]
    keys = [(f"tenant-{n % 3}", f"user-0000-{n:08}") for n in range(count)]
    types = [pa.string(), pa.string()]
    rows, keys = sorted(rows), sorted(keys)

    _, found = search(sorted_keys(columns_of(types, rows)), sorted_keys(columns_of(types, keys)))

    assert found.tolist() == [key in set(rows) for key in keys]
