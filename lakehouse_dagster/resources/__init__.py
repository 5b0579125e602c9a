"""Resources: the warehouse, its Spark session and the feeds, as Dagster resources."""

from lakehouse_dagster.resources.feed import FeedResource
from lakehouse_dagster.resources.java_home import JavaMissing, ensure_java
from lakehouse_dagster.resources.lakehouse import LakehouseResource
from lakehouse_dagster.resources.spark import SessionSource, SparkRuntime
from lakehouse_dagster.resources.spark_jobs import spark_app_id, spark_job

__all__ = [
    "FeedResource",
    "JavaMissing",
    "LakehouseResource",
    "SessionSource",
    "SparkRuntime",
    "ensure_java",
    "spark_app_id",
    "spark_job",
]
