"""Reads: how often a day a table was read through Dagster lately, counted from the events that its reads left.

Rule: a read writes an event of Dagster, never a file of the table (docs/decisions/0026-reads-are-events-of-dagster.md).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import dagster as dg

from lakehouse_dagster.lake import Lake
from lakehouse_dagster.metadata import SNAPSHOT_READ
from lakehouse_dagster.specs import TableSpec

# Reads of a week count: some tables are read on one day of it.
WINDOW = timedelta(days=7)
# Events asked for at once, which is the most that Dagster gives, and in all: of a table that is read more often than
# that, the newest events tell how often.
_AT_ONCE, _MOST = 1000, 5000


def record_read(
    instance: dg.DagsterInstance, lake: Lake, table: str, *, snapshot_id: int | None = None, by: str = ""
) -> None:
    """Record that a table of a lake was read, for the planner of maintenance: one event of the table's asset.

    For reads that do not go through `LakehouseIOManager`, which records its own. `table` is `database.table`; `by` says
    who read it. Raises InvalidRequest when the lake has no such table.
    """
    instance.report_runless_asset_event(
        dg.AssetObservation(
            lake.table_key(lake.table(table)),
            description=f"read by {by}" if by else "read",
            # Text, as that of an input: as a number Dagster would plot it.
            metadata={SNAPSHOT_READ: "" if snapshot_id is None else str(snapshot_id)},
        )
    )


def reads_per_day(
    instance: dg.DagsterInstance, lake: Lake, tables: Iterable[TableSpec], *, now: datetime
) -> dict[str, float]:
    """Return how often a day tables were read in the last week, by `database.table`, without those of no known read."""
    counted = {table.identifier: _reads(instance, lake.table_key(table), now=now) for table in tables}
    return {name: often for name, often in counted.items() if often > 0}


def _reads(instance: dg.DagsterInstance, key: dg.AssetKey, *, now: datetime) -> float:
    since = now - WINDOW
    wanted = dg.AssetRecordsFilter(asset_key=key, after_timestamp=since.timestamp())
    count, seen, cursor = 0, 0, None
    while True:
        found = instance.fetch_observations(wanted, limit=_AT_ONCE, cursor=cursor)
        count += sum(map(_is_read, found.records))
        seen, cursor = seen + len(found.records), found.cursor
        if not found.has_more:
            return count / WINDOW.days
        if seen >= _MOST:
            taken = now - datetime.fromtimestamp(found.records[-1].timestamp, now.tzinfo)
            return count / max(taken / timedelta(days=1), 1 / 86_400)


def _is_read(record: dg.EventLogRecord) -> bool:
    seen = record.asset_observation
    return seen is not None and SNAPSHOT_READ in seen.metadata
