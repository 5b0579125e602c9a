"""Full compaction assets: merge the files of each table into few large ones."""

from assets.lake import LAKE
from lakehouse_dagster import compact_full_asset

compact_full = [compact_full_asset(LAKE, table) for table in LAKE.tables]
