"""The pipeline of one table, without Dagster: set-up, staging, committing, its state, what maintenance is due."""

from lakehouse_dagster.pipeline.committing import Committed, commit_batches, original_of, partition_versions
from lakehouse_dagster.pipeline.cursors import (
    CURSOR,
    Cursor,
    NewRows,
    advance_cursor,
    recorded_cursor,
    staged_deliveries,
)
from lakehouse_dagster.pipeline.deliveries import (
    FoundFile,
    ReadFile,
    RecordedFile,
    find_files,
    record_delivery,
    recorded_files,
    unfinished_deliveries,
)
from lakehouse_dagster.pipeline.maintenance import OPERATIONS, Figure, figures
from lakehouse_dagster.pipeline.progress import logged_progress
from lakehouse_dagster.pipeline.staging import Staged, StageMode, refuse_gap, stage_batches, stage_mode
from lakehouse_dagster.pipeline.table_setup import create_table, differences, open_table
from lakehouse_dagster.pipeline.table_state import (
    RUN_ID,
    SnapshotFacts,
    TableState,
    committed_identifier,
    committed_snapshots,
    incarnation,
    last_identifier,
    position,
    read_state,
)

__all__ = [
    "CURSOR",
    "OPERATIONS",
    "RUN_ID",
    "Committed",
    "Cursor",
    "Figure",
    "FoundFile",
    "NewRows",
    "ReadFile",
    "RecordedFile",
    "SnapshotFacts",
    "StageMode",
    "Staged",
    "TableState",
    "advance_cursor",
    "commit_batches",
    "committed_identifier",
    "committed_snapshots",
    "create_table",
    "differences",
    "figures",
    "find_files",
    "incarnation",
    "last_identifier",
    "logged_progress",
    "open_table",
    "original_of",
    "partition_versions",
    "position",
    "read_state",
    "record_delivery",
    "recorded_cursor",
    "recorded_files",
    "refuse_gap",
    "stage_batches",
    "stage_mode",
    "staged_deliveries",
    "unfinished_deliveries",
]
