"""Completion as a shell does it: the script is loaded by it, and the program asked what fits."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_core.cli import main

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
while read -r -a COMP_WORDS; do
  COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
  COMPREPLY=()
  _lakehouse_completion lakehouse
  echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture
def tagged(shell, orders) -> None:
    """A table with two tags."""
    for name in ("eod", "eoy"):
        shell("tag", "create", orders, name)


@pytest.fixture
def program(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program on the PATH."""
    program = home / "bin" / "lakehouse"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom lakehouse_core.cli import main\nmain()\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("typed", TYPED)
def test_the_program_says_what_may_come_next(tagged, home, monkeypatch, capsys, typed):
    words = typed.format(home=home)
    monkeypatch.setenv("_LAKEHOUSE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))

    with pytest.raises(SystemExit):
        main()

    # Each line has the kind of a word, and the word.
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(",")[2] for line in lines if line) == TYPED[typed]


@pytest.mark.program
def test_bash_completes(program, tagged):
    typed = [
        "lakehouse read sales.o",
        "lakehouse tag delete sales.orders e",
        "lakehouse alter sales.none drop-column s",
    ]

    done = subprocess.run(
        ["bash", "-c", IN_BASH], input="\n".join([*typed, ""]), capture_output=True, text=True, check=True
    )

    assert (done.stdout.splitlines(), done.stderr) == ([" ".join(TYPED[words]) for words in typed], "")


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_of_every_shell_is_printed(shell, home, name):
    answer = shell("completion", name)

    assert answer.code == 0
    assert f"_LAKEHOUSE_COMPLETE={name}_complete" in answer.out
    if shutil.which(name):
        (home / "script").write_text(answer.out)
        subprocess.run([name, "-n", home / "script"], check=True)
