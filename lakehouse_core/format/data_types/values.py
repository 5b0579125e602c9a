"""Values of data types: convert Python values and texts to the comparable values of the core, and back.

BOOLEAN is bool, integers int, DATE int days since 1970, TIME int milliseconds of the day, FLOAT and DOUBLE float,
strings str, binaries bytes, DECIMAL Decimal of exactly its scale, timestamps a tuple (milliseconds since 1970,
nanoseconds of the millisecond), ARRAY a tuple, MAP and MULTISET a tuple of (key, value), ROW a tuple. None is NULL.
Tuples of these order as Paimon orders them.
"""

import datetime
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.format.data_types.days import EPOCH_DAY, MILLIS_PER_DAY, Timestamp, split_nanos
from lakehouse_core.format.data_types.fitting import (
    EXAMPLES,
    fit_decimal,
    fit_float,
    fit_integer,
    fit_time,
    fit_timestamp,
    misfit,
)
from lakehouse_core.format.data_types.literals import parse_literal
from lakehouse_core.format.data_types.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_UNIT_NANOS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def to_internal(value: Any, data_type: DataType) -> Any:
    """Return the comparable value of a Python value, an Arrow scalar or (but for strings) its text.

    A naive datetime is UTC where the column is TIMESTAMP_LTZ. Integers are days since 1970 for DATE, and tuples are
    timestamps, so comparable values are returned unchanged. Lengths of strings are not checked: files may hold longer
    ones. Raises InvalidRequest when the value is of another kind, out of range, or has more digits than the type holds.
    """
    if isinstance(value, pa.Scalar):
        value = _from_scalar(value)
    if value is None:
        return None
    match data_type:
        case AtomicType():
            return _atomic(value, data_type)
        case ArrayType(element):
            return tuple(to_internal(item, element) for item in _items(value, data_type))
        case MapType(key, item_type):
            return _pairs(value, key, item_type, data_type)
        case MultisetType(element):
            return _pairs(value, element, AtomicType(TypeRoot.INT, False), data_type)
        case RowType(fields):
            if isinstance(value, Mapping):
                if unknown := set(value) - {field.name for field in fields}:
                    raise misfit(value, data_type, f"it has no field {sorted(map(str, unknown))[0]}")
                return tuple(to_internal(value.get(field.name), field.type) for field in fields)
            items = _items(value, data_type)
            if len(items) != len(fields):
                raise misfit(value, data_type, f"it has {len(fields)} fields")
            return tuple(to_internal(item, field.type) for item, field in zip(items, fields, strict=True))


def from_internal(value: Any, data_type: DataType) -> Any:
    """Return the Python value of a comparable value: date, time, datetime (UTC for TIMESTAMP_LTZ), list, dict, ….

    Raises InvalidRequest where Python's types cannot hold it: years beyond 1–9999, nanoseconds.
    """
    if value is None:
        return None
    match data_type:
        case AtomicType():
            return _to_python(value, data_type)
        case ArrayType(element):
            return [from_internal(item, element) for item in value]
        case MapType(key, item_type):
            return [(from_internal(k, key), from_internal(v, item_type)) for k, v in value]
        case MultisetType(element):
            return [(from_internal(k, element), v) for k, v in value]
        case RowType(fields):
            pairs = zip(fields, value, strict=True)
            return {field.name: from_internal(item, field.type) for field, item in pairs}


def _from_scalar(scalar: pa.Scalar) -> Any:
    """Return the Python value of an Arrow scalar. Arrow's own conversion needs pandas for nanoseconds, so timestamps
    and times are converted by their integers.
    """
    if isinstance(scalar, pa.TimestampScalar) and scalar.is_valid:
        return split_nanos(scalar.value * _UNIT_NANOS[scalar.type.unit])
    if isinstance(scalar, pa.Time64Scalar) and scalar.is_valid:
        nanos = scalar.value * _UNIT_NANOS[scalar.type.unit]
        return _time_text(nanos)
    try:
        return scalar.as_py()
    except OverflowError:
        if not isinstance(scalar, pa.Date32Scalar):
            raise
        # A year that Python's dates do not have.
        return scalar.value


def _time_text(nanos_of_day: int) -> str:
    seconds, nanos = divmod(nanos_of_day, 1_000_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{nanos:09}"


def _items(value: Any, data_type: DataType) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise misfit(value, data_type, "write a list")
    return list(value)


def _pairs(value: Any, key: DataType, item_type: DataType, data_type: DataType) -> tuple[tuple[Any, Any], ...]:
    pairs = list(value.items()) if isinstance(value, Mapping) else _items(value, data_type)
    if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
        raise misfit(value, data_type, "write a dict or a list of (key, value)")
    if any(pair[0] is None for pair in pairs):
        raise misfit(value, data_type, "a key is null")
    return tuple((to_internal(k, key), to_internal(v, item_type)) for k, v in pairs)


def _atomic(value: Any, data_type: AtomicType) -> Any:
    root = data_type.root
    if isinstance(value, str):
        return parse_literal(value, data_type)
    if root in STRING_ROOTS:
        raise misfit(value, data_type, "write text")
    if root in BINARY_ROOTS:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise misfit(value, data_type, "write bytes")
    if root not in _CONVERTERS:
        raise misfit(value, data_type, "such values cannot be written here")
    return _CONVERTERS[root](value, data_type)


def _to_boolean(value: Any, data_type: AtomicType) -> bool:
    if isinstance(value, bool):
        return value
    raise misfit(value, data_type, EXAMPLES[data_type.root])


def _to_integer(value: Any, data_type: AtomicType) -> int:
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        return fit_integer(operator.index(value), data_type)
    if isinstance(value, Decimal | float) and math.isfinite(value) and value == int(value):
        return fit_integer(int(value), data_type)
    raise misfit(value, data_type, EXAMPLES[data_type.root])


def _to_floating(value: Any, data_type: AtomicType) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise misfit(value, data_type, EXAMPLES[data_type.root])
    try:
        found = float(value)
    except OverflowError:
        raise misfit(value, data_type, "it is out of range") from None
    if math.isinf(found) and isinstance(value, Decimal) and value.is_finite():
        raise misfit(value, data_type, "it is out of range")
    return fit_float(found, data_type)


def _to_decimal(value: Any, data_type: AtomicType) -> Decimal:
    if isinstance(value, Decimal):
        return fit_decimal(value, data_type)
    if isinstance(value, float):
        # The shortest text that means the float is what the user typed.
        return fit_decimal(Decimal(repr(float(value))), data_type)
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return fit_decimal(Decimal(operator.index(value)), data_type)
    raise misfit(value, data_type, EXAMPLES[TypeRoot.DECIMAL])


def _to_days(value: Any, data_type: AtomicType) -> int:
    if isinstance(value, datetime.datetime):
        nanos = _nanoseconds(value, data_type)
        if value.tzinfo is not None or value.time() != datetime.time() or nanos:
            raise misfit(value, data_type, "it has a time of day")
        value = value.date()
    if isinstance(value, datetime.date):
        return value.toordinal() - EPOCH_DAY
    if hasattr(value, "__index__") and not isinstance(value, bool):
        days = operator.index(value)
        if -(1 << 31) <= days < 1 << 31:
            return days
    raise misfit(value, data_type, EXAMPLES[TypeRoot.DATE])


def _to_millis_of_day(value: Any, data_type: AtomicType) -> int:
    if isinstance(value, datetime.time) and value.tzinfo is None:
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return fit_time(seconds * 1_000_000_000 + value.microsecond * 1_000, value, data_type)
    if hasattr(value, "__index__") and not isinstance(value, bool) and 0 <= operator.index(value) < MILLIS_PER_DAY:
        return operator.index(value)
    raise misfit(value, data_type, EXAMPLES[TypeRoot.TIME])


def _to_timestamp(value: Any, data_type: AtomicType) -> Timestamp:
    if isinstance(value, datetime.datetime):
        nanos = _nanoseconds(value, data_type)
        if value.tzinfo is not None:
            if data_type.root is TypeRoot.TIMESTAMP:
                raise misfit(value, data_type, "it has a time zone and the column has none")
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        micros = (value - _EPOCH) // datetime.timedelta(microseconds=1)
        return fit_timestamp(split_nanos(micros * 1_000 + nanos), value, data_type)
    if isinstance(value, datetime.date):
        return (value.toordinal() - EPOCH_DAY) * MILLIS_PER_DAY, 0
    if isinstance(value, tuple) and len(value) == 2 and all(type(part) is int for part in value):
        millis, nanos = value
        if -(1 << 63) <= millis < 1 << 63 and 0 <= nanos < 1_000_000:
            return fit_timestamp((millis, nanos), value, data_type)
    raise misfit(value, data_type, EXAMPLES[data_type.root])


def _nanoseconds(value: datetime.datetime, data_type: AtomicType) -> int:
    """Return the nanoseconds of a pandas timestamp below a microsecond. Raises InvalidRequest for NaT, which is not a
    time.
    """
    if type(value).__name__ == "NaTType":
        raise misfit(value, data_type, "write None for a missing value")
    found: int = getattr(value, "nanosecond", 0)
    return found


def _to_python(value: Any, data_type: AtomicType) -> Any:
    try:
        match data_type.root:
            case TypeRoot.DATE:
                return datetime.date.fromordinal(value + EPOCH_DAY)
            case TypeRoot.TIME:
                return (datetime.datetime.min + datetime.timedelta(milliseconds=value)).time()
            case root if root in TIMESTAMP_ROOTS:
                millis, nanos = value
                if nanos % 1_000:
                    raise misfit(value, data_type, "a datetime holds no nanoseconds: read it as Arrow")
                zone = datetime.UTC if root is TypeRoot.TIMESTAMP_LTZ else None
                moment = _EPOCH + datetime.timedelta(milliseconds=millis, microseconds=nanos // 1_000)
                return moment.replace(tzinfo=zone)
    except (OverflowError, ValueError):
        raise misfit(value, data_type, "Python's dates end with the year 9999: read it as Arrow") from None
    return value


_CONVERTERS: Final[dict[TypeRoot, Callable[[Any, AtomicType], Any]]] = {
    TypeRoot.BOOLEAN: _to_boolean,
    **dict.fromkeys(INTEGER_BITS, _to_integer),
    TypeRoot.FLOAT: _to_floating,
    TypeRoot.DOUBLE: _to_floating,
    TypeRoot.DECIMAL: _to_decimal,
    TypeRoot.DATE: _to_days,
    TypeRoot.TIME: _to_millis_of_day,
    TypeRoot.TIMESTAMP: _to_timestamp,
    TypeRoot.TIMESTAMP_LTZ: _to_timestamp,
}
