"""Arrow rows in the JSON of the judge: both sides of every comparison with Java speak it."""

import datetime
import decimal
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from lakehouse_core.format.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    arrow_schema,
    date_of,
)

Row = dict[str, Any]
_EPOCH = datetime.datetime(1970, 1, 1)


def java_rows(table: pa.Table, fields: Sequence[DataField]) -> list[Row]:
    """Return the rows of `table` (its columns are those of `fields`, by name) as the judge would print them."""
    columns = [
        [java_value(value, field.type) for value in _plain(table.column(field.name).combine_chunks())]
        for field in fields
    ]
    names = [field.name for field in fields]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if table.num_rows else []


def canonical(rows: Iterable[Row]) -> list[str]:
    """Return the rows as sorted text, without row kinds: what a batch read means."""
    return sorted(
        json.dumps({name: value for name, value in row.items() if name != "_kind"}, sort_keys=True) for row in rows
    )


def canonical_changes(rows: Iterable[Row]) -> list[str]:
    """Return the rows as sorted text, with row kinds."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def _plain(array: pa.Array) -> list[Any]:
    # Nanoseconds have no Python value: such a column goes as integers.
    if pa.types.is_timestamp(array.type):
        unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[array.type.unit]
        return [None if value is None else value * unit for value in array.cast(pa.int64()).to_pylist()]
    return array.to_pylist()  # type: ignore[no-any-return]


def java_value(value: Any, type_: DataType) -> Any:
    """Return one value as the judge prints it."""
    if value is None:
        return None
    match type_:
        case ArrayType(element=element):
            return [java_value(part, element) for part in value]
        case MapType(key=key, value=inner):
            pairs = [[java_value(k, key), java_value(v, inner)] for k, v in value]
            return sorted(pairs, key=lambda pair: json.dumps(pair[0]))
        case MultisetType(element=element):
            return sorted(([java_value(k, element), v] for k, v in value), key=lambda pair: json.dumps(pair[0]))
        case RowType(fields=fields):
            return {field.name: java_value(value[field.name], field.type) for field in fields}
        case AtomicType(root=root):
            if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
                return _floating(value)
            if root is TypeRoot.DECIMAL:
                return format(value, "f")
            if isinstance(value, bytes):
                return value.hex()
            if root is TypeRoot.DATE:
                return value.isoformat()
            if root is TypeRoot.TIME:
                return _fraction(value.isoformat(timespec="seconds"), value.microsecond * 1000, type_.precision or 0)
            if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
                return _timestamp(value, type_)
            return value


def _floating(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _timestamp(value: Any, type_: AtomicType) -> str:
    nanos = value
    if isinstance(value, datetime.datetime):
        delta = value.replace(tzinfo=None) - _EPOCH
        nanos = ((delta.days * 86400 + delta.seconds) * 10**6 + delta.microseconds) * 1000
    seconds, fraction = divmod(nanos, 10**9)
    days, second = divmod(seconds, 86400)
    # Python's dates begin with the year 1, and Java's ORC has some of the year before.
    year, month, day = date_of(days)
    text = f"{year:04}-{month:02}-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    precision = 6 if type_.precision is None else type_.precision
    return _fraction(text, fraction, precision) + ("Z" if type_.root is TypeRoot.TIMESTAMP_LTZ else "")


def _fraction(text: str, nanos: int, precision: int) -> str:
    return f"{text}.{nanos:09d}"[: len(text) + 1 + precision] if precision else text


def arrow_rows(rows: Sequence[Row], fields: Sequence[DataField]) -> pa.Table:
    """Return rows in the judge's JSON as Arrow columns of the table's types; missing columns are null."""
    schema = arrow_schema(fields)
    columns = [
        pa.array([python_value(row.get(field.name), field.type) for row in rows], arrow.type)
        for field, arrow in zip(fields, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def python_value(value: Any, type_: DataType) -> Any:
    """Return the Python value that Arrow takes for a value in the judge's JSON."""
    if value is None:
        return None
    match type_:
        case ArrayType(element=element):
            return [python_value(part, element) for part in value]
        case MapType(key=key, value=inner):
            return [(python_value(k, key), python_value(v, inner)) for k, v in value]
        case MultisetType(element=element):
            return [(python_value(k, element), v) for k, v in value]
        case RowType(fields=fields):
            return {field.name: python_value(value[field.name], field.type) for field in fields}
        case AtomicType(root=root):
            if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
                return float(value)
            if root is TypeRoot.DECIMAL:
                return decimal.Decimal(value)
            if root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
                return bytes.fromhex(value)
            if root is TypeRoot.DATE:
                return datetime.date.fromisoformat(value)
            if root is TypeRoot.TIME:
                return datetime.time.fromisoformat(value)
            if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
                zone = datetime.UTC if root is TypeRoot.TIMESTAMP_LTZ else None
                return datetime.datetime.fromisoformat(value.removesuffix("Z")).replace(tzinfo=zone)
            return value
