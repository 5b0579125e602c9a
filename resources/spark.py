"""The Spark of this platform: one session a process, on this machine or on the cluster that the environment names."""

import os

from lakehouse_dagster import SparkRuntime

SPARK = SparkRuntime(master=os.environ.get("LAKEHOUSE_SPARK_MASTER") or "local[*]")
