"""The values for Dagster's Helm chart say what `deploy/shared` says; no cluster is needed to compare them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parent.parent.parent / "deploy"


def read(file: str) -> Any:
    return yaml.safe_load((DEPLOY / file).read_text())


@pytest.fixture(scope="module")
def values() -> Any:
    return read("kubernetes/values.yaml")


@pytest.fixture(scope="module")
def compose() -> Any:
    return read("shared/compose.yaml")


def manifest(values: Any, kind: str) -> Any:
    return next(each for each in values["extraManifests"] if each["kind"] == kind)


def pods(values: Any) -> dict[str, Any]:
    """The processes by their names in the compose file."""
    return {
        "webserver": values["dagsterWebserver"],
        "code": values["dagster-user-deployments"]["deployments"][0],
        "daemon": values["dagsterDaemon"],
    }


def test_the_instance_has_the_settings_of_the_shared_instance(values: Any):
    launcher = values["runLauncher"]["config"]["customRunLauncher"]
    instance = values["additionalInstanceConfig"] | {
        "telemetry": values["telemetry"],
        "run_launcher": {name: launcher[name] for name in ("module", "class")},
        "compute_logs": values["computeLogManager"]["config"]["customComputeLogManager"],
    }

    assert instance == {name: value for name, value in read("shared/dagster.yaml").items() if name != "storage"}
    assert (values["runLauncher"]["type"], launcher["config"]) == ("CustomRunLauncher", {})
    assert values["computeLogManager"]["type"] == "CustomComputeLogManager"


def test_the_chart_writes_no_setting_that_stands_in_the_additional_ones(values: Any):
    daemon = values["dagsterDaemon"]

    assert [daemon[name]["enabled"] for name in ("runCoordinator", "runMonitoring", "runRetries")] == [False] * 3
    assert [daemon[name]["useThreads"] for name in ("sensors", "schedules")] == [False] * 2
    assert {"pythonLogs", "retention"} & set(values) == set()  # off in the chart


def test_every_process_has_the_environment_of_the_compose_file(values: Any, compose: Any):
    given = manifest(values, "ConfigMap")
    secret = "DAGSTER_POSTGRES_PASSWORD"
    # The chart mounts the settings at dagsterHome, and makes the workspace from the deployments.
    wanted = dict(compose["services"]["daemon"]["environment"])
    assert wanted.pop("DAGSTER_HOME") == values["global"]["dagsterHome"]
    assert wanted.pop("DAGSTER_CODE_PORT") == str(pods(values)["code"]["port"])
    assert wanted.pop("DAGSTER_CODE_HOST") == pods(values)["code"]["name"]

    assert set(given["data"]) == set(wanted) - {secret}
    chosen = {secret, "LAKEHOUSE_ALERT_URL", "LAKEHOUSE_SPARK_MASTER"}
    assert {name: given["data"][name] for name in wanted.keys() - chosen} == {
        name: value for name, value in wanted.items() if name not in chosen
    }
    assert all(pod["envConfigMaps"] == [{"name": given["metadata"]["name"]}] for pod in pods(values).values())


def test_the_password_comes_from_one_secret_and_is_in_no_file(values: Any):
    secret = values["global"]["postgresqlSecretName"]
    (variable,) = pods(values)["code"]["env"]

    assert variable["name"] == "DAGSTER_POSTGRES_PASSWORD"
    assert variable["valueFrom"]["secretKeyRef"] == {"name": secret, "key": "postgresql-password"}
    assert values["generatePostgresqlPasswordSecret"] is False
    assert values["postgresql"]["enabled"] is False
    assert "postgresqlPassword" not in values["postgresql"]


def test_the_images_and_the_command_are_those_of_the_compose_file(values: Any, compose: Any):
    services = compose["services"]
    images = {name: pod["image"]["repository"] for name, pod in pods(values).items()}
    command = services["code"]["command"]

    assert images == {name: services[name]["image"] for name in images}
    assert values["migrate"] == {"enabled": True}  # with the web server's image
    assert pods(values)["code"]["codeServerArgs"] == command[command.index("-d") :]


def test_every_process_has_the_same_data(values: Any, compose: Any):
    claim = manifest(values, "PersistentVolumeClaim")
    (place,) = compose["services"]["daemon"]["volumes"]

    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod in pods(values).values():
        assert pod["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}]
        assert pod["volumeMounts"] == [{"name": "data", "mountPath": place.split(":")[1]}]


def test_nothing_runs_as_root_or_listens_where_only_root_may(values: Any):
    web = values["dagsterWebserver"]

    assert all(pod["podSecurityContext"]["runAsNonRoot"] for pod in pods(values).values())
    assert web["readinessProbe"]["httpGet"]["port"] == web["service"]["port"] > 1023
    assert "ingress" not in values
