"""A filter never denies a key that is there, and takes about as many absent ones for present as it was told to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.merge.key_filter import key_filter, key_hashes
from lakehouse_core.merge.search import search, sorted_keys
from tests.merge.test_order import columns_of
from tests.merge.test_search import rows_and_keys


@given(rows_and_keys(), st.integers(1, 7), st.floats(0.001, 0.999))
def test_no_key_that_is_there_is_denied(drawn, part, rate):
    types, rows, keys = drawn
    searched, sought = sorted_keys(columns_of(types, rows)), sorted_keys(columns_of(types, keys))
    parts = [sorted_keys(columns_of(types, rows[start : start + part])) for start in range(0, len(rows), part)]

    made = key_filter(parts, len(rows), false_positive_rate=rate)

    _, is_there = search(searched, sought)
    assert not (is_there & ~made.may_hold(key_hashes(sought))).any()


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.05, 0.02])
@pytest.mark.parametrize("step", [1, 2, 1000, 2**32], ids=lambda step: f"every {step}")
@pytest.mark.parametrize("columns", [1, 2])
def test_absent_keys_are_taken_for_present_about_as_often_as_was_asked_for(rate, step, columns):
    def keys(numbers: np.ndarray) -> object:
        return sorted_keys([pa.array(np.full(len(numbers), 7))] * (columns - 1) + [pa.array(numbers * step)])

    made = key_filter([keys(np.arange(100_000))], 100_000, false_positive_rate=rate)

    wrong = made.may_hold(key_hashes(keys(np.arange(100_000, 200_000)))).mean()
    assert wrong < 1.3 * rate


@pytest.mark.parametrize(
    "form", ["%d", "user-%010d", "%0300d", "%s\0", "0%o"], ids=["short", "word", "long", "zero", "octal"]
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()], ids=str)
def test_absent_texts_are_taken_for_present_no_more_often(form, kind):
    def keys(first: int) -> object:
        texts = sorted(form % number for number in range(first, first + 20_000))
        return sorted_keys([pa.array(texts, pa.string()).cast(kind)])

    made = key_filter([keys(0)], 20_000, false_positive_rate=0.05)

    assert made.may_hold(key_hashes(keys(0))).all()
    assert made.may_hold(key_hashes(keys(20_000))).mean() < 1.3 * 0.05


def test_an_empty_file_holds_no_key():
    none, some = (sorted_keys([pa.array(values, pa.int64())]) for values in ([], [1, 2]))

    made = key_filter([none], 0, false_positive_rate=0.05)

    assert made.may_hold(key_hashes(some)).tolist() == [False, False]
    assert made.may_hold(key_hashes(none)).tolist() == []
