"""The asset `<lake>/<database>/<table>/ingest`: writes the files of the batches and stages their commits."""

from typing import Any

import dagster as dg

from lakehouse_dagster.assets.context import TableAssets, batch_count, defined_asset, is_shown, observed
from lakehouse_dagster.assets.staging import stage
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.metadata import staged_metadata
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
            step = stage(context, assets, lineage, inputs)
            staged = step.staged
            for part in staged:
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
            return dg.MaterializeResult(metadata={**step.metadata, **assets.inputs(step.delivery)})

    return ingest
