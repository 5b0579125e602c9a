"""What: the assets of each table of this platform, an operation a file, and the feed that fills the tables."""

import warnings

import dagster as dg

# Backfill policies and observable sources are marked so; what is used of them here is tested.
warnings.filterwarnings("ignore", message=".*is currently in beta", category=dg.BetaWarning)
