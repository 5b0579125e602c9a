"""Units: the texts of option values (sizes, durations, booleans, numbers), parsed as Java parses them.

Source: Paimon's `MemorySize.parseBytes` and `TimeUtils.parseDuration`, by experiment: a whole number, then a unit or
none.
"""

import re
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown

_NUMBER_AND_UNIT: Final = re.compile(r"\s*(\d{1,19})\s*([a-zµ]*)\s*", re.IGNORECASE)
_SIZE_UNITS: Final = {
    unit: 1024**power
    for power, units in enumerate(
        (
            ("", "b", "bytes"),
            ("k", "kb", "kibibytes"),
            ("m", "mb", "mebibytes"),
            ("g", "gb", "gibibytes"),
            ("t", "tb", "tebibytes"),
        )
    )
    for unit in units
}
_DURATION_NANOS: Final = {
    unit: nanos
    for units, nanos in (
        (("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
        (("µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
        (("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
        (("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
        (("min", "m", "minute", "minutes"), 60_000_000_000),
        (("h", "hour", "hours"), 3_600_000_000_000),
        (("d", "day", "days"), 86_400_000_000_000),
    )
    for unit in units
}
_LIMIT: Final = 2**63


def parse_size(key: str, text: str) -> int:
    """Return bytes; units count in 1024s, none means bytes. Raises InvalidRequest naming the option."""
    number, factor = _number_and_unit(key, text, _SIZE_UNITS, "a size such as 128 mb")
    if number * factor >= _LIMIT:
        raise _wrong(key, text, "a size below 8 million terabytes")
    return number * factor


def parse_duration(key: str, text: str) -> int:
    """Return whole milliseconds; no unit means milliseconds. Raises InvalidRequest naming the option."""
    number, nanos = _number_and_unit(key, text, _DURATION_NANOS, "a duration such as 1 h or 30 min")
    return min(number * nanos // 1_000_000, _LIMIT - 1)


def parse_bool(key: str, text: str) -> bool:
    """Return the value of true or false, in any case. Raises InvalidRequest naming the option."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise _wrong(key, text, "true or false")
    return word == "true"


def parse_int(key: str, text: str) -> int:
    """Return a whole number of 64 bits. Raises InvalidRequest naming the option."""
    if not re.fullmatch(r"[+-]?\d{1,19}", text.strip()) or not -_LIMIT <= int(text) < _LIMIT:
        raise _wrong(key, text, "a whole number")
    return int(text)


def parse_float(key: str, text: str) -> float:
    """Return a finite number. Raises InvalidRequest naming the option."""
    if not re.fullmatch(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,2})?", text.strip()):
        raise _wrong(key, text, "a number such as 0.7")
    return float(text)


def parse_word(key: str, text: str, words: tuple[str, ...]) -> str:
    """Return the word of `words` that the text names, in any case, with - or _. Raises InvalidRequest otherwise."""
    plain = {word.lower().replace("_", "-"): word for word in words}
    meant = text.strip().lower().replace("_", "-")
    if meant not in plain:
        raise _wrong(key, text, f"one of {', '.join(words)}")
    return plain[meant]


def parse_levels(key: str, text: str) -> dict[int, str]:
    """Return level → value of text such as `0:avro,5:parquet`. Raises InvalidRequest naming the option."""
    result = {}
    for part in filter(None, text.split(",")):
        level, colon, value = part.partition(":")
        if not colon or not level.strip().isdecimal() or not value.strip():
            raise _wrong(key, text, "pairs of a level and a value, such as 0:VALUE,5:VALUE")
        result[int(level)] = value.strip()
    return result


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names of a comma list, without the blanks around them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _number_and_unit(key: str, text: str, units: dict[str, int], expected: str) -> tuple[int, int]:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or match[2].lower() not in units:
        raise _wrong(key, text, expected)
    return int(match[1]), units[match[2].lower()]


def _wrong(key: str, text: str, expected: str) -> InvalidRequest:
    return InvalidRequest(f"Option {key} is {shown(text)}: expected {expected}.")
