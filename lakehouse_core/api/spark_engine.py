"""Spark engine: imported at the first task, so that catalogs of sensors, checks and the shell never load Spark."""

from typing import TYPE_CHECKING, Any

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.context import TableContext

if TYPE_CHECKING:
    from lakehouse_core.execution.engines.spark import SparkEngine


def spark_engine(spark: Any) -> "SparkEngine":
    """Return the engine of a session, or of a function that makes one. Raises InvalidRequest when Spark is missing."""
    try:
        from lakehouse_core.execution.engines.spark import SparkEngine  # noqa: PLC0415
    except ImportError as error:
        raise InvalidRequest(
            f"Spark cannot be loaded ({error}). Install it with `pip install 'paimon-lakehouse[spark]'`, or "
            "connect without spark=… to run tasks in this process."
        ) from error
    return SparkEngine(spark)


def spark_engine_of(session: Any, table: TableContext) -> "SparkEngine":
    """Return the engine of a session; for None, that of the table's catalog. Raises InvalidRequest if it has none."""
    if session is not None:
        return spark_engine(session)
    engine: Any = table.engine()
    if not hasattr(engine, "to_spark"):
        raise InvalidRequest(
            "to_spark: this catalog has no Spark session. Pass one: to_spark(session), or connect with spark=session."
        )
    found: SparkEngine = engine
    return found
