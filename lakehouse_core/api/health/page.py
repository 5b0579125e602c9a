"""Health page: the health facts of tables as one HTML document with pictures, which needs no network.

Rule: values in, text out; every text that comes from a table is escaped. No script, no font and no image is loaded.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from lakehouse_core.api.health.facts import BucketFacts, CommitFacts, HealthFacts

_WIDTH: Final = 720
_LABEL: Final = 190
_ROW: Final = 18
_PLOT: Final = 150
_MOST_BUCKETS: Final = 40
_MOST_COMMITS: Final = 10
_LEVELS: Final = ("#d1495b", "#e07a3f", "#edae49", "#9bb35a", "#4f9d8f", "#2e6f9e")
_KINDS: Final = {"APPEND": "#2e6f9e", "COMPACT": "#edae49", "OVERWRITE": "#d1495b", "ANALYZE": "#777777"}
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
_STYLE: Final = """
body { font: 15px/1.5 sans-serif; color: #222; background: #fff; max-width: 780px; margin: 2em auto; padding: 0 1em; }
h1, h2, h3 { font-weight: 600; line-height: 1.2; overflow-wrap: anywhere; } h3 { font-size: 1em; margin: 1.6em 0 .4em; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .2em .8em .2em 0;
vertical-align: top; border-bottom: 1px solid #ddd; overflow-wrap: break-word; } th { white-space: nowrap; }
svg { display: block; max-width: 100%; height: auto; } text { font: 12px sans-serif; fill: #222; }
.due { color: #a32638; }
"""


def health_page(tables: Sequence[HealthFacts]) -> str:
    """Return the page: of several tables first a line for each, then each with its pictures."""
    title = tables[0].table if len(tables) == 1 else _count(len(tables), "table")
    fleet = _fleet(tables) if len(tables) != 1 else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Health of {_text(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>Health of {_text(title)}</h1>{fleet}"
        f"{''.join(_table(number, each, named=len(tables) > 1) for number, each in enumerate(tables))}</body></html>\n"
    )


def _fleet(tables: Sequence[HealthFacts]) -> str:
    rows = [
        (
            f'<a href="#t{number}">{_text(each.table)}</a>',
            f"{each.row_count:,}",
            f"{each.file_count:,}",
            _size(each.bytes),
            f"{each.snapshot_count:,}",
            _due(each),
        )
        for number, each in enumerate(tables)
    ]
    return _grid(("table", "rows in files", "files", "bytes", "snapshots", "due"), rows)


def _table(number: int, facts: HealthFacts, *, named: bool) -> str:
    newest = facts.snapshots[-1] if facts.snapshots else None
    compacted = next((each for each in reversed(facts.snapshots) if each.kind == "COMPACT"), None)
    figures = [
        ("snapshot", _snapshot(newest)),
        ("rows in files, before merging", f"{facts.row_count:,}"),
        ("files", f"{facts.file_count:,}, {_size(facts.bytes)}"),
        ("buckets", f"{len(facts.buckets):,}"),
        ("manifests, snapshots, tags", f"{facts.manifest_count:,}, {facts.snapshot_count:,}, {facts.tag_count:,}"),
        ("oldest snapshot", _snapshot(facts.oldest)),
        ("last compaction", _snapshot(compacted)),
        ("maintenance due", _due(facts)),
        ("as of", _time(facts.now_millis)),
    ]
    body = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in figures)
    return (
        f'<section id="t{number}">{f"<h2>{_text(facts.table)}</h2>" if named else ""}<table>{body}</table>'
        f"<h3>Sorted runs and bytes, by bucket and level</h3>{_buckets(facts.buckets)}"
        f"<h3>Files by size</h3>{_sizes(facts)}"
        f"<h3>Rows in files, by snapshot</h3>{_snapshots(facts)}"
        f"<h3>Last commits</h3>{_commits(facts)}</section>"
    )


def _snapshot(snapshot: CommitFacts | None) -> str:
    if snapshot is None:
        return "none"
    return f"{snapshot.id} ({_text(snapshot.kind)}, {_time(snapshot.time_millis)}, by {_text(snapshot.committer)})"


def _due(facts: HealthFacts) -> str:
    return f'<span class="due">{"<br>".join(map(_text, facts.due))}</span>' if facts.due else "nothing"


def _buckets(buckets: Sequence[BucketFacts]) -> str:
    if not buckets:
        return "<p>The table has no files.</p>"
    shown = buckets[:_MOST_BUCKETS]
    most = max(bucket.bytes for bucket in shown) or 1
    scale = (_WIDTH - _LABEL - 170) / most
    parts = []
    for row, bucket in enumerate(shown):
        y, x = row * _ROW, float(_LABEL)
        parts.append(f'<text x="0" y="{y + 13}">{_text(_cut(bucket.name))}</text>')
        for level, files, size in bucket.levels:
            title = f"level {level}: {_count(files, 'file')}, {_size(size)}"
            parts.append(_bar(x, row, max(size * scale, 1), _LEVELS[min(level, len(_LEVELS) - 1)], title))
            x += max(size * scale, 1)
        runs = f"{_count(bucket.sorted_runs, 'run')}, " if bucket.sorted_runs else ""
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 13}">{runs}{_size(bucket.bytes)}</text>')
    levels = sorted({level for bucket in shown for level, _, _ in bucket.levels})
    key = _key((f"level {level}", _LEVELS[min(level, len(_LEVELS) - 1)]) for level in levels)
    left_out = f"<p>… and {_count(len(buckets) - len(shown), 'more bucket')}</p>" if len(buckets) > len(shown) else ""
    return _svg(len(shown) * _ROW, parts, "Bytes of each bucket by level") + key + left_out


def _sizes(facts: HealthFacts) -> str:
    if not facts.file_sizes:
        return "<p>The table has no files.</p>"
    powers = range(min(facts.file_sizes), max(facts.file_sizes) + 1)
    scale = (_WIDTH - _LABEL - 80) / max(facts.file_sizes.values())
    parts = []
    for row, power in enumerate(powers):
        count, y = facts.file_sizes.get(power, 0), row * _ROW
        parts.append(f'<text x="0" y="{y + 13}">{_size(2**power)} to {_size(2 ** (power + 1))}</text>')
        parts.append(_bar(_LABEL, row, count * scale, _LEVELS[-1], _count(count, "file")))
        parts.append(f'<text x="{_LABEL + count * scale + 6:.1f}" y="{y + 13}">{count:,}</text>')
    return _svg(len(powers) * _ROW, parts, "Number of files by size")


def _snapshots(facts: HealthFacts) -> str:
    if not facts.snapshots:
        return "<p>The table has no snapshots.</p>"
    first, last = facts.snapshots[0].time_millis, max(each.time_millis for each in facts.snapshots)
    most = max(each.row_count or 0 for each in facts.snapshots) or 1
    parts = [f'<line x1="0" y1="{_PLOT - 20}" x2="{_WIDTH}" y2="{_PLOT - 20}" stroke="#999"/>']
    for each in facts.snapshots:
        x = 6 + (each.time_millis - first) / max(last - first, 1) * (_WIDTH - 12)
        y = _PLOT - 20 - (each.row_count or 0) / most * (_PLOT - 50)
        title = f"snapshot {each.id}, {each.kind}, {_time(each.time_millis)}: {_count(each.row_count or 0, 'row')}"
        colour = _KINDS.get(each.kind, "#777777")
        parts.append(
            f'<circle cx="{min(max(x, 6), _WIDTH - 6):.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
            f"<title>{_text(title)}</title></circle>"
        )
    parts.append(f'<text x="0" y="{_PLOT - 4}">{_time(first)}</text>')
    parts.append(f'<text x="{_WIDTH}" y="{_PLOT - 4}" text-anchor="end">{_time(last)}</text>')
    parts.append(f'<text x="0" y="14">at most {_count(most, "row")}</text>')
    kinds = dict.fromkeys(each.kind for each in facts.snapshots)
    left_out = facts.snapshot_count - len(facts.snapshots)
    more = f"<p>… and {_count(left_out, 'older snapshot')}</p>" if left_out else ""
    key = _key((kind, _KINDS.get(kind, "#777777")) for kind in kinds)
    return _svg(_PLOT, parts, "Rows in files by the time of snapshots") + key + more


def _commits(facts: HealthFacts) -> str:
    rows = [
        (str(each.id), _text(each.kind), _time(each.time_millis), _text(each.committer))
        for each in reversed(facts.snapshots[-_MOST_COMMITS:])
    ]
    return _grid(("snapshot", "kind", "time", "by"), rows) if rows else "<p>The table has no snapshots.</p>"


def _grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _svg(height: float, parts: Iterable[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" height="{height:g}" role="img" '
        f'aria-label="{_text(label)}">{"".join(parts)}</svg>'
    )


def _bar(x: float, row: int, width: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{row * _ROW + 2}" width="{width:.1f}" height="{_ROW - 4}" fill="{colour}">'
        f"<title>{_text(title)}</title></rect>"
    )


def _key(entries: Iterable[tuple[str, str]]) -> str:
    marks = (f'<span style="color: {colour}">■</span> {_text(name)}' for name, colour in entries)
    return f"<p>{' '.join(marks)}</p>"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _size(count: int) -> str:
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if value >= 10 or unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _time(millis: int) -> str:
    try:
        return f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        # Python has no such time, but the table's writer had.
        return f"{millis} ms"


def _cut(text: str) -> str:
    return text if len(text) <= 28 else f"{text[:27]}…"


def _text(value: str) -> str:
    return escape(value).encode("utf-8", "backslashreplace").decode()
