"""Bounds: decide by statistics of files and manifests whether rows may satisfy a bound condition.

Tested against its row-wise meaning in tests/table/test_predicate.py.
Source: docs/semantics/reading.md#pruning-by-statistics.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from lakehouse_core.table.predicate.conditions import (
    And,
    Compare,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange:
    """The value range of one column over some rows. None: unknown. Bounds may be wider than the values, never
    narrower.
    """

    minimum: Any = None
    maximum: Any = None
    null_count: int | None = None
    row_count: int


# The truth values that a condition may have over some rows, as a bit set.
_TRUE, _FALSE, _UNKNOWN = 1, 2, 4


def may_match(predicate: Predicate | None, ranges: Mapping[str, ColumnRange]) -> bool:
    """Return whether any row may satisfy the bound predicate. A column without a range is unknown."""
    return predicate is None or bool(_outcomes(predicate, ranges) & _TRUE)


def _outcomes(predicate: Predicate, ranges: Mapping[str, ColumnRange]) -> int:
    """Return the set of truth values that rows within `ranges` may give, by Kleene's tables taken set-wise."""
    match predicate:
        case Compare(column) | In(column) | IsNull(column) | StartsWith(column):
            return _leaf_outcomes(predicate, ranges.get(column))
        case Not(part):
            inner = _outcomes(part, ranges)
            return (inner & _UNKNOWN) | (_FALSE if inner & _TRUE else 0) | (_TRUE if inner & _FALSE else 0)
        case And(parts):
            return _joined([_outcomes(part, ranges) for part in parts], neutral=_TRUE, absorbing=_FALSE)
        case Or(parts):
            return _joined([_outcomes(part, ranges) for part in parts], neutral=_FALSE, absorbing=_TRUE)
        case _:
            assert_never(predicate)


def _joined(sets: Sequence[int], *, neutral: int, absorbing: int) -> int:
    result = neutral if all(each & neutral for each in sets) else 0
    if any(each & absorbing for each in sets):
        result |= absorbing
    if any(each & _UNKNOWN for each in sets) and all(each & (_UNKNOWN | neutral) for each in sets):
        result |= _UNKNOWN
    return result


def _leaf_outcomes(leaf: Compare | In | IsNull | StartsWith, known: ColumnRange | None) -> int:
    nulls = known is None or known.null_count is None or known.null_count > 0
    values = known is None or known.null_count is None or known.null_count < known.row_count
    if isinstance(leaf, IsNull):
        return (_TRUE if nulls else 0) | (_FALSE if values else 0)
    outcomes = _UNKNOWN if nulls else 0
    if not values:
        return outcomes
    low = None if known is None or known.minimum != known.minimum else known.minimum
    high = None if known is None or known.maximum != known.maximum else known.maximum
    match leaf:
        case In(_, literals):
            return outcomes | _in_outcomes(literals, low, high)
        case StartsWith(_, prefix):
            return outcomes | _prefix_outcomes(prefix, low, high)
        case Compare(_, comparison, literal):
            return outcomes | _compare_outcomes(comparison, literal, low, high)


def _compare_outcomes(comparison: Comparison, literal: Any, low: Any, high: Any) -> int:
    below = low is None or low < literal
    above = high is None or high > literal
    at = (low is None or low <= literal) and (high is None or high >= literal)
    match comparison:
        case Comparison.EQUAL:
            yes, no = at, below or above
        case Comparison.NOT_EQUAL:
            yes, no = below or above, at
        case Comparison.LESS:
            yes, no = below, at or above
        case Comparison.LESS_OR_EQUAL:
            yes, no = below or at, above
        case Comparison.GREATER:
            yes, no = above, below or at
        case Comparison.GREATER_OR_EQUAL:
            yes, no = above or at, below
        case _:
            assert_never(comparison)
    if isinstance(literal, float):
        # Statistics do not cover NaN: a row with NaN may always exist, and fails every comparison except `<>`.
        yes, no = (True, no) if comparison is Comparison.NOT_EQUAL else (yes, True)
    return (_TRUE if yes else 0) | (_FALSE if no else 0)


def _in_outcomes(literals: tuple[Any, ...], low: Any, high: Any) -> int:
    first = 0 if low is None else bisect_left(literals, low)
    yes = first < len(literals) and (high is None or literals[first] <= high)
    constant = low is not None and high is not None and low == high and not isinstance(low, float)
    return (_TRUE if yes else 0) | (0 if yes and constant else _FALSE)


def _prefix_outcomes(prefix: str, low: Any, high: Any) -> int:
    yes = (low is None or low[: len(prefix)] <= prefix) and (high is None or high >= prefix)
    all_begin = low is not None and high is not None and low.startswith(prefix) and high.startswith(prefix)
    return (_TRUE if yes else 0) | (0 if all_begin else _FALSE)
