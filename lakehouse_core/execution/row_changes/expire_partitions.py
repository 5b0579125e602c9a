"""Partition expiry: drop the partitions whose values are a time that is too long ago, in one OVERWRITE.

Source: docs/semantics/maintenance.md#partition-expiry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.row_changes.change import RowChangeResult, change_rows
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.partition_path import value_text
from lakehouse_core.planning.partitions import condition_of_values
from lakehouse_core.planning.row_changes.statements import Delete, Statement
from lakehouse_core.progress import Watch
from lakehouse_core.table.partition_time import PartitionExpiry, expired_before, partition_times
from lakehouse_core.table.predicate import Or
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedExpiry:
    """Which partitions expire, and how many at most; None means as the table's options say."""

    age_millis: int | None = None
    pattern: str | None = None
    formatter: str | None = None
    at_most: int | None = None


def expire_partitions(
    table: TableContext, asked: AskedExpiry, *, dry_run: bool, properties: Mapping[str, str], watch: Watch
) -> tuple[tuple[Sequence[Any], ...], RowChangeResult | str]:
    """Return the comparable values of the expired partitions, in the order of their texts, and what dropped them, or
    why none has expired.

    Raises InvalidRequest for a table without partitions, or without an age; the errors of `change_rows`.
    """
    schema = table.schemas.latest()
    expiry = _expiry(schema, asked, table.clock.local_now_millis())
    most = schema.table_options.partition_times.most_expired if asked.at_most is None else asked.at_most
    every = table.snapshots.of_latest(lambda latest: _partitions(table, latest, schema))
    found = tuple(values for values in every if expiry.is_expired(values))[:most]
    if not found:
        untimed = expiry.times.untimed(every)
        return (), "no partition has expired" if untimed is None else f"no partition has expired; {untimed}"

    def make(schema: TableSchema) -> Statement:
        named = (dict(zip(schema.partition_keys, values, strict=True)) for values in found)
        conditions = tuple(one for values in named if (one := condition_of_values(values, schema)) is not None)
        return Delete(condition=conditions[0] if len(conditions) == 1 else Or(conditions))

    return found, change_rows(table, make, isolation="snapshot", dry_run=dry_run, properties=properties, watch=watch)


def _expiry(schema: TableSchema, asked: AskedExpiry, local_now_millis: int) -> PartitionExpiry:
    times = partition_times(schema, pattern=asked.pattern, formatter=asked.formatter)
    if times is None:
        raise InvalidRequest("expire_partitions: the table is not partitioned. Delete its rows by a condition.")
    age_millis = schema.table_options.partition_times.age_millis if asked.age_millis is None else asked.age_millis
    if age_millis is None:
        raise InvalidRequest(
            "expire_partitions: older_than is not given, and the option partition.expiration-time is not set. Give one."
        )
    return expired_before(times, local_now_millis=local_now_millis, age_millis=age_millis)


def _partitions(table: TableContext, latest: Snapshot | None, schema: TableSchema) -> list[Sequence[Any]]:
    """Return the values of the partitions, in the order of their texts."""
    if latest is None:
        return []
    types = [field.type for field in schema.partition_fields]
    partitions = {entry.partition for entry in table.manifests.live_entries(latest)}
    every = [deserialize_row(partition, types) for partition in partitions]
    return sorted(every, key=lambda values: _text(values, schema))


def _text(values: Sequence[Any], schema: TableSchema) -> str:
    """Return the text by which Java sorts a partition."""
    types = [field.type for field in schema.partition_fields]
    return ",".join(
        schema.table_options.partition_default_name if value is None else value_text(value, type_, legacy=True)
        for value, type_ in zip(values, types, strict=True)
    )
