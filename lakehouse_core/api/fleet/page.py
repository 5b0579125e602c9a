"""Page of a maintenance plan: its totals, what is done and what is refused, as one HTML document.

Rule: values in, text out; every text that comes from a table is escaped. No script, no font and no image is loaded.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from lakehouse_core.api.document import document, escaped, grid
from lakehouse_core.api.fleet.plan import MaintenanceChoice, MaintenancePlan, MaintenanceRefusal
from lakehouse_core.api.fleet.run import MaintenanceOutcome
from lakehouse_core.display import count_text, size_text, time_text

_WIDTH: Final = 720
_BAR: Final = 16
# More lines would make a page of many megabytes; the JSON of the plan has all.
_MOST_ROWS: Final = 1_000


def maintenance_page(plan: MaintenancePlan, outcomes: Sequence[MaintenanceOutcome] = ()) -> str:
    """Return the page of a plan; of one that was carried out with the `outcomes`, each beside its choice."""
    told = {_place(each.choice): each.text for each in outcomes}
    # Of the reserve, what was carried out.
    more = [choice for choice in plan.reserve if _place(choice) in told]
    figures = [
        ("lakes", "<br>".join(map(escaped, plan.warehouses))),
        ("as of", time_text(plan.time_millis)),
        ("found", _found(plan)),
        ("budget", escaped(str(plan.budget))),
        ("spent", escaped(str(plan.cost))),
        ("saved", f"{plan.saved_seconds:.3g} s of reading a day"),
        ("urgent", count_text(sum(choice.urgent is not None for choice in plan.choices), "operation")),
    ]
    body = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in figures)
    several = len(plan.warehouses) > 1
    return document(
        f"Maintenance of {count_text(plan.tables, 'table')}",
        f"<table>{body}</table>{_spent(plan)}"
        f"<h2>{count_text(len(plan.choices), 'operation')} to carry out</h2>"
        f"{_choices([*plan.choices, *more], told, several=several)}"
        f"<h2>{len(plan.refusals):,} refused</h2>{_refusals(plan.refusals, several=several)}",
    )


def _found(plan: MaintenancePlan) -> str:
    return (
        f"{count_text(plan.tables, 'table')}, {count_text(plan.files, 'file')}, {size_text(plan.bytes)}, "
        f"in {plan.duration_seconds:.1f} s"
    )


def _spent(plan: MaintenancePlan) -> str:
    """Return a bar for each limit of the budget, filled as far as the plan spends it."""
    budget, cost = plan.budget, plan.cost
    limits = (
        ("bytes", cost.bytes, budget.bytes),
        ("requests", cost.requests, budget.requests),
        ("seconds", cost.seconds, budget.seconds),
    )
    rows = [(name, min(spent / limit, 1.0) if limit else 0.0) for name, spent, limit in limits if limit is not None]
    parts = [
        f'<text x="0" y="{row * _BAR + 12}">{name}</text>'
        f'<rect x="80" y="{row * _BAR + 2}" width="{_WIDTH - 160}" height="{_BAR - 4}" fill="#ddd"/>'
        f'<rect x="80" y="{row * _BAR + 2}" width="{(_WIDTH - 160) * share:.1f}" height="{_BAR - 4}" fill="#2e6f9e">'
        f"<title>{name}: {share:.0%} of the budget</title></rect>"
        f'<text x="{_WIDTH - 70}" y="{row * _BAR + 12}">{share:.0%}</text>'
        for row, (name, share) in enumerate(rows)
    ]
    height = len(rows) * _BAR
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
        f'aria-label="Share of the budget that is spent">{"".join(parts)}</svg>'
    )


def _place(choice: MaintenanceChoice) -> tuple[str, str, str]:
    return choice.warehouse, choice.table, choice.name


def _choices(choices: Sequence[MaintenanceChoice], told: Mapping[tuple[str, str, str], str], *, several: bool) -> str:
    if not choices:
        return "<p>Nothing is worth its cost within the budget.</p>"
    rows = [
        (
            _table(choice, several=several),
            escaped(choice.name),
            size_text(choice.bytes),
            f"{choice.seconds:.3g}",
            f"{choice.saved_seconds:.3g}",
            f'<span class="due">{escaped(choice.reason)}</span>' if choice.urgent else escaped(choice.reason),
            *([escaped(told.get(_place(choice), "not reached"))] if told else []),
        )
        for choice in choices[:_MOST_ROWS]
    ]
    columns = ("table", "operation", "rewrites", "takes, s", "saves, s a day", "why", *(["outcome"] if told else []))
    return grid(columns, rows) + _left_out(len(choices))


def _refusals(refusals: Sequence[MaintenanceRefusal], *, several: bool) -> str:
    if not refusals:
        return "<p>Nothing is refused.</p>"
    rows = [
        (_table(refusal, several=several), escaped(refusal.name), escaped(refusal.reason))
        for refusal in refusals[:_MOST_ROWS]
    ]
    return grid(("table", "operation", "why not"), rows) + _left_out(len(refusals))


def _table(of: MaintenanceChoice | MaintenanceRefusal, *, several: bool) -> str:
    return escaped(f"{of.table} in {of.warehouse}" if several else of.table)


def _left_out(count: int) -> str:
    return f"<p>… and {count - _MOST_ROWS:,} more; the JSON of the plan has all.</p>" if count > _MOST_ROWS else ""
