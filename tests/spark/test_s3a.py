"""Files of an object store that Spark reads itself, where it has the connector of Hadoop; Maven brings the jars."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.s3_stub import ACCESS, REGION, SECRET, S3Stub

pytestmark = [
    pytest.mark.spark,
    pytest.mark.own_session,
    pytest.mark.slow,
    pytest.mark.cluster,
]

SCRIPT = """
import contextlib
import io
import json
import sys
from pyspark.sql import SparkSession
import lakehouse_core as lc
from lakehouse_core.execution.engines.spark.scan import native

spark = SparkSession.builder.master("local[2]").config(map=json.loads(sys.argv[1])).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
catalog = lc.connect("s3://lake/wh", spark=spark)
catalog.create_database("db")
columns = {"p": "STRING NOT NULL", "k": "BIGINT NOT NULL", "v": "STRING"}
kind = {"primary_keys": ["p", "k"], "partition_keys": ["p"], "options": {"bucket": "2"}}
table = catalog.create_table("db.t", columns, **kind)
table.write([{"p": f"a b{k % 2}", "k": k, "v": f"v{k}"} for k in range(1000)])
table.write([{"p": "a b0", "k": 0, "v": "new"}])
table.compact(full=True)
# A bucket of this partition has to be merged again.
table.write([{"p": "a b1", "k": 1, "v": "newer"}])

def told(where):
    frame = table.scan(where=where).to_spark(spark)
    with contextlib.redirect_stdout(io.StringIO()) as text:
        frame.explain()
    rows = sorted(map(tuple, frame.collect()))
    here = sorted(tuple(row.values()) for row in table.scan(where=where).to_arrow().to_pylist())
    print(json.dumps([rows == here, len(rows), "FileScan parquet" in text.getvalue()]))

told(None)  # the files are too small for the connector
native._LEAST_REMOTE_BYTES = 1
told(None)
told("k < 10 AND v <> 'v4'")
"""


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("jars")
    pom = Path(__file__).parent / "s3a-pom.xml"
    subprocess.run(
        ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={folder}"], check=True
    )
    return ",".join(map(str, folder.glob("*.jar")))


@pytest.mark.parametrize(
    ("endpoint", "is_native"),
    [pytest.param(None, True, id="of our store"), pytest.param("http://127.0.0.1:1", False, id="of another store")],
)
def test_spark_reads_large_files_itself_where_its_connector_finds_them(
    jars: str, endpoint: str | None, is_native: bool
) -> None:
    with S3Stub() as stub:
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.jars": jars,
            "spark.hadoop.fs.s3a.endpoint": endpoint or stub.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.aws.credentials.provider": (
                "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
            ),
        }
        keys = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT, json.dumps(settings)],
            env={**os.environ, **keys, "AWS_ENDPOINT_URL": stub.endpoint, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_AFTER_SECONDS,
        )

    assert ended.returncode == 0, ended.stderr[-4000:]
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [
        [True, 1000, False],
        [True, 1000, is_native],
        [True, 9, is_native],
    ]
