"""Points: simplify conditions for known columns, evaluate them for a row, and list the values that they allow."""

from collections.abc import Iterable, Mapping, Sequence
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
    conjuncts,
)


def simplify(predicate: Predicate, known: Mapping[str, Any]) -> Predicate | bool | None:
    """Return the bound predicate for the values of the `known` columns: the remaining predicate, or its truth value."""
    match predicate:
        case Compare(column) | In(column) | IsNull(column) | StartsWith(column):
            return _truth(predicate, known[column]) if column in known else predicate
        case Not(part):
            inner = simplify(part, known)
            return inner if inner is None else not inner if isinstance(inner, bool) else Not(inner)
        case And(parts) | Or(parts):
            return _simplify_parts(parts, known, absorbing=isinstance(predicate, Or))
        case _:
            assert_never(predicate)


def holds(predicate: Predicate | None, row: Mapping[str, Any]) -> bool:
    """Return whether a whole row of comparable values satisfies the bound predicate."""
    return predicate is None or simplify(predicate, row) is True


MAX_BUCKET_COMBINATIONS = 1000


def point_values(predicate: Predicate | None, columns: Sequence[str]) -> list[tuple[Any, ...]] | None:
    """Return all combinations of values of `columns` that a matching row may have, None if they are not bounded.

    They are bounded if each column is bound by `=`, IN, or OR of those, with at most 1000 combinations. Source:
    docs/semantics/reading.md#batch-scan.
    """
    bound: dict[str, set[Any]] = {}
    for part in conjuncts(predicate):
        points = _points(part)
        if points is not None:
            column, values = points
            bound[column] = bound[column] & values if column in bound else values
    combinations: list[tuple[Any, ...]] = [()]
    for column in columns:
        values = bound.get(column, set())
        if not values or len(combinations) * len(values) > MAX_BUCKET_COMBINATIONS:
            return None
        spelled = [each for value in sorted(values) for each in _spellings(value)]
        combinations = [(*head, value) for head in combinations for value in spelled]
    return combinations


def _spellings(value: Any) -> tuple[Any, ...]:
    """Return the values equal to `value`: the two floating-point zeros hash to different buckets."""
    return (0.0, -0.0) if isinstance(value, float) and value == 0 else (value,)


def _points(part: Predicate) -> tuple[str, set[Any]] | None:
    match part:
        case Compare(column, Comparison.EQUAL, value):
            return column, {value}
        case In(column, values):
            return column, set(values)
        case Or(parts):
            found = [_points(each) for each in parts]
            known = [each for each in found if each is not None]
            if len(known) < len(found) or len({column for column, _ in known}) != 1:
                return None
            return known[0][0], set().union(*(values for _, values in known))
        case _:
            return None


def _simplify_parts(
    parts: Iterable[Predicate], known: Mapping[str, Any], *, absorbing: bool
) -> Predicate | bool | None:
    """Return the simplified parts joined by AND (`absorbing` False) or OR (`absorbing` True)."""
    left: list[Predicate] = []
    unknown: list[Predicate] = []
    for part in parts:
        result = simplify(part, known)
        if result is absorbing:
            return absorbing
        if result is None:
            unknown.append(part)
        elif not isinstance(result, bool):
            left.append(result)
    if not left:
        return None if unknown else not absorbing
    # An unknown part stays as it was, because "unknown AND x" may be false or unknown.
    left += unknown
    return left[0] if len(left) == 1 else Or(tuple(left)) if absorbing else And(tuple(left))


def _truth(leaf: Compare | In | IsNull | StartsWith, value: Any) -> bool | None:
    if isinstance(leaf, IsNull):
        return value is None
    if value is None:
        return None
    match leaf:
        case In(_, values):
            return value in values
        case StartsWith(_, prefix):
            return bool(value.startswith(prefix))
        case Compare(_, comparison, literal):
            return _compare(comparison, value, literal)


def _compare(comparison: Comparison, value: Any, literal: Any) -> bool:
    match comparison:
        case Comparison.EQUAL:
            return bool(value == literal)
        case Comparison.NOT_EQUAL:
            return bool(value != literal)
        case Comparison.LESS:
            return bool(value < literal)
        case Comparison.LESS_OR_EQUAL:
            return bool(value <= literal)
        case Comparison.GREATER:
            return bool(value > literal)
        case Comparison.GREATER_OR_EQUAL:
            return bool(value >= literal)
        case _:
            assert_never(comparison)
