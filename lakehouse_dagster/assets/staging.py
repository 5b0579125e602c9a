"""Staging step: writes the files of the batches of a run, for the ingest, or for the table's own asset where it runs
alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.assets.context import TableAssets, batch_count, input_tags
from lakehouse_dagster.event_tags import DATA_VERSION
from lakehouse_dagster.lineage import StepLineage
from lakehouse_dagster.metadata import Metadata, staged_metadata
from lakehouse_dagster.pipeline import (
    Staged,
    create_table,
    differences,
    logged_progress,
    overtaken,
    recorded_groups,
    refuse_dynamic_together,
    stage_batches,
    stage_mode,
)
from lakehouse_dagster.resources import spark_app_id
from lakehouse_dagster.sources import Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedStep:
    """What a step has staged in a table; `before` is the snapshot that the table had."""

    table: lc.Table
    delivery: Delivery
    staged: Sequence[Staged]
    before: lc.Snapshot | None

    @property
    def metadata(self) -> Metadata:
        """The metadata of the whole step on the page of the ingest."""
        return {
            **staged_metadata(self.staged),
            "paimon/snapshot_id_before": "" if self.before is None else str(self.before.id),
            "paimon/commit_user": self.delivery.user,
            "paimon/spark_app_id": spark_app_id(),
        }


def stage(
    context: dg.AssetExecutionContext, assets: TableAssets, lineage: StepLineage, inputs: Mapping[str, Any]
) -> StagedStep:
    """Create the table if it does not exist, and stage the batches of a run. `inputs` are those of the ingest."""
    spec, source = assets.spec, assets.source
    made = partial(create_table, defaults=assets.lakehouse(context).table_defaults)
    table, (found, before) = assets.table(
        context, lambda table: table.at_one_moment(lambda seen: (differences(seen, spec), seen.snapshot())), made
    )
    for difference in found:
        context.log.warning(f"{spec.identifier}: {difference}")
    delivery = source.delivery(context, in_spark=assets.in_spark, inputs=inputs)
    lineage.reads(lambda: assets.source_dataset(context, delivery))
    groups = None
    if spec.commit.is_together:
        refuse_dynamic_together(table)
        groups = recorded_groups(assets.lakehouse(context).local_catalog(), table, commit_user=delivery.user)
    staged = stage_batches(
        table,
        delivery.batches_to_stage(table),
        delivery.read,
        commit_user=delivery.user,
        mode=delivery.mode or (lambda _: stage_mode(spec)),
        rowkind_column=delivery.rowkind_column or spec.rowkind_column,
        properties=delivery.properties,
        groups=groups,
        by_run=delivery.by_run,
        progress=logged_progress(context.log.info),
    )
    return StagedStep(table=table, delivery=delivery, staged=list(staged), before=before)


def stages_itself(context: dg.AssetExecutionContext, assets: TableAssets) -> bool:
    """Return whether the step of a table stages what it commits, because its run has no ingest of the table.

    Values of assets are loaded by the ingest alone.
    """
    ingest = assets.operation("ingest").to_python_identifier()
    runs_ingest = any(node.name == ingest for node in context.job_def.nodes)
    return not (runs_ingest or assets.source.inputs)


def rereads(assets: TableAssets, table: lc.Table, delivery: Delivery) -> bool:
    """Return whether the step of a table reads batches again that the run has staged, because another run has loaded
    them since. Values of assets are loaded by the ingest alone.
    """
    if assets.source.inputs or not delivery.by_run:
        return False
    return bool(overtaken(table, delivery.batches_to_commit(table), commit_user=delivery.user))


def report_staged(context: dg.AssetExecutionContext, assets: TableAssets, step: StagedStep) -> None:
    """Show on the page of the ingest what the step of the table has staged."""
    new = [part for part in step.staged if not part.is_committed]
    if not new:
        return
    context.log.info(
        f"{assets.spec.identifier}: staged {sum(part.rows for part in new):,} rows{batch_count(' of', new)}"
    )
    partitions = {assets.partition_of(part.batch): part for part in new}
    for partition, part in partitions.items():
        own = staged_metadata([part]) if partition is not None else {}
        context.log_event(
            dg.AssetMaterialization(
                assets.operation("ingest"),
                partition=partition,
                description="staged by the run of the table",
                metadata={**step.metadata, **assets.inputs(step.delivery), **own},
                tags={
                    **input_tags(context, assets, assets.source.upstream, partition),
                    DATA_VERSION: f"{step.delivery.version}/{partition or context.run.run_id}",
                },
            )
        )
