"""What: the assets of a table from its specification, and the feeds that fill the tables."""

import warnings
from pathlib import Path

import dagster as dg

from assets.batches import Batch, Feed
from assets.factory import build_table_definitions
from assets.specs import TableSpec, load_specs

# Backfill policies and observable sources are marked so; what we use of them is tested.
warnings.filterwarnings("ignore", message=".*is currently in beta", category=dg.BetaWarning)

TABLES = Path(__file__).parent / "tables"

__all__ = ["TABLES", "Batch", "Feed", "TableSpec", "build_table_definitions", "load_specs"]
