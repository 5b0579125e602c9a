"""Ingest assets: stage the batches of each table."""

from assets.lake import LAKE
from lakehouse_dagster import ingest_asset

ingest = [ingest_asset(LAKE, table) for table in LAKE.tables]
