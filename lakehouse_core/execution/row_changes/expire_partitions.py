"""Partition expiry: drop the partitions whose values, or whose newest file, are of a time that is too long ago, in one
OVERWRITE.

Source: docs/semantics/maintenance.md#partition-expiry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.row_changes.change import RowChangeResult, change_rows
from lakehouse_core.execution.row_changes.change_base import FixedAt
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.partition_path import value_text
from lakehouse_core.planning.partitions import condition_of_values
from lakehouse_core.planning.row_changes.statements import Delete, Statement
from lakehouse_core.progress import Watch
from lakehouse_core.table.partition_time import PartitionExpiry, UpdateExpiry, expired_before, partition_times
from lakehouse_core.table.predicate import Or
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot

# The comparable values of a partition.
Values: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedExpiry:
    """Which partitions expire, and how many at most; None means as the table's options say.

    `by_update`: the time of a partition is that of its newest file, and not in its values.
    """

    age_millis: int | None = None
    pattern: str | None = None
    formatter: str | None = None
    at_most: int | None = None
    by_update: bool | None = None


class _NoneExpired(Exception):
    """No partition has expired, or none any more."""


def expire_partitions(
    table: TableContext, asked: AskedExpiry, *, dry_run: bool, properties: Mapping[str, str], watch: Watch
) -> tuple[tuple[Sequence[Any], ...], RowChangeResult | str]:
    """Return the comparable values of the expired partitions, in the order of their texts, and what dropped them, or
    why none has expired.

    Raises InvalidRequest for a table without partitions, or without an age; the errors of `change_rows`.
    """
    schema = table.schemas.latest()
    by_update = schema.table_options.partition_times.expires_by_update if asked.by_update is None else asked.by_update
    expiry = _expiry(schema, asked, table.clock.local_now_millis(), by_update=by_update)
    most = schema.table_options.partition_times.most_expired if asked.at_most is None else asked.at_most
    every: Mapping[Values, list[int | None]] = {}
    found: tuple[Values, ...] = ()

    def at() -> FixedAt:
        nonlocal every, found
        latest, every = table.snapshots.of_latest(lambda latest: (latest, _partitions(table, latest, schema)))
        found = tuple(values for values, times in every.items() if _is_expired(expiry, values, times))[:most]
        if not found:
            raise _NoneExpired
        return FixedAt(latest)

    def make(schema: TableSchema) -> Statement:
        named = (dict(zip(schema.partition_keys, values, strict=True)) for values in found)
        conditions = tuple(one for values in named if (one := condition_of_values(values, schema)) is not None)
        return Delete(condition=conditions[0] if len(conditions) == 1 else Or(conditions), drops_partitions=True)

    try:
        result = change_rows(
            table,
            make,
            # A partition that gets a row meanwhile is a new one, if its newest file says when it expires.
            isolation="serializable" if by_update else "snapshot",
            dry_run=dry_run,
            properties=properties,
            watch=watch,
            at=at,
        )
    except _NoneExpired:
        untimed = expiry.times.untimed(every) if isinstance(expiry, PartitionExpiry) else None
        return (), "no partition has expired" if untimed is None else f"no partition has expired; {untimed}"
    return found, result


def _expiry(
    schema: TableSchema, asked: AskedExpiry, local_now_millis: int, *, by_update: bool
) -> PartitionExpiry | UpdateExpiry:
    times = partition_times(schema, pattern=asked.pattern, formatter=asked.formatter)
    if times is None:
        raise InvalidRequest("expire_partitions: the table is not partitioned. Delete its rows by a condition.")
    for name, given in (("pattern", asked.pattern), ("formatter", asked.formatter)):
        if by_update and given is not None:
            raise InvalidRequest(
                f"expire_partitions: {name}={shown(given)} says how values are a time, and the strategy update-time "
                f"reads no values. Leave {name} out, or give the strategy values-time."
            )
    age_millis = schema.table_options.partition_times.age_millis if asked.age_millis is None else asked.age_millis
    if age_millis is None:
        raise InvalidRequest(
            "expire_partitions: older_than is not given, and the option partition.expiration-time is not set. Give one."
        )
    if by_update:
        return UpdateExpiry(local_now_millis - age_millis)
    return expired_before(times, local_now_millis=local_now_millis, age_millis=age_millis)


def _is_expired(expiry: PartitionExpiry | UpdateExpiry, values: Values, times: Sequence[int | None]) -> bool:
    return expiry.is_expired(times) if isinstance(expiry, UpdateExpiry) else expiry.is_expired(values)


def _partitions(table: TableContext, latest: Snapshot | None, schema: TableSchema) -> Mapping[Values, list[int | None]]:
    """Return the values of the partitions, in the order of their texts, with the creation times of their files."""
    types = [field.type for field in schema.partition_fields]
    times: dict[bytes, list[int | None]] = {}
    for entry in () if latest is None else table.manifests.live_entries(latest):
        times.setdefault(entry.partition, []).append(entry.file.creation_time_millis)
    every = {tuple(deserialize_row(partition, types)): found for partition, found in times.items()}
    return dict(sorted(every.items(), key=lambda item: _text(item[0], schema)))


def _text(values: Sequence[Any], schema: TableSchema) -> str:
    """Return the text by which Java sorts a partition."""
    types = [field.type for field in schema.partition_fields]
    return ",".join(
        schema.table_options.partition_default_name if value is None else value_text(value, type_, legacy=True)
        for value, type_ in zip(values, types, strict=True)
    )
