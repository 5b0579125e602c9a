"""Automation: jobs, schedules and sensors of a lake, alerts, and the lines that a run prints."""

from lakehouse_dagster.automation.alerts import log_failed_run, log_failed_step, webhook_sensor
from lakehouse_dagster.automation.committer import committer_sensors
from lakehouse_dagster.automation.copying import copy_job
from lakehouse_dagster.automation.dead_runs import carry_on
from lakehouse_dagster.automation.deliveries import deliveries_sensors
from lakehouse_dagster.automation.fleet import urgent_sensor
from lakehouse_dagster.automation.ingestion import derived_sensors, ingest_schedules, news_sensors
from lakehouse_dagster.automation.jobs import fleet_job, ingest_job, maintain_job, observe_job
from lakehouse_dagster.automation.lineage_ends import lineage_sensors
from lakehouse_dagster.automation.orphans import orphans_job
from lakehouse_dagster.automation.progress import progress_logger
from lakehouse_dagster.automation.schedules import fleet_schedule, nightly_schedule
from lakehouse_dagster.automation.sensors import maintenance_sensor
from lakehouse_dagster.automation.state import external_tables_sensor, state_sensor
from lakehouse_dagster.automation.warehouse import warehouse_maintenance_job

__all__ = [
    "carry_on",
    "committer_sensors",
    "copy_job",
    "deliveries_sensors",
    "derived_sensors",
    "external_tables_sensor",
    "fleet_job",
    "fleet_schedule",
    "ingest_job",
    "ingest_schedules",
    "lineage_sensors",
    "log_failed_run",
    "log_failed_step",
    "maintain_job",
    "maintenance_sensor",
    "news_sensors",
    "nightly_schedule",
    "observe_job",
    "orphans_job",
    "progress_logger",
    "state_sensor",
    "urgent_sensor",
    "warehouse_maintenance_job",
    "webhook_sensor",
]
