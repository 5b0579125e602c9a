"""Values of a type have one comparable form, and what does not fit a type is refused instead of bent."""

import datetime
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import (
    DataType,
    date_of,
    days_of,
    from_internal,
    parse_literal,
    parse_type,
    to_internal,
    type_to_sql,
)
from tests.format.strategies import data_types, values
from tests.vectors.values import column

BERLIN = datetime.timezone(datetime.timedelta(hours=1))

FITTING = [
    ("BOOLEAN", True, True),
    ("BOOLEAN", "False", False),
    ("TINYINT", -128, -128),
    ("BIGINT", np.int64(7), 7),
    ("INT", Decimal("5"), 5),
    ("INT", " 12 ", 12),
    ("FLOAT", 0.1, 0.10000000149011612),
    ("FLOAT", "NaN", float("nan")),
    ("DOUBLE", 3, 3.0),
    ("DOUBLE", "-1.5e3", -1500.0),
    ("DECIMAL(5, 2)", 12, Decimal("12.00")),
    ("DECIMAL(5, 2)", 1.1, Decimal("1.10")),
    ("DECIMAL(5, 2)", "-0", Decimal("0.00")),
    ("DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38)),
    ("STRING", "x" * 9, "x" * 9),
    ("VARCHAR(2)", "longer than two", "longer than two"),
    ("BYTES", bytearray(b"ab"), b"ab"),
    ("BYTES", "é", b"\xc3\xa9"),
    ("DATE", datetime.date(2013, 1, 1), 15706),
    ("DATE", datetime.datetime(2013, 1, 1), 15706),
    ("DATE", "2013-01-01", 15706),
    ("DATE", "2013-1-1", 15706),
    ("DATE", "-0001-01-01", -719893),
    ("DATE", "10000-01-01", 2932897),
    ("DATE", 15706, 15706),
    ("TIME(3)", datetime.time(23, 59, 59, 999000), 86_399_999),
    ("TIME(0)", "12:30", 45_000_000),
    ("TIMESTAMP(6)", datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), (-1, 999_000)),
    ("TIMESTAMP(3)", datetime.date(1970, 1, 2), (86_400_000, 0)),
    ("TIMESTAMP(3)", "2013-01-01 10:00", (1_357_034_400_000, 0)),
    ("TIMESTAMP(9)", "2013-01-01T00:00:00.123456789", (1_356_998_400_123, 456_789)),
    ("TIMESTAMP(9)", (5, 7), (5, 7)),
    ("TIMESTAMP_LTZ(0)", "2013-01-01T01:00:00+01:00", (1_356_998_400_000, 0)),
    ("TIMESTAMP_LTZ(0)", "2013-01-01T00:00:00Z", (1_356_998_400_000, 0)),
    ("TIMESTAMP_LTZ(0)", datetime.datetime(2013, 1, 1, 1, tzinfo=BERLIN), (1_356_998_400_000, 0)),
    ("TIMESTAMP_LTZ(0)", datetime.datetime(2013, 1, 1), (1_356_998_400_000, 0)),
    ("ARRAY<DATE>", ["2013-01-01", None], (15706, None)),
    ("MAP<STRING, INT>", {"a": 1}, (("a", 1),)),
    ("MULTISET<STRING>", [("a", 2)], (("a", 2),)),
    ("ROW<a INT, b STRING>", {"b": "x"}, (None, "x")),
    ("ROW<a INT, b STRING>", (1, "x"), (1, "x")),
    ("INT", None, None),
]


@pytest.mark.parametrize(("text", "value", "expected"), FITTING)
def test_a_python_value_has_one_comparable_form(text: str, value: Any, expected: Any) -> None:
    found = to_internal(value, parse_type(text))

    assert repr(found) == repr(expected)


MISFITS = [
    ("BOOLEAN", 1),
    ("BOOLEAN", "maybe"),
    ("TINYINT", 128),
    ("INT", True),
    ("INT", 1.5),
    ("INT", "1_000"),
    ("INT", "9" * 40),
    ("BIGINT", 2**63),
    ("FLOAT", 1e39),
    ("DOUBLE", 10**400),
    ("DOUBLE", Decimal("1e400")),
    ("DOUBLE", "infinity"),
    ("DOUBLE", datetime.date(2013, 1, 1)),
    ("DECIMAL(5, 2)", "1.005"),
    ("DECIMAL(5, 2)", 1000),
    ("DECIMAL(5, 2)", Decimal("NaN")),
    ("DECIMAL(5, 2)", Decimal("1E+999999")),
    ("DECIMAL(5, 2)", Decimal("1E-999999")),
    ("STRING", 5),
    ("BYTES", 5),
    ("DATE", "2013-02-29"),
    ("DATE", "yesterday"),
    ("DATE", datetime.datetime(2013, 1, 1, 12)),
    ("DATE", 2**31),
    ("TIME(3)", "24:00:00"),
    ("TIME(3)", datetime.time(1, 2, 3, 4)),
    ("TIME(3)", "12:00:00.0001"),
    ("TIMESTAMP(3)", datetime.datetime(2013, 1, 1, microsecond=1)),
    ("TIMESTAMP(3)", datetime.datetime(2013, 1, 1, tzinfo=BERLIN)),
    ("TIMESTAMP(3)", "2013-01-01T00:00:00Z"),
    ("TIMESTAMP(3)", "2013-01-01T25:00:00"),
    ("TIMESTAMP(3)", 5),
    ("ARRAY<INT>", "12"),
    ("ARRAY<INT>", [1, "x"]),
    ("MAP<STRING, INT>", {None: 1}),
    ("MAP<STRING, INT>", [1]),
    ("ROW<a INT>", (1, 2)),
    ("ROW<a INT>", {"b": 1}),
    ("VARIANT", {"a": 1}),
]


@pytest.mark.parametrize(("text", "value"), MISFITS)
def test_a_value_that_does_not_fit_is_refused_and_shown(text: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"is not a value of|cannot stand for"):
        to_internal(value, parse_type(text))


@given(data_types().flatmap(lambda data_type: st.tuples(st.just(data_type), values(data_type))))
def test_comparable_values_are_their_own_comparable_form(case: tuple[DataType, Any]) -> None:
    data_type, value = case

    assert to_internal(value, data_type) == value


@given(data_types(3).flatmap(lambda data_type: st.tuples(st.just(data_type), values(data_type))))
def test_python_values_mean_the_comparable_values_they_came_from(case: tuple[DataType, Any]) -> None:
    data_type, value = case
    assume(not re.search(r"TIMESTAMP\([789]\)", type_to_sql(data_type)))

    assert to_internal(from_internal(value, data_type), data_type) == value


@given(
    st.sampled_from(
        [f"TIMESTAMP({p}){zone}" for p in (3, 6, 9) for zone in ("", " WITH LOCAL TIME ZONE")] + ["TIME(3)"]
    )
    .map(parse_type)
    .flatmap(lambda data_type: st.tuples(st.just(data_type), values(data_type)))
)
def test_arrow_scalars_keep_every_digit(case: tuple[Any, Any]) -> None:
    data_type, value = case

    assert to_internal(column([value], data_type)[0], data_type) == value


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_day_has_a_date_and_every_date_its_day(days: int) -> None:
    assert days_of(*date_of(days)) == days


@given(st.dates())
def test_dates_within_pythons_calendar_agree_with_it(date: datetime.date) -> None:
    assert days_of(date.year, date.month, date.day) == (date - datetime.date(1970, 1, 1)).days


def test_values_beyond_pythons_calendar_are_refused_not_cut() -> None:
    with pytest.raises(InvalidRequest, match="read it as Arrow"):
        from_internal(days_of(10_000, 1, 1), parse_type("DATE"))
    with pytest.raises(InvalidRequest, match="nanoseconds"):
        from_internal((0, 1), parse_type("TIMESTAMP(9)"))


def test_text_stands_for_no_value_with_parts() -> None:
    with pytest.raises(InvalidRequest, match="cannot stand for"):
        parse_literal("[1]", parse_type("ARRAY<INT>"))
