"""The code location: every part of the platform, put together. No logic lives here."""

import os

import dagster as dg

from assets.checks import checks
from assets.commit import commit
from assets.compact_full import compact_full
from assets.compact_manifests import compact_manifests
from assets.expire import expire
from assets.fleet import fleet
from assets.flights.definitions import FLIGHTS, flights_feed, nycflights13
from assets.flights.feed import DEFAULT_START, FlightsFeed
from assets.ingest import ingest
from assets.lake import LAKE
from lakehouse_dagster import carry_on, log_failed_run, progress_logger
from orchestration import jobs
from orchestration.schedules import ingests, nightly_fleet, nightly_maintenance
from orchestration.sensors import committer, deliveries, derived, failed_run_webhook, maintenance, news, state, urgent
from resources.lakehouse import LAKEHOUSE

defs = dg.Definitions(
    assets=[nycflights13, flights_feed, *ingest, *commit, *compact_full, *compact_manifests, *expire, fleet],
    asset_checks=checks,
    jobs=[jobs.ingest, jobs.maintain, jobs.fleet, jobs.observe_source],
    schedules=[nightly_maintenance, nightly_fleet, *ingests],
    sensors=[
        maintenance,
        urgent,
        state,
        *deliveries,
        *derived,
        *news,
        *committer,
        carry_on,
        log_failed_run,
        failed_run_webhook,
    ],
    resources={
        LAKE.resource: LAKEHOUSE,
        # A warehouse keeps the start that it began with: `make ui` sets it.
        FLIGHTS.resource: FlightsFeed(start=os.environ.get("LAKEHOUSE_FLIGHTS_START", DEFAULT_START)),
    },
    # One process and one Spark session a run; the default would start a JVM for each step.
    executor=dg.in_process_executor,
    loggers={"console": dg.colored_console_logger, "progress": progress_logger},
)
