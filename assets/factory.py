"""The five assets of a table, and its checks, made from its specification.

    <lake>/<database>/<table>/ingest     writes the files of the batches and stages their commits
    <lake>/<database>/<table>            commits what is staged: the table itself
    <lake>/<database>/<table>/compact_manifests, .../compact_full, .../expire

Nothing here looks at a warehouse: a slow store cannot break the code location.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import dagster as dg

import lakehouse_core as lc
from assets.batches import Batch, Feed
from assets.checks import table_checks
from assets.failures import retrying_what_may_pass
from assets.inflow import ChangesInflow, Delivery, FeedInflow, Inflow
from assets.ingestion import Committed, Staged, commit_batches, create_table, differences, stage_batches
from assets.maintenance import OPERATIONS
from assets.metadata import (
    before_and_after,
    column_lineage,
    commit_metadata,
    definition_metadata,
    details,
    input_snapshots,
    report_metadata,
    staged_metadata,
    state_metadata,
)
from assets.progress import logged_progress
from assets.specs import TableSpec
from assets.state import RUN_ID, TableState, read_state
from resources import LakehouseResource, spark_app_id, spark_job

# Part of the code version of each asset: raise it when the assets do something else than before.
FACTORY_VERSION = 1


class CompactConfig(dg.Config):
    """What one run may change about a compaction."""

    dry_run: bool = False


class ExpireConfig(dg.Config):
    """What one run may change about retention; what is left out comes from the table's options."""

    dry_run: bool = False
    retain_max: int | None = None
    retain_min: int | None = None
    older_than_hours: float | None = None


def build_table_definitions(spec: TableSpec, feeds: Mapping[str, Feed], *, lake: str = "lake") -> dg.Definitions:
    """Return assets and checks of one table. `lake` is the name of its warehouse, the first part of the asset keys."""
    key = dg.AssetKey([lake, spec.database, spec.name])
    names = _Names(spec=spec, key=key, inflow=_inflow(spec, key, feeds, lake))
    return dg.Definitions(
        assets=[_ingest(names), _table(names), _compact_full(names), _compact_manifests(names), _expire(names)],
        asset_checks=[table_checks(spec, key, names.inflow)],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """What the assets of one table have in common."""

    spec: TableSpec
    key: dg.AssetKey
    inflow: Inflow

    def operation(self, name: str) -> dg.AssetKey:
        return dg.AssetKey([*self.key.path, name])

    def common(self, operation: str) -> dict[str, Any]:
        """The arguments that every asset of the table is defined with."""
        tags = {"lakehouse/table": self.spec.identifier, "lakehouse/operation": operation}
        return {
            # One box a table in the lineage: inside a database's, five assets named `ingest` would look alike.
            # The pages of groups within groups are empty in Dagster 1.13, so no `/`.
            "group_name": f"{self.spec.database}_{self.spec.name}",
            "kinds": {"paimon", "spark" if self.in_spark else "python"},
            "owners": list(self.spec.owners) or None,
            "tags": {**tags, "lakehouse/database": self.spec.database, **self.spec.tags},
            "op_tags": tags,
            # Two runs never commit to one table at a time. The table would refuse the loser; this saves its work.
            "pool": "/".join(self.key.path),
            "code_version": f"{FACTORY_VERSION}-{self.spec.digest}",
            "required_resource_keys": {"lakehouse"},
        }

    def batched(self, operation: str) -> dict[str, Any]:
        """The arguments of the two assets that take batches: one run for any range of them."""
        needed = {"required_resource_keys": {"lakehouse", *self.inflow.resources}}
        return {**self.common(operation), **self.inflow.batching, **needed}

    @property
    def in_spark(self) -> bool:
        return self.spec.runs_on == "spark"

    def catalog(self, context: dg.AssetExecutionContext) -> lc.Catalog:
        lakehouse: LakehouseResource = context.resources.lakehouse
        return lakehouse.catalog() if self.in_spark else lakehouse.local_catalog()

    def partition_of(self, batch: Batch) -> str | None:
        """Return the partition of the assets that a batch is, None where they have none."""
        return batch.key if self.spec.is_batched else None


def _inflow(spec: TableSpec, key: dg.AssetKey, feeds: Mapping[str, Feed], lake: str) -> Inflow:
    if spec.changes_of is not None:
        return ChangesInflow(spec=spec.changes_of, columns=tuple(spec.columns), key=key, lake=lake)
    assert spec.feed is not None
    return FeedInflow(feed=feeds[spec.feed.source], spec=spec.feed, key=key)


def _ingest(names: _Names) -> dg.AssetsDefinition:
    spec, inflow = names.spec, names.inflow

    @dg.asset(
        key=names.operation("ingest"),
        deps=[inflow.upstream],
        description=f"Files for {spec.identifier}, made of {inflow.says} and staged: no reader sees them yet.",
        **names.batched("ingest"),
    )
    def ingest(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        lakehouse: LakehouseResource = context.resources.lakehouse
        with _step(context, names, "ingest"):
            table = create_table(names.catalog(context), spec, lakehouse.table_defaults)
            for difference in differences(table, spec):
                context.log.warning(f"{spec.identifier}: {difference}. Alter the table, or the specification.")
            before = table.snapshot()
            delivery = inflow.delivery(context, in_spark=names.in_spark)
            staged = []
            for part in stage_batches(
                table,
                delivery.due(table),
                delivery.read,
                commit_user=delivery.user,
                rowkind_column=delivery.rowkind_column,
                progress=logged_progress(context.log.info),
            ):
                staged.append(part)
                if (partition := names.partition_of(part.batch)) is not None:
                    context.add_asset_metadata(staged_metadata([part]), partition_key=partition)
            context.log.info(
                f"{spec.identifier}: staged {sum(part.rows for part in staged):,} rows{_batches(' of', staged)}"
            )
            return dg.MaterializeResult(
                metadata={
                    **staged_metadata(staged),
                    "paimon/snapshot_id_before": 0 if before is None else before.id,
                    "paimon/commit_user": delivery.user,
                    "paimon/spark_app_id": spark_app_id(),
                    **_inputs(inflow, delivery),
                }
            )

    return ingest


def _table(names: _Names) -> dg.AssetsDefinition:
    spec, inflow = names.spec, names.inflow

    @dg.asset(
        key=names.key,
        deps=[names.operation("ingest")],
        description=spec.comment,
        metadata=definition_metadata(spec),
        **names.batched("commit"),
    )
    def table(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        lakehouse: LakehouseResource = context.resources.lakehouse
        with _step(context, names, "commit"):
            opened = names.catalog(context).table(spec.identifier)
            delivery = inflow.delivery(context, in_spark=names.in_spark)
            committed = []
            for part in commit_batches(
                opened,
                delivery.staged(opened),
                commit_user=delivery.user,
                run_id=context.run.run_id,
                tag_batches=spec.tag_batches,
                progress=logged_progress(context.log.info),
            ):
                committed.append(part)
                if part.report is not None and part.report.compaction_failure is not None:
                    context.log.warning(
                        f"{spec.identifier}: committed, but not compacted: {part.report.compaction_failure} "
                        "The next commit or compaction does it."
                    )
                if (partition := names.partition_of(part.batch)) is not None and part.report is not None:
                    told = {**report_metadata([part.report]), "dagster/partition_row_count": part.report.rows_added}
                    context.add_asset_metadata(told, partition_key=partition)
            state = read_state(opened)
            context.log.info(
                f"{spec.identifier}: committed{_batches('', committed)}, now at snapshot {state.snapshot_id}"
            )
            return dg.MaterializeResult(
                data_version=dg.DataVersion(state.content_version),
                metadata={
                    **commit_metadata(committed),
                    **state_metadata(state),
                    "dagster/row_count": opened.scan().count(),
                    "dagster/uri": f"{lakehouse.uri}/{spec.database}.db/{spec.name}",
                    "paimon/commit_user": delivery.user,
                    "paimon/spark_app_id": spark_app_id(),
                    **column_lineage(spec, inflow.upstream, inflow.column_prefix),
                    **_inputs(inflow, delivery),
                },
            )

    return table


def _compact_manifests(names: _Names) -> dg.AssetsDefinition:
    @dg.asset(
        key=names.operation("compact_manifests"),
        deps=[names.key],
        description=f"The manifests of {names.spec.identifier} merged into few; its rows stay as they are.",
        **_maintenance(names, "compact_manifests"),
    )
    def compact_manifests(context: dg.AssetExecutionContext, config: CompactConfig) -> dg.MaterializeResult[Any]:
        return _maintain(
            context,
            names,
            "compact_manifests",
            lambda t: t.compact_manifests(dry_run=config.dry_run, properties={RUN_ID: context.run.run_id}),
        )

    return compact_manifests


def _compact_full(names: _Names) -> dg.AssetsDefinition:
    @dg.asset(
        key=names.operation("compact_full"),
        deps=[names.key],
        description=f"The files of each bucket of {names.spec.identifier} merged into few large ones.",
        **_maintenance(names, "compact_full"),
    )
    def compact_full(context: dg.AssetExecutionContext, config: CompactConfig) -> dg.MaterializeResult[Any]:
        return _maintain(
            context,
            names,
            "compact_full",
            lambda t: t.compact(
                full=True,
                dry_run=config.dry_run,
                properties={RUN_ID: context.run.run_id},
                progress=logged_progress(context.log.info),
            ),
        )

    return compact_full


def _expire(names: _Names) -> dg.AssetsDefinition:
    @dg.asset(
        key=names.operation("expire"),
        deps=[names.key],
        description=f"Old snapshots of {names.spec.identifier} dropped, with the files that only they needed.",
        **_maintenance(names, "expire"),
    )
    def expire(context: dg.AssetExecutionContext, config: ExpireConfig) -> dg.MaterializeResult[Any]:
        older_than = None if config.older_than_hours is None else timedelta(hours=config.older_than_hours)
        return _maintain(
            context,
            names,
            "expire",
            lambda t: t.expire_snapshots(
                retain_max=config.retain_max,
                retain_min=config.retain_min,
                older_than=older_than,
                dry_run=config.dry_run,
                progress=logged_progress(context.log.info),
            ),
        )

    return expire


def _inputs(inflow: Inflow, delivery: Delivery) -> dict[str, Any]:
    return input_snapshots([(inflow.upstream.to_user_string(), delivery.version, delivery.snapshot_id)])


def _batches(before: str, parts: Sequence[Staged | Committed]) -> str:
    """How many batches that were, for whoever reads along; a whole load is no batch."""
    count = sum(part.batch.key is not None for part in parts)
    return "" if not count else f"{before} {count} batch{'es' if count > 1 else ''}"


def _maintenance(names: _Names, operation: str) -> dict[str, Any]:
    common = names.common(operation)
    # One run does them in this order, without claiming that one was made from the other.
    priority = str(len(OPERATIONS) - OPERATIONS.index(operation))
    return common | {"op_tags": {**common["op_tags"], "dagster/priority": priority}}


def _maintain(
    context: dg.AssetExecutionContext, names: _Names, operation: str, verb: Callable[[lc.Table], lc.Report]
) -> dg.MaterializeResult[Any]:
    """Carry out one maintenance verb and tell its own page, and the page of the table, what it did."""
    spec = names.spec
    with _step(context, names, operation):
        table = names.catalog(context).table(spec.identifier)
        before = read_state(table)
        report = verb(table)
        after = read_state(table)
        metadata = {
            **details(report),
            **report_metadata([report]),
            **before_and_after(before, after),
            **state_metadata(after),
            "paimon/spark_app_id": spark_app_id(),
            **input_snapshots([(names.key.to_user_string(), before.content_version, before.snapshot_id or 0)]),
        }
        context.log.info(f"{spec.identifier}: {operation}: {_summary(report, before, after)}")
        if report.noop_reason is None:
            context.log_event(
                dg.AssetObservation(
                    asset_key=names.key,
                    description=operation,
                    metadata={"paimon/operation": operation, **state_metadata(after)},
                    tags={"dagster/data_version": after.content_version},
                )
            )
        version = f"{after.incarnation}/{after.branch}@{after.snapshot_id or 0}"
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)


def _summary(report: lc.Report, before: TableState, after: TableState) -> str:
    if report.noop_reason is not None:
        return f"nothing to do: {report.noop_reason}"
    return (
        f"files {before.files_total} -> {after.files_total}, manifests {before.manifests_total} -> "
        f"{after.manifests_total}, snapshots {before.snapshots_retained} -> {after.snapshots_retained}"
    )


@contextmanager
def _step(context: dg.AssetExecutionContext, names: _Names, operation: str) -> Iterator[None]:
    """Name the step's Spark jobs after it, and let Dagster retry only what may pass."""
    table = names.spec.identifier
    group = f"{context.run.run_id}/{table}/{operation}"
    with (
        retrying_what_may_pass(table, operation, retry_number=context.retry_number),
        spark_job(group, f"{operation} {table}"),
    ):
        yield
