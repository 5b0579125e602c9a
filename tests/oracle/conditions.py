"""Conditions row by row, as SQL's truth tables say: the judge of every faster way."""

import math
import operator
from collections.abc import Mapping
from typing import Any

from lakehouse_core.table.predicate import And, Compare, In, IsNull, Not, Or, Predicate, StartsWith

_OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Return True, False or None (unknown)."""
    match predicate:
        case IsNull(column):
            return row[column] is None
        case Compare(column, comparison, value):
            return None if row[column] is None else _OPERATORS[comparison](row[column], value)
        case In(column, values):
            return None if row[column] is None else any(row[column] == value for value in values)
        case StartsWith(column, prefix):
            return None if row[column] is None else row[column].startswith(prefix)
        case Not(part):
            inner = truth(part, row)
            return None if inner is None else not inner
        case And(parts):
            found = [truth(part, row) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [truth(part, row) for part in parts]
            return True if True in found else None if None in found else False
    raise AssertionError(predicate)


def users_truth(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Return what a user means, before anything is bound: NaN is greater than every number and equal to itself."""
    if isinstance(predicate, In) and row[predicate.column] is not None:
        return any(_place(row[predicate.column]) == _place(value) for value in predicate.values)
    if isinstance(predicate, Compare) and row[predicate.column] is not None:
        return _OPERATORS[predicate.comparison](_place(row[predicate.column]), _place(predicate.value))
    match predicate:
        case Not(part):
            inner = users_truth(part, row)
            return None if inner is None else not inner
        case And(parts):
            found = [users_truth(part, row) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [users_truth(part, row) for part in parts]
            return True if True in found else None if None in found else False
    return truth(predicate, row)


def _place(value: Any) -> tuple[bool, Any]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value
