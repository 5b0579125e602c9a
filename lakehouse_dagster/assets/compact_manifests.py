"""The asset `…/compact_manifests`: merges the manifests of a table into few."""

from typing import Any

import dagster as dg

from lakehouse_dagster.assets.context import TableAssets, defined_asset
from lakehouse_dagster.assets.maintain import CompactConfig, maintain, maintenance_arguments
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.pipeline import RUN_ID
from lakehouse_dagster.specs import TableSpec


def compact_manifests_asset(lake: Lake, table: TableSpec) -> dg.AssetsDefinition:
    """Return the asset that merges the manifests of a table."""
    assets = TableAssets(lake=lake, spec=table)

    @defined_asset(
        key=assets.operation("compact_manifests"),
        deps=[assets.key],
        description=f"Merges the manifests of {table.identifier} into few, without a change of its rows.",
        **maintenance_arguments(assets, "compact_manifests", CompactConfig),
    )
    def compact_manifests(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        config = CompactConfig(**context.op_execution_context.op_config)
        return maintain(
            context,
            assets,
            "compact_manifests",
            lambda t: t.compact_manifests(dry_run=config.dry_run, properties={RUN_ID: context.run.run_id}),
        )

    return compact_manifests
