"""Times that Java reads in text: by a pattern of its DateTimeFormatter, or in the lenient form of Paimon's partitions.

Java reads strictly and resolves smartly: `dd` is two digits, 31 in a shorter month means its last day. Patterns are
supported as far as they name years, months, days and the time of day in digits.
Source: docs/semantics/maintenance.md#partition-expiry; the documentation of java.time.format.DateTimeFormatter.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import days_of

_DAY_SECONDS: Final = 86_400
_SECOND_NANOS: Final = 1_000_000_000
_DAY_NANOS: Final = _DAY_SECONDS * _SECOND_NANOS
# Java's years, and the digits of its numbers.
_MOST_YEAR: Final = 999_999_999
_MOST_DIGITS: Final = 19
_BASE_OF_TWO_DIGITS: Final = 2000
# A letter once: as many digits as there are; twice: two. Years take any number of letters.
_YEARS: Final = "yu"
_TWICE: Final = "MdHms"
_FRACTION: Final = "S"
_MOST_FRACTION: Final = 9
_TOKEN: Final = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<plain>[^'])")
_LENIENT: Final = re.compile(
    r"(-?\d{1,10})-(-?\d{1,2})-(-?\d{1,2})(?: (-?\d{1,2}):(-?\d{1,2}):(-?\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII
)
_MINUS_ZERO: Final = re.compile(r"-0+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePattern:
    """A pattern as Java reads it: `expression` has a group for each field; `fields` are their letters and widths."""

    expression: re.Pattern[str]
    fields: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class _Piece:
    """A number in a pattern, or a literal (no letter). `reserved`: digits right behind it that are not its own."""

    letter: str = ""
    width: int = 0
    literal: str = ""
    reserved: int = 0

    @property
    def is_fixed(self) -> bool:
        return self.width == 2 or self.letter == _FRACTION


def parse_time_pattern(pattern: str) -> TimePattern:
    """Return what a pattern such as `yyyy-MM-dd HH` reads. Raises InvalidRequest for what Java or we do not know."""
    pieces = list(_pieces(pattern))
    _reserve(pieces)
    expression = "".join(_expression(piece) for piece in pieces)
    fields = tuple((piece.letter, piece.width) for piece in pieces if piece.letter)
    return TimePattern(expression=re.compile(expression, re.ASCII), fields=fields)


def read_time(text: str, pattern: TimePattern | None) -> int | None:
    """Return the time in a text as nanoseconds since 1970 of the same clock; None when there is none, or only a part.

    A date alone is its midnight. `pattern` None: as `2024-1-31` or `2024-01-31 12:30:00.5`, where what is too much is
    carried on (2024-02-31 is 2024-03-02).
    """
    return _lenient_time(text) if pattern is None else _strict_time(text, pattern)


def _pieces(pattern: str) -> Iterator[_Piece]:
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise InvalidRequest(f"{pattern!r}: expected a time pattern, found an unclosed quote. Close it.")
        position = token.end()
        if token["quoted"] is not None:
            yield _Piece(literal=token["quoted"].replace("''", "'") or "'")
        elif token["plain"] is not None:
            if token["plain"] in "[]{}#":
                raise _unknown(pattern, token["plain"])
            yield _Piece(literal=token["plain"])
        else:
            letter, width = token["letter"], len(token["letters"])
            most = {**dict.fromkeys(_YEARS, _MOST_DIGITS), **dict.fromkeys(_TWICE, 2), _FRACTION: _MOST_FRACTION}
            if width > most.get(letter, 0):
                raise _unknown(pattern, token["letters"])
            yield _Piece(letter=letter, width=width)


def _unknown(pattern: str, part: str) -> InvalidRequest:
    return InvalidRequest(
        f"{pattern!r}: found {part}, expected a supported time pattern. Years are y or u, then come M or MM, d or "
        "dd, H or HH, m or mm, s or ss, S for each digit of a fraction, and other text between quotes."
    )


def _reserve(pieces: list[_Piece]) -> None:
    """Numbers of two digits right behind a number get theirs; one of any length behind it undoes that."""
    first: _Piece | None = None
    for piece in pieces:
        if not piece.letter:
            first = None
        elif first is not None and piece.is_fixed:
            first.reserved += piece.width
        else:
            if first is not None:
                first.reserved = 0
            first = piece


def _expression(piece: _Piece) -> str:
    if not piece.letter:
        return re.escape(piece.literal)
    least = piece.width
    if piece.is_fixed:
        return rf"(\d{{{least}}})"
    # Java takes all digits that there are, or all but those that belong to the numbers behind.
    greedy, behind = ("+", "") if not piece.reserved else ("", rf"(?=\d{{{piece.reserved}}}(?!\d))")
    if piece.letter in _YEARS and least > 3:
        # A longer year has a sign.
        longer = rf"\+\d{{{least + 1},{_MOST_DIGITS}}}{greedy}|-\d{{{least},{_MOST_DIGITS}}}{greedy}"
        return rf"((?:\d{{{least}}}(?!\d{{{piece.reserved + 1}}})|{longer}){behind})"
    return rf"(-?\d{{{least},{_MOST_DIGITS}}}{greedy}{behind})"


def _strict_time(text: str, pattern: TimePattern) -> int | None:
    match = pattern.expression.fullmatch(text)
    if match is None or any(_MINUS_ZERO.fullmatch(group) for group in match.groups()):
        return None
    found: dict[str, int] = {}
    for (letter, width), group in zip(pattern.fields, match.groups(), strict=True):
        value = int(group)
        if letter == _FRACTION:
            value *= 10 ** (_MOST_FRACTION - width)
        elif letter in _YEARS and width == 2:
            value += _BASE_OF_TWO_DIGITS
        if found.setdefault(letter, value) != value:
            return None
    return _resolved(found)


def _resolved(found: dict[str, int]) -> int | None:
    year, month, day = found.get("u", found.get("y")), found.get("M"), found.get("d")
    if year is None or month is None or day is None or found.get("y", year) != year:
        return None
    if abs(year) > _MOST_YEAR or ("y" in found and year < 1) or not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    nanos = _time_of_day(found)
    return None if nanos is None else _day(year, month, day) * _DAY_NANOS + nanos


def _time_of_day(found: dict[str, int]) -> int | None:
    """Return nanoseconds; 0 where hours are missing, or what comes between them and the rest; None for no such time."""
    given = [letter in found for letter in "HmsS"]
    hour, minute, second, fraction = (found.get(letter, 0) for letter in "HmsS")
    if given[0] and given != sorted(given, reverse=True):
        # Java then looks at none of them.
        return 0
    is_end = hour == 24 and not minute and not second and not fraction
    if not (0 <= hour < 24 or is_end) or not 0 <= minute < 60 or not 0 <= second < 60:
        return None
    return _nanos(hour, minute, second, fraction) if given[0] else 0


def _day(year: int, month: int, day: int) -> int:
    """Days since 1970, of a day that the month lacks its last."""
    following = days_of(year + month // 12, month % 12 + 1, 1)
    return min(days_of(year, month, 1) + day, following) - 1


def _lenient_time(text: str) -> int | None:
    match = _LENIENT.fullmatch(text)
    if match is None or any(_MINUS_ZERO.fullmatch(group) for group in match.groups("")):
        return None
    year, month, day, hour, minute, second = (int(group) for group in match.groups("0")[:6])
    if abs(year) > _MOST_YEAR:
        return None
    years, months = divmod(month - 1, 12)
    days = days_of(year + years, months + 1, 1) + day - 1
    fraction = match.groups("0")[6].ljust(_MOST_FRACTION, "0")
    return days * _DAY_NANOS + _nanos(hour, minute, second, int(fraction))


def _nanos(hour: int, minute: int, second: int, fraction: int) -> int:
    return (hour * 3600 + minute * 60 + second) * _SECOND_NANOS + fraction
