"""Commit assets: the tables themselves."""

from assets.lake import LAKE
from lakehouse_dagster import commit_asset

commit = [commit_asset(LAKE, table) for table in LAKE.tables]
