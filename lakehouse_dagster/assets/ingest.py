"""The asset `<lake>/<database>/<table>/ingest`: writes the files of the batches and stages their commits."""

from typing import Any

import dagster as dg

from lakehouse_dagster.assets.context import TableAssets, batch_count, defined_asset, is_shown, observed
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.metadata import staged_metadata
from lakehouse_dagster.pipeline import (
    create_table,
    differences,
    logged_progress,
    recorded_groups,
    stage_batches,
    stage_mode,
)
from lakehouse_dagster.resources import spark_app_id
from lakehouse_dagster.specs import TableSpec


def ingest_asset(lake: Lake, table: TableSpec) -> dg.AssetsDefinition:
    """Return the asset that stages the batches of a table and creates the table if it does not exist."""
    assets = TableAssets(lake=lake, spec=table)
    source, key = assets.source, assets.operation("ingest")

    @defined_asset(
        key=key,
        **({"ins": source.inputs} if source.inputs else {"deps": [source.upstream]}),
        description=f"Stages files for {table.identifier} from {source.label}. Readers see them after the commit.",
        **assets.batched("ingest"),
    )
    def ingest(context: dg.AssetExecutionContext, **inputs: Any) -> dg.MaterializeResult[Any]:
        with assets.step(context, "ingest") as lineage:
            opened = create_table(assets.catalog(context), table, assets.lakehouse(context).table_defaults)
            for difference in differences(opened, table):
                context.log.warning(f"{table.identifier}: {difference}. Alter the table, or the specification.")
            before = opened.snapshot()
            delivery = source.delivery(context, in_spark=assets.in_spark, inputs=inputs)
            lineage.reads(lambda: assets.source_dataset(context, delivery))
            groups = None
            if table.commit.is_together:
                groups = recorded_groups(assets.catalog(context), opened, commit_user=delivery.user)
            staged = []
            for part in stage_batches(
                opened,
                delivery.batches_to_stage(opened),
                delivery.read,
                commit_user=delivery.user,
                mode=delivery.mode or (lambda _: stage_mode(table)),
                rowkind_column=delivery.rowkind_column or table.rowkind_column,
                properties=delivery.properties,
                groups=groups,
                progress=logged_progress(context.log.info),
            ):
                staged.append(part)
                if (partition := assets.partition_of(part.batch)) is not None:
                    context.add_asset_metadata(staged_metadata([part]), partition_key=partition)
            partitions = [assets.partition_of(part.batch) for part in staged]
            if all(part.is_committed for part in staged) and is_shown(context, key, partitions):
                reason = "nothing was staged: " + ("committed before" if staged else "no batch is new")
                context.log.info(f"{table.identifier}: {reason}")
                return observed(context, key, [(partition, reason, {}) for partition in partitions or [None]])
            context.log.info(
                f"{table.identifier}: staged {sum(part.rows for part in staged):,} rows{batch_count(' of', staged)}"
            )
            return dg.MaterializeResult(
                metadata={
                    **staged_metadata(staged),
                    "paimon/snapshot_id_before": "" if before is None else str(before.id),
                    "paimon/commit_user": delivery.user,
                    "paimon/spark_app_id": spark_app_id(),
                    **assets.inputs(delivery),
                }
            )

    return ingest
