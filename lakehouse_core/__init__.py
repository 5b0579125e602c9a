"""A lakehouse in the Apache Paimon format: `connect` opens a warehouse, everything else follows from there.

What is named here is the front door and stays; nothing else is public.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakehouse_core.api.answer import Answer
from lakehouse_core.api.health.facts import HealthFacts
from lakehouse_core.api.health.page import health_page
from lakehouse_core.api.lookups import Lookups
from lakehouse_core.api.records import (
    BranchRecord,
    BucketRecord,
    CommitterRecord,
    FileOrigin,
    FileRecord,
    ManifestRecord,
    PartitionRecord,
    PendingRecord,
    Records,
    TagRecord,
)
from lakehouse_core.api.reports import (
    BranchReport,
    CommitReport,
    CompactionReport,
    CopyReport,
    ExpiryReport,
    FileIndexReport,
    ManifestReport,
    OrphanReport,
    PartitionExpiryReport,
    PartitionsDoneReport,
    Report,
    RescaleReport,
    RollbackReport,
    RowChangeReport,
    SchemaReport,
    TagReport,
    VerifyReport,
)
from lakehouse_core.api.scan import ChangesScan, Scan
from lakehouse_core.api.system.tables import SystemTable
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.connect import connect
from lakehouse_core.catalog.declared import declared_schema
from lakehouse_core.catalog.register import register
from lakehouse_core.errors import (
    BackPressure,
    CommitConflict,
    CommitOutcomeUnknown,
    CommitTimeout,
    CorruptTable,
    CredentialsMissing,
    InvalidRequest,
    LakehouseError,
    NotFound,
    PlanTooLarge,
    SnapshotExpired,
    StaleCommit,
    StorageFull,
    StorageUnavailable,
    TaskFailed,
    UnsupportedFeature,
    WriteOutcomeUnknown,
)
from lakehouse_core.planning.alter.schema_change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from lakehouse_core.planning.fleet.cost import Budget, Rates
from lakehouse_core.planning.read.read_point import (
    AsOf,
    AtSnapshot,
    AtTag,
    AtVersion,
    AtWatermark,
    CompactedFull,
    FromCreationTime,
    FromFileCreationTime,
    Latest,
    LatestDelta,
    ReadPoint,
)
from lakehouse_core.planning.row_changes.merge_clauses import WhenMatched, WhenNotMatched, WhenNotMatchedBySource
from lakehouse_core.progress import LOGGER, Progress
from lakehouse_core.row_files.files import RowFiles
from lakehouse_core.table.commit_message import Append, DynamicOverwrite, StaticOverwrite
from lakehouse_core.table.predicate import col
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import RUN_ID, Snapshot
from lakehouse_core.table.staged_commit import StagedCommit

if TYPE_CHECKING:
    from lakehouse_core.api.fleet.page import maintenance_page
    from lakehouse_core.api.fleet.plan import MaintenanceChoice, MaintenancePlan, MaintenanceRefusal
    from lakehouse_core.api.fleet.run import MaintenanceOutcome, MaintenanceReport

# The one place: the distribution takes its version from here.
__version__ = "0.1.0"

__all__ = [
    "RUN_ID",
    "AddColumn",
    "Answer",
    "Append",
    "AsOf",
    "AtSnapshot",
    "AtTag",
    "AtVersion",
    "AtWatermark",
    "BackPressure",
    "BranchRecord",
    "BranchReport",
    "BucketRecord",
    "Budget",
    "Catalog",
    "ChangesScan",
    "CommitConflict",
    "CommitOutcomeUnknown",
    "CommitReport",
    "CommitTimeout",
    "CommitterRecord",
    "CompactedFull",
    "CompactionReport",
    "CopyReport",
    "CorruptTable",
    "CredentialsMissing",
    "DropColumn",
    "DynamicOverwrite",
    "ExpiryReport",
    "FileIndexReport",
    "FileOrigin",
    "FileRecord",
    "FromCreationTime",
    "FromFileCreationTime",
    "HealthFacts",
    "InvalidRequest",
    "LakehouseError",
    "Latest",
    "LatestDelta",
    "Lookups",
    "MaintenanceChoice",
    "MaintenanceOutcome",
    "MaintenancePlan",
    "MaintenanceRefusal",
    "MaintenanceReport",
    "ManifestRecord",
    "ManifestReport",
    "MoveColumn",
    "NotFound",
    "OrphanReport",
    "PartitionExpiryReport",
    "PartitionRecord",
    "PartitionsDoneReport",
    "PendingRecord",
    "PlanTooLarge",
    "Progress",
    "Rates",
    "ReadPoint",
    "Records",
    "RemoveOption",
    "RenameColumn",
    "Report",
    "RescaleReport",
    "RollbackReport",
    "RowChangeReport",
    "RowFiles",
    "Scan",
    "SchemaReport",
    "SetOption",
    "Snapshot",
    "SnapshotExpired",
    "StagedCommit",
    "StaleCommit",
    "StaticOverwrite",
    "StorageFull",
    "StorageUnavailable",
    "SystemTable",
    "Table",
    "TableSchema",
    "TagRecord",
    "TagReport",
    "TaskFailed",
    "UnsupportedFeature",
    "UpdateColumnComment",
    "UpdateColumnDefault",
    "UpdateColumnNullability",
    "UpdateColumnType",
    "UpdateComment",
    "VerifyReport",
    "WhenMatched",
    "WhenNotMatched",
    "WhenNotMatchedBySource",
    "WriteOutcomeUnknown",
    "col",
    "connect",
    "declared_schema",
    "health_page",
    "maintenance_page",
    "register",
]

# Silent unless the program that imports it says where to log.
logging.getLogger(LOGGER).addHandler(logging.NullHandler())

# Where the names are that are loaded when they are used: most programs maintain no fleet.
_LATER = {
    "MaintenanceChoice": "plan",
    "MaintenanceOutcome": "run",
    "MaintenancePlan": "plan",
    "MaintenanceRefusal": "plan",
    "MaintenanceReport": "run",
    "maintenance_page": "page",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"lakehouse_core.api.fleet.{_LATER[name]}"), name)
