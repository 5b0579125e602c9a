"""Completion as a shell does it: the script is loaded by it, and the program asked what fits."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# What is typed, and what may come next.
TYPED = {
    "lakehouse compact-": ["compact-manifests"],
    "lakehouse read sales.o": ["sales.orders"],
    "lakehouse -w {home}/wh count sales.o": ["sales.orders"],
    "lakehouse -w {home}/none count sales.o": [],
    "lakehouse write sales.orders --over": ["--overwrite"],
    "lakehouse tag delete sales.orders e": ["eod", "eoy"],
    "lakehouse read sales.orders --tag eo": ["eod", "eoy"],
    "lakehouse write sales.orders - --format js": ["json", "jsonl"],
    "lakehouse alter sales.orders add-column a INT --af": ["--after"],
    "lakehouse alter sales.orders add-column a INT drop-d": ["drop-default"],
    "lakehouse alter sales.orders drop-column s": ["status"],
    "lakehouse alter sales.orders drop-column status rename-column a": ["amount"],
    "lakehouse alter sales.orders add-column a INT --after d": ["dt"],
    "lakehouse alter sales.orders comment text --column i": ["id"],
    "lakehouse read sales.orders --columns dt,s": ["dt,status"],
    "lakehouse lookup sales.orders id=1 --columns i": ["id"],
    "lakehouse alter sales.none drop-column s": [],
    "lakehouse completion z": ["zsh"],
    "lakehouse fleet plan sales.o": ["sales.orders"],
    "lakehouse fleet plan --only": ["--only-urgent"],
}
IN_BASH = """
source <(lakehouse completion bash)
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_lakehouse_completion lakehouse
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def shells(shell, orders, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the program, on the PATH."""
    for name in ("eod", "eoy"):
        shell("tag", "create", orders, name)
    program = home / "bin" / "lakehouse"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom lakehouse_core.cli import main\nmain()\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return home


def said(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return sorted(line for line in done.stdout.splitlines() if line)


@pytest.mark.parametrize("typed", TYPED)
def test_bash_completes(shells, typed):
    words = typed.format(home=shells)

    assert said("bash", "-c", IN_BASH.format(words=words)) == TYPED[typed]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_of_every_shell_is_printed(shell, home, name):
    answer = shell("completion", name)

    assert answer.code == 0
    assert f"_LAKEHOUSE_COMPLETE={name}_complete" in answer.out
    if shutil.which(name):
        (home / "script").write_text(answer.out)
        subprocess.run([name, "-n", home / "script"], check=True)
