"""Rounds: a tick of a sensor looks at each table of a warehouse, without Spark.

Rule: an error of one table stops no other, and what a tick does not reach comes first in the next one.
"""

import time
from collections.abc import Callable, Mapping

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.pipeline import open_table
from lakehouse_dagster.resources import LakehouseResource

# A tick must end within 60 s; the next tick continues with the table that this one did not reach.
BUDGET_SECONDS = 40
NOT_CREATED = "not created yet"


def look_at_each(
    context: dg.SensorEvaluationContext,
    resource: str,
    tables: Mapping[dg.AssetKey, str],
    report: Callable[[dg.AssetKey, lc.Table | None], str],
) -> tuple[str, str]:
    """Report the tables, asset → name; return a line for each, and the cursor of the next tick.

    `report` gets None for a table that is not created yet. The cursor is the asset of the first table that the tick did
    not reach, empty without one.
    """
    lakehouse: LakehouseResource = getattr(context.resources, resource)
    catalog = lakehouse.local_catalog()
    started = time.monotonic()
    keys = list(tables)
    first = next((at for at, key in enumerate(keys) if key.to_user_string() == context.cursor), 0)
    lines, cursor = [], ""
    for key in [*keys[first:], *keys[:first]]:
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
