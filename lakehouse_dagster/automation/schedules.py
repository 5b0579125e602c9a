"""Schedules: maintenance of every table once a day, in addition to the sensor."""

import dagster as dg

from lakehouse_dagster.automation.jobs import AssetJob


def nightly_schedule(job: AssetJob) -> dg.ScheduleDefinition:
    """Return the schedule of the maintenance job. It is stopped until you start it."""
    return dg.ScheduleDefinition(
        name="nightly_maintenance",
        job=job,
        cron_schedule="30 2 * * *",
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Compacts and expires all tables.",
    )
