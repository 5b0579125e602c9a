"""The schedules of this platform."""

from assets.lake import LAKE
from lakehouse_dagster import ingest_schedules, nightly_schedule
from orchestration.jobs import ingest, maintain

nightly_maintenance = nightly_schedule(LAKE, maintain)
ingests = ingest_schedules(LAKE, ingest)
