"""Versions at two positions compare by their words."""

import numpy as np
import pytest

from lakehouse_core.merge.positions import precedes


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
