"""The schedules of this platform."""

from lakehouse_dagster import nightly_schedule
from orchestration.jobs import maintain

nightly_maintenance = nightly_schedule(maintain)
