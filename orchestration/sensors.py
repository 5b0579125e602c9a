"""The sensors of this platform."""

from assets.lake import LAKE
from lakehouse_dagster import maintenance_sensor
from orchestration.jobs import maintain

maintenance = maintenance_sensor(LAKE, maintain)
