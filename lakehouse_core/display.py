"""How handles, plans, reports and records show themselves: a line or two as text, a small table in notebooks.

Nothing here reads a store, and every text is cut and escaped: whatever a name or a value holds, it only shows.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from lakehouse_core.errors import shown

_LONGEST_TEXT: Final = 120


def line(kind: str, name: str, facts: Mapping[str, object]) -> str:
    """Return one line, as in `Scan('sales.orders', columns=['id'], limit=5)`; facts that are None are left out."""
    told = [f"{key}={_cut(shown(value))}" for key, value in facts.items() if value is not None]
    return f"{kind}({', '.join([shown(name), *told])})"


def page(kind: str, name: str, facts: Mapping[str, object]) -> str:
    """Return the same as HTML, a row for each fact."""
    rows = [
        f'<tr><th style="text-align: left">{_text(key)}</th><td style="text-align: left">{_text(value)}</td></tr>'
        for key, value in facts.items()
        if value is not None
    ]
    return f"<div><strong>{_text(kind)}</strong> {_text(name)}<table>{''.join(rows)}</table></div>"


def grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, left_out: int) -> str:
    """Return rows as HTML under the names of their columns, and how many more there are."""
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_text(value)}</td>' for value in row)}</tr>" for row in rows)
    more = f"<p>… and {left_out:,} more</p>" if left_out else ""
    return f"<div><strong>{_text(title)}</strong><table><tr>{head}</tr>{body}</table>{more}</div>"


def _text(value: object) -> str:
    text = value if type(value) is str and value.isprintable() else shown(value)
    # Half a pair of surrogates cannot be sent to a browser at all.
    return escape(_cut(text)).encode("utf-8", "backslashreplace").decode()


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 2]} …"
