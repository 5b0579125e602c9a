"""The asset `…/expire`: expires old snapshots and deletes the files that only they need."""

from datetime import timedelta
from typing import Any

import dagster as dg

from lakehouse_dagster.assets.context import TableAssets, defined_asset
from lakehouse_dagster.assets.maintain import maintain, maintenance_arguments
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.pipeline import logged_progress
from lakehouse_dagster.specs import TableSpec


class ExpireConfig(dg.Config):
    """The retention of one run. Table options replace fields that are not set."""

    dry_run: bool = False
    retain_max: int | None = None
    retain_min: int | None = None
    older_than_hours: float | None = None


def expire_asset(lake: Lake, table: TableSpec) -> dg.AssetsDefinition:
    """Return the asset that expires the snapshots of a table."""
    assets = TableAssets(lake=lake, spec=table)

    @defined_asset(
        key=assets.operation("expire"),
        deps=[assets.key],
        description=f"Expires old snapshots of {table.identifier} and deletes the files that only they need.",
        **maintenance_arguments(assets, "expire", ExpireConfig),
    )
    def expire(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        config = ExpireConfig(**context.op_execution_context.op_config)
        older_than = None if config.older_than_hours is None else timedelta(hours=config.older_than_hours)
        return maintain(
            context,
            assets,
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
