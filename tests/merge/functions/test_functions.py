"""Aggregate functions, one column at a time: a decision table, and what is refused."""

import math
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import TypeRoot, parse_type
from lakehouse_core.merge.functions import aggregator
from lakehouse_core.merge.functions.by_name import AGGREGATORS
from lakehouse_core.table.aggregate_types import FUNCTIONS
from lakehouse_core.table.merge_spec import AggregateFunction

TABLE = "ARRAY<ROW<x INT, y STRING, z INT>>"
TIMED = "MAP<STRING, ROW<v INT, ts STRING>>"


def folded(name: str, text: str, steps: list[tuple[str, Any]], **told: Any) -> Any:
    """Return the accumulator after `+` newer, `<` older, `-` retracted values."""
    column = aggregator(AggregateFunction(column="v", name=name, type=parse_type(text), **told))
    column.reset()
    accumulator = None
    for sign, value in steps:
        step = {"+": column.add, "<": column.add_older, "-": column.retract}[sign]
        accumulator = step(accumulator, value)
    return accumulator


def test_every_function_that_may_be_declared_is_carried_out() -> None:
    assert AGGREGATORS.keys() == FUNCTIONS.keys()


CASES: list[tuple[str, str, dict[str, Any], list[tuple[str, Any]], Any]] = [
    ("primary-key", "INT", {}, [("+", 1), ("+", 2), ("-", 3)], 3),
    # Numbers. NULL says nothing; what is retracted from nothing is owed.
    ("sum", "INT", {}, [("+", None), ("+", 3), ("+", None), ("-", 5), ("<", 4)], 2),
    ("sum", "INT", {}, [("-", 5)], -5),
    ("sum", "INT", {}, [("-", None)], None),
    ("sum", "FLOAT", {}, [("+", 0.10000000149011612), ("+", 0.20000000298023224)], 0.30000001192092896),
    ("sum", "FLOAT", {}, [("+", 3.4028234663852886e38), ("+", 3.4028234663852886e38)], math.inf),
    ("sum", "DOUBLE", {}, [("+", 0.1), ("+", 0.2)], 0.30000000000000004),
    # Decimals of up to 18 digits are not checked against their precision, wider ones become NULL.
    ("sum", "DECIMAL(4, 2)", {}, [("+", Decimal("99.00")), ("+", Decimal("5.00"))], Decimal("104.00")),
    ("sum", "DECIMAL(4, 2)", {}, [("+", Decimal("1.00")), ("-", Decimal("1.00"))], Decimal("0.00")),
    ("sum", "DECIMAL(18, 0)", {}, [("+", Decimal(9 * 10**17))] * 11, None),
    ("sum", "DECIMAL(38, 0)", {}, [("+", Decimal(9 * 10**37))] * 2, None),
    ("sum", "DECIMAL(38, 0)", {}, [("+", Decimal(9 * 10**37))] * 3, Decimal(9 * 10**37)),
    ("product", "INT", {}, [("+", 6), ("+", None), ("+", 7), ("-", 2)], 21),
    ("product", "INT", {}, [("+", -7), ("-", 2)], -3),
    ("product", "INT", {}, [("-", 2)], None),
    ("product", "DOUBLE", {}, [("+", 1.0), ("-", -0.0)], -math.inf),
    ("product", "DECIMAL(6, 2)", {}, [("+", Decimal("1.25")), ("+", Decimal("0.10"))], Decimal("0.13")),
    ("product", "DECIMAL(6, 2)", {}, [("+", Decimal("1.00")), ("-", Decimal("8.00"))], Decimal("0.13")),
    ("product", "DECIMAL(6, 2)", {}, [("+", Decimal("9999.00")), ("+", Decimal("2.00"))], None),
    # One of the values.
    ("min", "STRING", {}, [("+", "b"), ("+", None), ("+", "a"), ("<", "c")], "a"),
    ("max", "TIMESTAMP(9)", {}, [("+", (1, 5)), ("+", (1, 4)), ("+", (0, 9))], (1, 5)),
    ("max", "BYTES", {}, [("+", b"\x7f"), ("+", b"\x80"), ("+", b"\x00")], b"\x80"),
    ("min", "DOUBLE", {}, [("+", 0.0), ("+", -0.0), ("+", 0.0)], -0.0),
    ("last_value", "INT", {}, [("+", 1), ("+", None)], None),
    ("last_value", "INT", {}, [("+", 1), ("<", 2), ("<", None)], 1),
    ("last_value", "INT", {}, [("+", 1), ("-", 2)], None),
    ("last_non_null_value", "INT", {}, [("+", 1), ("+", None), ("<", 3)], 1),
    ("last_non_null_value", "INT", {}, [("<", 3), ("-", None)], 3),
    ("last_non_null_value", "INT", {}, [("+", 1), ("-", 2)], None),
    ("first_value", "INT", {}, [("+", None), ("+", 2)], None),
    ("first_value", "INT", {}, [("+", 1), ("+", 2), ("<", 3), ("+", 4)], 3),
    ("first_non_null_value", "INT", {}, [("+", None), ("+", 2), ("+", 3)], 2),
    # An older NULL takes the place of the first value, as in Java.
    ("first_non_null_value", "INT", {}, [("+", 2), ("<", None)], None),
    ("bool_and", "BOOLEAN", {}, [("+", True), ("+", None), ("+", False), ("+", True)], False),
    ("bool_or", "BOOLEAN", {}, [("+", None), ("+", False), ("<", True), ("+", False)], True),
    # Texts. Blank ones say nothing; a no-break space is not blank.
    ("listagg", "STRING", {}, [("+", None), ("+", "a"), ("+", ""), ("+", " \t"), ("+", "b"), ("<", "c")], "c,a,b"),
    ("listagg", "STRING", {}, [("+", " "), ("+", "\u00a0"), ("+", "a")], "\u00a0,a"),
    ("listagg", "STRING", {"delimiter": " | "}, [("+", "a"), ("+", "a")], "a | a"),
    ("listagg", "STRING", {"distinct": True}, [("+", "a,a"), ("+", "b,a, ,,b,c")], "a,a,b,c"),
    ("listagg", "STRING", {"distinct": True, "delimiter": ""}, [("+", "a b"), ("+", "b c")], "a bc"),
    # Arrays.
    ("collect", "ARRAY<INT>", {}, [("+", None)], None),
    ("collect", "ARRAY<INT>", {}, [("+", (1, None)), ("+", None), ("+", ()), ("<", (1,))], (1, None, 1)),
    ("collect", "ARRAY<INT>", {}, [("+", (1, 2, 1, None)), ("-", (1, None, 3))], (2, 1)),
    ("collect", "ARRAY<INT>", {}, [("-", (1,)), ("-", None)], None),
    ("collect", "ARRAY<INT>", {"distinct": True}, [("+", (1, 1)), ("+", (2, 1, None, None))], (1, 2, None)),
    ("collect", "ARRAY<DOUBLE>", {"distinct": True}, [("+", (float("nan"), 0.0)), ("+", (-0.0, 0.0))], 3),
    ("collect", "ARRAY<BYTES>", {"distinct": True}, [("+", (b"a",)), ("+", (b"a",))], (b"a",)),
    # Maps.
    ("merge_map", "MAP<INT, INT>", {}, [("+", ((1, 1), (2, 2))), ("+", None), ("+", ((2, 3),))], ((1, 1), (2, 3))),
    ("merge_map", "MAP<INT, INT>", {}, [("+", ((1, 1), (2, 2))), ("-", ((2, 9), (5, 5)))], ((1, 1),)),
    ("merge_map", "MAP<INT, INT>", {}, [("+", ((1, 1),)), ("<", ((1, 9),))], ((1, 1),)),
    # Times are compared as texts; a NULL row removes, a NULL time is passed over.
    ("merge_map_with_keytime", TIMED, {}, [("+", (("a", (1, "2")),)), ("+", (("a", (2, "10")),))], (("a", (1, "2")),)),
    ("merge_map_with_keytime", TIMED, {}, [("+", (("a", (1, "2")),)), ("+", (("a", (2, "2")),))], (("a", (1, "2")),)),
    ("merge_map_with_keytime", TIMED, {}, [("+", (("a", (1, "2")),)), ("+", (("a", None), ("b", (1, None))))], ()),
    ("merge_map_with_keytime", TIMED, {}, [("+", (("a", (1, None)),)), ("+", (("a", (2, "0")),))], (("a", (2, "0")),)),
    # Nested tables.
    ("nested_update", TABLE, {}, [("+", ((1, "a", 1), None)), ("+", ((1, "a", 1),))], ((1, "a", 1), (1, "a", 1))),
    ("nested_update", TABLE, {"count_limit": 2}, [("+", ((1, "a", 1),)), ("+", ((2, "b", 1), (3, "c", 1)))], 2),
    ("nested_update", TABLE, {"count_limit": -1}, [("+", ((1, "a", 1),))], ()),
    (
        "nested_update",
        TABLE,
        {},
        [("+", ((1, "a", 1), (2, "b", 1), (1, "a", 1))), ("-", ((1, "a", 1),))],
        ((2, "b", 1),),
    ),
    (
        "nested_update",
        TABLE,
        {"nested_keys": ("x",), "nested_sequence_fields": ("z",), "count_limit": 2},
        [("+", ((1, "a", 5), (2, "b", 1))), ("+", ((1, "old", 4), (2, "new", 1), (3, "more", 9)))],
        ((1, "a", 5), (2, "new", 1)),
    ),
    (
        "nested_update",
        TABLE,
        {"nested_keys": ("x", "y"), "nested_key_null_strategy": "ignore"},
        [("+", ((1, None, 5), (2, "b", 1))), ("-", ((2, "b", None), (None, "b", 1)))],
        (),
    ),
    (
        "nested_partial_update",
        TABLE,
        {"nested_keys": ("x",)},
        [("+", ((1, "a", None), None)), ("+", ((1, None, 7), (None, "n", 1), (None, None, 2)))],
        ((1, "a", 7), (None, "n", 2)),
    ),
]


@pytest.mark.parametrize(("name", "text", "told", "steps", "expected"), CASES)
def test_values_become_one(name: str, text: str, told: dict[str, Any], steps: list[Any], expected: Any) -> None:
    found = folded(name, text, steps, **told)

    # A number stands for an array of that length.
    assert (len(found) if isinstance(found, tuple) and isinstance(expected, int) else repr(found)) == (
        expected if isinstance(found, tuple) and isinstance(expected, int) else repr(expected)
    )


TAKING_BACK = {"primary-key", "sum", "product", "last_value", "last_non_null_value", "collect", "merge_map"}
TYPES = {"sum": "INT", "product": "INT", "collect": "ARRAY<INT>", "nested_update": TABLE, "merge_map": "MAP<INT, INT>"}


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - TAKING_BACK - {"nested_update"}))
def test_a_retract_that_a_function_cannot_carry_out_is_refused_by_names(name: str) -> None:
    text = {"merge_map_with_keytime": TIMED, "nested_partial_update": TABLE}.get(name, TypeRoot.INT)

    with pytest.raises(InvalidRequest, match=rf"Column v: .* {name} .*fields\.v\.ignore-retract") as caught:
        folded(name, text, [("-", None)], nested_keys=("x",))

    assert "write no such records" in str(caught.value)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_column_that_ignores_retracts_stays_as_it_is(name: str) -> None:
    text = {"merge_map_with_keytime": TIMED, "nested_partial_update": TABLE}.get(name, TYPES.get(name, "INT"))
    column = aggregator(
        AggregateFunction(column="v", name=name, type=parse_type(text), ignore_retract=True, nested_keys=("x",))
    )

    assert column.retract("what there is", "something") == "what there is"


REFUSED: list[tuple[str, str, list[tuple[str, Any]], str]] = [
    ("sum", "TINYINT", [("+", 127), ("+", 1)], "127 + 1 = 128, which does not fit TINYINT. Change the column"),
    ("sum", "INT", [("-", -(2**31))], "2147483648, which does not fit INT"),
    ("product", "BIGINT", [("+", 2**62), ("+", 2)], "does not fit BIGINT"),
    ("product", "INT", [("+", -(2**31)), ("-", -1)], "does not fit INT"),
    ("product", "INT", [("+", 3), ("-", 0)], "3 / 0, which has no value"),
    ("product", "DECIMAL(4, 2)", [("+", Decimal("1.00")), ("-", Decimal("0.00"))], "1.00 / 0"),
    ("product", "DECIMAL(4, 2)", [("+", Decimal("1.00")), ("-", Decimal("3.00"))], "which has no last digit"),
    ("hll_sketch", "BYTES", [("+", b"no"), ("+", b"sketch")], "not a serialized hll_sketch"),
    ("theta_sketch", "BYTES", [("+", b""), ("+", b"sketch")], "not a serialized theta_sketch"),
    ("rbm32", "BYTES", [("+", b""), ("+", b"bitmap")], "not a serialized rbm32"),
    ("rbm64", "BYTES", [("+", b"\1"), ("+", b"bitmap")], "not a serialized rbm64"),
]


@pytest.mark.parametrize(("name", "text", "steps", "says"), REFUSED)
def test_values_without_a_result_are_refused_by_names(name: str, text: str, steps: list[Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^Column v") as caught:
        folded(name, text, steps)

    assert says in str(caught.value)


def test_a_nested_key_with_a_null_is_refused_where_the_table_says_so() -> None:
    told = {"nested_keys": ("x",), "nested_key_null_strategy": "error"}

    with pytest.raises(InvalidRequest, match="NULL in its key"):
        folded("nested_update", TABLE, [("+", ((None, "a", 1),))], **told)


def test_what_came_first_is_forgotten_at_the_next_key() -> None:
    column = aggregator(AggregateFunction(column="v", name="first_value", type=parse_type("INT")))
    column.add(None, None)

    column.reset()

    assert column.add(None, 5) == 5


class Counted:
    """A value that counts how often it or another is hashed, which is how often it is looked at."""

    hashed = 0

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        Counted.hashed += 1
        return self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and self.value == other.value


GATHERING: list[tuple[str, str, dict[str, Any], Any]] = [
    ("collect", "ARRAY<INT>", {"distinct": True}, lambda value: (value,)),
    ("merge_map", "MAP<INT, INT>", {}, lambda value: ((value, 1),)),
    ("merge_map_with_keytime", "MAP<INT, ROW<v INT, ts STRING>>", {}, lambda value: ((value, (1, "t")),)),
    ("nested_update", "ARRAY<ROW<x INT, y INT>>", {"nested_keys": ("x",)}, lambda value: ((value, 1),)),
    ("nested_partial_update", "ARRAY<ROW<x INT, y INT>>", {"nested_keys": ("x",)}, lambda value: ((value, 1),)),
]


@pytest.mark.parametrize(("name", "text", "told", "value_of"), GATHERING, ids=[case[0] for case in GATHERING])
def test_a_key_of_many_versions_takes_a_time_that_grows_with_their_number(name, text, told, value_of) -> None:
    column = aggregator(AggregateFunction(column="v", name=name, type=parse_type(text), **told))
    Counted.hashed = 0

    gathered = column.add_all(None, [value_of(Counted(number)) for number in range(500)])

    assert len(gathered) == 500
    assert Counted.hashed < 10 * 500


ELEMENTS = st.none() | st.integers(0, 3)
TOKENS = st.none() | st.text("ab, ", max_size=4)
MAPS = st.none() | st.lists(st.tuples(st.integers(0, 3), ELEMENTS), max_size=3).map(tuple)
TIMED_MAPS = st.none() | st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.tuples(ELEMENTS, st.none() | st.sampled_from("xyz"))), max_size=3
).map(tuple)
NESTED = st.none() | st.lists(st.none() | st.tuples(st.integers(0, 3), ELEMENTS), max_size=3).map(tuple)
KEYED: dict[str, Any] = {"nested_keys": ("x",)}
LAWS: list[tuple[str, str, dict[str, Any], st.SearchStrategy[Any]]] = [
    ("listagg", "STRING", {}, TOKENS),
    ("listagg", "STRING", {"delimiter": ""}, TOKENS),
    ("listagg", "STRING", {"distinct": True}, TOKENS),
    ("listagg", "STRING", {"distinct": True, "delimiter": ""}, TOKENS),
    ("listagg", "STRING", {"distinct": True, "delimiter": "aa"}, TOKENS),
    ("collect", "ARRAY<INT>", {}, st.none() | st.lists(ELEMENTS, max_size=3).map(tuple)),
    ("collect", "ARRAY<INT>", {"distinct": True}, st.none() | st.lists(ELEMENTS, max_size=3).map(tuple)),
    ("merge_map", "MAP<INT, INT>", {}, MAPS),
    ("merge_map_with_keytime", TIMED, {}, TIMED_MAPS),
    ("nested_update", "ARRAY<ROW<x INT, y INT>>", {}, NESTED),
    ("nested_update", "ARRAY<ROW<x INT, y INT>>", {"count_limit": 2}, NESTED),
    ("nested_update", "ARRAY<ROW<x INT, y INT>>", KEYED, NESTED),
    ("nested_update", "ARRAY<ROW<x INT, y INT>>", {**KEYED, "count_limit": 2}, NESTED),
    ("nested_update", "ARRAY<ROW<x INT, y INT>>", {**KEYED, "nested_sequence_fields": ("y",)}, NESTED),
    ("nested_partial_update", "ARRAY<ROW<x INT, y INT>>", KEYED, NESTED),
]


@pytest.mark.parametrize(("name", "text", "told", "values"), LAWS, ids=[f"{case[0]} {case[2]}" for case in LAWS])
def test_many_values_at_once_are_the_values_one_by_one(name, text, told, values) -> None:
    column = aggregator(AggregateFunction(column="v", name=name, type=parse_type(text), **told))

    @given(values, st.lists(values, min_size=1, max_size=6))
    def holds(first: Any, later: list[Any]) -> None:
        assert column.add_all(first, later) == reduce(column.add, later, first)

    holds()
