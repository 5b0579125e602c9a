"""Files of an object store that Spark reads itself, where it has the connector of Hadoop; Maven brings the jars."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_SECONDS
from tests.spark.standalone import DRIVER, cluster
from tests.storage.s3_stub import S3Stub

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

spark = SparkSession.builder.config(map=json.loads(sys.argv[1])).getOrCreate()
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


def told_by(stub: S3Stub, master: str, **settings: str) -> list[list[object]]:
    """Return what the script prints: whether rows are right, how many they are, whether Spark's own scan read them."""
    asked = {
        "spark.master": master,
        **DRIVER,
        "spark.executor.memory": "600m",
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(asked)],
        env={**os.environ, **stub.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


# The files are too small for the connector, until the script says that none is.
def expected(is_native: bool) -> list[list[object]]:
    return [[True, 1000, False], [True, 1000, is_native], [True, 9, is_native]]


@pytest.mark.parametrize(
    ("of_the_session", "is_native"),
    [
        pytest.param({}, True, id="with what the store is told"),
        pytest.param({"spark__hadoop__fs__s3a__path__style__access": "true"}, True, id="with a setting of the session"),
        pytest.param({"spark__hadoop__fs__s3a__endpoint": "http://127.0.0.1:1"}, False, id="not at another address"),
    ],
)
def test_spark_reads_large_files_itself_where_its_connector_finds_them(
    jars: str, of_the_session: Mapping[str, str], is_native: bool
) -> None:
    with S3Stub() as stub:
        told = told_by(stub, "local[2]", spark__jars=jars, **of_the_session)

    assert told == expected(is_native)


@pytest.mark.parametrize(
    ("setting", "is_native"),
    [
        pytest.param("spark__jars", True, id="of all"),
        pytest.param("spark__driver__extraClassPath", False, id="of the driver alone"),
    ],
)
def test_on_a_cluster_spark_reads_large_files_itself_where_executors_have_the_connector(
    jars: str, setting: str, is_native: bool, tmp_path: Path
) -> None:
    given = jars if setting == "spark__jars" else jars.replace(",", ":")
    with S3Stub() as stub, cluster(tmp_path, environ=stub.environ) as master:
        told = told_by(stub, master, **{setting: given})

    assert told == expected(is_native)
