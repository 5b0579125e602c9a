"""Malformed calls of the front door and of the shell: a turn makes 200 and 40."""

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from lakehouse_core.cli.program import run
from tests.api.malformed_calls import search as search_calls
from tests.api.malformed_calls import search_shell

CALLS = 200
COMMANDS = 40


def search(seed: int, calls: int = CALLS, commands: int = COMMANDS) -> None:
    before = Path.cwd()
    with TemporaryDirectory(prefix="calls-") as folder:
        api, shell = Path(folder, "api"), Path(folder, "shell")
        try:
            faults = []
            for work, count, turn in ((api, calls, search_calls), (shell, commands, _shell)):
                work.mkdir()
                # A call may name a file where it stands.
                os.chdir(work)
                faults += turn(seed, count, work)
        finally:
            os.chdir(before)
    assert not faults, "\n".join(map(str, faults))


def _shell(seed: int, commands: int, folder: Path) -> list[object]:
    return [*search_shell(seed, commands, folder, _command)]


def _command(words: list[str]) -> tuple[int, str]:
    said = io.StringIO()
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape")), redirect_stderr(said):
        code = run(words)
    return code, said.getvalue()
