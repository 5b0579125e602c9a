"""Manifest compaction assets: merge the manifests of each table into few."""

from assets.lake import LAKE
from lakehouse_dagster import compact_manifests_asset

compact_manifests = [compact_manifests_asset(LAKE, table) for table in LAKE.tables]
