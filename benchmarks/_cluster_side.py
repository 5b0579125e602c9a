"""One side of `spark_cluster`: a driver with a session of its own that carries out one JSON request per line.

python -m benchmarks._cluster_side MASTER WAREHOUSE
"""

import json
import os
import sys

from pyspark.sql import SparkSession

import lakehouse_core as lc
from benchmarks._connector_peer import to_noop

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
}
COLUMNS = {"id": "BIGINT NOT NULL", "n": "INT", "s": "STRING", "x": "DOUBLE"}
OPTIONS = {"bucket": "4", "file.compression.zstd-level": "1", "write-only": "true"}


def main() -> None:
    master, warehouse = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master(master).config(map=SETTINGS).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    catalog = lc.connect(warehouse, spark=session)
    print("ready", flush=True)
    for line in sys.stdin:
        verb, table, folder = json.loads(line)
        name = f"db.{table}"
        told: int | None = None
        match verb:
            case "write":
                if table not in catalog.tables("db"):
                    catalog.create_table(name, COLUMNS, primary_keys=["id"], options=OPTIONS)
                told = catalog.table(name).write(session.read.parquet(folder)).rows_added
            case "read":
                to_noop(catalog.table(name).scan().to_spark(session))
            case "compact":
                told = catalog.table(name).compact(full=True).buckets_rewritten
            case _:
                raise ValueError(verb)
        print(json.dumps(told), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
