"""Assets of a table, one function each: `(lake, table) -> asset`."""

from lakehouse_dagster.assets.commit import commit_asset
from lakehouse_dagster.assets.compact_full import compact_full_asset
from lakehouse_dagster.assets.compact_manifests import compact_manifests_asset
from lakehouse_dagster.assets.expire import expire_asset
from lakehouse_dagster.assets.fleet import fleet_asset
from lakehouse_dagster.assets.ingest import ingest_asset

__all__ = [
    "commit_asset",
    "compact_full_asset",
    "compact_manifests_asset",
    "expire_asset",
    "fleet_asset",
    "ingest_asset",
]
