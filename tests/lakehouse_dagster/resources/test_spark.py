"""A Spark session as a resource: one per process, made late, its settings never silently other ones."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster.resources import LakehouseResource, SparkRuntime, ensure_java, spark_job
from lakehouse_dagster.resources.spark import _local_cores, _split


@pytest.mark.program
def test_opening_a_catalog_and_naming_a_job_start_no_session(tmp_path: Path):
    script = f"""
import sys
from lakehouse_dagster.resources import LakehouseResource, SparkRuntime, spark_job
lakehouse = LakehouseResource(warehouse={str(tmp_path)!r}, spark=SparkRuntime())
with spark_job("group", "nothing"):
    assert lakehouse.catalog().databases() == []
lakehouse.spark.stop()
assert "pyspark" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


# A Java whose JVM is killed while it starts, as often as there are lines in a file.
_MORTAL = """#!/bin/sh
case "$*" in
*SparkSubmit*)
    if [ -s "{deaths}" ]; then
        sed -i 1d "{deaths}"
        kill -9 $$
    fi ;;
esac
exec "{java}" "$@"
"""


@pytest.mark.program
@pytest.mark.own_session
@pytest.mark.parametrize(
    ("deaths", "told"), [pytest.param(1, "session of 1 row", marks=pytest.mark.long), (2, "JAVA_GATEWAY_EXITED")]
)
def test_a_jvm_that_is_killed_while_it_starts_is_started_once_more(tmp_path: Path, deaths: int, told: str):
    java, counter = tmp_path / "home" / "bin" / "java", tmp_path / "deaths"
    java.parent.mkdir(parents=True)
    java.write_text(_MORTAL.format(deaths=counter, java=ensure_java() / "bin" / "java"))
    java.chmod(0o755)
    counter.write_text("once\n" * deaths)
    script = """
from lakehouse_dagster.resources import SparkRuntime
print("session of", SparkRuntime(master="local[1]").spark_session.range(1).count(), "row")
"""

    done = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "JAVA_HOME": str(tmp_path / "home")},
    )

    assert told in done.stdout + done.stderr
    assert counter.read_text() == ""


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local[2]", 2), ("local[2,3]", 2), ("local[1]", 1), ("local-cluster[2,3,1024]", 6), ("local", None)],
)
def test_local_cores_come_from_the_master(master: str, cores: int | None):
    assert _local_cores(master) == (cores or os.cpu_count())


# Masters that are wrong or away, and what is told of each.
MASTERS = {
    "": "'' is not a master of Spark. Expected local[2], local-cluster[2,1,1024], spark://host:7077, yarn or k8s",
    "loca[2]": "'loca[2]' is not a master of Spark.",
    "spark://host": "'spark://host' is not a master of Spark.",
    "spark://127.0.0.1:1,127.0.0.1:2": "no master of spark://127.0.0.1:1,127.0.0.1:2 answers (127.0.0.1:1: ",
    "spark://127.0.0.1:99999": "no master of spark://127.0.0.1:99999 answers (127.0.0.1:99999: ",
}


@pytest.fixture(scope="module")
def told_of_masters() -> Mapping[str, str]:
    """What a process without Java is told of each master, by the master."""
    script = f"""
import json
import lakehouse_core as lc
from lakehouse_dagster.resources import SparkRuntime
told = {{}}
for master in {MASTERS!r}:
    try:
        SparkRuntime(master=master).spark_session
    except lc.InvalidRequest as error:
        told[master] = str(error)
print(json.dumps(told))
"""
    environ = {**os.environ, "JAVA_HOME": "/"}
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environ)
    told: Mapping[str, str] = json.loads(done.stdout)
    return told


@pytest.mark.program
@pytest.mark.parametrize("master", MASTERS)
def test_a_master_that_is_wrong_or_away_is_told_before_a_jvm_starts(master: str, told_of_masters: Mapping[str, str]):
    assert told_of_masters[master].startswith(f"SparkRuntime: {MASTERS[master]}")
    assert "\n" not in told_of_masters[master]


def test_settings_part_into_those_of_the_process_and_those_of_a_session():
    static, runtime = _split(
        {
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "8",
            "spark.sql.warehouse.dir": "/tmp",
            "spark.sql.extensions": "x",
        }
    )

    assert set(static) == {"spark.driver.memory", "spark.sql.warehouse.dir", "spark.sql.extensions"}
    assert set(runtime) == {"spark.sql.shuffle.partitions"}


@pytest.mark.spark
def test_the_running_session_is_used(spark: Any):
    assert SparkRuntime().spark_session.sparkContext is spark.sparkContext


@pytest.mark.spark
def test_other_settings_of_the_process_are_refused_by_name(spark: Any):
    asked = SparkRuntime(conf={"spark.driver.memory": "7g"})

    with pytest.raises(lc.InvalidRequest, match=r"spark\.driver\.memory is 1g, asked for 7g"):
        _ = asked.spark_session


@pytest.mark.spark
def test_settings_of_one_resource_do_not_reach_another(spark: Any):
    narrow = SparkRuntime(conf={"spark.sql.shuffle.partitions": "3"}).spark_session
    wide = SparkRuntime(conf={"spark.sql.shuffle.partitions": "5"}).spark_session

    assert narrow.conf.get("spark.sql.shuffle.partitions") == "3"
    assert wide.conf.get("spark.sql.shuffle.partitions") == "5"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"


@pytest.mark.spark
def test_jobs_carry_the_name_of_their_step_and_only_while_it_lasts(spark: Any):
    runtime = SparkRuntime()

    with spark_job("run/step", "compact_full ops.flights"):
        context = runtime.spark_session.sparkContext
        assert context.getLocalProperty("spark.jobGroup.id") == "run/step"
        assert context.getLocalProperty("spark.job.description") == "compact_full ops.flights"
    assert context.getLocalProperty("spark.jobGroup.id") is None


@pytest.mark.spark
def test_an_interrupt_stays_one_although_the_jvm_no_longer_answers(spark: Any, monkeypatch: pytest.MonkeyPatch):
    """Otherwise a run that someone stops takes it for a failed step, and goes on with all others."""

    def silent() -> Any:
        raise OSError("the answer belongs to another question")

    monkeypatch.setattr("lakehouse_dagster.resources.spark_jobs.active_session", silent)

    with pytest.raises(KeyboardInterrupt), spark_job("run/step", "ingest ops.flights"):
        raise KeyboardInterrupt


@pytest.mark.spark
@pytest.mark.parametrize("lazy", [True, False])
def test_a_dagster_pyspark_resource_serves_as_well(spark: Any, tmp_path: Path, lazy: bool):
    from dagster_pyspark import LazyPySparkResource, PySparkResource

    kind = LazyPySparkResource if lazy else PySparkResource
    resource = LakehouseResource(warehouse=str(tmp_path), spark=kind(spark_config={}))

    with dg.build_resources({"lakehouse": resource}) as resources:
        assert resources.lakehouse.spark.spark_session.sparkContext is spark.sparkContext


def test_the_warehouse_comes_from_the_environment_when_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("LAKEHOUSE_WAREHOUSE", str(tmp_path))
    resource = LakehouseResource(warehouse=dg.EnvVar("LAKEHOUSE_WAREHOUSE"), spark=SparkRuntime())

    with dg.build_resources({"lakehouse": resource}) as resources:
        assert resources.lakehouse.uri == tmp_path.as_uri()


@pytest.mark.parametrize(("master", "partitions"), [("local[3]", "3"), ("spark://10.0.0.1:7077", None)])
def test_the_cores_of_this_machine_are_those_of_a_local_session_only(master: str, partitions: str | None):
    assert SparkRuntime(master=master)._settings().get("spark.sql.shuffle.partitions") == partitions
