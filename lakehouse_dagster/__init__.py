"""Dagster building blocks for lakehouse tables: assets, checks, jobs and sensors made from specifications.

What is named here is the front door; nothing else is public.
"""

try:
    import dagster as _dagster  # noqa: F401  # Asked for first: what is missing is said before anything else fails.
except ModuleNotFoundError as error:
    if error.name != "dagster":
        raise
    raise ModuleNotFoundError(
        "lakehouse_dagster needs the package dagster, which is not installed. Install it: pip install "
        "'paimon-lakehouse[dagster]'.",
        name="dagster",
    ) from error

from lakehouse_core import __version__ as __version__
from lakehouse_dagster.assets import (
    commit_asset,
    compact_full_asset,
    compact_manifests_asset,
    expire_asset,
    fleet_asset,
    ingest_asset,
)
from lakehouse_dagster.automation import (
    carry_on,
    committer_sensors,
    copy_job,
    deliveries_sensors,
    derived_sensors,
    external_tables_sensor,
    fleet_job,
    fleet_schedule,
    ingest_job,
    ingest_schedules,
    lineage_sensors,
    log_failed_run,
    log_failed_step,
    maintain_job,
    maintenance_sensor,
    news_sensors,
    nightly_schedule,
    observe_job,
    orphans_job,
    progress_logger,
    state_sensor,
    urgent_sensor,
    warehouse_maintenance_job,
    webhook_sensor,
)
from lakehouse_dagster.checks import table_checks
from lakehouse_dagster.component import LakehouseTableComponent
from lakehouse_dagster.definitions import fleet_definitions, lake_definitions, location_definitions, table_definitions
from lakehouse_dagster.external import external_table
from lakehouse_dagster.feed import Batch, Feed, batches_of
from lakehouse_dagster.instance import (
    ProcessRunLauncher,
    TableRunCoordinator,
    executed_here,
    instance_settings,
    write_instance_settings,
)
from lakehouse_dagster.io_manager import LakehouseIOManager, table_metadata
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.partition_maps import Dimensions, KeyColumn, TimeColumns
from lakehouse_dagster.pipeline import TableState, last_identifier, open_table, read_state
from lakehouse_dagster.reads import reads_per_day, record_read
from lakehouse_dagster.resources import FeedResource, LakehouseResource, SparkRuntime
from lakehouse_dagster.sources import changes_user, unapplied
from lakehouse_dagster.specs import TableSpec, load_specs
from lakehouse_dagster.translator import LakehouseTranslator, TableFacts

__all__ = [
    "Batch",
    "Dimensions",
    "Feed",
    "FeedResource",
    "KeyColumn",
    "Lake",
    "LakehouseIOManager",
    "LakehouseResource",
    "LakehouseTableComponent",
    "LakehouseTranslator",
    "ProcessRunLauncher",
    "SparkRuntime",
    "TableFacts",
    "TableRunCoordinator",
    "TableSpec",
    "TableState",
    "TimeColumns",
    "batches_of",
    "carry_on",
    "changes_user",
    "commit_asset",
    "committer_sensors",
    "compact_full_asset",
    "compact_manifests_asset",
    "copy_job",
    "deliveries_sensors",
    "derived_sensors",
    "executed_here",
    "expire_asset",
    "external_table",
    "external_tables_sensor",
    "fleet_asset",
    "fleet_definitions",
    "fleet_job",
    "fleet_schedule",
    "ingest_asset",
    "ingest_job",
    "ingest_schedules",
    "instance_settings",
    "lake_definitions",
    "last_identifier",
    "lineage_sensors",
    "load_specs",
    "location_definitions",
    "log_failed_run",
    "log_failed_step",
    "maintain_job",
    "maintenance_sensor",
    "news_sensors",
    "nightly_schedule",
    "observe_job",
    "open_table",
    "orphans_job",
    "progress_logger",
    "read_state",
    "reads_per_day",
    "record_read",
    "state_sensor",
    "table_checks",
    "table_definitions",
    "table_metadata",
    "unapplied",
    "urgent_sensor",
    "warehouse_maintenance_job",
    "webhook_sensor",
    "write_instance_settings",
]
