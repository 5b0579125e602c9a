"""Statistics are stored as Java stores them, and their bounds never exclude a value."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.table.data_file import EMPTY_STATS, SimpleStats
from lakehouse_core.table.stats import (
    NOTHING_KNOWN,
    ColumnBounds,
    decode_stats,
    encode_stats,
    reduce_bounds,
    value_stats,
)
from tests.vectors.values import section

TRUNCATED = [case for case in section("stats_truncate") if "values" in case]
FROM_FOOTER = [case for case in section("stats_truncate") if "footer_min" in case]
BYTES = [case for case in section("stats_truncate") if "values_hex" in case]


def bounds_of(values: list[Any]) -> ColumnBounds:
    known = [value for value in values if value is not None]
    return ColumnBounds(min(known, default=None), max(known, default=None), values.count(None))


@pytest.mark.parametrize("case", TRUNCATED, ids=[str(index) for index in range(len(TRUNCATED))])
def test_texts_are_cut_as_java_cuts_them(case: dict[str, Any]) -> None:
    assert reduce_bounds(bounds_of(case["values"]), case["mode"]) == ColumnBounds(
        case["min"], case["max"], case["null_count"]
    )


@pytest.mark.parametrize("case", BYTES, ids=lambda case: ",".join(case["values_hex"]))
def test_binaries_are_cut_as_java_cuts_them(case: dict[str, Any]) -> None:
    low, high = (None if case[end] is None else bytes.fromhex(case[end]) for end in ("min_hex", "max_hex"))
    values = [bytes.fromhex(value) for value in case["values_hex"]]

    assert reduce_bounds(bounds_of(values), case["mode"]) == ColumnBounds(low, high, case["null_count"])


@pytest.mark.parametrize("case", FROM_FOOTER, ids=[str(index) for index in range(len(FROM_FOOTER))])
def test_bounds_of_a_footer_are_cut_like_those_of_values(case: dict[str, Any]) -> None:
    found = reduce_bounds(ColumnBounds(case["footer_min"], case["footer_max"], 3), "truncate(16)")

    assert found == ColumnBounds(case["min"], case["max"], case["null_count"])


TYPES = [parse_type(text) for text in ("INT NOT NULL", "STRING", "DECIMAL(20, 2)")]
SIMPLE = {
    "a:min1,max5,nulls0; b:min 'a',max 'a longer string',nulls 1; c:null,null,nulls 3": [
        ColumnBounds(1, 5, 0),
        ColumnBounds("a", "a longer string", 1),
        ColumnBounds(None, None, 3),
    ],
    "a:1,5,0; b: none (no stats); c:null,null,3": [
        ColumnBounds(1, 5, 0),
        NOTHING_KNOWN,
        ColumnBounds(None, None, 3),
    ],
    "all none": [NOTHING_KNOWN] * 3,
}


@pytest.mark.parametrize("case", section("simple_stats"), ids=lambda case: f"{case['case']}, dense {case['dense']}")
def test_statistics_have_the_bytes_that_java_writes(case: dict[str, Any]) -> None:
    stats, names = value_stats(["a", "b", "c"], TYPES, SIMPLE[case["case"]], is_dense=case["dense"])

    assert stats.min_values.hex() == case["min_values_hex"]
    assert stats.max_values.hex() == case["max_values_hex"]
    assert list(stats.null_counts or ()) == case["null_counts"]
    assert (None if names is None else list(names)) == case["value_stats_cols"]


def test_a_bound_steps_over_the_surrogates() -> None:
    assert reduce_bounds(bounds_of(["aaa\ud7ffzz"]), "truncate(4)").maximum == "aaa\ue000"


@given(st.lists(st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"])), min_size=1), st.integers(1, 6))
def test_cut_bounds_still_hold_every_value(values: list[str | None], length: int) -> None:
    cut = reduce_bounds(bounds_of(values), f"truncate({length})")

    for value in values:
        assert value is None or cut.minimum is None or cut.minimum <= value <= cut.maximum
    assert cut.minimum is None or max(len(cut.minimum), len(cut.maximum)) <= length


@pytest.mark.parametrize(
    ("mode", "kept"),
    [("none", NOTHING_KNOWN), ("counts", ColumnBounds(None, None, 2)), ("full", ColumnBounds("abcdef", "abcdef", 2))],
)
def test_a_mode_keeps_what_its_name_says(mode: str, kept: ColumnBounds) -> None:
    assert reduce_bounds(ColumnBounds("abcdef", "abcdef", 2), mode) == kept


def test_what_was_encoded_is_decoded() -> None:
    bounds = [ColumnBounds(1, 5, 0), ColumnBounds("a", "b", None), ColumnBounds(Decimal("-1.50"), Decimal("2.00"), 7)]

    assert decode_stats(encode_stats(bounds, TYPES), TYPES) == (
        (1, "a", Decimal("-1.50")),
        (5, "b", Decimal("2.00")),
        (0, None, 7),
    )
    assert decode_stats(EMPTY_STATS, TYPES) == ((None,) * 3,) * 3


def test_null_counts_for_other_columns_are_a_contradiction() -> None:
    stats = encode_stats([ColumnBounds(1, 5, 0)] * 1, TYPES[:1])
    damaged = SimpleStats(min_values=stats.min_values, max_values=stats.max_values, null_counts=(0, 1))

    with pytest.raises(CorruptTable, match="2 null counts for 1 columns"):
        decode_stats(damaged, TYPES[:1])
