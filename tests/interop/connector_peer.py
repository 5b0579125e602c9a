"""The process of `connector_client`: carries out statements with Paimon's connector, in the environment of its PySpark.

Its arguments: the jar, and the warehouse, which is the catalog `lake`. One request per line, a statement as JSON; one
answer per line, `{"rows": …}` (pickled, in base64) or `{"error": …}`.
"""

import base64
import json
import os
import pickle
import sys
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    # Spark and its JVM print to standard output when they please; answers keep it to themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jar, warehouse = sys.argv[1:]
    settings = {
        "spark.jars": jar,
        "spark.sql.catalog.lake": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.lake.warehouse": f"file:{warehouse}",
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # Values of CHAR as they are in the table.
        "spark.sql.readSideCharPadding": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("connector")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        print(json.dumps(_answer(spark, json.loads(line))), file=answers)


def _answer(spark: SparkSession, statement: str) -> dict[str, Any]:
    try:
        rows = [row.asDict(recursive=True) for row in spark.sql(statement).collect()]
        return {"rows": base64.b64encode(pickle.dumps(rows)).decode()}
    except Exception as error:
        return {"error": str(error)[:4000]}


if __name__ == "__main__":
    main()
