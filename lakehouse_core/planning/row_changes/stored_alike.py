"""Stored alike: the new values that the verb `update` stores as Spark's SQL does, without an engine of SQL.

Rule: only those whose type a column takes as they are; for others the result of a cast counts.
Source: docs/row-changes.md#new-values.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Final

from lakehouse_core.format.data_types import INTEGER_BITS, STRING_ROOTS, AtomicType, DataField, DataType, TypeRoot
from lakehouse_core.format.store_assignment import is_kept
from lakehouse_core.planning.row_changes.expressions import (
    ColumnValue,
    Default,
    Expression,
    Function,
    FunctionCall,
    Literal,
)
from lakehouse_core.table.schema import TableSchema

_TEXT: Final = "text"


def is_stored_alike(value: Expression, column: DataField, schema: TableSchema) -> bool:
    """Return whether the verb stores a value as Spark's SQL does, or refuses it as well. `column` has no length."""
    match value:
        case Default() | Literal(None):
            return True
        case ColumnValue(name):
            return is_kept(schema.field(name).type, column.type)
        case Literal(float()):
            return _root(column.type) is TypeRoot.DOUBLE
        case Literal(bool()):
            return _root(column.type) is TypeRoot.BOOLEAN
        case Literal(date()) if not isinstance(value.value, datetime):
            return _root(column.type) is TypeRoot.DATE
    kind = _kind(value, schema)
    match kind:
        case int():
            return kind <= _scale(column.type) or (kind == 0 and _root(column.type) in INTEGER_BITS)
        case str():
            return _root(column.type) in STRING_ROOTS
    return False


def _kind(value: Expression, schema: TableSchema) -> int | str | None:
    """Return the digits behind the point of an exact number, or that it is a text; None for another value."""
    match value:
        case Literal(bool()) | Literal(None) | Default():
            return None
        case Literal(int()):
            return 0
        case Literal(Decimal()):
            return max(0, -int(value.value.as_tuple().exponent))
        case Literal(str()):
            return _TEXT
        case ColumnValue(name):
            return _kind_of(schema.field(name).type)
        case FunctionCall(function, arguments):
            kinds = [_kind(each, schema) for each in arguments]
            numbers = [kind for kind in kinds if isinstance(kind, int)]
            if function in (Function.CONCAT, Function.COALESCE) and kinds == [_TEXT] * len(kinds):
                return _TEXT
            if function is Function.CONCAT or len(numbers) < len(kinds):
                return None
            return sum(numbers) if function is Function.MULTIPLY else max(numbers)
    return None


def _kind_of(data_type: DataType) -> int | str | None:
    root = _root(data_type)
    if root in INTEGER_BITS:
        return 0
    if root in STRING_ROOTS:
        return _TEXT
    return _scale(data_type) if root is TypeRoot.DECIMAL else None


def _root(data_type: DataType) -> TypeRoot | None:
    return data_type.root if isinstance(data_type, AtomicType) else None


def _scale(data_type: DataType) -> int:
    return (data_type.scale or 0) if isinstance(data_type, AtomicType) and data_type.root is TypeRoot.DECIMAL else -1
