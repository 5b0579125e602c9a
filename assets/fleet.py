"""The fleet asset: a budget of maintenance for all tables, spent where it saves most reading."""

import lakehouse_core as lc
from assets.lake import LAKE
from lakehouse_dagster import fleet_asset

# A night's worth for a warehouse of some gigabytes.
BUDGET = lc.Budget(seconds=300)

fleet = fleet_asset(LAKE, BUDGET)
