"""The lake of this platform: a table for each file in `tables`, fed by the flights."""

from pathlib import Path

from assets.flights.definitions import FLIGHTS
from lakehouse_dagster import Lake, load_specs
from resources.lakehouse import LAKEHOUSE

TABLES = Path(__file__).parent / "tables"
FEEDS = {"flights": FLIGHTS}

LAKE = Lake(
    name=LAKEHOUSE.name,
    tables=load_specs(TABLES, {name: feed.names for name, feed in FEEDS.items()}, root=TABLES.parent.parent),
    feeds=FEEDS,
)
