"""Binding: check a user's condition against the schema, and convert its literals to comparable values.

A number that the column cannot hold is replaced by the nearest value of the column, so that `id > 10.5` has the result
of SQL; any other literal that does not fit is refused. For users NaN is greater than every number and equal to itself;
a bound condition compares by IEEE 754 and has no NaN literals, so that code that tests it needs no rule for NaN.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, Final, assert_never

from lakehouse_core.errors import InvalidRequest, near_hint, shown
from lakehouse_core.format.data_types import (
    INTEGER_BITS,
    STRING_ROOTS,
    AtomicType,
    DataField,
    TypeRoot,
    to_internal,
    type_to_sql,
)
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

_EXACT: Final = Context(prec=400)
_AT_MOST: Final = frozenset({Comparison.EQUAL, Comparison.LESS, Comparison.LESS_OR_EQUAL})
_UNORDERED: Final = frozenset({TypeRoot.VARIANT, TypeRoot.BLOB})


def bind(predicate: Predicate, fields: Sequence[DataField]) -> Predicate:
    """Return the condition with comparable literals. Raises InvalidRequest for unknown columns and unfit literals."""
    return _bind(predicate, {field.name: field for field in fields}, frozenset())


def _bind(predicate: Predicate, fields: Mapping[str, DataField], numbers: frozenset[str]) -> Predicate:
    """Return the bound condition. `numbers`: columns for which a NaN makes the whole condition false anyway."""
    match predicate:
        case IsNull(column):
            _field(column, fields)
            return predicate
        case StartsWith(column, prefix):
            kind = _ordered_type(_field(column, fields))
            if kind.root not in STRING_ROOTS or not isinstance(prefix, str):
                raise InvalidRequest(
                    f"Column {shown(column)} is {type_to_sql(kind)} and the prefix {shown(prefix)}: "
                    "only text columns can be tested for a prefix."
                )
            return predicate
        case Compare(column, comparison, value):
            bound = _bind_compare(column, comparison, value, _ordered_type(_field(column, fields)))
            return bound if column in numbers else _with_nan(bound)
        case In(column, values):
            return _bind_in(column, values, _ordered_type(_field(column, fields)))
        case Not(part):
            return Not(_bind(part, fields, numbers))
        case And(parts):
            numbers |= _numbers(predicate)
            return And(tuple(_bind(part, fields, numbers) for part in parts))
        case Or(parts):
            return Or(tuple(_bind(part, fields, numbers) for part in parts))
        case _:
            assert_never(predicate)


def _field(column: str, fields: Mapping[str, DataField]) -> DataField:
    if column in fields:
        return fields[column]
    hint = near_hint(column, fields, f"Columns: {', '.join(fields)}.")
    raise InvalidRequest(f"Condition on column {shown(column)}, which the table does not have. {hint}")


def _ordered_type(field: DataField) -> AtomicType:
    if isinstance(field.type, AtomicType) and field.type.root not in _UNORDERED:
        return field.type
    raise InvalidRequest(
        f"Column {shown(field.name)} is {type_to_sql(field.type)}, which cannot be compared: only IS NULL applies to "
        "it."
    )


def _bind_compare(column: str, comparison: Comparison, value: Any, kind: AtomicType) -> Predicate:
    exact = _exact(value, kind)
    if exact is None:
        return Compare(column, comparison, _literal(column, value, kind))
    low, high = _limits(kind)
    floor = max(low, min(high, exact)).quantize(_unit(kind), ROUND_FLOOR, _EXACT)
    if floor == exact:
        return Compare(column, comparison, _literal(column, floor, kind))
    never = In(column, ())
    greater = comparison in (Comparison.GREATER, Comparison.GREATER_OR_EQUAL)
    if comparison is Comparison.EQUAL:
        return never
    if comparison is Comparison.NOT_EQUAL:
        return Not(never)
    if exact < low:
        return Not(never) if greater else never
    bound = Comparison.GREATER if greater else Comparison.LESS_OR_EQUAL
    return Compare(column, bound, _literal(column, floor, kind))


def _bind_in(column: str, values: tuple[Any, ...], kind: AtomicType) -> Predicate:
    kept, has_nan = set(), False
    for value in values:
        equal = _bind_compare(column, Comparison.EQUAL, value, kind)
        if isinstance(equal, Compare):
            if _is_nan(equal.value):
                has_nan = True
            else:
                kept.add(equal.value)
    found = In(column, tuple(sorted(kept)))
    return Or((found, Not(_is_number(column)))) if has_nan else found


def _numbers(condition: And) -> frozenset[str]:
    """Return the columns that a conjunct limits to at most some number."""
    found: set[str] = set()
    for part in condition.parts:
        match part:
            case And():
                found |= _numbers(part)
            case Compare(column, comparison, int() | float() as value) if comparison in _AT_MOST and not _is_nan(value):
                found.add(column)
    return frozenset(found)


def _with_nan(bound: Predicate) -> Predicate:
    """Return the condition in IEEE 754 comparisons that has the result of NaN as the greatest value."""
    if not isinstance(bound, Compare) or not isinstance(bound.value, float):
        return bound
    column, never = bound.column, In(bound.column, ())
    if _is_nan(bound.value):
        match bound.comparison:
            case Comparison.EQUAL | Comparison.GREATER_OR_EQUAL:
                return Not(_is_number(column))
            case Comparison.NOT_EQUAL | Comparison.LESS:
                return _is_number(column)
            case Comparison.LESS_OR_EQUAL:
                return Not(never)
            case Comparison.GREATER:
                return never
    if bound.comparison is Comparison.GREATER:
        return Not(Compare(column, Comparison.LESS_OR_EQUAL, bound.value))
    if bound.comparison is Comparison.GREATER_OR_EQUAL:
        return Not(Compare(column, Comparison.LESS, bound.value))
    return bound


def _is_number(column: str) -> Compare:
    """Return the condition that a floating-point column is not NaN; unknown for NULL."""
    return Compare(column, Comparison.LESS_OR_EQUAL, math.inf)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _literal(column: str, value: Any, kind: AtomicType) -> Any:
    if value is None:
        raise InvalidRequest(f"Column {shown(column)} is compared with NULL, which is never true: use IS NULL.")
    try:
        return to_internal(value, kind)
    except InvalidRequest as error:
        raise InvalidRequest(f"Condition on column {shown(column)}: {error}") from error


def _exact(value: Any, kind: AtomicType) -> Decimal | None:
    """Return the exact value of a finite number for an integer or decimal column, None for any other value."""
    if kind.root not in INTEGER_BITS and kind.root is not TypeRoot.DECIMAL:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return None
    # The shortest text of the float is the number that the user typed.
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _unit(kind: AtomicType) -> Decimal:
    return Decimal(1).scaleb(-(kind.scale or 0))


def _limits(kind: AtomicType) -> tuple[Decimal, Decimal]:
    if kind.root is TypeRoot.DECIMAL:
        assert kind.precision is not None
        high = Decimal((0, (9,) * kind.precision, -(kind.scale or 0)))
        return high.copy_negate(), high
    limit = 1 << (INTEGER_BITS[kind.root] - 1)
    return Decimal(-limit), Decimal(limit - 1)
