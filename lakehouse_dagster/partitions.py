"""Partitions: from a specification to partitions of Dagster, and to the map from their keys to those of the table."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.partition_maps import Dimensions, KeyColumn, PartitionMap, TimeColumns, is_value_of
from lakehouse_dagster.specs import DimensionSpec, PartitionsSpec, TableSpec

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


def partition_fault(spec: TableSpec) -> str | None:
    """Return why the partitions of a specification cannot be those of its table, None if they can.

    The type of a column must take the value that a key gives it: a text, a whole number or a date.
    """
    partitions = spec.partitions
    if partitions is None:
        return None
    try:
        partitions_definition(partitions, spec.identifier)
    except lc.InvalidRequest as error:
        return str(error).removeprefix(f"{spec.identifier}: ").removesuffix(" Correct them.").rstrip(".")
    for dimension in [partitions] if partitions.multi is None else partitions.multi.values():
        for column, text in _first_values(dimension):
            if not is_value_of(text, spec.columns[column].type):
                return (
                    f"partitions give {column} the value {text!r}, which {spec.columns[column].type} does not have as "
                    "the table writes it: expected a text, a whole number, or a date as in 2013-01-31"
                )
    return None


def _first_values(spec: DimensionSpec) -> Iterator[tuple[str, str]]:
    """Yield columns and values that keys give them: of windows those of the first, of keys those of each."""
    if spec.time is not None:
        start = datetime.fromisoformat(spec.time.start)
        yield from ((column, start.strftime(pattern)) for column, pattern in spec.time.columns.items())
    keyed = spec.static or spec.dynamic
    if keyed is not None and keyed.column is not None:
        known = keyed.values or {key: key for key in (spec.static.keys if spec.static is not None else ())}
        yield from ((keyed.column, value) for value in known.values())


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
