"""The schedules of this platform."""

from assets.lake import LAKE
from lakehouse_dagster import fleet_schedule, ingest_schedules, nightly_schedule
from orchestration.jobs import fleet, ingest, maintain

nightly_maintenance = nightly_schedule(LAKE, maintain)
nightly_fleet = fleet_schedule(LAKE, fleet)
ingests = ingest_schedules(LAKE, ingest)
