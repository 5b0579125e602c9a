"""Random histories whose tasks run on Spark, statements too: one session for all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakehouse_core as lc
from lakehouse_core.execution.engines.spark.types import spark_schema
from lakehouse_core.format.data_types import field_from_arrow
from tests.differential.changes import among_waiting_rows, with_changes
from tests.differential.executors import Ours
from tests.differential.generate import with_dynamic_buckets, with_postponed_buckets
from tests.differential.settings import with_placed_rows, with_settings
from tests.oracle.history import History

# By name: what a history becomes, with statements between its operations.
STATED: Final[dict[str, Callable[[int, History], History]]] = {
    "changes": with_changes,
    "changes, dynamic": lambda seed, plain: with_changes(seed, with_dynamic_buckets(seed, plain)),
    "changes, postponed": lambda seed, plain: with_changes(seed, with_postponed_buckets(seed, plain)),
    "settings, changes": lambda seed, plain: with_changes(seed, with_settings(seed, plain)),
    "settings, changes, postponed": lambda seed, plain: with_changes(
        seed, with_settings(seed, with_postponed_buckets(seed, plain))
    ),
    "settings, changes, postponed, waiting": lambda seed, plain: among_waiting_rows(
        seed, with_changes(seed, with_settings(seed, with_postponed_buckets(seed, plain)))
    ),
    "changes, postponed, waiting, placed": lambda seed, plain: with_placed_rows(
        seed, among_waiting_rows(seed, with_changes(seed, with_postponed_buckets(seed, plain)))
    ),
}


class OnSpark(Ours):
    """The front door, with a session that carries out its tasks and has the rows that are written."""

    def __init__(self, spark: SparkSession) -> None:
        def frame(rows: pa.Table) -> DataFrame:
            # The model knows in which order the rows come: of several partitions only the tasks would.
            schema = spark_schema(map(field_from_arrow, rows.schema))
            return spark.createDataFrame(rows, schema).coalesce(1)

        super().__init__(lambda warehouse: lc.connect(warehouse, spark=spark), given=frame)


def session() -> SparkSession:
    """Make the session of this process, as the tests have it (`tests/conftest.py`)."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return SparkSession.builder.master("local[2,3]").appName("histories").config(map=settings).getOrCreate()
