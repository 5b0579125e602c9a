"""Each warehouse has a Dagster history of its own: what its pages show happened to its tables."""

from pathlib import Path

import pytest
import yaml

import lakehouse_core as lc
from orchestration.home import prepare_home


@pytest.fixture(autouse=True)
def restored_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """`prepare_home` sets variables for this process and its children; the next test wants the old ones."""
    for name in ("DAGSTER_HOME", "DAGSTER_DISABLE_TELEMETRY", "LAKEHOUSE_WAREHOUSE"):
        monkeypatch.setenv(name, "")


def test_two_warehouses_share_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = prepare_home(tmp_path / "a")
    monkeypatch.setenv("DAGSTER_HOME", "")
    second = prepare_home(tmp_path / "b")

    assert first.is_relative_to(tmp_path / "a")
    assert second.is_relative_to(tmp_path / "b")


def test_a_home_of_ones_own_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "mine"))

    assert prepare_home(tmp_path / "warehouse") == tmp_path / "mine"


def test_the_history_is_no_part_of_the_tables_and_reports_nothing_home(tmp_path: Path):
    home = prepare_home(tmp_path)

    assert lc.connect(str(tmp_path)).databases() == []
    settings = yaml.safe_load((home / "dagster.yaml").read_text())
    assert (settings["telemetry"], settings["nux"]) == ({"enabled": False}, {"enabled": False})
