"""Random histories whose tasks run on Spark, statements too: one session for all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakehouse_core as lc
from lakehouse_core.execution.engines.spark.types import spark_schema
from lakehouse_core.format.data_types import field_from_arrow
from tests.differential.changes import among_waiting_rows, with_changes
from tests.differential.executors import Ours
from tests.differential.generate import with_dynamic_buckets, with_postponed_buckets
from tests.differential.settings import with_placed_rows, with_settings
from tests.execution.write import moving_keys as moving
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

# Tables whose keys move between partitions: the merge engine and options.
MOVING: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("deduplicate", {"changelog_producer": "input"}),
    ("deduplicate", {"deletion_vectors__enabled": "true"}),
    ("partial-update", {}),
    ("aggregation", {"changelog_producer": "lookup"}),
    ("first-row", {}),
)


class OnSpark(Ours):
    """The front door, with a session that carries out its tasks and has the rows that are written."""

    def __init__(self, spark: SparkSession) -> None:
        def frame(rows: pa.Table) -> DataFrame:
            # The model knows in which order the rows come: of several partitions only the tasks would.
            schema = spark_schema(map(field_from_arrow, rows.schema))
            return spark.createDataFrame(rows, schema).coalesce(1)

        super().__init__(lambda warehouse: lc.connect(warehouse, spark=spark), given=frame)


def moving_keys(spark: SparkSession, folder: Path, engine: str, seed: int, **options: str) -> moving.History:
    """Return a history of a table whose keys move between partitions, of which Spark has the rows and the tasks."""

    def frame(rows: list[dict[str, Any]]) -> DataFrame:
        kinds = ", kind string" if "kind" in rows[0] else ""
        columns = ["k", "p", "a", "b", *(["kind"] if kinds else [])]
        found = [tuple(row[name] for name in columns) for row in rows]
        return spark.createDataFrame(found, f"k int, p string, a bigint, b string{kinds}").coalesce(1)

    table = moving.table_of(lc.connect(str(folder), spark=spark), engine, **options)
    return moving.History(table, engine, Random(f"{seed} {engine} {options}"), to_frame=frame)


def run_moving_keys(
    spark: SparkSession, folder: Path, engine: str, seed: int, *, steps: int = 12, **options: str
) -> None:
    """Carry such a history out and check its rows after each step, and all its files at the end."""
    history = moving_keys(spark, folder, engine, seed, **options)
    try:
        for _ in range(steps):
            history.step()
            history.check()
        assert history.table.verify(data=True).findings == ()
    except BaseException as error:
        error.add_note("\n".join([*history.done, f"seed {seed}, {engine}, {options}"]))
        raise


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
