"""Checks of each table: sound, complete, compacted, expired."""

from assets.lake import LAKE
from lakehouse_dagster import table_checks

checks = [table_checks(LAKE, table) for table in LAKE.tables]
