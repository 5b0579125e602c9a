"""The summary at the end of a run, as plain text of at most 110 columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakehouse_dagster import TableState
from orchestration.figures import Answer

_HEADERS = (
    "table",
    "rows",
    "files",
    "manifests",
    "by ingest",
    "by maintain",
    "expired",
    "kept",
    "changelogs",
    "tags",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is told: the tables before the run, after loading and after maintenance, and the answers."""

    warehouse: str
    plan_text: str
    runs: Mapping[str, str]
    rows: Mapping[str, int]
    before: Mapping[str, TableState]
    loaded: Mapping[str, TableState]
    after: Mapping[str, TableState]
    answers: Sequence[Answer]
    seconds: float


def summary_text(summary: Summary) -> str:
    """Return the whole summary."""
    rows = [_row(name, summary) for name in summary.after]
    return "\n".join(
        [
            "",
            f"Tables: {summary.plan_text}",
            "(files and manifests before -> after maintenance; snapshots made by each job, expired, and kept)",
            *_aligned([_HEADERS, *rows]),
            "",
            *(line for answer in summary.answers for line in _answer(answer)),
            *_where_to_look(summary),
        ]
    )


def _row(name: str, summary: Summary) -> tuple[str, ...]:
    loaded, after = summary.loaded[name], summary.after[name]
    first = before.snapshot_id or 0 if (before := summary.before.get(name)) else 0
    ingested, maintained = loaded.snapshot_id or 0, after.snapshot_id or 0
    expired = loaded.snapshots_retained + (maintained - ingested) - after.snapshots_retained
    return (
        name,
        f"{summary.rows[name]:,}",
        f"{loaded.files_total} -> {after.files_total}",
        f"{loaded.manifests_total} -> {after.manifests_total}",
        _ids(first + 1, ingested),
        _ids(ingested + 1, maintained),
        str(expired),
        _ids(after.earliest_snapshot_id or 1, maintained),
        str(after.changelogs_retained),
        str(after.tags),
    )


def _ids(first: int, last: int) -> str:
    if last < first:
        return "none"
    return str(first) if first == last else f"{first} - {last}"


def _answer(answer: Answer) -> Iterable[str]:
    yield answer.question
    yield from (f"   {line}" for line in answer.lines)
    yield "   equal to the source" if answer.agrees else f"   DIFFERS: the source says {answer.expected}"
    yield ""


def _where_to_look(summary: Summary) -> Iterable[str]:
    agreed = sum(answer.agrees for answer in summary.answers)
    yield f"{agreed} of {len(summary.answers)} answers agree with the source; {summary.seconds:.0f} s"
    yield ""
    yield "The runs (each snapshot names its own, see `snapshots … --json`):"
    yield from (f"   {job:<15} {run_id}" for job, run_id in summary.runs.items())
    yield "Where to look:"
    yield f"   make ui WAREHOUSE={summary.warehouse}"
    yield f"   .venv/bin/lakehouse -w {summary.warehouse} snapshots ops.flights"
    yield f"   .venv/bin/lakehouse -w {summary.warehouse} read ops.flight_board --limit 10"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of one width: names to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
