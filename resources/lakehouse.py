"""The warehouse of this platform."""

import dagster as dg

from lakehouse_dagster import LakehouseResource
from resources.spark import SPARK

LAKEHOUSE = LakehouseResource(name="lake", warehouse=dg.EnvVar("LAKEHOUSE_WAREHOUSE"), spark=SPARK)
