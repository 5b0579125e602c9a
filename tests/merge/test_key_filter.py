"""A filter never denies a key that is there, and takes about as many absent ones for present as it was told to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_core.merge.key_filter import key_filter
from lakehouse_core.merge.search import search, sorted_keys
from tests.merge.test_order import columns_of
from tests.merge.test_search import rows_and_keys


@settings(max_examples=300)
@given(rows_and_keys(), st.integers(1, 7), st.floats(0.001, 0.999))
def test_no_key_that_is_there_is_denied(drawn, part, rate):
    types, rows, keys = drawn
    searched, sought = sorted_keys(columns_of(types, rows)), sorted_keys(columns_of(types, keys))
    parts = [sorted_keys(columns_of(types, rows[start : start + part])) for start in range(0, len(rows), part)]

    made = key_filter(parts, len(rows), false_positive_rate=rate)

    if rows and any(column.text is not None for column in searched.columns):
        assert made is None
    else:
        assert made is not None
        _, is_there = search(searched, sought)
        assert not (is_there & ~made.may_hold(sought)).any()


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.05, 0.02])
@pytest.mark.parametrize("step", [1, 2, 1000, 2**32], ids=lambda step: f"every {step}")
@pytest.mark.parametrize("columns", [1, 2])
def test_absent_keys_are_taken_for_present_about_as_often_as_was_asked_for(rate, step, columns):
    def keys(numbers: np.ndarray) -> object:
        return sorted_keys([pa.array(np.full(len(numbers), 7))] * (columns - 1) + [pa.array(numbers * step)])

    made = key_filter([keys(np.arange(100_000))], 100_000, false_positive_rate=rate)

    assert made is not None
    wrong = made.may_hold(keys(np.arange(100_000, 200_000))).mean()
    assert wrong < 1.3 * rate


def test_an_empty_file_holds_no_key():
    none, some = (sorted_keys([pa.array(values, pa.int64())]) for values in ([], [1, 2]))

    made = key_filter([none], 0, false_positive_rate=0.05)

    assert made is not None
    assert made.may_hold(some).tolist() == [False, False]
    assert made.may_hold(none).tolist() == []
