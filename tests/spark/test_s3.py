"""Tables in an S3-compatible store on Spark: the workers take the keys from their environment, or say so."""

import os
import subprocess
import sys

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.limits import HANGS_AFTER_SECONDS

SCRIPT = """
from pyspark.sql import SparkSession

import lakehouse_core as lc

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
catalog = lc.connect("s3://lake/wh", spark=spark)
catalog.create_database("db")
options = {"bucket": "2", "changelog-producer": "lookup"}
table = catalog.create_table("db.t", {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=options)
table.write(spark.range(100).selectExpr("id k", "'old' v"))
table.write(spark.range(40).selectExpr("id k", "'new' v"))
print("new rows", table.scan().to_spark(spark).filter("v = 'new'").count())
table.compact(full=True)
print("rows", table.scan().to_spark(spark).count(), table.scan().to_arrow().num_rows, table.verify().findings)
given = lc.connect("s3://lake/wh", spark=spark, storage={"access-key": "a", "secret-key": "b"})
try:
    given.table("db.t").write(spark.range(5).selectExpr("id k", "'x' v"))
except lc.LakehouseError as error:
    print("refused", error)
"""


@pytest.mark.spark
@pytest.mark.own_session
@pytest.mark.slow
@pytest.mark.long
def test_a_table_in_an_object_store_is_written_compacted_and_read_on_spark() -> None:
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    environ = os.environ | {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    client = boto3.client(
        "s3",
        endpoint_url=environ["AWS_ENDPOINT_URL"],
        aws_access_key_id="a",
        aws_secret_access_key="b",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="lake")
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_SECONDS,
    )
    moto.stop()

    assert ended.returncode == 0, ended.stderr[-4000:]
    found, whole, refused = ended.stdout.splitlines()[-3:]
    assert found == "new rows 40"
    assert whole == "rows 100 100 ()"
    assert "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of all processes" in refused
