"""One version of each key, picked for all keys at once, is the one that a loop over the versions picks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_core.merge.order import Rows
from lakehouse_core.merge.positions import MOST_ROUNDS, NONE, first_fitting, greatest_fitting, last_fitting, precedes

# A version: whether it fits, and two words that order it. Keys of few versions and of more than go in rounds.
VERSION = st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 2))
LONG = st.integers(MOST_ROUNDS - 1, MOST_ROUNDS + 3)
KEYS = st.lists(
    st.lists(VERSION, min_size=1, max_size=5)
    | st.tuples(LONG, VERSION, VERSION).map(lambda drawn: [*[drawn[1]] * drawn[0], drawn[2]]),
    max_size=8,
)
Versions = list[tuple[bool, int, int]]


def bounds(keys: list[Versions]) -> tuple[Rows, Rows]:
    ends = np.cumsum([len(versions) for versions in keys], dtype=np.int64) - 1
    return np.concatenate([np.zeros(min(1, len(keys)), dtype=np.int64), ends[:-1] + 1]), ends


def flags(keys: list[Versions]) -> np.ndarray:
    return np.array([fits for versions in keys for fits, _, _ in versions], dtype=bool)


@settings(max_examples=200, deadline=None)
@given(KEYS)
def test_the_newest_and_the_oldest_that_fit_are_found(keys: list[Versions]) -> None:
    starts, ends = bounds(keys)
    fitting = [
        [int(start) + i for i, (fits, _, _) in enumerate(versions) if fits]
        for start, versions in zip(starts, keys, strict=True)
    ]

    last = last_fitting(flags(keys), starts, ends)
    first = first_fitting(flags(keys), starts, ends)

    assert last.tolist() == [max(found, default=NONE) for found in fitting]
    assert first.tolist() == [min(found, default=NONE) for found in fitting]


@settings(max_examples=200, deadline=None)
@given(KEYS, st.booleans())
def test_the_greatest_or_smallest_that_fits_is_found_and_the_oldest_of_equals(
    keys: list[Versions], smallest: bool
) -> None:
    starts, ends = bounds(keys)
    words = [np.array([one[which] for versions in keys for one in versions], dtype=np.uint64) for which in (1, 2)]

    found = greatest_fitting(flags(keys), words, starts, ends, smallest=smallest)

    expected = []
    for start, versions in zip(starts.tolist(), keys, strict=True):
        best = NONE
        for i, (fits, *value) in enumerate(versions):
            held = None if best == NONE else list(versions[best - start][1:])
            if fits and (held is None or (value < held if smallest else value > held)):
                best = start + i
        expected.append(best)
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("left", "right", "comes_before"),
    [((1, 9), (2, 0), True), ((2, 0), (1, 9), False), ((1, 1), (1, 2), True), ((1, 1), (1, 1), False)],
)
def test_words_compare_the_first_before_the_second(
    left: tuple[int, int], right: tuple[int, int], comes_before: bool
) -> None:
    words = [np.array(pair, dtype=np.uint64) for pair in zip(left, right, strict=True)]

    assert precedes(words, np.array([0]), np.array([1])).tolist() == [comes_before]


def test_without_words_nothing_comes_before() -> None:
    assert precedes([], np.array([0, 1]), np.array([1, 0])).tolist() == [False, False]
