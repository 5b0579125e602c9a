"""CSV records: parse lines into fields, and write fields as lines. A null field is unquoted; a text equal to the null
text is quoted.

Source: RFC 4180. Python's own reader does not distinguish an empty text from a missing one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown

# The limit of a field, so that an unclosed quote does not read the whole file.
_LONGEST_FIELD: Final = 1 << 28
# The rest of a quoted text: quotes inside are doubled.
_CLOSING: Final = re.compile(r'[^"]*(?:""[^"]*)*"(?!")')
_TAB_NAMES: Final = ("tab", "\\t")


@dataclass(frozen=True, slots=True)
class CsvStyle:
    """The delimiter, and the unquoted text that means null. In columns without text, an empty field is null too."""

    delimiter: str = ","
    null: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the file, without its quotes."""

    text: str
    is_quoted: bool


def parse_delimiter(text: str, label: str) -> str:
    """Return the delimiter character; `tab` and `\t` both mean a tab. Raises InvalidRequest that names `label`."""
    delimiter = "\t" if text in _TAB_NAMES else text
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise InvalidRequest(f"{label} {shown(text)}: expected one character, such as ';', or tab.")
    return delimiter


def read_records(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[Field]]]:
    """Yield each record with the number of its first line, from 1; an empty line has one field without text.

    `lines` keep their ends. Raises InvalidRequest for quotes that are not closed, or closed within a text.
    """
    fields: list[Field] = []
    # The parts of a quoted text that continues in the next line.
    parts: list[str] = []
    first = 0
    for number, line in enumerate(lines, 1):
        body = line.rstrip("\r\n")
        if not parts:
            fields, first = [], number
            if '"' not in body:
                yield first, [Field(text, False) for text in body.split(delimiter)]
                continue
        start = 0
        while True:
            if parts or body.startswith('"', start):
                start += not parts
                closing = _CLOSING.match(line, start)
                if closing is None:
                    parts.append(line[start:])
                    _check_length(parts, first)
                    break
                text = "".join([*parts, closing[0][:-1]]).replace('""', '"')
                parts, end = [], closing.end()
                if end < len(body) and body[end] != delimiter:
                    raise InvalidRequest(
                        f"Line {number}: found {shown(body[end])} after a closing quote, expected a delimiter. "
                        "Double the quotes inside a text."
                    )
                fields.append(Field(text, True))
            else:
                end = body.find(delimiter, start)
                end = len(body) if end < 0 else end
                fields.append(Field(body[start:end], False))
            if end == len(body):
                yield first, fields
                break
            start = end + 1
    if parts:
        raise InvalidRequest(f"Line {first}: a quote that opens in this line or a later one is not closed. Close it.")


def _check_length(parts: Sequence[str], first: int) -> None:
    if sum(map(len, parts[-1:])) > _LONGEST_FIELD or (len(parts) % 1024 == 0 and sum(map(len, parts)) > _LONGEST_FIELD):
        raise InvalidRequest(f"Line {first}: a quoted text has more than {_LONGEST_FIELD >> 20} MiB. Close its quote.")


def record_line(texts: Iterable[str | None], style: CsvStyle) -> str:
    """Return a record as one line that `read_records` can read back; None is null."""
    return style.delimiter.join(style.null if text is None else _field(text, style) for text in texts) + "\n"


def _field(text: str, style: CsvStyle) -> str:
    is_plain = text and text != style.null and not any(mark in text for mark in (style.delimiter, '"', "\n", "\r"))
    return text if is_plain else '"' + text.replace('"', '""') + '"'
