"""Batch reads of `format("lakehouse")`: the plan of `Table.scan`, as partitions of Spark.

Source: docs/spark.md#formatlakehouse.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lakehouse_core.api.scan import Scan
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.spark_format.settings import CHANGELOG, STREAM_START, Settings, Use, settings_of
from lakehouse_core.errors import InvalidRequest, NotFound, SnapshotExpired
from lakehouse_core.execution.engines.spark.source import check_types, plan_partitions, plan_schema
from lakehouse_core.tasks.read import ROW_KIND_COLUMN

# Named for the reader: only the Spark engine knows Spark.
StructType: TypeAlias = Any


def source_schema(options: Mapping[str, str]) -> StructType:
    """Return the columns of a read, for which the user gives no schema. Raises the errors of a scan."""
    settings = settings_of(options, Use.SCHEMA)
    table = settings.open()
    try:
        plan = _scan(table, settings, settings.columns, settings.scan).plan()
    except SnapshotExpired:
        raise
    except NotFound:
        # A stream waits for a snapshot that does not exist yet; a batch read raises the error when it is planned.
        if not settings.scan.keys() <= STREAM_START:
            raise
        plan = _scan(table, settings, settings.columns, {}).plan()
    return plan_schema(plan, with_row_kind=settings.with_row_kind)


def check_batch_read(options: Mapping[str, str]) -> None:
    """Raise InvalidRequest for options that no batch read has."""
    settings_of(options, Use.BATCH_READ)


def batch_partitions(options: Mapping[str, str], schema: StructType, cores: int) -> list[bytes]:
    """Return the partitions of a read of the columns in `schema`. Raises the errors of a scan."""
    settings = settings_of(options, Use.BATCH_READ)
    columns = chosen_columns(settings, schema.names)
    plan = _scan(settings.open(), settings, columns, settings.scan).plan()
    check_types(schema, plan_schema(plan), settings.table)
    return plan_partitions(plan, cores)


def chosen_columns(settings: Settings, declared: Sequence[str]) -> list[str]:
    """Return the columns of the table that the frame has. Raises InvalidRequest if the options name others."""
    names = list(declared)
    if settings.with_row_kind:
        if names[:1] != [ROW_KIND_COLUMN]:
            raise InvalidRequest(
                f"{settings.table}: with {CHANGELOG} the first column of the schema is {ROW_KIND_COLUMN}, of type "
                "string. Add it, or leave the schema out."
            )
        names = names[1:]
    if settings.columns is not None and set(names) != set(settings.columns):
        raise InvalidRequest(
            f"{settings.table}: the schema has the columns {', '.join(names)}, and the option columns names "
            f"{', '.join(settings.columns)}. Give one of them."
        )
    return names


def _scan(table: Table, settings: Settings, columns: Sequence[str] | None, options: Mapping[str, str]) -> Scan:
    return table.scan(columns=columns, where=settings.where, options=options)
