"""Text casts: values to text as Java writes them, and text to values as Java reads it.

The functions take and return Arrow columns; each distinct value is converted once.
Source: docs/semantics/tables.md#casts; Java 2.0.0 (tests/format/java_casts.json).
"""

import calendar
import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    MILLIS_PER_DAY,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    arrow_type,
    date_of,
    days_of,
    timestamp_unit,
    type_to_sql,
    values_of,
)

_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})
_WHOLE: Final = re.compile(r"-?[0-9]+")
_INTEGER: Final = re.compile(r"([+-]?[0-9]*)(?:\.[0-9]*)?")
_FLOATING: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# Digits of any script.
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?")
_HEX_FLOAT: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_TIME: Final = re.compile(r"\s*([0-9]+)\s*(?::\s*([0-9]+)\s*(?::\s*([0-9]+)\s*(?:\.([0-9]*)\s*)?)?)?")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{0,9}))?)?"
)
_BLANKS: Final = "".join(map(chr, range(33)))
_HALF_UP: Final = Context(prec=400, rounding=ROUND_HALF_UP)
_PLAIN_BOUNDS: Final = (1e-3, 1e7)
_MOST_YEARS: Final = 9999
_DAY_NANOS: Final = MILLIS_PER_DAY * 1_000_000
_TICK_NANOS: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_HALF_OF_FLOAT: Final = 1 << 28  # Of the 29 bits that FLOAT has less than DOUBLE.


def to_text(array: pa.Array, source: DataType) -> pa.Array:
    """Return the values as text. REQUIRES: the array has the Arrow type of `source`, which is not a MULTISET."""
    if not isinstance(source, AtomicType):
        texts = [None if value is None else value_text(value, source) for value in values_of(array, source)]
        return pa.array(texts, pa.string())
    if source.root in STRING_ROOTS:
        return array
    if source.root in (*INTEGER_BITS, TypeRoot.BOOLEAN):
        return array.cast(pa.string())
    if source.root in TIMESTAMP_ROOTS:
        return _timestamp_texts(array, source)
    if source.root in (TypeRoot.DATE, TypeRoot.TIME):
        return _by_distinct(array.cast(pa.int32()), lambda value: value_text(value, source), pa.string())
    return _by_distinct(array, lambda value: value_text(value, source), pa.string())


def from_text(array: pa.Array, target: AtomicType) -> pa.Array:
    """Return the values of texts, as in Java. Raises UnsupportedFeature naming a text without a value.

    Decimals are rounded HALF_UP, and NULL where they do not fit. Whole numbers are days for DATE, milliseconds for
    TIME, and units of the precision for TIMESTAMP; integers drop a fraction.
    """
    read = partial(_READERS[target.root], target=target)

    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            shown = text if len(text) <= 100 else text[:97] + "..."
            raise UnsupportedFeature(
                f"The text {shown!r} cannot be read as {type_to_sql(target)}: give the column its old type again, "
                "correct the row, then change the type."
            ) from None

    return _by_distinct(array, convert, arrow_type(target))


def value_text(value: Any, data_type: DataType) -> str:
    """Return the text of a comparable value, not null."""
    match data_type:
        case AtomicType():
            return _atomic_text(value, data_type)
        case ArrayType(element):
            return f"[{', '.join(_part_text(item, element) for item in value)}]"
        case MapType(key, item_type):
            pairs = (f"{_part_text(k, key)} -> {_part_text(v, item_type)}" for k, v in value)
            return f"{{{', '.join(pairs)}}}"
        case RowType(fields):
            parts = (_part_text(item, field.type) for item, field in zip(value, fields, strict=True))
            return f"{{{', '.join(parts)}}}"
    raise UnsupportedFeature(f"Values of {type_to_sql(data_type)} have no text.")


def _part_text(value: Any, data_type: DataType) -> str:
    return "null" if value is None else value_text(value, data_type)


def _atomic_text(value: Any, data_type: AtomicType) -> str:
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return floating_text(value, is_single=data_type.root is TypeRoot.FLOAT)
        case TypeRoot.DECIMAL:
            return format(value, "f")
        case TypeRoot.DATE:
            return _date_text(value)
        case TypeRoot.TIME:
            return _time_text(value, data_type.precision or 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamp_text(value[0] * 1_000_000 + value[1], data_type.precision or 0)
        case root if root in BINARY_ROOTS:
            return bytes(value).decode(errors="replace")
    return str(value)


def floating_text(value: float, *, is_single: bool) -> str:
    """Return the shortest text of a number that means it, as Java 19 and newer write it: 1.0E7, 0.001, NaN."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not value:
        return str(value)
    number = np.float32(value) if is_single else np.float64(value)
    digits, _, exponent = np.format_float_scientific(number, unique=True, trim="-").partition("e")
    if _PLAIN_BOUNDS[0] <= abs(value) < _PLAIN_BOUNDS[1]:
        plain = format(Decimal(f"{digits}e{exponent}"), "f")
        return plain if "." in plain else f"{plain}.0"
    if "." not in digits:
        # Of one digit Java makes two, and those of them that come nearest.
        digits, _, exponent = f"{value:.1e}".partition("e")
    return f"{digits}E{int(exponent)}"


def _date_text(days: int) -> str:
    year, month, day = date_of(days)
    return f"{year:04}-{month:02}-{day:02}"


def _time_text(millis: int, precision: int) -> str:
    seconds, rest = divmod(millis, 1_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if not precision:
        return text
    fraction = f"{rest:03}"[:precision].rstrip("0")
    return f"{text}.{fraction or '0'}"


def _timestamp_texts(array: pa.Array, source: AtomicType) -> pa.Array:
    unit_nanos = _TICK_NANOS[timestamp_unit(source.precision or 0)]

    def text(ticks: int) -> str:
        return _timestamp_text(ticks * unit_nanos, source.precision or 0)

    return _by_distinct(array.cast(pa.int64()), text, pa.string())


def _timestamp_text(nanos: int, precision: int) -> str:
    days, rest = divmod(nanos, _DAY_NANOS)
    second, fraction = divmod(rest, 1_000_000_000)
    text = f"{_date_text(days)} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{text}.{fraction:09}"[: len(text) + 1 + precision] if precision else text


def _by_distinct(array: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    encoded = array.dictionary_encode()
    values = [convert(value) for value in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(values, kind), encoded.indices)


def _read_boolean(text: str, target: AtomicType) -> bool:
    word = text.lower()
    if word not in _TRUE and word not in _FALSE:
        raise ValueError
    return word in _TRUE


def _read_integer(text: str, target: AtomicType) -> int:
    match = _INTEGER.fullmatch(text)
    if match is None or text in ("", "+", "-"):
        raise ValueError
    return _ranged(int(match[1]) if match[1] not in ("", "+", "-") else 0, INTEGER_BITS[target.root])


def _ranged(number: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError
    return number


def _read_decimal(text: str, target: AtomicType) -> Decimal | None:
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError
    precision, scale = target.precision or 0, target.scale or 0
    value = Decimal(text)
    # Compared by magnitude first: quantizing 1E+999999 would build a million digits.
    if value and value.adjusted() >= precision - scale:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=_HALF_UP)
    return rounded if abs(rounded) < Decimal(10) ** (precision - scale) else None


def _read_floating(text: str, target: AtomicType) -> float:
    body = text.strip(_BLANKS)
    if body.lstrip("+-") in ("NaN", "Infinity") and len(body) - len(body.lstrip("+-")) <= 1:
        return float(body)
    plain = body[:-1] if body[-1:] in ("f", "F", "d", "D") and body[:2].lower() != "0x" else body
    if _FLOATING.fullmatch(plain):
        value = float(plain)
        return value if target.root is TypeRoot.DOUBLE else _single(value, plain)
    if _HEX_FLOAT.fullmatch(body):
        value = float.fromhex(body)
        return value if target.root is TypeRoot.DOUBLE else float(np.float32(value))
    raise ValueError


def _single(value: float, text: str) -> float:
    """Return the float rounded once: if the double is halfway between two singles, the remaining digits of the text
    decide.
    """
    bits = int(np.float64(value).view(np.int64))
    if bits & (2 * _HALF_OF_FLOAT - 1) == _HALF_OF_FLOAT and math.isfinite(value):
        exact = Decimal(text)
        if exact != Decimal(value):
            value = math.nextafter(value, math.inf if exact > Decimal(value) else -math.inf)
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(value))


def _read_date(text: str, target: AtomicType) -> int:
    if _WHOLE.fullmatch(text):
        return _ranged(int(text), 32)
    # A time after the first blank is ignored.
    blank = text.find(" ")
    parts = (text[:blank] if blank > 0 else text).split("-", 2)
    numbers = [_ranged(_digits(part), 32) for part in parts] + [1] * (3 - len(parts))
    if numbers[0] > _MOST_YEARS:
        raise ValueError
    return days_of(*numbers)


def _digits(text: str) -> int:
    stripped = text.strip(_BLANKS)
    if not stripped.isascii() or not stripped.isdecimal():
        raise ValueError
    return int(stripped)


def _read_time(text: str, target: AtomicType) -> int:
    if _WHOLE.fullmatch(text):
        millis = int(text)
        if not 0 <= millis < MILLIS_PER_DAY:
            raise ValueError
        return millis
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError
    # Minutes and seconds above 59 are carried over within the day.
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    fraction = match[4] or ""
    millis = int(fraction[:3].ljust(3, "0")) + (fraction[3:4] >= "5")
    total = (hour * 3600 + minute * 60 + second) * 1_000 + millis
    if total >= MILLIS_PER_DAY:
        raise ValueError
    return total


def _read_timestamp(text: str, target: AtomicType) -> int:
    precision = target.precision or 0
    unit_nanos = _TICK_NANOS[timestamp_unit(precision)]
    if _WHOLE.fullmatch(text) and target.root is TypeRoot.TIMESTAMP:
        if precision not in (0, 3, 6, 9):
            raise ValueError
        number = _ranged(int(text), 64)
        # Seconds become milliseconds with the overflow of Java's long.
        return number if precision else (number * 1_000 + (1 << 63)) % (1 << 64) - (1 << 63)
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError
    year, month, day = (int(part) for part in match.groups()[:3])
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    fraction = int((match[7] or "")[:precision].ljust(9, "0"))
    ends_day = (hour, minute, second, fraction) == (24, 0, 0, 0)
    if year == 0 or not 1 <= month <= 12 or not 1 <= day <= 31 or minute > 59 or second > 59:
        raise ValueError
    if hour > 23 and not ends_day:
        raise ValueError
    # A day beyond the end of a month, such as 30 February, is the month's last day.
    days = days_of(year, month, min(day, calendar.monthrange(year, month)[1]))
    nanos = (days * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000_000 + fraction
    ticks = nanos // unit_nanos
    if not -(1 << 63) <= ticks < 1 << 63:
        raise ValueError
    return ticks


_READERS: Final[dict[TypeRoot, Callable[..., Any]]] = {
    TypeRoot.BOOLEAN: _read_boolean,
    **dict.fromkeys(INTEGER_BITS, _read_integer),
    TypeRoot.DECIMAL: _read_decimal,
    TypeRoot.FLOAT: _read_floating,
    TypeRoot.DOUBLE: _read_floating,
    TypeRoot.DATE: _read_date,
    TypeRoot.TIME: _read_time,
    **dict.fromkeys(TIMESTAMP_ROOTS, _read_timestamp),
}
