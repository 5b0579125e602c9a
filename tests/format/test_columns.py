"""Whole columns as comparable values and back."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import DataType, column_of, parse_type, to_internal, values_of
from tests.format import strategies


@st.composite
def columns(draw: st.DrawFn, types: st.SearchStrategy[DataType] | None = None) -> tuple[DataType, list[Any]]:
    data_type = draw(strategies.data_types() if types is None else types)
    return data_type, draw(st.lists(strategies.values(data_type), max_size=6))


@given(columns(), st.integers(0, 3), st.integers(0, 4))
def test_a_column_comes_back_from_its_values(column: tuple[DataType, list[Any]], start: int, length: int) -> None:
    data_type, values = column
    array = column_of(values, data_type)
    array.validate(full=True)

    assert repr(values_of(array, data_type)) == repr(values)
    assert repr(values_of(array.slice(start, length), data_type)) == repr(values[start : start + length])
    assert repr(values_of(pa.chunked_array([array, array]), data_type)) == repr(values + values)


# Arrow's scalars of nested types lose nanoseconds, so the law is one of types without parts.
@given(columns(strategies.atomic_types()))
def test_a_columns_values_are_those_of_its_scalars(column: tuple[DataType, list[Any]]) -> None:
    data_type, values = column
    array = column_of(values, data_type)

    assert repr([to_internal(scalar, data_type) for scalar in array]) == repr(values_of(array, data_type))


def test_decimals_with_more_digits_than_their_type_pass() -> None:
    data_type = parse_type("DECIMAL(4, 2)")
    values = [Decimal("104.00"), None, Decimal("-104.00")]

    assert values_of(column_of(values, data_type), data_type) == values


@pytest.mark.parametrize(
    ("text", "value"),
    [("DECIMAL(9, 2)", "29999999.97"), ("DECIMAL(9, 2)", "-29999999.97"), ("DECIMAL(18, 0)", "9" * 19)],
)
def test_decimals_that_files_cannot_store_are_refused(text: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match="change the column to a wider type"):
        column_of([Decimal(value)], parse_type(text))
