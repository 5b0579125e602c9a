"""Tables in an S3-compatible store on Spark: the workers take the keys from their environment, or say so."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

import lakehouse_core as lc
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.metadata_server import metadata_server
from tests.storage.s3_stub import REGION, S3Stub

SCRIPT = """
import json
import sys

from pyspark.sql import SparkSession

import lakehouse_core as lc


def of_the_daemon(batches):
    import os

    import pyarrow as pa

    with open(f"/proc/{os.getppid()}/maps") as maps:
        loaded = "obstore" in maps.read()
    for _ in batches:
        yield pa.record_batch({"id": pa.array([int(loaded)], pa.int64())})


# As on a cluster, a task that fails is tried four times.
spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
arguments = json.loads(sys.argv[1])
catalog = lc.connect("s3://lake/wh", spark=spark, **arguments)
catalog.create_database("db")
options = {"bucket": "2", "changelog-producer": "lookup"}
table = catalog.create_table("db.t", {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=options)
table.write(spark.range(100).selectExpr("id k", "'old' v"))
table.write(spark.range(40).selectExpr("id k", "'new' v"))
print("new rows", table.scan().to_spark(spark).filter("v = 'new'").count())
table.compact(full=True)
print("found", table.lookup([{"k": 3}, {"k": 99}]).to_pylist())
print("rows", table.scan().to_spark(spark).count(), table.scan().to_arrow().num_rows, table.verify().findings)
print("loaded by what forks the workers", spark.range(2).mapInArrow(of_the_daemon, "id long").first().id)
keys = {"access-key": sys.argv[2], "secret-key": sys.argv[3]}
given = lc.connect("s3://lake/wh", spark=spark, **{**arguments, "storage": {**arguments.get("storage", {}), **keys}})
try:
    given.table("db.t").write(spark.range(5).selectExpr("id k", "'x' v"))
except lc.LakehouseError as error:
    tracker = spark.sparkContext.statusTracker()
    stages = [stage for job in tracker.getJobIdsForGroup() for stage in tracker.getJobInfo(job).stageIds]
    attempts = [info.numFailedTasks for info in map(tracker.getStageInfo, stages) if info is not None]
    print("failed attempts", sum(attempts))
    print("refused", type(error).__name__, error)
"""


pytestmark = [pytest.mark.spark, pytest.mark.own_session, pytest.mark.slow, pytest.mark.long]


def lines_of(environ: Mapping[str, str], arguments: Mapping[str, object]) -> list[str]:
    """Run the script in a process of its own, whose environment has the keys; return what it printed."""
    keys = [environ.get("AWS_ACCESS_KEY_ID", "other"), environ.get("AWS_SECRET_ACCESS_KEY", "other")]
    machine = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(arguments), *keys],
        env={**machine, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found, looked_up, whole, loaded, attempts, refused = ended.stdout.splitlines()[-6:]
    assert found == "new rows 40"
    assert looked_up == "found [{'k': 3, 'v': 'new'}, {'k': 99, 'v': 'old'}]"
    assert whole == "rows 100 100 ()"
    # A client of a store does not work in a process that was forked after it.
    assert loaded == "loaded by what forks the workers 0"
    return [attempts, refused]


def test_a_table_in_an_object_store_is_written_compacted_and_read_on_spark() -> None:
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    environ = {
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
    attempts, refused = lines_of(environ, {})
    moto.stop()

    # It is told at once.
    assert attempts == "failed attempts 0"
    assert refused.startswith(
        "refused CredentialsMissing db.t: s3://lake: its keys were given to connect() in another process"
    )
    assert "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of all processes" in refused


def test_a_table_whose_commits_a_database_decides_is_the_same_on_spark(tmp_path: Path) -> None:
    """Its tasks need the store alone."""
    with S3Stub() as stub:
        stub.ignored = frozenset({"if-none-match", "if-match"})
        names = f"sqlite:///{tmp_path}/names.db"
        arguments = {"storage": {"conditional-writes": "false"}, "metastore": names}
        attempts, _ = lines_of(stub.environ, arguments)

        assert attempts == "failed attempts 0"
        decides = lc.connect("s3://lake/wh", storage={**stub.storage, "conditional-writes": "false"}, metastore=names)
        assert decides.table("db.t").scan().count() == 100


def test_the_keys_of_a_machines_role_are_found_and_renewed_by_driver_and_tasks() -> None:
    with S3Stub() as stub, metadata_server(stub) as role:
        stub.secrets, role.lifetime_seconds = {}, 5
        environ = {
            "AWS_METADATA_ENDPOINT": role.endpoint,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": stub.endpoint,
        }
        lines_of(environ, {})

        assert len(stub.expired) > 1
