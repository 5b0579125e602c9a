"""One side of `spark_connector` and `merge_connector`: a Spark session that carries out one JSON request per line and
tells what each took.

`ours` runs in this environment; `connector` in that of PySpark 3.5 with Paimon's jar, so only what both have is
imported at the top.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks import _measure as measure

TABLE_OPTIONS = {"bucket": "2", "file.format": "parquet", "file.compression": "zstd", "write-only": "true"}
COLUMNS = {"k": "BIGINT NOT NULL", "v": "BIGINT", "s": "STRING"}
CLAUSES = "ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


class Ours:
    """This project; small commits in this process, everything else on Spark."""

    def __init__(self, warehouse: str, jar: str) -> None:
        import lakehouse_core as lc  # noqa: PLC0415  # the other side's environment has no such package

        self._session = session({})
        self._catalog = lc.connect(warehouse, spark=self._session)
        self._here = lc.connect(warehouse)
        self._catalog.create_database("db", exist_ok=True)

    def create(self, table: str, options: dict[str, str] | None = None) -> None:
        self._catalog.create_table(f"db.{table}", COLUMNS, primary_keys=["k"], options=options or TABLE_OPTIONS)

    def write(self, table: str, file: str) -> None:
        self._catalog.table(f"db.{table}").write(self._session.read.parquet(file))

    def read(self, table: str) -> None:
        to_noop(self._catalog.table(f"db.{table}").scan().to_spark(self._session))

    def compact(self, table: str) -> None:
        self._catalog.table(f"db.{table}").compact(full=True)

    def commit(self, table: str, first: int) -> None:
        rows = [{"k": key, "v": key, "s": "commit"} for key in range(first, first + 100)]
        self._here.table(f"db.{table}").write(rows)

    def merge(self, table: str, file: str) -> None:
        source = self._session.read.parquet(file)
        self._catalog.sql(f"MERGE INTO db.{table} AS t USING input AS s {CLAUSES}", tables={"input": source})

    def export(self, table: str, folder: str) -> None:
        self._catalog.table(f"db.{table}").scan().to_spark(self._session).write.parquet(folder)

    def count(self, table: str) -> int:
        return int(self._here.table(f"db.{table}").scan().count())


class Connector:
    """Paimon's own connector."""

    def __init__(self, warehouse: str, jar: str) -> None:
        self._session = session(
            {
                "spark.jars": jar,
                "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
                "spark.sql.catalog.paimon.warehouse": f"file:{warehouse}",
                "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            }
        )
        self._session.sql("CREATE DATABASE IF NOT EXISTS paimon.db")

    def create(self, table: str, options: dict[str, str] | None = None) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        told = {"primary-key": "k", **(options or TABLE_OPTIONS)}
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in told.items())
        self._session.sql(f"CREATE TABLE paimon.db.{table} ({columns}) TBLPROPERTIES ({properties})")

    def write(self, table: str, file: str) -> None:
        self._session.read.parquet(file).createOrReplaceTempView("input")
        self._session.sql(f"INSERT INTO paimon.db.{table} SELECT k, v, s FROM input")

    def read(self, table: str) -> None:
        to_noop(self._session.table(f"paimon.db.{table}"))

    def compact(self, table: str) -> None:
        self._session.sql(f"CALL paimon.sys.compact(table => 'db.{table}')")

    def commit(self, table: str, first: int) -> None:
        rows = self._session.range(first, first + 100, 1, 1).selectExpr("id AS k", "id AS v", "'commit' AS s")
        rows.createOrReplaceTempView("input")
        self._session.sql(f"INSERT INTO paimon.db.{table} SELECT k, v, s FROM input")

    def merge(self, table: str, file: str) -> None:
        self._session.read.parquet(file).createOrReplaceTempView("input")
        self._session.sql(f"MERGE INTO paimon.db.{table} AS t USING input AS s {CLAUSES}")

    def export(self, table: str, folder: str) -> None:
        self._session.table(f"paimon.db.{table}").write.parquet(folder)

    def count(self, table: str) -> int:
        return int(self._session.table(f"paimon.db.{table}").count())


def session(settings: dict[str, str]) -> SparkSession:
    """Return the session, equal on both sides but for `settings`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    common = {
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in (common | settings).items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def to_noop(frame: Any) -> None:
    """Compute every row and every column of the frame, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def main() -> None:
    """Serve requests `[verb, argument, …]` until the input ends: one answer per line with seconds, value, memory."""
    # Spark and its JVM print to standard output when they please; answers keep it to themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    side, warehouse, jar = sys.argv[1:]
    peer = {"ours": Ours, "connector": Connector}[side](warehouse, str(Path(jar)))
    for line in sys.stdin:
        verb, *values = json.loads(line)
        call: Callable[..., Any] = getattr(peer, verb)
        taken = measure.sample(partial(call, *values))
        answer = {"wall": taken.wall_seconds, "cpu": taken.cpu_seconds, "value": taken.value}
        print(json.dumps(answer | {"peak": measure.tree_peak_bytes()}), file=answers)


if __name__ == "__main__":
    main()
