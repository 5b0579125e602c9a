"""Document: HTML that a browser shows without a network: no script, no font and no image is loaded.

Rule: a text that comes from a table is escaped by the caller, with `escaped`.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_STYLE: Final = """
body { font: 15px/1.5 sans-serif; color: #222; background: #fff; max-width: 780px; margin: 2em auto; padding: 0 1em; }
h1, h2, h3 { font-weight: 600; line-height: 1.2; overflow-wrap: anywhere; } h3 { font-size: 1em; margin: 1.6em 0 .4em; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .2em .8em .2em 0;
vertical-align: top; border-bottom: 1px solid #ddd; overflow-wrap: break-word; } th { white-space: nowrap; }
svg { display: block; max-width: 100%; height: auto; } text { font: 12px sans-serif; fill: #222; }
.due { color: #a32638; }
"""


def document(title: str, body: str) -> str:
    """Return the document with the title, which is text, over the body, which is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escaped(title)}</h1>{body}</body></html>\n"
    )


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells are HTML."""
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def escaped(value: str) -> str:
    """Return a text as HTML. Half a pair of surrogates, which no encoding has, is shown as its number."""
    return escape(value).encode("utf-8", "backslashreplace").decode()
