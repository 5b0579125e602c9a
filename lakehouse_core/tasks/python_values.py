"""Python values: convert them to Arrow columns of the table's types.

Source: docs/semantics/writing.md#write-path.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    arrow_type,
    timestamp_unit,
    to_internal,
)


def column_of(given: Iterable[Any], start: int, field: DataField) -> pa.Array:
    """Return the values as a column. Raises InvalidRequest naming the row, counted from `start`, and the column."""
    values = []
    for index, value in enumerate(given):
        try:
            values.append(arrow_value(to_internal(value, field.type), field.type))
        except InvalidRequest as error:
            raise InvalidRequest(f"Row {start + index}, column {shown(field.name)}: {error}") from error
    return pa.array(values, arrow_type(field.type))


def arrow_value(value: Any, data_type: DataType) -> Any:
    """Return a comparable value in the form that `pyarrow.array` accepts: integers for timestamps, so that no digit is
    lost.
    """
    if value is None:
        return None
    match data_type:
        case AtomicType(root=root, precision=precision) if root in TIMESTAMP_ROOTS:
            millis, nanos = value
            unit = timestamp_unit(precision if precision is not None else 6)
            return millis if unit == "ms" else millis * 1000 + nanos // 1000 if unit == "us" else millis * 10**6 + nanos
        case AtomicType():
            return value
        case ArrayType(element):
            return [arrow_value(item, element) for item in value]
        case MapType(key, item_type):
            return [(arrow_value(k, key), arrow_value(v, item_type)) for k, v in value]
        case MultisetType(element):
            return [(arrow_value(k, element), v) for k, v in value]
        case RowType(fields):
            return {part.name: arrow_value(item, part.type) for part, item in zip(fields, value, strict=True)}
