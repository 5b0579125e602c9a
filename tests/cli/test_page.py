"""Every command on the page about the shell runs, in its order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "shell.md"
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL) for line in block.splitlines() if line
]


@pytest.mark.program
def test_every_command_of_the_page_runs(shell, home, monkeypatch):
    (home / "monday.csv").write_text("dt,id,status,amount\n2013-01-05,1,new,12.50\n2013-01-06,2,,9\n")
    (home / "tuesday.csv").write_text("dt;id;status\n2013-01-05;1;NA\n")
    for name in ("sales.tests", "sales.copies"):
        assert shell("create", name, "--schema", "orders.yaml").code == 0
    shell("alter", "sales.copies", "add-column", "note", "STRING")
    program = home / "bin" / "lakehouse"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom lakehouse_core.cli import main\nmain()\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    for command in COMMANDS:
        words = shlex.split(command)
        if words[0] == "lakehouse" and {"|", ">"}.isdisjoint(words):
            answer = shell(*words[1:])
            assert (answer.code, command) == (0, command), answer.err
        else:
            subprocess.run(["bash", "-o", "pipefail", "-ec", command], check=True, capture_output=True)

    assert shell("count", "sales.copies").out == "2\n"
    assert (home / "first.parquet").exists()
