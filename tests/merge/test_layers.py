"""Layers: one version of each key is picked, or all are added up, as going through them one by one would."""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.merge import layers as layers_module
from lakehouse_core.merge.layers import Layers, first_in, greatest_in, last_in, last_row_in
from lakehouse_core.merge.numeric_fold import Numbers, added, extreme
from lakehouse_core.merge.order import KeyOrder
from lakehouse_core.merge.positions import NONE

Version = tuple[int, bool]
KEYS = st.lists(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=6), max_size=12)


def laid_out(keys: list[list[Version]], shuffle: int) -> tuple[Layers, np.ndarray, np.ndarray]:
    """Return the layers, and values and flags in their order; rows lie elsewhere than positions."""
    count = sum(map(len, keys))
    rows = np.random.default_rng(shuffle).permutation(count).astype(np.int64)
    layers = Layers(KeyOrder(rows, np.cumsum([len(versions) for versions in keys], dtype=np.int64) - 1))
    flat = [version for versions in keys for version in versions]
    values, flags = np.empty(count, dtype=np.int64), np.empty(count, dtype=bool)
    values[rows], flags[rows] = [value for value, _ in flat], [fits for _, fits in flat]
    return layers, values[layers.rows], flags[layers.rows]


@pytest.mark.parametrize("most", [64, 2])
@given(keys=KEYS, shuffle=st.integers(0, 9))
def test_layers_decide_as_a_walk_through_the_versions_does(most: int, keys: list[list[Version]], shuffle: int) -> None:
    with patch.object(layers_module, "MOST_LAYERS", most):
        layers, values, flags = laid_out(keys, shuffle)
    words = [(values + 100).astype(np.uint64)]
    numbers = Numbers(values, flags)
    total, doubtful = added(numbers, layers, pa.int64())
    greatest = extreme(numbers, layers, smallest=False)

    first, found, sums, tops = 0, [], [], []
    for versions in keys:
        fitting = [first + index for index, (_, fits) in enumerate(versions) if fits]
        chosen = [value for value, fits in versions if fits]
        by_value = dict(zip(fitting, chosen, strict=True))
        found.append(
            (
                max(fitting, default=NONE),
                min(fitting, default=NONE),
                max(fitting, key=lambda at: (by_value[at], -at), default=NONE),
                min(fitting, key=lambda at: (by_value[at], at), default=NONE),
            )
        )
        sums.append(sum(chosen) if chosen else None)
        tops.append(max(chosen, default=None))
        first += len(versions)
    picked = (
        last_in(layers, flags),
        first_in(layers, flags),
        greatest_in(layers, flags, words),
        greatest_in(layers, flags, words, smallest=True),
    )
    assert list(zip(*(each.tolist() for each in picked), strict=True)) == found
    rows, last = last_row_in(layers, flags), picked[0]
    assert (rows == layers.rows[np.argsort(layers.positions)][last])[last != NONE].all()
    assert shown(total) == sums
    assert shown(greatest) == tops
    assert not len(doubtful)


def shown(numbers: Numbers) -> list[int | None]:
    """Return the numbers as a list."""
    return [
        value if valid else None for value, valid in zip(numbers.values.tolist(), numbers.valid.tolist(), strict=True)
    ]
