"""Display: short texts for handles, plans, reports and records, and small HTML tables for notebooks.

Rule: nothing here reads a store, and every name or value is cut and escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any, Final

from lakehouse_core.errors import shown

_LONGEST_TEXT: Final = 120
# The name of a data file fits.
_LONGEST_CELL: Final = 56
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")


def line(kind: str, name: str, facts: Mapping[str, object]) -> str:
    """Return one line, as in `Scan('sales.orders', columns=['id'], limit=5)`; facts that are None are left out."""
    told = [f"{key}={_cut(shown(value))}" for key, value in facts.items() if value is not None]
    return f"{kind}({', '.join([shown(name), *told])})"


def page(kind: str, name: str, facts: Mapping[str, object]) -> str:
    """Return the same facts as HTML, one row for each."""
    rows = [
        f'<tr><th style="text-align: left">{_text(key)}</th><td style="text-align: left">{_text(value)}</td></tr>'
        for key, value in facts.items()
        if value is not None
    ]
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    return f"<div><strong>{_text(kind)}</strong> {_text(name)}{table}</div>"


def grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, left_out: int) -> str:
    """Return rows as HTML under their column names, and the number of further rows."""
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_text(value)}</td>' for value in row)}</tr>" for row in rows)
    more = f"<p>… and {left_out:,} more</p>" if left_out else ""
    return f"<div><strong>{_text(title)}</strong><table><tr>{head}</tr>{body}</table>{more}</div>"


def lines(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, left_out: int) -> str:
    """Return rows as lines of aligned cells under their column names, and the number of further rows."""
    head = [name.removesuffix("_millis") for name in columns]
    cells = [[_cell(readable(*found)) for found in zip(columns, row, strict=True)] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    told = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in ([head, *cells] if cells else ())
    )
    more = [f"… and {left_out:,} more"] if left_out else []
    return "\n  ".join([title, *map(_cut, told), *more])


def readable(name: str, value: Any) -> str:
    """Return a value of the column `name` as text for people: times as such, the parts of a value in a list."""
    if value is None:
        return ""
    try:
        if name.endswith("time_millis") and isinstance(value, int):
            return datetime.fromtimestamp(value / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:23]
        if name.endswith("retained_millis") and isinstance(value, int):
            age = timedelta(milliseconds=value)
            return f"{age.days} days" if age == timedelta(days=age.days) else str(age)
    except (OverflowError, ValueError, OSError):
        # Python has no such time, but the table's writer had.
        return str(value)
    if name == "fields":
        return ", ".join(f"{field['name']} {field['type']}" for field in value)
    return plain_text(value)


def plain_text(value: Any) -> str:
    """Return a JSON value as text for people, a null inside it as NULL."""
    if isinstance(value, Mapping):
        # Without a partition, the column is empty.
        return ", ".join(f"{key}={plain_text(item)}" for key, item in value.items() if item != {})
    if isinstance(value, list | tuple):
        return ", ".join(map(plain_text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "NULL" if value is None else str(value)


def count_text(number: int, what: str) -> str:
    """Return a number of things, as in `1,200 files`; `what` is one of them."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size_text(count: int) -> str:
    """Return a number of bytes in the unit that people read, as in `1.5 GB`."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if value >= 10 or unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def time_text(millis: int) -> str:
    """Return a time in milliseconds since 1970, as in `2013-01-05 12:00:00 UTC`."""
    try:
        return f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        # Python has no such time, but the table's writer had.
        return f"{millis} ms"


def _cell(text: str) -> str:
    text = text if text.isprintable() else shown(text)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 2]} …"


def _text(value: object) -> str:
    text = value if type(value) is str and value.isprintable() else shown(value)
    # Half a pair of surrogates cannot be sent to a browser at all.
    return escape(_cut(text)).encode("utf-8", "backslashreplace").decode()


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 2]} …"
