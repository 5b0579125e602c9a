"""Literals: convert texts of partition specifications and SQL literals to comparable values."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types.days import MILLIS_PER_DAY, Timestamp, days_of, split_nanos
from lakehouse_core.format.data_types.fitting import (
    EXAMPLES,
    fit_decimal,
    fit_float,
    fit_integer,
    fit_time,
    fit_timestamp,
    misfit,
)
from lakehouse_core.format.data_types.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
    type_to_sql,
)
from lakehouse_core.format.stored import is_broken

_DATE: Final = re.compile(r"([+-]?\d{1,9})-(\d{1,2})-(\d{1,2})")
_TIME: Final = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?")
_ZONE: Final = re.compile(r"(Z|[+-]\d{2}:?\d{2})$", re.IGNORECASE)
_INTEGER: Final = re.compile(r"[+-]?\d{1,39}")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d{1,80}(?:\.\d{0,80})?|\.\d{1,80})(?:[eE][+-]?\d{1,3})?")
_TRUE: Final = frozenset({"true", "t", "yes", "y", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "0"})


def parse_literal(text: str, data_type: DataType) -> Any:
    """Return the comparable value of a text in a partition specification or a SQL literal.

    Strings are taken as they are and binaries as UTF-8. Raises InvalidRequest when the text does not parse or fit.
    """
    if not isinstance(data_type, AtomicType) or data_type.root is TypeRoot.VARIANT:
        raise InvalidRequest(f"{shown(text)}: text cannot stand for a value of {type_to_sql(data_type)}.")
    root = data_type.root
    if (root in STRING_ROOTS or root in BINARY_ROOTS) and is_broken(text):
        raise misfit(text, data_type, "it holds half of a surrogate pair")
    if root in STRING_ROOTS:
        return text
    if root in BINARY_ROOTS:
        return text.encode()
    return _PARSERS[root](text, data_type)


def _parse_boolean(text: str, data_type: AtomicType) -> bool:
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise misfit(text, data_type, EXAMPLES[data_type.root])


def _parse_integer(text: str, data_type: AtomicType) -> int:
    if _INTEGER.fullmatch(text.strip()):
        return fit_integer(int(text), data_type)
    raise misfit(text, data_type, EXAMPLES[data_type.root])


def _parse_floating(text: str, data_type: AtomicType) -> float:
    stripped = text.strip()
    # Python also accepts 1_000, and "infinity" in any case, which are not literals of a table.
    if stripped in ("NaN", "Infinity", "-Infinity", "+Infinity") or _DECIMAL.fullmatch(stripped):
        return fit_float(float(stripped), data_type)
    raise misfit(text, data_type, EXAMPLES[data_type.root])


def _parse_decimal(text: str, data_type: AtomicType) -> Decimal:
    if _DECIMAL.fullmatch(text.strip()):
        return fit_decimal(Decimal(text.strip()), data_type)
    raise misfit(text, data_type, EXAMPLES[data_type.root])


def _parse_date(text: str, data_type: AtomicType) -> int:
    if match := _DATE.fullmatch(text.strip()):
        return _days(match, text, data_type)
    raise misfit(text, data_type, EXAMPLES[data_type.root])


def _parse_time(text: str, data_type: AtomicType) -> int:
    if match := _TIME.fullmatch(text.strip()):
        return fit_time(_nanos_of_day(match, text, data_type), text, data_type)
    raise misfit(text, data_type, EXAMPLES[data_type.root])


def _parse_timestamp(text: str, data_type: AtomicType) -> Timestamp:
    text = text.strip()
    body, offset_minutes = text, 0
    zone = _ZONE.search(text) if ":" in text else None
    if zone is not None:
        if data_type.root is TypeRoot.TIMESTAMP:
            raise misfit(text, data_type, "it has a time zone and the column has none")
        body = text[: zone.start()].rstrip()
        if zone[1] not in "Zz":
            digits = zone[1][1:].replace(":", "")
            offset_minutes = int(digits[:2]) * 60 + int(digits[2:])
            offset_minutes = -offset_minutes if zone[1][0] == "-" else offset_minutes
    date, _, time = body.replace("T", " ", 1).partition(" ")
    date_match, time_match = _DATE.fullmatch(date), _TIME.fullmatch(time or "00:00")
    if date_match is None or time_match is None:
        raise misfit(text, data_type, EXAMPLES[data_type.root])
    days = _days(date_match, text, data_type)
    millis, nanos = split_nanos(_nanos_of_day(time_match, text, data_type))
    return fit_timestamp((days * MILLIS_PER_DAY + millis - offset_minutes * 60_000, nanos), text, data_type)


def _days(match: re.Match[str], text: str, data_type: AtomicType) -> int:
    try:
        days = days_of(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise misfit(text, data_type, "the calendar has no such day") from None
    if not -(1 << 31) <= days < 1 << 31:
        raise misfit(text, data_type, "it is out of range")
    return days


def _nanos_of_day(match: re.Match[str], text: str, data_type: AtomicType) -> int:
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise misfit(text, data_type, "the clock has no such time")
    return (hour * 3600 + minute * 60 + second) * 1_000_000_000 + int((match[4] or "").ljust(9, "0"))


_PARSERS: Final[dict[TypeRoot, Callable[[str, AtomicType], Any]]] = {
    TypeRoot.BOOLEAN: _parse_boolean,
    **dict.fromkeys(INTEGER_BITS, _parse_integer),
    TypeRoot.FLOAT: _parse_floating,
    TypeRoot.DOUBLE: _parse_floating,
    TypeRoot.DECIMAL: _parse_decimal,
    TypeRoot.DATE: _parse_date,
    TypeRoot.TIME: _parse_time,
    TypeRoot.TIMESTAMP: _parse_timestamp,
    TypeRoot.TIMESTAMP_LTZ: _parse_timestamp,
}
