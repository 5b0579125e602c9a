"""Health page: the health facts of tables as one HTML document with pictures, which needs no network.

Rule: values in, text out; every text that comes from a table is escaped. No script, no font and no image is loaded.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from lakehouse_core.api.document import document, escaped, grid
from lakehouse_core.api.health.facts import BucketFacts, CommitFacts, HealthFacts
from lakehouse_core.display import count_text, size_text, time_text

_WIDTH: Final = 720
_LABEL: Final = 190
_ROW: Final = 18
_PLOT: Final = 150
_MOST_BUCKETS: Final = 40
_MOST_COMMITS: Final = 10
_LEVELS: Final = ("#d1495b", "#e07a3f", "#edae49", "#9bb35a", "#4f9d8f", "#2e6f9e")
_KINDS: Final = {"APPEND": "#2e6f9e", "COMPACT": "#edae49", "OVERWRITE": "#d1495b", "ANALYZE": "#777777"}


def health_page(tables: Sequence[HealthFacts]) -> str:
    """Return the page: of several tables first a line for each, then each with its pictures."""
    title = tables[0].table if len(tables) == 1 else count_text(len(tables), "table")
    fleet = _fleet(tables) if len(tables) != 1 else ""
    parts = (_table(number, each, named=len(tables) > 1) for number, each in enumerate(tables))
    return document(f"Health of {title}", fleet + "".join(parts))


def _fleet(tables: Sequence[HealthFacts]) -> str:
    rows = [
        (
            f'<a href="#t{number}">{escaped(each.table)}</a>',
            f"{each.row_count:,}",
            f"{each.file_count:,}",
            size_text(each.bytes),
            f"{each.snapshot_count:,}",
            _due(each),
        )
        for number, each in enumerate(tables)
    ]
    return grid(("table", "rows in files", "files", "bytes", "snapshots", "due"), rows)


def _table(number: int, facts: HealthFacts, *, named: bool) -> str:
    newest = facts.snapshots[-1] if facts.snapshots else None
    compacted = next((each for each in reversed(facts.snapshots) if each.kind == "COMPACT"), None)
    figures = [
        ("snapshot", _snapshot(newest)),
        ("rows in files, before merging", f"{facts.row_count:,}"),
        ("files", f"{facts.file_count:,}, {size_text(facts.bytes)}"),
        ("buckets", f"{len(facts.buckets):,}"),
        ("manifests, snapshots, tags", f"{facts.manifest_count:,}, {facts.snapshot_count:,}, {facts.tag_count:,}"),
        ("oldest snapshot", _snapshot(facts.oldest)),
        ("last compaction", _snapshot(compacted)),
        ("maintenance due", _due(facts)),
        ("as of", time_text(facts.now_millis)),
    ]
    body = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in figures)
    return (
        f'<section id="t{number}">{f"<h2>{escaped(facts.table)}</h2>" if named else ""}<table>{body}</table>'
        f"<h3>Sorted runs and bytes, by bucket and level</h3>{_buckets(facts.buckets)}"
        f"<h3>Files by size</h3>{_sizes(facts)}"
        f"<h3>Rows in files, by snapshot</h3>{_snapshots(facts)}"
        f"<h3>Last commits</h3>{_commits(facts)}</section>"
    )


def _snapshot(snapshot: CommitFacts | None) -> str:
    if snapshot is None:
        return "none"
    return (
        f"{snapshot.id} ({escaped(snapshot.kind)}, {time_text(snapshot.time_millis)}, by {escaped(snapshot.committer)})"
    )


def _due(facts: HealthFacts) -> str:
    return f'<span class="due">{"<br>".join(map(escaped, facts.due))}</span>' if facts.due else "nothing"


def _buckets(buckets: Sequence[BucketFacts]) -> str:
    if not buckets:
        return "<p>The table has no files.</p>"
    shown = buckets[:_MOST_BUCKETS]
    most = max(bucket.bytes for bucket in shown) or 1
    scale = (_WIDTH - _LABEL - 170) / most
    parts = []
    for row, bucket in enumerate(shown):
        y, x = row * _ROW, float(_LABEL)
        parts.append(f'<text x="0" y="{y + 13}">{escaped(_cut(bucket.name))}</text>')
        for level, files, size in bucket.levels:
            title = f"level {level}: {count_text(files, 'file')}, {size_text(size)}"
            parts.append(_bar(x, row, max(size * scale, 1), _LEVELS[min(level, len(_LEVELS) - 1)], title))
            x += max(size * scale, 1)
        runs = f"{count_text(bucket.sorted_runs, 'run')}, " if bucket.sorted_runs else ""
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 13}">{runs}{size_text(bucket.bytes)}</text>')
    levels = sorted({level for bucket in shown for level, _, _ in bucket.levels})
    key = _key((f"level {level}", _LEVELS[min(level, len(_LEVELS) - 1)]) for level in levels)
    left_out = (
        f"<p>… and {count_text(len(buckets) - len(shown), 'more bucket')}</p>" if len(buckets) > len(shown) else ""
    )
    return _svg(len(shown) * _ROW, parts, "Bytes of each bucket by level") + key + left_out


def _sizes(facts: HealthFacts) -> str:
    if not facts.file_sizes:
        return "<p>The table has no files.</p>"
    powers = range(min(facts.file_sizes), max(facts.file_sizes) + 1)
    scale = (_WIDTH - _LABEL - 80) / max(facts.file_sizes.values())
    parts = []
    for row, power in enumerate(powers):
        count, y = facts.file_sizes.get(power, 0), row * _ROW
        parts.append(f'<text x="0" y="{y + 13}">{size_text(2**power)} to {size_text(2 ** (power + 1))}</text>')
        parts.append(_bar(_LABEL, row, count * scale, _LEVELS[-1], count_text(count, "file")))
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
        title = (
            f"snapshot {each.id}, {each.kind}, {time_text(each.time_millis)}: {count_text(each.row_count or 0, 'row')}"
        )
        colour = _KINDS.get(each.kind, "#777777")
        parts.append(
            f'<circle cx="{min(max(x, 6), _WIDTH - 6):.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
            f"<title>{escaped(title)}</title></circle>"
        )
    parts.append(f'<text x="0" y="{_PLOT - 4}">{time_text(first)}</text>')
    parts.append(f'<text x="{_WIDTH}" y="{_PLOT - 4}" text-anchor="end">{time_text(last)}</text>')
    parts.append(f'<text x="0" y="14">at most {count_text(most, "row")}</text>')
    kinds = dict.fromkeys(each.kind for each in facts.snapshots)
    left_out = facts.snapshot_count - len(facts.snapshots)
    more = f"<p>… and {count_text(left_out, 'older snapshot')}</p>" if left_out else ""
    key = _key((kind, _KINDS.get(kind, "#777777")) for kind in kinds)
    return _svg(_PLOT, parts, "Rows in files by the time of snapshots") + key + more


def _commits(facts: HealthFacts) -> str:
    rows = [
        (str(each.id), escaped(each.kind), time_text(each.time_millis), escaped(each.committer))
        for each in reversed(facts.snapshots[-_MOST_COMMITS:])
    ]
    return grid(("snapshot", "kind", "time", "by"), rows) if rows else "<p>The table has no snapshots.</p>"


def _svg(height: float, parts: Iterable[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" height="{height:g}" role="img" '
        f'aria-label="{escaped(label)}">{"".join(parts)}</svg>'
    )


def _bar(x: float, row: int, width: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{row * _ROW + 2}" width="{width:.1f}" height="{_ROW - 4}" fill="{colour}">'
        f"<title>{escaped(title)}</title></rect>"
    )


def _key(entries: Iterable[tuple[str, str]]) -> str:
    marks = (f'<span style="color: {colour}">■</span> {escaped(name)}' for name, colour in entries)
    return f"<p>{' '.join(marks)}</p>"


def _cut(text: str) -> str:
    return text if len(text) <= 28 else f"{text[:27]}…"
