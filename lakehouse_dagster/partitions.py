"""Partitions: from a specification to partitions of Dagster, and to the map from their keys to those of the table."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.partition_maps import Dimensions, KeyColumn, PartitionMap, TimeColumns
from lakehouse_dagster.specs import DimensionSpec, PartitionsSpec

_WINDOWS: Mapping[str, Any] = {
    "hour": dg.HourlyPartitionsDefinition,
    "day": dg.DailyPartitionsDefinition,
    "week": dg.WeeklyPartitionsDefinition,
    "month": dg.MonthlyPartitionsDefinition,
}
_CRON_FORMAT = "%Y-%m-%d-%H:%M"


def partitions_definition(spec: PartitionsSpec, table: str) -> dg.PartitionsDefinition:
    """Return the partitions of the assets of a table. Raises InvalidRequest for those that Dagster refuses."""
    try:
        if spec.multi is not None:
            return dg.MultiPartitionsDefinition({name: _dimension(each) for name, each in spec.multi.items()})
        return _dimension(spec)
    # A time zone that is not known is a KeyError.
    except (dg.DagsterError, ValueError, KeyError) as error:
        told = " ".join(str(error.args[0]).split()).rstrip(".")
        raise lc.InvalidRequest(f"{table}: partitions: {told}. Correct them.") from error


def partition_map(spec: PartitionsSpec) -> PartitionMap | None:
    """Return what part of the table a key means, None when keys are not mapped to partitions of the table."""
    if spec.multi is None:
        return _mapped(spec)
    maps = {name: found for name, each in spec.multi.items() if (found := _mapped(each)) is not None}
    return Dimensions(maps=maps) if maps else None


def _dimension(spec: DimensionSpec) -> dg.PartitionsDefinition:
    if spec.static is not None:
        return dg.StaticPartitionsDefinition(list(spec.static.keys))
    if spec.dynamic is not None:
        return dg.DynamicPartitionsDefinition(name=spec.dynamic.name)
    assert spec.time is not None
    time = spec.time
    if (window := _WINDOWS.get(time.every)) is not None:
        made: dg.PartitionsDefinition = window(start_date=time.start, end_date=time.end, timezone=time.timezone)
        return made
    return dg.TimeWindowPartitionsDefinition(
        start=time.start, end=time.end, fmt=_CRON_FORMAT, cron_schedule=time.every, timezone=time.timezone
    )


def _mapped(spec: DimensionSpec) -> KeyColumn | TimeColumns | None:
    if spec.time is not None:
        return TimeColumns(columns=spec.time.columns) if spec.time.columns else None
    keyed = spec.static or spec.dynamic
    assert keyed is not None
    return None if keyed.column is None else KeyColumn(column=keyed.column, values=keyed.values)
