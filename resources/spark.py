"""The Spark of this platform: one session a process, on this machine."""

from lakehouse_dagster import SparkRuntime

SPARK = SparkRuntime()
