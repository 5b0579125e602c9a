"""The Spark engine: tasks, writes and reads in a user's session, and the types on both sides."""

from lakehouse_core.execution.engines.spark.engine import SparkEngine
from lakehouse_core.execution.engines.spark.types import fields_from_spark, spark_schema

__all__ = ["SparkEngine", "fields_from_spark", "spark_schema"]
