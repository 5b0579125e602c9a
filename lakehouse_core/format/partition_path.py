"""Partition values as folder names, and as text for people.

The folder of a partition is a function of its values alone, and Java must find the same one: never change a text here.
Source: docs/format/buckets.md#partition-directory.
"""

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    MILLIS_PER_DAY,
    STRING_ROOTS,
    AtomicType,
    DataType,
    Timestamp,
    TypeRoot,
    date_of,
    type_to_sql,
)

_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\[\\\]^{}]")


def partition_path(
    names: Sequence[str], types: Sequence[DataType], values: Sequence[Any], *, default_name: str, legacy: bool
) -> str:
    """Return the folder of a partition below the table, such as `dt=19723/h=7/`; "" for a table without partitions.

    `values` are comparable values in the order of the partition keys. `legacy` is the option `partition.legacy-name`:
    dates and times as numbers. Nulls and blank texts share the folder `default_name`.
    """
    parts = []
    for name, data_type, value in zip(names, types, values, strict=True):
        text = default_name if value is None else value_text(value, data_type, legacy=legacy)
        parts.append(f"{escape(name)}={escape(text if text.strip(JAVA_BLANKS) else default_name)}/")
    return "".join(parts)


def partition_spec_text(
    names: Sequence[str], types: Sequence[DataType], values: Sequence[Any], *, default_name: str
) -> dict[str, str]:
    """Return the values of a partition as text for people and metadata, such as `2013-01-01`; null is `default_name`.

    `parse_literal` reads each text back, but for null.
    """
    return {
        name: default_name if value is None else value_text(value, data_type, legacy=False)
        for name, data_type, value in zip(names, types, values, strict=True)
    }


def escape(text: str) -> str:
    """Return the text as part of a folder name: characters with a meaning in paths become %XX."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


# What Java's Character.isWhitespace takes for blank: not the no-break spaces, which Python strips, too.
JAVA_BLANKS: Final = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)


def value_text(value: Any, data_type: DataType, *, legacy: bool) -> str:
    """Return a comparable value, not null, as text; `legacy` as in `partition_path`. Raises InvalidRequest for types
    without a stable text.
    """
    assert isinstance(data_type, AtomicType)
    root = data_type.root
    if root in STRING_ROOTS:
        return str(value)
    if root in INTEGER_BITS or (legacy and root in (TypeRoot.DATE, TypeRoot.TIME)):
        return str(value)
    match root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _floating_text(value, single=root is TypeRoot.FLOAT)
        case TypeRoot.DECIMAL:
            return _decimal_text(value, data_type)
        case TypeRoot.DATE:
            return _date_text(value)
        case TypeRoot.TIME:
            return _time_text(value, data_type)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _legacy_timestamp_text(value) if legacy else _timestamp_text(value, data_type)
    if root in BINARY_ROOTS and not legacy:
        return bytes(value).decode("utf-8", errors="replace")
    raise InvalidRequest(f"A value of {type_to_sql(data_type)} has no stable folder name: partition by another type.")


def _floating_text(value: float, *, single: bool) -> str:
    """Return Java's text: at least one digit after the point, an exponent below 0.001 and from 10,000,000.

    It is the shortest that means the number, as Java has it since version 19. Older Javas print more digits than
    needed for some numbers (9.999999999999999E22), so that they look for such a partition in another folder.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    shortest = np.format_float_scientific(np.float32(value) if single else np.float64(value), unique=True, trim="-")
    mantissa, _, exponent_text = shortest.partition("e")
    if len(mantissa.lstrip("-")) == 1:
        # Java never prints one digit alone, and of the texts with two it takes the nearest (4.9E-324, not 5.0E-324).
        mantissa, _, exponent_text = f"{value:.1e}".partition("e")
    exponent = int(exponent_text)
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-").replace(".", "").rstrip("0")
    if -3 <= exponent < 7:
        plain = format(Decimal(f"{sign}{digits}E{exponent - len(digits) + 1}"), "f")
        return plain if "." in plain else f"{plain}.0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _decimal_text(value: Decimal, data_type: AtomicType) -> str:
    return format(value, f".{data_type.scale}f")


def _date_text(days: int) -> str:
    year, month, day = date_of(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _clock_text(millis_of_day: int) -> str:
    seconds = millis_of_day // 1_000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _time_text(millis_of_day: int, data_type: AtomicType) -> str:
    """Return the clock with the digits that the precision has room for and the value needs, one at least."""
    fraction = f"{millis_of_day % 1_000:03}"[: data_type.precision]
    return _clock_text(millis_of_day) + (f".{fraction[0]}{fraction[1:].rstrip('0')}" if fraction else "")


def _split(value: Timestamp) -> tuple[str, int, int]:
    """Return the date's text, the milliseconds of the day and the nanoseconds of the second."""
    millis, nanos = value
    days, millis_of_day = divmod(millis, MILLIS_PER_DAY)
    return _date_text(days), millis_of_day, millis_of_day % 1_000 * 1_000_000 + nanos


def _timestamp_text(value: Timestamp, data_type: AtomicType) -> str:
    date, millis_of_day, nanos = _split(value)
    fraction = f"{nanos:09}"[: data_type.precision]
    return f"{date} {_clock_text(millis_of_day)}" + (f".{fraction}" if fraction else "")


def _legacy_timestamp_text(value: Timestamp) -> str:
    """Return ISO text in its shortest form: no seconds when they are 0, the fraction in groups of three digits."""
    date, millis_of_day, nanos = _split(value)
    clock = _clock_text(millis_of_day)
    if nanos == 0:
        return f"{date}T{clock.removesuffix(':00')}"
    fraction = f"{nanos:09}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{date}T{clock}.{fraction}"
