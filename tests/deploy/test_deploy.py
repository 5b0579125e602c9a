"""The files of `deploy/` fit each other and Dagster; no container engine is needed to say so."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
SHARED = ROOT / "deploy" / "shared"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.fixture(scope="module")
def compose() -> Any:
    return read(SHARED / "compose.yaml")


@pytest.mark.parametrize("file", ["lakehouse_dagster/instance/dagster.yaml", "deploy/shared/dagster.yaml"])
def test_an_instance_reports_nothing_home_and_guards_each_table(file: str):
    settings = read(ROOT / file)

    assert settings["telemetry"] == {"enabled": False}
    assert settings["nux"] == {"enabled": False}
    assert settings["concurrency"]["pools"] == {"granularity": "op", "default_limit": 1, "op_granularity_run_buffer": 0}
    assert settings["run_retries"]["retry_on_asset_or_op_failure"] is False


@pytest.mark.parametrize("file", ["lakehouse_dagster/instance/dagster.yaml", "deploy/shared/dagster.yaml"])
def test_dagster_accepts_the_instance_settings(file: str):
    from dagster._config import Shape, process_config
    from dagster._core.instance.config import dagster_instance_config_schema

    settings = {key: value for key, value in read(ROOT / file).items() if key != "storage"}
    result = process_config(Shape(dagster_instance_config_schema()), settings)

    assert result.success, result.errors


def test_the_shared_instance_takes_every_secret_from_the_environment():
    database = read(SHARED / "dagster.yaml")["storage"]["postgres"]["postgres_db"]

    assert {name for name, value in database.items() if isinstance(value, dict)} == {
        "hostname",
        "port",
        "username",
        "password",
        "db_name",
    }
    assert all(set(value) == {"env"} for value in database.values() if isinstance(value, dict))


def test_the_shared_instance_speaks_to_postgres_by_the_driver_that_dagster_was_written_for():
    """SQLAlchemy 2.1 takes another one unless told: its NOTIFY with a parameter fails, and with it every event."""
    from dagster_postgres.utils import pg_url_from_config
    from sqlalchemy.engine import make_url

    settings = read(SHARED / "dagster.yaml")["storage"]["postgres"]["postgres_db"]
    given = {name: "1" if isinstance(value, dict) else value for name, value in settings.items()}

    assert make_url(pg_url_from_config({"postgres_db": given})).get_dialect().driver == "psycopg2"


def test_every_variable_the_instance_reads_is_given_to_every_container(compose: Any):
    files = ("dagster.yaml", "workspace.yaml")
    wanted = {name for file in files for name in re.findall(r"\{env: (\w+)\}", (SHARED / file).read_text())}

    for name in ("migrate", "code", "webserver", "daemon"):
        assert wanted <= set(compose["services"][name]["environment"])


def test_there_is_one_of_each_process(compose: Any):
    commands = {name: " ".join(service.get("command", [])) for name, service in compose["services"].items()}

    assert set(commands) == {"postgres", "migrate", "code", "webserver", "daemon"}
    assert [name for name, command in commands.items() if "dagster-daemon run" in command] == ["daemon"]
    assert all(
        "deploy" not in service or "replicas" not in service["deploy"] for service in compose["services"].values()
    )


def test_the_workspace_points_to_the_code_server_as_it_is_started(compose: Any):
    server = read(SHARED / "workspace.yaml")["load_from"][0]["grpc_server"]
    environ = compose["services"]["webserver"]["environment"]
    command = compose["services"][environ[server["host"]["env"]]]["command"]

    assert command[command.index("-p") + 1] == environ[server["port"]["env"]]
    assert command[command.index("-m") + 1] == "orchestration.definitions"
    folder = re.findall(r"^WORKDIR (\S+)$", (SHARED / "Dockerfile").read_text(), re.MULTILINE)[-1]
    assert command[command.index("-d") + 1] == folder


def test_only_the_web_page_is_published_and_only_to_this_machine_unless_told(compose: Any):
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}

    assert published == {"webserver": ["${DAGSTER_WEB_ADDRESS:-127.0.0.1}:${DAGSTER_WEB_PORT:-3000}:3000"]}


def test_every_service_waits_for_what_it_needs(compose: Any):
    services = compose["services"]
    for service in services.values():
        for other, condition in service.get("depends_on", {}).items():
            assert other in services
            if condition["condition"] == "service_healthy":
                assert "healthcheck" in services[other]


def test_every_image_is_built_here_or_named_with_its_version(compose: Any):
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", (SHARED / "Dockerfile").read_text(), re.MULTILINE))
    inner = {"base", "wheel"}
    built = {
        service["image"]: service["build"]["target"] for service in compose["services"].values() if "build" in service
    }

    assert set(built.values()) == stages - inner
    for service in compose["services"].values():
        assert service["image"] in built or re.search(r":\d+", service["image"])


def test_the_image_gets_every_package_and_nothing_that_is_not_there(compose: Any):
    copied = re.findall(r"^COPY ([^-].+)$", (SHARED / "Dockerfile").read_text(), re.MULTILINE)
    sources = [source for line in copied for source in line.split()[:-1]]

    assert all((ROOT / source).exists() for source in sources)
    assert {"lakehouse_core", "lakehouse_dagster", "resources", "assets", "orchestration"} <= set(sources)


def test_java_is_only_where_runs_are_executed(compose: Any):
    """Runs are processes of the container that has the daemon."""
    stages = (SHARED / "Dockerfile").read_text().split("\nFROM ")

    assert [stage.split()[-1] for stage in (one.splitlines()[0] for one in stages if "jre" in one)] == ["runs"]
    targets = {name: service["build"]["target"] for name, service in compose["services"].items() if "build" in service}
    assert [name for name, target in targets.items() if target == "runs"] == ["daemon"]


def test_every_container_has_a_process_that_takes_leave_of_orphans(compose: Any):
    assert all(compose["services"][name]["init"] for name in ("migrate", "code", "webserver", "daemon"))


def locked(file: Path) -> dict[str, list[str]]:
    """By package, its version and hashes in a lock file, without the systems that it is for."""
    entries = re.split(r"^(?=\S)", file.read_text(), flags=re.MULTILINE)[1:]
    return {
        canonicalize_name(re.split(r"[\[=]", entry)[0]): re.findall(r"==\S+|sha256:\w+", entry) for entry in entries
    }


def needed(*requirements: str) -> set[str]:
    """The packages that these requirements install, theirs included, here."""
    found: dict[str, set[str]] = {}
    open_ = [Requirement(text) for text in requirements]
    while open_:
        one = open_.pop()
        name = canonicalize_name(one.name)
        extras = {"", *one.extras}
        if name in found and extras <= found[name]:
            continue
        found.setdefault(name, set()).update(extras)
        for text in distribution(name).requires or []:
            wanted = Requirement(text)
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in found[name]):
                open_.append(wanted)
    return set(found)


def test_the_image_has_what_the_platform_needs_in_the_locked_versions_and_no_tool_of_development():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["spark"], *extras["s3"], *extras["dagster"]]
    wanted += project["dependency-groups"]["platform"]
    image, whole = locked(SHARED / "requirements.lock"), locked(ROOT / "requirements.lock")

    assert {name: entry for name, entry in image.items() if whole.get(name) != entry} == {}
    assert needed(*wanted) <= set(image)
    assert {"pytest", "mypy", "ruff", "hatchling", "mkdocs", "hypothesis"} & set(image) == set()


@pytest.mark.parametrize("file", ["lakehouse_dagster/instance/dagster.yaml", "deploy/shared/dagster.yaml"])
def test_an_instance_notices_dead_runs_within_half_a_minute(file: str):
    settings = read(ROOT / file)

    assert settings["run_launcher"] == {"module": "lakehouse_dagster", "class": "ProcessRunLauncher"}
    assert settings["run_coordinator"] == {"module": "lakehouse_dagster", "class": "TableRunCoordinator"}
    monitoring = {name: value for name, value in settings["run_monitoring"].items() if name != "max_runtime_seconds"}
    assert monitoring == {
        "enabled": True,
        "poll_interval_seconds": 15,
        "start_timeout_seconds": 60,
        "cancel_timeout_seconds": 60,
        "free_slots_after_run_end_seconds": 10,
    }


def test_the_workspace_of_a_developer_names_our_definitions():
    module = {"module_name": "orchestration.definitions", "working_directory": ".", "location_name": "lakehouse"}

    assert read(ROOT / "workspace.yaml") == {"load_from": [{"python_module": module}]}
