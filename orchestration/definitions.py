"""The code location: every part of the platform, put together. No logic lives here."""

import os

import dagster as dg

from assets import TABLES, build_table_definitions, load_specs
from assets.flights.definitions import FLIGHTS, flights_feed, nycflights13
from assets.flights.feed import DEFAULT_START, FlightsFeed
from orchestration.alerts import tell_of_dead_runs
from orchestration.jobs import LAKE, ingest_job, maintain_job, observe_job
from orchestration.progress import progress_logger
from orchestration.schedules import nightly
from orchestration.sensors import maintenance_sensor
from resources import LakehouseResource, SparkRuntime

FEEDS = {"flights": FLIGHTS}
SPECS = load_specs(TABLES, {name: feed.names for name, feed in FEEDS.items()})

_maintain = maintain_job(SPECS)

defs = dg.Definitions.merge(
    *(build_table_definitions(spec, FEEDS, lake=LAKE) for spec in SPECS),
    dg.Definitions(
        assets=[nycflights13, flights_feed],
        jobs=[ingest_job(SPECS), _maintain, observe_job()],
        schedules=[nightly(_maintain)],
        sensors=[maintenance_sensor(_maintain, SPECS), tell_of_dead_runs],
        resources={
            "lakehouse": LakehouseResource(name=LAKE, warehouse=dg.EnvVar("LAKEHOUSE_WAREHOUSE"), spark=SparkRuntime()),
            # A warehouse keeps the start that it began with: `make ui` sets it.
            "flights": FlightsFeed(start=os.environ.get("LAKEHOUSE_FLIGHTS_START", DEFAULT_START)),
        },
        # One process and one Spark session a run; the default would start a JVM for each step.
        executor=dg.in_process_executor,
        loggers={"console": dg.colored_console_logger, "progress": progress_logger},
    ),
)
