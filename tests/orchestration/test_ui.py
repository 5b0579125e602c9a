"""`make ui` looks before it starts: at a warehouse that is there, by a port that is free."""

import socket
import sys
from pathlib import Path

import pytest

import lakehouse_core as lc
from orchestration import ui
from tests.storage.s3_stub import ACCESS, REGION, SECRET, S3Stub


def started(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[list[str]]:
    """Run the command and return what it became."""
    became: list[list[str]] = []
    monkeypatch.setattr(ui.os, "execv", lambda program, command: became.append(command))
    monkeypatch.setattr(ui.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["ui", *arguments])
    for name in ("DAGSTER_HOME", "DAGSTER_DISABLE_TELEMETRY", "LAKEHOUSE_WAREHOUSE"):
        monkeypatch.setenv(name, "")
    ui.main()
    return became


def free_port() -> int:
    with socket.socket() as found:
        found.bind((ui.HOST, 0))
        port: int = found.getsockname()[1]
        return port


def test_it_starts_on_the_warehouse_and_the_port_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    port = free_port()

    (command,) = started(monkeypatch, "--warehouse", str(tmp_path), "--port", str(port))

    assert command[-2:] == ["-p", str(port)]
    assert ui.os.environ["LAKEHOUSE_WAREHOUSE"] == str(tmp_path)


def test_the_environment_names_warehouse_and_port_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    port = free_port()
    monkeypatch.setenv("WAREHOUSE", str(tmp_path))
    monkeypatch.setenv("PORT", str(port))

    (command,) = started(monkeypatch)

    assert command[-1] == str(port)


def test_a_warehouse_that_is_not_there_is_not_made_and_those_that_are_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "warehouse" / "ops.db").mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    before = set(tmp_path.iterdir())

    with pytest.raises(SystemExit) as refused:
        started(monkeypatch, "--warehouse", str(tmp_path / "typo"))

    assert str(refused.value) == (
        f"Warehouse {tmp_path / 'typo'} does not exist. There is {tmp_path / 'warehouse'}. Fill it with "
        f"`make run WAREHOUSE={tmp_path / 'typo'}`, or name another."
    )
    assert set(tmp_path.iterdir()) == before


def test_an_object_store_without_tables_or_out_of_reach_is_told(monkeypatch: pytest.MonkeyPatch):
    with S3Stub() as stub:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", ACCESS),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_REGION", REGION),
            ("AWS_ENDPOINT_URL", stub.endpoint),
        ):
            monkeypatch.setenv(name, value)

        with pytest.raises(SystemExit, match=r"^Warehouse s3://lake/w has no tables\. Fill it with `make run WAREH"):
            started(monkeypatch, "--warehouse", "s3://lake/w")
        with pytest.raises(SystemExit, match=r"s3://none.*bucket"):
            started(monkeypatch, "--warehouse", "s3://none/w")

        lc.connect("s3://lake/w").create_database("ops")
        (command,) = started(monkeypatch, "--warehouse", "s3://lake/w", "--port", str(free_port()))

    assert command[2:5] == ["ignore", "-m", "dagster"]
    assert ui.os.environ["LAKEHOUSE_WAREHOUSE"] == "s3://lake/w"


def test_a_file_is_no_warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")

    with pytest.raises(SystemExit, match="is a file: name a folder"):
        started(monkeypatch, "--warehouse", str(tmp_path / "file"))


def test_a_port_that_is_taken_is_told_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as other:
        other.bind((ui.HOST, 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(SystemExit, match=rf"Port {port} is taken.*`make ui PORT={port % 65535 + 1}`"):
            started(monkeypatch, "--warehouse", str(tmp_path), "--port", str(port))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_a_port_is_a_number_that_ports_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: str):
    with pytest.raises(SystemExit, match="expected a number from 1 to 65535"):
        started(monkeypatch, "--warehouse", str(tmp_path), f"--port={port}")
