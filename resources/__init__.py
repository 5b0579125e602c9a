"""With what: the warehouse, its Spark session and the feeds, as Dagster resources."""

from resources.feed import FeedResource
from resources.java_home import JavaMissing, ensure_java
from resources.lakehouse import LakehouseResource
from resources.spark import SessionSource, SparkRuntime, spark_app_id, spark_job

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
