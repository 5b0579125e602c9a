"""Values of data types: what users write in Python or text ↔ the comparable values that everything here compares.

BOOLEAN is bool, integers int, DATE int days since 1970, TIME int milliseconds of the day, FLOAT and DOUBLE float,
strings str, binaries bytes, DECIMAL Decimal of exactly its scale, timestamps a tuple (milliseconds since 1970,
nanoseconds of the millisecond), ARRAY a tuple, MAP and MULTISET a tuple of (key, value), ROW a tuple. None is NULL.
Tuples of these order as Paimon orders them.
"""

import datetime
import math
import operator
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types.text import type_to_sql
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
    Root,
    RowType,
)

Timestamp = tuple[int, int]

MILLIS_PER_DAY: Final = 86_400_000
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_DAYS_PER_400_YEARS: Final = 146_097
# Wide enough for any product of scaling: quantizing a DECIMAL(38) must never round by context.
_EXACT: Final = Context(prec=100, Emin=-999999, Emax=999999, traps=[InvalidOperation])

_DATE: Final = re.compile(r"([+-]?\d{1,9})-(\d{1,2})-(\d{1,2})")
_TIME: Final = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?")
_ZONE: Final = re.compile(r"(Z|[+-]\d{2}:?\d{2})$", re.IGNORECASE)
_INTEGER: Final = re.compile(r"[+-]?\d{1,39}")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d{1,80}(?:\.\d{0,80})?|\.\d{1,80})(?:[eE][+-]?\d{1,3})?")
_TRUE: Final = frozenset({"true", "t", "yes", "y", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "0"})
_UNIT_NANOS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def to_internal(value: Any, data_type: DataType) -> Any:
    """Return the comparable value of a Python value, an Arrow scalar or (but for strings) its text.

    A naive datetime is UTC where the column is TIMESTAMP_LTZ. Integers stand for DATE as epoch days and tuples for
    timestamps, so that comparable values pass unchanged. Lengths of strings are not checked: files may hold longer
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
            return _pairs(value, element, AtomicType(Root.INT, False), data_type)
        case RowType(fields):
            if isinstance(value, Mapping):
                if unknown := set(value) - {field.name for field in fields}:
                    raise _misfit(value, data_type, f"it has no field {sorted(map(str, unknown))[0]}")
                return tuple(to_internal(value.get(field.name), field.type) for field in fields)
            items = _items(value, data_type)
            if len(items) != len(fields):
                raise _misfit(value, data_type, f"it has {len(fields)} fields")
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


def parse_literal(text: str, data_type: DataType) -> Any:
    """Return the comparable value that text stands for, as in a partition specification or a SQL literal.

    Strings are taken as they are and binaries as UTF-8. Raises InvalidRequest when the text does not parse or fit.
    """
    if not isinstance(data_type, AtomicType) or data_type.root is Root.VARIANT:
        raise InvalidRequest(f"{text[:100]!r}: text cannot stand for a value of {type_to_sql(data_type)}.")
    root = data_type.root
    if root in STRING_ROOTS:
        return text
    if root in BINARY_ROOTS:
        return text.encode()
    return _PARSERS[root](text, data_type)


def days_of(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar; any year. Raises ValueError for no such day."""
    cycles, year_in_cycle = divmod(year - 1, 400)
    ordinal = datetime.date(year_in_cycle + 1, month, day).toordinal()
    return ordinal + cycles * _DAYS_PER_400_YEARS - _EPOCH_DAY


def date_of(days: int) -> tuple[int, int, int]:
    """Return (year, month, day) of days since 1970-01-01; any year."""
    cycles, day_in_cycle = divmod(days + _EPOCH_DAY - 1, _DAYS_PER_400_YEARS)
    date = datetime.date.fromordinal(day_in_cycle + 1)
    return date.year + cycles * 400, date.month, date.day


_EXAMPLES: Final = {
    Root.BOOLEAN: "write true or false",
    Root.TINYINT: "write a whole number",
    Root.SMALLINT: "write a whole number",
    Root.INT: "write a whole number",
    Root.BIGINT: "write a whole number",
    Root.FLOAT: "write a number such as 1.5, NaN or Infinity",
    Root.DOUBLE: "write a number such as 1.5, NaN or Infinity",
    Root.DECIMAL: "write a number such as 12.50",
    Root.DATE: "write a date such as 2013-01-31",
    Root.TIME: "write a time such as 23:59:59.999",
    Root.TIMESTAMP: "write a time such as 2013-01-31 23:59:59.999",
    Root.TIMESTAMP_LTZ: "write a time such as 2013-01-31T23:59:59Z",
}


def _misfit(value: Any, data_type: DataType, problem: str) -> InvalidRequest:
    shown = repr(value)
    shown = shown if len(shown) <= 100 else shown[:97] + "..."
    return InvalidRequest(f"{shown} is no value of {type_to_sql(data_type)}: {problem}.")


def _from_scalar(scalar: pa.Scalar) -> Any:
    """Arrow's own conversion needs pandas for nanoseconds, so timestamps and times go by their integers."""
    if isinstance(scalar, pa.TimestampScalar) and scalar.is_valid:
        return _split_nanos(scalar.value * _UNIT_NANOS[scalar.type.unit])
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


def _split_nanos(nanos: int) -> Timestamp:
    millis, rest = divmod(nanos, 1_000_000)
    return millis, rest


def _items(value: Any, data_type: DataType) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _misfit(value, data_type, "write a list")
    return list(value)


def _pairs(value: Any, key: DataType, item_type: DataType, data_type: DataType) -> tuple[tuple[Any, Any], ...]:
    pairs = list(value.items()) if isinstance(value, Mapping) else _items(value, data_type)
    if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
        raise _misfit(value, data_type, "write a dict or a list of (key, value)")
    if any(pair[0] is None for pair in pairs):
        raise _misfit(value, data_type, "a key is null")
    return tuple((to_internal(k, key), to_internal(v, item_type)) for k, v in pairs)


def _atomic(value: Any, data_type: AtomicType) -> Any:
    root = data_type.root
    if isinstance(value, str):
        return parse_literal(value, data_type)
    if root in STRING_ROOTS:
        raise _misfit(value, data_type, "write text")
    if root in BINARY_ROOTS:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise _misfit(value, data_type, "write bytes")
    if root not in _CONVERTERS:
        raise _misfit(value, data_type, "such values cannot be written here")
    return _CONVERTERS[root](value, data_type)


def _parse_boolean(text: str, data_type: AtomicType) -> bool:
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise _misfit(text, data_type, _EXAMPLES[data_type.root])


def _parse_integer(text: str, data_type: AtomicType) -> int:
    if _INTEGER.fullmatch(text.strip()):
        return _ranged(int(text), data_type)
    raise _misfit(text, data_type, _EXAMPLES[data_type.root])


def _parse_decimal(text: str, data_type: AtomicType) -> Decimal:
    if _DECIMAL.fullmatch(text.strip()):
        return _decimal(Decimal(text.strip()), data_type)
    raise _misfit(text, data_type, _EXAMPLES[data_type.root])


def _parse_date(text: str, data_type: AtomicType) -> int:
    if match := _DATE.fullmatch(text.strip()):
        return _days(match, text, data_type)
    raise _misfit(text, data_type, _EXAMPLES[data_type.root])


def _parse_time(text: str, data_type: AtomicType) -> int:
    if match := _TIME.fullmatch(text.strip()):
        return _millis_of_day(_nanos_of_day(match, text, data_type), text, data_type)
    raise _misfit(text, data_type, _EXAMPLES[data_type.root])


def _to_boolean(value: Any, data_type: AtomicType) -> bool:
    if isinstance(value, bool):
        return value
    raise _misfit(value, data_type, _EXAMPLES[data_type.root])


def _to_integer(value: Any, data_type: AtomicType) -> int:
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        return _ranged(operator.index(value), data_type)
    if isinstance(value, Decimal | float) and math.isfinite(value) and value == int(value):
        return _ranged(int(value), data_type)
    raise _misfit(value, data_type, _EXAMPLES[data_type.root])


def _to_floating(value: Any, data_type: AtomicType) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise _misfit(value, data_type, _EXAMPLES[data_type.root])
    try:
        found = float(value)
    except OverflowError:
        raise _misfit(value, data_type, "it is out of range") from None
    if math.isinf(found) and isinstance(value, Decimal) and value.is_finite():
        raise _misfit(value, data_type, "it is out of range")
    return _floating(found, data_type)


def _ranged(value: int, data_type: AtomicType) -> int:
    limit = 1 << (INTEGER_BITS[data_type.root] - 1)
    if not -limit <= value < limit:
        raise _misfit(value, data_type, f"it lies outside {-limit} to {limit - 1}")
    return value


def _parse_floating(text: str, data_type: AtomicType) -> float:
    stripped = text.strip()
    # Python reads 1_000 and "infinity" in any case, too; a literal of a table does not mean that.
    if stripped in ("NaN", "Infinity", "-Infinity", "+Infinity") or _DECIMAL.fullmatch(stripped):
        return _floating(float(stripped), data_type)
    raise _misfit(text, data_type, _EXAMPLES[data_type.root])


def _floating(value: float, data_type: AtomicType) -> float:
    """FLOAT values are rounded to the nearest single-precision number, as the file holds them."""
    if data_type.root is Root.DOUBLE or not math.isfinite(value):
        return value
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        raise _misfit(value, data_type, "it is out of range") from None
    return float(single)


def _to_decimal(value: Any, data_type: AtomicType) -> Decimal:
    if isinstance(value, Decimal):
        return _decimal(value, data_type)
    if isinstance(value, float):
        # The shortest text that means the float is what the user typed.
        return _decimal(Decimal(repr(float(value))), data_type)
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return _decimal(Decimal(operator.index(value)), data_type)
    raise _misfit(value, data_type, _EXAMPLES[Root.DECIMAL])


def _decimal(value: Decimal, data_type: AtomicType) -> Decimal:
    precision, scale = data_type.precision, data_type.scale
    assert precision is not None
    assert scale is not None
    if not value.is_finite():
        raise _misfit(value, data_type, "it is not finite")
    # Compared by magnitude first: quantizing 1E+999999 would build a million digits.
    if value and value.adjusted() >= precision - scale:
        raise _misfit(value, data_type, f"it has more than {precision - scale} digits before the point")
    if value and value.adjusted() < -scale - _EXACT.prec:
        raise _misfit(value, data_type, f"it has more than {scale} digits after the point")
    fitted = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if fitted != value:
        raise _misfit(value, data_type, f"it has more than {scale} digits after the point")
    return fitted if fitted else abs(fitted)


def _to_days(value: Any, data_type: AtomicType) -> int:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None or value.time() != datetime.time():
            raise _misfit(value, data_type, "it has a time of day")
        value = value.date()
    if isinstance(value, datetime.date):
        return value.toordinal() - _EPOCH_DAY
    if hasattr(value, "__index__") and not isinstance(value, bool):
        days = operator.index(value)
        if -(1 << 31) <= days < 1 << 31:
            return days
    raise _misfit(value, data_type, _EXAMPLES[Root.DATE])


def _days(match: re.Match[str], text: str, data_type: AtomicType) -> int:
    try:
        days = days_of(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise _misfit(text, data_type, "the calendar has no such day") from None
    if not -(1 << 31) <= days < 1 << 31:
        raise _misfit(text, data_type, "it is out of range")
    return days


def _to_millis_of_day(value: Any, data_type: AtomicType) -> int:
    if isinstance(value, datetime.time) and value.tzinfo is None:
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return _millis_of_day(seconds * 1_000_000_000 + value.microsecond * 1_000, value, data_type)
    if hasattr(value, "__index__") and not isinstance(value, bool) and 0 <= operator.index(value) < MILLIS_PER_DAY:
        return operator.index(value)
    raise _misfit(value, data_type, _EXAMPLES[Root.TIME])


def _nanos_of_day(match: re.Match[str], text: str, data_type: AtomicType) -> int:
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise _misfit(text, data_type, "the clock has no such time")
    return (hour * 3600 + minute * 60 + second) * 1_000_000_000 + int((match[4] or "").ljust(9, "0"))


def _millis_of_day(nanos: int, value: Any, data_type: AtomicType) -> int:
    # Whatever its precision says, a TIME is stored in milliseconds.
    if nanos % 1_000_000:
        raise _misfit(value, data_type, "times are held in milliseconds")
    return nanos // 1_000_000


def _to_timestamp(value: Any, data_type: AtomicType) -> Timestamp:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            if data_type.root is Root.TIMESTAMP:
                raise _misfit(value, data_type, "it has a time zone and the column has none")
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        micros = (value - _EPOCH) // datetime.timedelta(microseconds=1)
        return _fitted(_split_nanos(micros * 1_000), value, data_type)
    if isinstance(value, datetime.date):
        return (value.toordinal() - _EPOCH_DAY) * MILLIS_PER_DAY, 0
    if isinstance(value, tuple) and len(value) == 2 and all(type(part) is int for part in value):
        millis, nanos = value
        if -(1 << 63) <= millis < 1 << 63 and 0 <= nanos < 1_000_000:
            return _fitted((millis, nanos), value, data_type)
    raise _misfit(value, data_type, _EXAMPLES[data_type.root])


def _parse_timestamp(text: str, data_type: AtomicType) -> Timestamp:
    text = text.strip()
    body, offset_minutes = text, 0
    zone = _ZONE.search(text) if ":" in text else None
    if zone is not None:
        if data_type.root is Root.TIMESTAMP:
            raise _misfit(text, data_type, "it has a time zone and the column has none")
        body = text[: zone.start()].rstrip()
        if zone[1] not in "Zz":
            digits = zone[1][1:].replace(":", "")
            offset_minutes = int(digits[:2]) * 60 + int(digits[2:])
            offset_minutes = -offset_minutes if zone[1][0] == "-" else offset_minutes
    date, _, time = body.replace("T", " ", 1).partition(" ")
    date_match, time_match = _DATE.fullmatch(date), _TIME.fullmatch(time or "00:00")
    if date_match is None or time_match is None:
        raise _misfit(text, data_type, _EXAMPLES[data_type.root])
    days = _days(date_match, text, data_type)
    millis, nanos = _split_nanos(_nanos_of_day(time_match, text, data_type))
    return _fitted((days * MILLIS_PER_DAY + millis - offset_minutes * 60_000, nanos), text, data_type)


def _fitted(value: Timestamp, shown: Any, data_type: AtomicType) -> Timestamp:
    assert data_type.precision is not None
    if (value[0] % 1_000 * 1_000_000 + value[1]) % 10 ** (9 - data_type.precision):
        raise _misfit(shown, data_type, f"it has more than {data_type.precision} digits of a second")
    return value


def _to_python(value: Any, data_type: AtomicType) -> Any:
    try:
        match data_type.root:
            case Root.DATE:
                return datetime.date.fromordinal(value + _EPOCH_DAY)
            case Root.TIME:
                return (datetime.datetime.min + datetime.timedelta(milliseconds=value)).time()
            case root if root in TIMESTAMP_ROOTS:
                millis, nanos = value
                if nanos % 1_000:
                    raise _misfit(value, data_type, "a datetime holds no nanoseconds: read it as Arrow")
                zone = datetime.UTC if root is Root.TIMESTAMP_LTZ else None
                moment = _EPOCH + datetime.timedelta(milliseconds=millis, microseconds=nanos // 1_000)
                return moment.replace(tzinfo=zone)
    except (OverflowError, ValueError):
        raise _misfit(value, data_type, "Python's dates end with the year 9999: read it as Arrow") from None
    return value


_PARSERS: Final[dict[Root, Callable[[str, AtomicType], Any]]] = {
    Root.BOOLEAN: _parse_boolean,
    **dict.fromkeys(INTEGER_BITS, _parse_integer),
    Root.FLOAT: _parse_floating,
    Root.DOUBLE: _parse_floating,
    Root.DECIMAL: _parse_decimal,
    Root.DATE: _parse_date,
    Root.TIME: _parse_time,
    Root.TIMESTAMP: _parse_timestamp,
    Root.TIMESTAMP_LTZ: _parse_timestamp,
}
_CONVERTERS: Final[dict[Root, Callable[[Any, AtomicType], Any]]] = {
    Root.BOOLEAN: _to_boolean,
    **dict.fromkeys(INTEGER_BITS, _to_integer),
    Root.FLOAT: _to_floating,
    Root.DOUBLE: _to_floating,
    Root.DECIMAL: _to_decimal,
    Root.DATE: _to_days,
    Root.TIME: _to_millis_of_day,
    Root.TIMESTAMP: _to_timestamp,
    Root.TIMESTAMP_LTZ: _to_timestamp,
}
