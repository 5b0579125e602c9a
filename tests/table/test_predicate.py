"""Conditions keep what SQL's three-valued logic keeps, however they are tested."""

import math
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import DataField, arrow_type, from_internal, parse_type
from lakehouse_core.table.predicate import (
    ColumnRange,
    Compare,
    Comparison,
    In,
    Not,
    bind,
    col,
    columns_of,
    holds,
    may_match,
    only_columns,
    point_values,
    simplify,
    to_expression,
    without_columns,
)
from tests.oracle.conditions import truth, users_truth
from tests.table.condition_strategies import PREDICATES, ROW, TYPES

DATA_TYPES = {name: parse_type(text) for name, text in TYPES.items()}
FIELDS = [DataField(index, name, kind) for index, (name, kind) in enumerate(DATA_TYPES.items())]


ROWS = st.lists(ROW, max_size=5)


@given(predicate=PREDICATES, rows=ROWS)
def test_a_whole_row_is_tested_as_the_truth_tables_say(predicate, rows):
    for row in rows:
        assert simplify(predicate, row) is truth(predicate, row)
        assert holds(predicate, row) is (truth(predicate, row) is True)


@given(predicate=PREDICATES, rows=ROWS, known=st.sets(st.sampled_from(sorted(TYPES))))
def test_putting_known_columns_in_changes_no_answer(predicate, rows, known):
    for row in rows:
        rest = simplify(predicate, {name: row[name] for name in known})
        answer = rest if rest is None or isinstance(rest, bool) else truth(rest, row)

        assert answer is truth(predicate, row)


@given(predicate=PREDICATES, rows=ROWS)
@example(predicate=Not(In("f", (0.0, 2.0))), rows=[{**dict.fromkeys(TYPES), "f": -0.0}])
def test_arrow_keeps_the_same_rows(predicate, rows):
    columns = {
        name: pa.array([_arrow(row[name], name) for row in rows], arrow_type(kind)) for name, kind in DATA_TYPES.items()
    }
    table = pa.table({**columns, "n": pa.array(range(len(rows)), pa.int32())})

    kept = table.filter(to_expression(predicate, DATA_TYPES))["n"].to_pylist()

    assert kept == [index for index, row in enumerate(rows) if truth(predicate, row)]


NUMBERS = [-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]
RAW = [
    *(Compare("f", comparison, value) for comparison in Comparison for value in NUMBERS),
    *(In("f", values) for values in ((), (math.nan,), (2.0, math.nan), (0.0,), (-0.0, math.inf))),
    *(col("f").between(low, high) for low in NUMBERS for high in (0.0, math.inf, math.nan)),
]


@pytest.mark.parametrize("predicate", [*RAW, *(~one for one in RAW)], ids=str)
def test_nan_is_greater_than_every_number_and_equal_to_itself_and_both_zeros_are_one(predicate):
    for value in (*NUMBERS, None):
        row = {**dict.fromkeys(TYPES), "f": value}

        assert truth(bind(predicate, FIELDS), row) is users_truth(predicate, row), value


@given(predicate=PREDICATES, rows=ROWS)
@example(
    predicate=(col("f") > 0.0) & (~(col("f") > 2.0) & (col("f") <= 2.0)), rows=[{**dict.fromkeys(TYPES), "f": math.nan}]
)
def test_what_is_bound_means_what_the_user_wrote(predicate, rows):
    for row in rows:
        assert truth(bind(predicate, FIELDS), row) is users_truth(predicate, row)


def test_an_upper_end_keeps_the_lower_end_for_bounds() -> None:
    """Statistics say nothing of NaN, so `f > 9` alone leaves no file out; as part of a range it does."""
    ranges = {"f": ColumnRange(minimum=1.0, maximum=2.0, null_count=0, row_count=3)}

    assert may_match(bind(col("f") > 9.0, FIELDS), ranges)
    assert not may_match(bind((col("f") > 9.0) & (col("f") < 99.0), FIELDS), ranges)
    assert not may_match(bind(col("f").between(9, 99), FIELDS), ranges)
    assert not may_match(bind(col("f") < 1.0, FIELDS), ranges)


@given(predicate=PREDICATES, rows=ROWS, loose=st.booleans())
@example(predicate=Compare("f", Comparison.NOT_EQUAL, 2.0), rows=[{**dict.fromkeys(TYPES), "f": math.nan}], loose=False)
def test_bounds_never_hide_a_row_that_matches(predicate, rows, loose):
    ranges = {name: _range([row[name] for row in rows], known=not loose or name < "d") for name in TYPES}
    answers = [truth(predicate, row) is True for row in rows]

    assert may_match(predicate, ranges) or not any(answers)


@given(predicate=PREDICATES, rows=ROWS, columns=st.sets(st.sampled_from(sorted(TYPES))))
def test_the_parts_within_and_beyond_some_columns_are_together_the_condition(predicate, rows, columns):
    inner, outer = only_columns(predicate, columns), without_columns(predicate, columns)

    assert inner is None or columns_of(inner) <= columns
    for row in rows:
        assert (holds(inner, row) and holds(outer, row)) is holds(predicate, row)


@given(predicate=PREDICATES, rows=ROWS)
def test_a_matching_row_has_one_of_the_points(predicate, rows):
    points = point_values(predicate, ["i", "s"])

    for row in rows:
        assert points is None or not holds(predicate, row) or (row["i"], row["s"]) in points


POINTS = [
    (col("i") == 1, [(1,)]),
    (col("i").isin([2, 1]), [(1,), (2,)]),
    ((col("i") == 1) | (col("i") == 2), [(1,), (2,)]),
    ((col("i") == 1) & col("i").isin([1, 2]), [(1,)]),
    ((col("i") == 1) & (col("i") == 2), None),
    ((col("i") == 1) | (col("s") == "a"), None),
    (col("i") > 1, None),
    (col("i").isin(range(1001)), None),
]


@pytest.mark.parametrize(("predicate", "expected"), POINTS)
def test_points_are_found_where_equality_bounds_the_column(predicate, expected):
    assert point_values(bind(predicate, FIELDS), ["i"]) == expected


BOUND = [
    (col("i") > 10.5, col("i") > 10),
    (col("i") >= 10.5, col("i") > 10),
    (col("i") < 10.5, col("i") <= 10),
    (col("i") == 10.5, In("i", ())),
    (col("i") != 10.5, Not(In("i", ()))),
    (col("i") == Decimal("10.0"), col("i") == 10),
    (col("i") < 2**40, col("i") <= 2**31 - 1),
    (col("i") > 2**40, col("i") > 2**31 - 1),
    (col("i") > -(2**40), Not(In("i", ()))),
    (col("i") < -(2**40), In("i", ())),
    (col("i").isin([3, 1, 1, 2.5]), In("i", (1, 3))),
    (col("d") >= 1.005, col("d") > Decimal("1.00")),
    (col("d") == 1, col("d") == Decimal("1.00")),
    (col("d") <= 1000000, col("d") <= Decimal("999.99")),
    (col("t") >= datetime(1970, 1, 1), col("t") >= (0, 0)),
    (col("t") >= "1970-01-01 00:00:01", col("t") >= (1000, 0)),
    (col("f") < 1, col("f") < 1.0),
    (col("f") > 1, Not(col("f") <= 1.0)),
]


@pytest.mark.parametrize(("predicate", "expected"), BOUND)
def test_literals_become_values_of_the_column(predicate, expected):
    assert bind(predicate, FIELDS) == expected


REFUSED = [
    (col("ii") == 1, "'ii', which the table does not have. Did you mean i"),
    (col("zzzz") == 1, "'zzzz', which the table does not have. Columns: i, f, s"),
    (col("i") == "one", "column 'i': 'one' is not a value of INT"),
    (col("i") == None, "'i' is compared with NULL, which is never true: use IS NULL"),  # noqa: E711
    (col("i").isin([1, None]), "compared with NULL"),
    (col("s") == 5, "'s': 5 is not a value of STRING"),
    (col("i").startswith("1"), "only text columns can be tested for a prefix"),
    (col("a") == [1], "cannot be compared: only IS NULL applies"),
    (col("b") == date(2013, 1, 1), "'b': .* is not a value of BOOLEAN"),
]


@pytest.mark.parametrize(("predicate", "message"), REFUSED)
def test_what_does_not_fit_the_schema_is_refused(predicate, message):
    with pytest.raises(InvalidRequest, match=message):
        bind(predicate, [*FIELDS, DataField(9, "a", parse_type("ARRAY<INT>"))])


def test_joining_with_and_is_refused_because_it_would_drop_a_condition():
    with pytest.raises(InvalidRequest, match="join conditions with & and"):
        _ = (col("i") > 1) and (col("i") < 3)


def _arrow(value, name):
    if name == "t":
        return None if value is None else value[0] * 1_000_000 + value[1]
    return from_internal(value, DATA_TYPES[name])


def _range(values, *, known):
    present = [value for value in values if value is not None and not is_nan(value)]
    return ColumnRange(
        minimum=min(present) if known and present else None,
        maximum=max(present) if known and present else None,
        null_count=sum(value is None for value in values) if known else None,
        row_count=len(values),
    )


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)
