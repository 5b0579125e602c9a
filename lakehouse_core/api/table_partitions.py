"""Verbs of `Table` about whole partitions: expire_partitions, mark_partitions_done.

Rule: a wrong argument is refused before the verb does anything.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from lakehouse_core.api.arguments import CallOptions, partition_list
from lakehouse_core.api.report_building import extended, row_change_report
from lakehouse_core.api.reports import PartitionExpiryReport, PartitionsDoneReport
from lakehouse_core.api.verb import reported
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.row_changes.expire_partitions import AskedExpiry
from lakehouse_core.execution.row_changes.expire_partitions import expire_partitions as drop_expired
from lakehouse_core.execution.write.mark_done import mark_done
from lakehouse_core.format.stored import is_int64
from lakehouse_core.planning.partitions import named_values, partition_values


@reported
def expire_partitions(
    table: TableContext,
    call: CallOptions,
    *,
    older_than: timedelta | None,
    pattern: str | None,
    formatter: str | None,
    at_most: int | None,
    strategy: str | None,
) -> PartitionExpiryReport:
    if older_than is not None and (not isinstance(older_than, timedelta) or older_than < timedelta()):
        raise InvalidRequest(f"older_than={shown(older_than)}: expected a timedelta of 0 or more.")
    if at_most is not None and (not is_int64(at_most) or at_most < 1):
        raise InvalidRequest(f"at_most={shown(at_most)}: expected a number of partitions, from 1 on.")
    for name, text in (("pattern", pattern), ("formatter", formatter)):
        if text is not None and not isinstance(text, str):
            raise InvalidRequest(f"{name}={shown(text)}: expected a text.")
    if strategy is not None and not (isinstance(strategy, str) and strategy in ("values-time", "update-time")):
        raise InvalidRequest(f"strategy={shown(strategy)}: expected 'values-time' or 'update-time'.")
    asked = AskedExpiry(
        age_millis=None if older_than is None else older_than // timedelta(milliseconds=1),
        pattern=pattern,
        formatter=formatter,
        at_most=at_most,
        by_update=None if strategy is None else strategy == "update-time",
    )
    found, result = drop_expired(
        table,
        asked,
        dry_run=call.dry_run,
        properties=call.checked_properties(),
        watch=call.watch("expire_partitions", table.name),
    )
    if isinstance(result, str):
        latest_id = table.snapshots.ids.latest()
        return PartitionExpiryReport(
            table=table.name,
            snapshot_id_before=latest_id,
            noop_reason=result,
            dry_run=call.dry_run,
        )
    return extended(
        row_change_report(result, dry_run=call.dry_run),
        PartitionExpiryReport,
        partitions_expired=tuple(named_values(values, result.base.schema) for values in found),
    )


@reported
def mark_partitions_done(
    table: TableContext, partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> PartitionsDoneReport:
    schema = table.schemas.latest()
    every = []
    for one in partition_list(partitions):
        values = partition_values(one, schema)
        if missing := [name for name in schema.partition_keys if name not in values]:
            raise InvalidRequest(f"partitions={shown(one)}: the value of {missing[0]} is missing. Give each of them.")
        every.append([values[name] for name in schema.partition_keys])
    # Read first: once a file is written, an error would say that nothing was done.
    latest_id = table.snapshots.ids.latest()
    mark_done(table, schema, every)
    return PartitionsDoneReport(
        table=table.name,
        snapshot_id_before=latest_id,
        partitions_done=tuple(named_values(values, schema) for values in every),
    )
