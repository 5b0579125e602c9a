"""The asset `…/compact_full`: merges the files of each bucket into few large ones."""

from typing import Any

import dagster as dg

from lakehouse_dagster.assets.context import TableAssets, defined_asset
from lakehouse_dagster.assets.maintain import CompactConfig, maintain, maintenance_arguments
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.pipeline import RUN_ID, logged_progress
from lakehouse_dagster.specs import TableSpec


class FullCompactConfig(CompactConfig):
    """The settings of one run. `full` False: only rows that wait for their buckets, and what the strategy picks."""

    full: bool = True


def compact_full_asset(lake: Lake, table: TableSpec) -> dg.AssetsDefinition:
    """Return the asset that compacts a table in full."""
    assets = TableAssets(lake=lake, spec=table)

    @defined_asset(
        key=assets.operation("compact_full"),
        deps=[assets.key],
        description=f"Merges the files of each bucket of {table.identifier} into few large ones.",
        **maintenance_arguments(assets, "compact_full", FullCompactConfig),
    )
    def compact_full(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        config = FullCompactConfig(**context.op_execution_context.op_config)
        return maintain(
            context,
            assets,
            "compact_full",
            lambda t: t.compact(
                full=config.full,
                dry_run=config.dry_run,
                properties={RUN_ID: context.run.run_id},
                progress=logged_progress(context.log.info),
            ),
        )

    return compact_full
