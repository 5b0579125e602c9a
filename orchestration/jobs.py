"""The jobs of this platform."""

from assets.lake import LAKE
from lakehouse_dagster import fleet_job, ingest_job, maintain_job, observe_job

ingest = ingest_job(LAKE)
maintain = maintain_job(LAKE)
fleet = fleet_job(LAKE)
observe_source = observe_job(LAKE)
