"""Maintenance verbs of `Table`: compaction, expiry, tags, verification.

Rule: a wrong argument is refused before the verb does anything.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lakehouse_core.api import report_building as answers
from lakehouse_core.api.arguments import (
    CallOptions,
    age_millis,
    bucket_numbers,
    count_of,
    idle_millis,
    mapping_of,
    orphan_age_millis,
    retention_millis,
)
from lakehouse_core.api.reports import (
    CompactionReport,
    ExpiryReport,
    FileIndexReport,
    ManifestReport,
    OrphanReport,
    RescaleReport,
    RollbackReport,
    TagReport,
    VerifyReport,
)
from lakehouse_core.api.tagging import tagging, tagging_upkeep
from lakehouse_core.api.verb import names_table, reported
from lakehouse_core.errors import CorruptTable
from lakehouse_core.execution.alter.rescale import rescale as rescale_partitions
from lakehouse_core.execution.commit.compact_manifests import compact_manifests as rewrite_manifests
from lakehouse_core.execution.compaction.compact import WhyNot
from lakehouse_core.execution.compaction.compact import compact as compact_buckets
from lakehouse_core.execution.compaction.scope import RequestedBuckets
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry import tag_changes
from lakehouse_core.execution.expiry.expire import expire
from lakehouse_core.execution.expiry.orphans import remove_orphans as delete_orphans
from lakehouse_core.execution.expiry.tags import create_tag as make_tag
from lakehouse_core.execution.expiry.tags import delete_tag as drop_tag
from lakehouse_core.execution.file_indexes import rewrite_file_indexes
from lakehouse_core.execution.presence import check_before, check_dropped, check_kept
from lakehouse_core.execution.read.state import state_at
from lakehouse_core.execution.rollback import roll_back
from lakehouse_core.metadata import consumers
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.planning.partitions import partition_condition, partition_values
from lakehouse_core.planning.read.read_point import AtSnapshot, AtTag, Latest, ReadPoint, checked_point


@reported
@tagging_upkeep
def compact(
    table: TableContext,
    call: CallOptions,
    *,
    full: bool,
    partition: Mapping[str, Any] | None,
    partition_idle: timedelta | None = None,
    buckets: Sequence[int] | None = None,
    why_not: WhyNot | None = None,
) -> CompactionReport:
    before = table.snapshots.ids.latest()
    result = compact_buckets(
        table,
        RequestedBuckets(
            condition=partition_condition(mapping_of("partition", partition), table.schemas.latest()),
            idle_millis=idle_millis(partition_idle),
            buckets=bucket_numbers(buckets),
        ),
        full=full,
        dry_run=call.dry_run,
        properties=call.checked_properties(),
        why_not=why_not,
        watch=call.watch("compact", table.name),
    )
    return answers.compaction_report(table.name, result, before, dry_run=call.dry_run)


@reported
@tagging
def rescale(
    table: TableContext, call: CallOptions, *, buckets: int | None, partition: Mapping[str, Any] | None
) -> RescaleReport:
    result = rescale_partitions(
        table,
        count=count_of("buckets", buckets, of="buckets"),
        values=partition_values(mapping_of("partition", partition), table.schemas.latest()),
        dry_run=call.dry_run,
        properties=call.checked_properties(),
        watch=call.watch("rescale", table.name),
    )
    return answers.rescale_report(table.name, result, dry_run=call.dry_run)


@reported
@tagging
def rewrite_file_index(
    table: TableContext, call: CallOptions, *, partition: Mapping[str, Any] | None
) -> FileIndexReport:
    result = rewrite_file_indexes(
        table,
        condition=partition_condition(mapping_of("partition", partition), table.schemas.latest()),
        dry_run=call.dry_run,
        properties=call.checked_properties(),
        watch=call.watch("rewrite_file_index", table.name),
    )
    return answers.file_index_report(table.name, result, dry_run=call.dry_run)


@reported
def compact_manifests(table: TableContext, call: CallOptions) -> ManifestReport:
    result = rewrite_manifests(table, dry_run=call.dry_run, properties=call.checked_properties())
    return answers.manifest_report(table.name, result, dry_run=call.dry_run)


@reported
def expire_snapshots(
    table: TableContext,
    call: CallOptions,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than: timedelta | datetime | None = None,
) -> ExpiryReport:
    result = expire(
        table,
        retain_max=count_of("retain_max", retain_max),
        retain_min=count_of("retain_min", retain_min),
        max_age_millis=age_millis(older_than, table.clock.now_millis()),
        dry_run=call.dry_run,
        watch=call.watch("expire_snapshots", table.name),
    )
    return answers.expiry_report(table.name, result, dry_run=call.dry_run)


@reported
def remove_orphans(table: TableContext, call: CallOptions, *, older_than: timedelta | datetime) -> OrphanReport:
    result = delete_orphans(
        table,
        min_age_millis=orphan_age_millis(older_than, table.clock.now_millis()),
        dry_run=call.dry_run,
        watch=call.watch("remove_orphans", table.name),
    )
    return answers.orphan_report(table.name, result, table.snapshots.ids.latest(), dry_run=call.dry_run)


@reported
def create_tag(
    table: TableContext, name: str, *, at: int | ReadPoint | None, retention: timedelta | None, dry_run: bool
) -> TagReport:
    latest_id = table.snapshots.ids.latest()
    tag = make_tag(
        table,
        name,
        snapshot_id=_tagged_id(table, at),
        retention_millis=retention_millis(retention),
        dry_run=dry_run,
    )
    return answers.tag_report(table.name, name, tag, latest_id, dry_run=dry_run)


@reported
def rollback_to(table: TableContext, at: int | ReadPoint, call: CallOptions) -> RollbackReport:
    point = checked_point(AtSnapshot(at) if isinstance(at, int) else at)
    result = roll_back(table, point, properties=call.checked_properties(), dry_run=call.dry_run)
    return answers.rollback_report(table.name, result, dry_run=call.dry_run)


def _tagged_id(table: TableContext, at: int | ReadPoint | None) -> int | None:
    if at is None or isinstance(at, Latest):
        return None
    point = checked_point(AtSnapshot(at) if isinstance(at, int) else at)
    snapshot = None if isinstance(point, AtSnapshot) else state_at(table, point).snapshot
    return point.id if isinstance(point, AtSnapshot) else None if snapshot is None else snapshot.id


@reported
def delete_tag(table: TableContext, name: str, *, dry_run: bool) -> TagReport:
    tag, latest_id = table.tags.tag(AtTag(name).name), table.snapshots.ids.latest()
    result = drop_tag(table, name, dry_run=dry_run)
    return answers.tag_report(table.name, name, tag, latest_id, deleted=result, dry_run=dry_run)


@reported
def replace_tag(
    table: TableContext, name: str, *, at: int | ReadPoint | None, retention: timedelta | None, dry_run: bool
) -> TagReport:
    latest_id = table.snapshots.ids.latest()
    tag, result = tag_changes.replace_tag(
        table,
        name,
        snapshot_id=_tagged_id(table, at),
        retention_millis=retention_millis(retention),
        dry_run=dry_run,
    )
    return answers.tag_report(table.name, name, tag, latest_id, deleted=result, dry_run=dry_run)


@reported
def rename_tag(table: TableContext, name: str, new_name: str, *, dry_run: bool) -> TagReport:
    latest_id = table.snapshots.ids.latest()
    tag = tag_changes.rename_tag(table, name, new_name, dry_run=dry_run)
    return answers.tag_report(table.name, new_name, tag, latest_id, dry_run=dry_run)


@reported
def expire_tags(table: TableContext, *, older_than: timedelta | datetime | None, dry_run: bool) -> ExpiryReport:
    now_millis = table.clock.now_millis()
    age = age_millis(older_than, now_millis)
    # Read first: once tags are deleted, an error would say that nothing was done.
    earliest_id, latest_id = table.snapshots.ids.earliest(), table.snapshots.ids.latest()
    result = tag_changes.expire_tags(
        table, older_than_millis=None if age is None else now_millis - age, dry_run=dry_run
    )
    result = replace(result, earliest_id=earliest_id, latest_id=latest_id)
    return answers.expiry_report(table.name, result, dry_run=dry_run)


@names_table
def set_consumer(table: TableContext, name: str, next_snapshot_id: int) -> None:
    # What is written over cannot be restored afterwards.
    check_before(table)
    consumers.set_consumer(table.store, table.layout, name, next_snapshot_id)
    check_kept(table, [table.layout.consumer(name)])


@names_table
def delete_consumer(table: TableContext, name: str) -> None:
    consumers.delete_consumer(table.store, table.layout, name, lambda: check_before(table))
    check_kept(table)


@reported
def verify(table: TableContext, call: CallOptions, *, data: bool) -> VerifyReport:
    # Programs that verify nothing need not load what does.
    from lakehouse_core.execution.verify.verify import verify as verify_table  # noqa: PLC0415

    def newest() -> int | None:
        # The findings report damage, with every other fault.
        with suppress(CorruptTable):
            return table.snapshots.ids.latest()
        return None

    findings, latest_id = both(
        lambda: verify_table(table, reads_data=data, watch=call.watch("verify", table.name)),
        newest,
        at_once=table.store.requests_at_once,
    )
    if findings:
        # Of a table that is dropped, objects are missing.
        check_dropped(table)
    return VerifyReport(table=table.name, snapshot_id_before=latest_id, findings=findings)
