"""No key of a store and no password of a database is in what Spark, the shell and the tables write down or say."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.catalog.sql.postgresql_server import postgresql_server
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.s3_stub import ACCESS, SECRET, S3Stub

pytestmark = [pytest.mark.spark, pytest.mark.own_session, pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[2]
PASSWORD, TOKEN, OTHER = "canary-of-the-database", "canary-of-the-session", "canary-of-another-secret"
SECRETS = (SECRET, PASSWORD, TOKEN, OTHER)
SHELL = (
    sys.executable,
    "-c",
    "import sys; from lakehouse_core.cli import main; sys.exit(main())",
    "-w",
    "s3://lake/wh",
)

SCRIPT = """
import json
import logging
import sys
import traceback
from itertools import count
from pathlib import Path

from pyspark import serializers
from pyspark.sql import SparkSession

import lakehouse_core as lc

logging.basicConfig(level=logging.DEBUG)
# It tells each command to Java, in which the pickles are.
logging.getLogger("py4j").setLevel(logging.INFO)
given, pickles, numbers = json.load(sys.stdin), Path(sys.argv[1]), count()
whole = serializers.CloudPickleSerializer.dumps


def dumps(self, task):
    data = whole(self, task)
    (pickles / f"{next(numbers)}").write_bytes(data)
    return data


serializers.CloudPickleSerializer.dumps = dumps
spark = SparkSession.builder.master("local[2,2]").config(map=given["spark"]).getOrCreate()
spark.sparkContext.setLogLevel("INFO")


def shown(*values):
    for value in values:
        print(repr(value), value, getattr(value, "_repr_html_", lambda: "")())


def failing(act):
    try:
        act()
    except Exception as error:
        traceback.print_exc()
        print("refused", repr(error))
        return
    raise AssertionError("it was not refused")


def lake(**storage):
    return lc.connect("s3://lake/wh", spark=spark, storage=storage, metastore=given["metastore"])


catalog = lake()
catalog.create_database("db")
columns = {"k": "BIGINT NOT NULL", "v": "STRING"}
options = {"bucket": "2", "changelog-producer": "lookup"}
table = catalog.create_table("db.t", columns, primary_keys=["k"], options=options)
table.write(spark.range(100).selectExpr("id k", "'old' v"))
table.write(spark.range(40).selectExpr("id k", "'new' v"))
scan = table.scan(where="v = 'new'")
for mode in ("extended", "formatted", "codegen", "cost"):
    scan.to_spark(spark).explain(mode)
assert scan.to_spark(spark).count() == 40
print(scan.to_spark(spark)._jdf.queryExecution().toString())
for text in ("SELECT count(*) FROM db.t", "EXPLAIN SELECT v, count(*) FROM db.t GROUP BY v", "SHOW CREATE TABLE db.t"):
    shown(catalog.sql(text))
    try:
        print(catalog.sql(text).to_arrow())
    except lc.LakehouseError as error:
        print(error)
table.delete("k = 7")
shown(table.compact(full=True), table.lookup([{"k": 3}]), table.verify(), table.expire_snapshots(retain_max=3))
catalog.copy_table(table, "db.copy")
shown(catalog, table, scan, scan.to_spark(spark), table.changes(after=0))

lc.register(spark)
by_profile = spark.read.format("lakehouse").options(profile="lake", columns="k").load("db.t")
by_profile.explain("extended")
assert by_profile.count() == 99
shown(by_profile)

keys = {"access-key": given["access"], "secret-key": given["secret"], "session-token": given["token"]}
with_keys = lake(**keys)
shown(with_keys, with_keys.table("db.t"), with_keys.table("db.t").scan())
failing(lambda: with_keys.table("db.t").write(spark.range(5).selectExpr("id k", "'x' v")))
failing(lambda: with_keys.table("db.t").scan().to_spark(spark).count())
failing(lambda: lake(**{**keys, "secret-key": given["other"]}).table("db.t").scan().to_arrow())
away = given["metastore"].replace(given["database"], "no_such_database")
failing(lambda: lc.connect("s3://lake/wh", spark=spark, metastore=away).databases())
spark.stop()
"""


def test_no_secret_is_in_events_plans_tasks_errors_logs_or_tables(tmp_path: Path) -> None:
    with S3Stub() as stub, postgresql_server() as server:
        address = server.new_database()
        metastore = address.replace("postgres@", f"postgres:{PASSWORD}@")
        environ = {**keys_of(stub), "LAKEHOUSE_METASTORE": metastore, "PYSPARK_PYTHON": sys.executable}
        profiles = tmp_path / "profiles.yaml"
        profiles.write_text("lake: {warehouse: s3://lake/wh, metastore: {env: LAKEHOUSE_METASTORE}}")
        environ["LAKEHOUSE_PROFILES"] = str(profiles)
        for name in ("events", "pickles", "local"):
            (tmp_path / name).mkdir()
        given = {
            "metastore": metastore,
            "database": address.rpartition("/")[2].partition("?")[0],
            "access": ACCESS,
            "secret": SECRET,
            "token": TOKEN,
            "other": OTHER,
            "spark": {
                "spark.ui.enabled": "false",
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": (tmp_path / "events").as_uri(),
                "spark.local.dir": str(tmp_path / "local"),
                "spark.sql.warehouse.dir": str(tmp_path / "spark-warehouse"),
                # As users give keys to executors and to Hadoop's connector.
                "spark.executorEnv.AWS_SECRET_ACCESS_KEY": SECRET,
                "spark.hadoop.fs.s3a.secret.key": SECRET,
            },
        }
        told = said([sys.executable, "-c", SCRIPT, str(tmp_path / "pickles")], tmp_path, environ, given=given)
        assert told.count("refused") == 4, told[-4000:]
        for words in (["describe", "db.t"], ["read", "db.t"], ["verify", "db.t"], ["sql", "SELECT count(*) FROM db.t"]):
            told += said([*SHELL, *words], tmp_path, environ)
        for wrong in ({"AWS_SECRET_ACCESS_KEY": OTHER}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}):
            told += said([*SHELL, "read", "db.t"], tmp_path, {**environ, **wrong}, code=4)
        stored = [stored.data for stored in stub.lake.objects.values()]
        files = [path for folder in (tmp_path, server.folder) for path in folder.rglob("*") if path.is_file()]
        written = {path: path.read_bytes() for path in files}

    assert "s3://lake/wh" in told
    assert [line for line in told.splitlines() if has_secret(line.encode())] == []
    assert not any(map(has_secret, stored))
    assert any(b"SparkListenerTaskEnd" in data for path, data in written.items() if tmp_path / "events" in path.parents)
    assert any(path.parent.name == "pickles" for path in written)
    assert [path for path, data in written.items() if has_secret(data)] == []


def has_secret(data: bytes) -> bool:
    return any(secret.encode() in data for secret in SECRETS)


def keys_of(stub: S3Stub) -> Mapping[str, str]:
    return {**stub.environ, "AWS_SESSION_TOKEN": TOKEN}


def said(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], *, given: object = None, code: int = 0
) -> str:
    """Run a command in a process of its own, in the folder; return all that it says."""
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_SECONDS,
    )
    assert ended.returncode == code, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended.stdout + ended.stderr
