"""The sensors of this platform."""

import dagster as dg

from assets.fleet import BUDGET
from assets.lake import LAKE
from lakehouse_dagster import (
    committer_sensors,
    deliveries_sensors,
    derived_sensors,
    maintenance_sensor,
    news_sensors,
    state_sensor,
    urgent_sensor,
    webhook_sensor,
)
from orchestration.jobs import fleet, ingest, maintain

maintenance = maintenance_sensor(LAKE, maintain)
urgent = urgent_sensor(LAKE, fleet, BUDGET)
state = state_sensor(LAKE)
committer = committer_sensors(LAKE)
deliveries = deliveries_sensors(LAKE)
derived = derived_sensors(LAKE)
news = news_sensors(LAKE, ingest)
failed_run_webhook = webhook_sensor(dg.EnvVar("LAKEHOUSE_ALERT_URL"))
