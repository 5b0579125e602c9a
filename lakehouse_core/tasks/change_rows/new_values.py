"""New values: compute the columns that an update assigns, from the old rows.

Numbers are computed exactly or refused; a value must fit its column without loss, as in a write.
Source: docs/row-changes.md#new-values.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import AtomicType, DataField, arrow_type, parse_literal
from lakehouse_core.planning.row_changes.expressions import (
    ColumnValue,
    Default,
    Expression,
    Function,
    FunctionCall,
    Literal,
)
from lakehouse_core.table.predicate import scalar
from lakehouse_core.tasks.python_values import column_of
from lakehouse_core.tasks.write.input import input_batches

_ADVICE: Final = "Assign a value that fits the column."
_INT_32: Final = 1 << 31
_INT_64: Final = 1 << 63


def with_new_values(
    rows: pa.RecordBatch, assignments: Mapping[str, Expression], fields: Sequence[DataField]
) -> pa.RecordBatch:
    """Return the rows with the assigned columns replaced, where a default is in place of a null, as in a write. `rows`
    has exactly the columns `fields`.

    Raises InvalidRequest naming the column, for values that cannot be computed or do not fit.
    """
    columns = [
        _assigned(field, assignments[field.name], rows) if field.name in assignments else rows.column(field.name)
        for field in fields
    ]
    computed = pa.RecordBatch.from_arrays(columns, [field.name for field in fields])
    made = list(input_batches(computed, fields, advice=_ADVICE))
    whole = pa.Table.from_batches(made, made[0].schema) if made else pa.table(columns, names=rows.schema.names)
    return _one_batch(with_defaults(whole, assignments, fields))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _assigned(field: DataField, expression: Expression, rows: pa.RecordBatch) -> pa.Array:
    match expression:
        case Literal(value):
            return _repeated(column_of((value,), 0, field), rows.num_rows)
        case Default():
            return default_values(field, rows.num_rows)
        case _:
            try:
                return _evaluated(expression, rows)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise InvalidRequest(
                    f"New value of column {shown(field.name)}: it cannot be computed: {error}. Assign a value that "
                    "fits the column."
                ) from error


def default_values(field: DataField, count: int) -> pa.Array:
    """Return the default of the column, null without one, `count` times."""
    return _repeated(_default(field), count)


def with_defaults(rows: pa.Table, assigned: Collection[str], fields: Sequence[DataField]) -> pa.Table:
    """Return rows in which the nulls of the assigned columns are the default of their column, where it has one."""
    for number, field in enumerate(fields):
        if field.name in assigned and field.default_value is not None and rows.column(number).null_count:
            rows = rows.set_column(number, rows.schema.field(number), rows.column(number).fill_null(_default(field)[0]))
    return rows


def _default(field: DataField) -> pa.Array:
    if field.default_value is None or not isinstance(field.type, AtomicType):
        return pa.nulls(1, arrow_type(field.type))
    value = scalar(parse_literal(field.default_value, field.type), field.type)
    return pa.array([value], value.type)


def _repeated(one: pa.Array, count: int) -> pa.Array:
    return one.take(pa.array([0] * count, pa.int32()))


def _evaluated(expression: Expression, rows: pa.RecordBatch) -> pa.Array:
    match expression:
        case ColumnValue(name):
            return rows.column(name)
        case Literal(value):
            return _repeated(_literal(value), rows.num_rows)
        case Default():
            raise InvalidRequest("DEFAULT is a new value by itself, and no part of an expression. Write the value.")
        case FunctionCall(function, arguments):
            found = [_evaluated(argument, rows) for argument in arguments]
            return _FUNCTIONS[function](found)
        case _:
            assert_never(expression)


def _literal(value: Any) -> pa.Array:
    if isinstance(value, int) and not isinstance(value, bool):
        kind = pa.int32() if -_INT_32 <= value < _INT_32 else pa.int64() if -_INT_64 <= value < _INT_64 else None
        return pa.array([Decimal(value)] if kind is None else [value], kind)
    return pa.array([value])


def _arithmetic(name: str) -> Callable[[Sequence[pa.Array]], pa.Array]:
    def apply(arguments: Sequence[pa.Array]) -> pa.Array:
        if any(pa.types.is_null(each.type) for each in arguments):
            return pa.nulls(len(arguments[0]))
        left, right = arguments
        if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
            left, right = _wide(left), _wide(right)
        return pc.call_function(name, [left, right])

    return apply


def _wide(array: pa.Array) -> pa.Array:
    """Return decimals with room for the digits of a result; other numbers as they are."""
    kind = array.type
    return array.cast(pa.decimal256(kind.precision, kind.scale)) if pa.types.is_decimal128(kind) else array


def _concatenated(arguments: Sequence[pa.Array]) -> pa.Array:
    if any(pa.types.is_null(each.type) for each in arguments):
        return pa.nulls(len(arguments[0]), pa.string())
    return reduce(lambda left, right: pc.binary_join_element_wise(left, right, ""), arguments)


def _first_valid(arguments: Sequence[pa.Array]) -> pa.Array:
    return pc.coalesce(*arguments)


_FUNCTIONS: Final[Mapping[Function, Callable[[Sequence[pa.Array]], pa.Array]]] = {
    Function.ADD: _arithmetic("add_checked"),
    Function.SUBTRACT: _arithmetic("subtract_checked"),
    Function.MULTIPLY: _arithmetic("multiply_checked"),
    Function.CONCAT: _concatenated,
    Function.COALESCE: _first_valid,
}
