"""The cluster of `deploy/cluster`: its files fit each other, the shared instance, and what the cluster tests run."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyspark
import pytest
import yaml

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
MASTER = "spark://spark-master:7077"


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((DEPLOY / "cluster" / "compose.yaml").read_text())["services"]


@pytest.fixture(scope="module")
def manifests() -> Any:
    found = yaml.safe_load_all((DEPLOY / "cluster" / "kubernetes.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def container(manifests: Any, name: str) -> Any:
    (found,) = manifests["Deployment", name]["spec"]["template"]["spec"]["containers"]
    return found


def test_the_compose_file_adds_to_processes_of_the_shared_instance(compose: Any):
    shared = yaml.safe_load((DEPLOY / "shared" / "compose.yaml").read_text())["services"]

    assert set(compose) - set(shared) == {"spark-master", "spark-worker"}
    assert compose["daemon"]["environment"]["LAKEHOUSE_SPARK_MASTER"] == MASTER
    assert "LAKEHOUSE_SPARK_MASTER" in shared["daemon"]["environment"]
    assert {compose[name]["image"] for name in ("spark-master", "spark-worker")} == {shared["daemon"]["image"]}
    # Relative to the first of the two files.
    (mount,) = compose["daemon"]["volumes"]
    source, target, mode = mount.split(":")
    assert (DEPLOY / "shared" / source).resolve() == DEPLOY / "cluster" / "spark-defaults.conf"
    assert target == f"{compose['daemon']['environment']['SPARK_CONF_DIR']}/spark-defaults.conf"
    assert mode == "ro"


def test_every_process_reaches_the_store_with_keys_that_stand_in_no_file(compose: Any):
    names = {"LAKEHOUSE_WAREHOUSE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"}
    for process in ("code", "webserver", "daemon", "spark-worker"):
        given = compose[process]["environment"]
        assert names <= set(given), process
        assert all(given[name].startswith(f"${{{name}:") for name in names), process
    assert "environment" not in compose["spark-master"]


def test_kubernetes_has_the_commands_and_the_image_of_the_compose_file(compose: Any, manifests: Any):
    values = yaml.safe_load((DEPLOY / "kubernetes" / "values.yaml").read_text())
    image = values["dagsterDaemon"]["image"]

    for name in ("spark-master", "spark-worker"):
        found = container(manifests, name)
        assert found["command"] == compose[name]["command"]
        assert found["image"] == f"{image['repository']}:{image['tag']}"
        pod = manifests["Deployment", name]["spec"]
        assert pod["selector"]["matchLabels"] == pod["template"]["metadata"]["labels"] == {"app": name}
        # Its address would come as SPARK_MASTER_PORT, which Spark takes for its own setting.
        assert pod["template"]["spec"]["enableServiceLinks"] is False
    assert manifests["Service", "spark-master"]["spec"]["selector"] == {"app": "spark-master"}
    assert manifests["Deployment", "spark-worker"]["spec"]["replicas"] == compose["spark-worker"]["deploy"]["replicas"]
    environment = container(manifests, "spark-worker")["env"]
    assert {each["name"] for each in environment} == {"AWS_REGION", "AWS_ENDPOINT_URL"}


def test_the_commands_are_those_of_the_installed_spark(compose: Any):
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-core_*.jar")
    classes = set(ZipFile(jar).namelist())

    for name in ("spark-master", "spark-worker"):
        program, main, *arguments = compose[name]["command"]
        assert (Path(pyspark.__file__).parent / "bin" / program).exists()
        assert f"{main.replace('.', '/')}.class" in classes
        assert ("7077" in arguments) == (name == "spark-master")
    assert compose["spark-worker"]["command"][-1] == MASTER


def test_an_executor_fits_a_worker_beside_another(compose: Any):
    lines = (DEPLOY / "cluster" / "spark-defaults.conf").read_text().splitlines()
    settings = dict(line.split() for line in lines if line and not line.startswith("#"))
    command = compose["spark-worker"]["command"]
    cores, memory = (command[command.index(flag) + 1] for flag in ("--cores", "--memory"))

    assert int(settings["spark.cores.max"]) * 2 == int(cores) * compose["spark-worker"]["deploy"]["replicas"]
    assert 2 * int(settings["spark.executor.memory"].rstrip("g")) <= int(memory.rstrip("g"))
