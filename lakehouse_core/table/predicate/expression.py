"""Expressions: convert a bound condition to an Arrow expression, for rows and for row groups of files."""

from collections.abc import Mapping
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.data_types import TIMESTAMP_ROOTS, AtomicType, DataType, arrow_type, timestamp_unit
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


def to_expression(predicate: Predicate, types: Mapping[str, DataType]) -> pc.Expression:
    """Return the expression that is true for rows that satisfy the condition; `types` are the columns' types in the
    data.

    Rows for which the condition is unknown are null or false in it: a filter drops both.
    """
    return _expression(predicate, types, exact=False)


def scalar(value: Any, data_type: AtomicType) -> pa.Scalar:
    """Return the Arrow scalar of a comparable value."""
    arrow = arrow_type(data_type)
    if value is not None and data_type.root in TIMESTAMP_ROOTS:
        millis, nanos = value
        assert data_type.precision is not None
        match timestamp_unit(data_type.precision):
            case "ms":
                return pa.scalar(millis, arrow)
            case "us":
                return pa.scalar(millis * 1000 + nanos // 1000, arrow)
            case _:
                return pa.scalar(millis * 1_000_000 + nanos, arrow)
    return pa.scalar(value, arrow)


def _expression(predicate: Predicate, types: Mapping[str, DataType], *, exact: bool) -> pc.Expression:
    """Return the expression. `exact`: an unknown result must be null, not false, because a negation applies to it."""
    match predicate:
        case Compare(column, comparison, value):
            return _comparison(pc.field(column), comparison, pc.scalar(scalar(value, _atomic(types, column))))
        case In(column, values):
            kind = _atomic(types, column)
            # Arrow's `isin` distinguishes the two zeros, which are equal.
            zeros = [-value for value in values if isinstance(value, float) and value == 0]
            options = pa.array([scalar(value, kind) for value in (*values, *zeros)], arrow_type(kind))
            found = pc.field(column).isin(options)
            # Arrow's `isin` gives false for NULL.
            return pc.if_else(pc.field(column).is_valid(), found, pa.scalar(None, pa.bool_())) if exact else found
        case IsNull(column):
            return pc.field(column).is_null()
        case StartsWith(column, prefix):
            return pc.starts_with(pc.field(column), prefix)
        case Not(part):
            return ~_expression(part, types, exact=True)
        case And(parts):
            return _fold(parts, types, exact=exact, conjunction=True)
        case Or(parts):
            return _fold(parts, types, exact=exact, conjunction=False)
        case _:
            assert_never(predicate)


def _fold(
    parts: tuple[Predicate, ...], types: Mapping[str, DataType], *, exact: bool, conjunction: bool
) -> pc.Expression:
    """Return the parts joined as a balanced tree, because Arrow evaluates expressions recursively."""
    if not parts:
        return pc.scalar(conjunction)
    if len(parts) == 1:
        return _expression(parts[0], types, exact=exact)
    middle = len(parts) // 2
    left = _fold(parts[:middle], types, exact=exact, conjunction=conjunction)
    right = _fold(parts[middle:], types, exact=exact, conjunction=conjunction)
    return left & right if conjunction else left | right


def _comparison(column: pc.Expression, comparison: Comparison, literal: pc.Expression) -> pc.Expression:
    match comparison:
        case Comparison.EQUAL:
            return column == literal
        case Comparison.NOT_EQUAL:
            return column != literal
        case Comparison.LESS:
            return column < literal
        case Comparison.LESS_OR_EQUAL:
            return column <= literal
        case Comparison.GREATER:
            return column > literal
        case Comparison.GREATER_OR_EQUAL:
            return column >= literal
        case _:
            assert_never(comparison)


def _atomic(types: Mapping[str, DataType], column: str) -> AtomicType:
    kind = types[column]
    assert isinstance(kind, AtomicType), column
    return kind
