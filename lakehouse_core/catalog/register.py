"""Registration of `format("lakehouse")` in a Spark session."""

from typing import Any, Final, TypeAlias

from lakehouse_core.api.spark_engine import spark_engine
from lakehouse_core.calls import checks_call

# Named for the reader: this module must not know Spark.
SparkSession: TypeAlias = Any

# Spark's processes load what reads and writes by its name.
_FUNCTIONS: Final = "lakehouse_core.catalog.spark_format"


@checks_call
def register(session: SparkSession) -> None:
    """Make `spark.read.format("lakehouse")` known to a session: batch and streaming reads, and writes to tables without
    a primary key.

    Raises InvalidRequest for what is not a Spark session.
    """
    spark_engine(session).register("lakehouse", _FUNCTIONS)
