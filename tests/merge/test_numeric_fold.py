"""Sums and products of all keys at once are those of a loop, step by step and in Java's arithmetic."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.merge.layers import MOST_LAYERS, Layers
from lakehouse_core.merge.numeric_fold import Numbers, added, column_of, multiplied, numbers_of
from lakehouse_core.merge.order import KeyOrder

WIDTHS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
Keys = list[list[tuple[bool, Any]]]


@st.composite
def integers(draw: st.DrawFn) -> tuple[int, Keys]:
    """Numbers near nothing and near the limits of a width, some null, some left out."""
    bits = draw(st.sampled_from(sorted(WIDTHS)))
    limit = 1 << (bits - 1)
    number = st.integers(-3, 3) | st.sampled_from([limit - 1, -limit, -limit + 1, limit // 2]) | st.none()
    versions = st.lists(st.tuples(st.booleans(), number), min_size=1, max_size=6)
    ones = st.integers(MOST_LAYERS, MOST_LAYERS + 3).map(lambda count: [(True, 1)] * count)
    return bits, draw(st.lists(versions | ones, max_size=6))


def flat(keys: Keys, kind: pa.DataType) -> tuple[Any, ...]:
    """The versions of the keys in layers; those that are left out are not valid."""
    ends = np.cumsum([len(versions) for versions in keys], dtype=np.int64) - 1
    layers = Layers(KeyOrder(np.arange(ends[-1] + 1 if len(ends) else 0), ends))
    numbers = numbers_of(pa.array([value for versions in keys for _, value in versions], kind))
    assert numbers is not None
    fits = np.array([fit for versions in keys for fit, _ in versions], dtype=bool)
    return Numbers(numbers.values, numbers.valid & fits).take(layers.rows), layers, kind


@pytest.mark.parametrize("combine", ["sum", "product"])
@given(drawn=integers())
def test_integers_are_exact_and_whatever_leaves_the_range_at_any_step_is_told(
    combine: str, drawn: tuple[int, Keys]
) -> None:
    bits, keys = drawn
    limit = 1 << (bits - 1)
    step: Callable[[int, int], int] = (lambda a, b: a + b) if combine == "sum" else (lambda a, b: a * b)

    arguments = flat(keys, WIDTHS[bits])
    found, doubtful = (added if combine == "sum" else multiplied)(*arguments)

    results = column_of(found.take(np.setdiff1d(np.arange(len(keys)), doubtful)), WIDTHS[bits]).to_pylist()
    expected = []
    for key, versions in enumerate(keys):
        total, overflows = None, False
        for value in (value for fit, value in versions if fit and value is not None):
            total = value if total is None else step(total, value)
            overflows |= not -limit <= total < limit
        assert not overflows or key in doubtful
        if key not in doubtful:
            expected.append(total)
        elif not overflows:
            # Near the limit of 64 bits a product is in doubt, though it may fit.
            assert combine == "product"
            assert bits == 64
    assert results == expected


@pytest.mark.parametrize("combine", [added, multiplied])
@given(
    keys=st.lists(
        st.lists(st.tuples(st.booleans(), st.none() | st.floats(width=32)), min_size=1, max_size=5), max_size=5
    ),
    single=st.booleans(),
)
def test_floating_point_is_folded_from_the_oldest_on_in_its_own_width(combine: Any, keys: Keys, single: bool) -> None:
    kind, width = (pa.float32(), np.float32) if single else (pa.float64(), np.float64)

    found, doubtful = combine(*flat(keys, kind))

    expected = []
    with np.errstate(all="ignore"):
        for versions in keys:
            total = None
            for value in (width(value) for fit, value in versions if fit and value is not None):
                total = value if total is None else total + value if combine is added else total * value
            expected.append(total)
    assert not len(doubtful)
    for one, other in zip(column_of(found, kind).to_pylist(), expected, strict=True):
        np.testing.assert_equal(one, None if other is None else float(other))


def test_the_order_of_additions_decides_how_they_round() -> None:
    keys: Keys = [[(True, 1e8), (True, 1.0), (True, -1e8)], [(True, 1e8), (True, -1e8), (True, 1.0)]]

    found, _ = added(*flat(keys, pa.float32()))

    assert found.values.tolist() == [0.0, 1.0]


def test_short_decimals_are_added_unscaled_and_others_are_not_numbers() -> None:
    kind = pa.decimal128(6, 2)
    keys: Keys = [[(True, Decimal("9999.99")), (True, Decimal("0.02"))], [(True, None)], [(False, Decimal("1.00"))]]

    found, doubtful = added(*flat(keys, kind))

    # Java does not look at the precision of a short decimal.
    assert found.take(np.array([0])).values.tolist() == [1_000_001]
    assert found.valid.tolist() == [True, False, False]
    assert not len(doubtful)
    assert numbers_of(pa.array([Decimal(1)], pa.decimal128(19, 0))) is None
    assert numbers_of(pa.array(["1"])) is None
