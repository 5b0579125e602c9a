"""Schedules: maintenance of every table once a day, in addition to the sensor."""

import dagster as dg

from lakehouse_dagster.automation.jobs import AssetJob
from lakehouse_dagster.lake import Lake


def fleet_schedule(lake: Lake, job: AssetJob, *, cron_schedule: str = "0 1 * * *") -> dg.ScheduleDefinition:
    """Return the schedule of the `fleet_job` of a lake, which spends the budget each night. It is stopped until you
    start it.
    """
    return dg.ScheduleDefinition(
        name=lake.scoped("nightly_fleet"),
        job=job,
        cron_schedule=cron_schedule,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Spends the budget of maintenance where it saves most reading.",
    )


def nightly_schedule(lake: Lake, job: AssetJob) -> dg.ScheduleDefinition:
    """Return the schedule of the maintenance `job` of a lake. It is stopped until you start it."""
    return dg.ScheduleDefinition(
        name=lake.scoped("nightly_maintenance"),
        job=job,
        cron_schedule="30 2 * * *",
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Compacts and expires all tables.",
    )
