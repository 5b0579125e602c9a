"""The schedules of this platform."""

from assets.lake import LAKE
from lakehouse_dagster import nightly_schedule
from orchestration.jobs import maintain

nightly_maintenance = nightly_schedule(LAKE, maintain)
