"""Assets of each table of this platform, one file for each operation, and the feed that fills the tables."""

import warnings

import dagster as dg

# Backfill policies and observable sources are marked so; what is used of them here is tested.
warnings.filterwarnings("ignore", message=".*is currently in beta", category=dg.BetaWarning)
