"""Rounds: a tick of a sensor or schedule looks at each table of a warehouse, without Spark.

Rule: an error of one table stops no other, and what a tick of a sensor does not reach comes first in the next one.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import dropwhile

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.pipeline import open_table
from lakehouse_dagster.resources import LakehouseResource

# A tick must end within 60 s; the next tick continues with the table that this one did not reach.
BUDGET_SECONDS = 40
NOT_CREATED = "not created yet"


def look_at_each(
    context: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext,
    resource: str,
    tables: Mapping[dg.AssetKey, str],
    report: Callable[[dg.AssetKey, lc.Table | None], str],
    *,
    first: str | None = None,
) -> tuple[str, str]:
    """Report the tables, asset → name; return a line for each, and the asset of the first table that was not reached.

    `report` gets None for a table that is not created yet. `first` is the asset to begin with: a sensor passes its
    cursor. The second result is empty if every table was reached.
    """
    lakehouse: LakehouseResource = getattr(context.resources, resource)
    catalog = lakehouse.local_catalog()
    started = time.monotonic()
    later = from_asset(tables, first)
    lines, cursor = [], ""
    for key in [*later, *(key for key in tables if key not in later)]:
        if time.monotonic() - started > BUDGET_SECONDS:
            cursor = key.to_user_string()
            break
        name = tables[key]
        try:
            lines.append(f"{name}: {report(key, open_table(catalog, name))}")
        except lc.LakehouseError as error:
            # A tick that reports another table shows no lines.
            context.log.warning(f"{name}: {error}")
            lines.append(f"{name}: {error}")
    return "\n".join(lines) or "no tables", cursor


def from_asset(tables: Iterable[dg.AssetKey], first: str | None) -> list[dg.AssetKey]:
    """Return the tables from an asset on; none without it."""
    return list(dropwhile(lambda key: key.to_user_string() != first, tables))
