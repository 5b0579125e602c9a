"""Expiry assets: expire old snapshots of each table."""

from assets.lake import LAKE
from lakehouse_dagster import expire_asset

expire = [expire_asset(LAKE, table) for table in LAKE.tables]
