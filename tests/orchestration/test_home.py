"""Each warehouse has a Dagster history of its own: what its pages show happened to its tables."""

import os
from pathlib import Path

import pytest
import yaml

import lakehouse_core as lc
from orchestration import home
from orchestration.home import given_warehouse, prepare_home


@pytest.fixture(autouse=True)
def restored_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """`prepare_home` sets variables for this process and its children; the next test wants the old ones."""
    for name in ("DAGSTER_HOME", "DAGSTER_DISABLE_TELEMETRY", "LAKEHOUSE_WAREHOUSE"):
        monkeypatch.setenv(name, "")


def test_two_warehouses_share_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = prepare_home(str(tmp_path / "a"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    second = prepare_home(str(tmp_path / "b"))

    assert first.is_relative_to(tmp_path / "a")
    assert second.is_relative_to(tmp_path / "b")


def test_the_history_of_a_warehouse_in_an_object_store_is_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(home, "PROJECT", tmp_path)

    assert prepare_home("s3://lake/a") == tmp_path / ".dagster" / "s3%3A%2F%2Flake%2Fa"
    assert os.environ["LAKEHOUSE_WAREHOUSE"] == "s3://lake/a"


@pytest.mark.parametrize(
    ("text", "warehouse"),
    [
        ("/data/w", "/data/w"),
        ("~/w", "/home/ann/w"),
        ("w", "/srv/w"),
        ("file:///data/w/", "/data/w"),
        ("s3://lake/w/", "s3://lake/w"),
    ],
)
def test_a_warehouse_is_an_absolute_path_or_an_address(text: str, warehouse: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(os, "getcwd", lambda: "/srv")

    assert given_warehouse(text) == warehouse


def test_a_home_of_ones_own_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "mine"))

    assert prepare_home(str(tmp_path / "warehouse")) == tmp_path / "mine"


def test_the_history_is_no_part_of_the_tables_and_reports_nothing_home(tmp_path: Path):
    home = prepare_home(str(tmp_path))

    assert lc.connect(str(tmp_path)).databases() == []
    settings = yaml.safe_load((home / "dagster.yaml").read_text())
    assert (settings["telemetry"], settings["nux"]) == ({"enabled": False}, {"enabled": False})
