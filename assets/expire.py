"""Old snapshots of each table dropped."""

from assets.lake import LAKE
from lakehouse_dagster import expire_asset

expire = [expire_asset(LAKE, table) for table in LAKE.tables]
