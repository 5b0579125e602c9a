"""Malformed commands end in an exit code and one line; a chosen few of those that `make search` makes."""

import pytest

from lakehouse_core.cli.program import run
from tests.api.malformed_calls import search_shell


@pytest.mark.parametrize("seed", [1])
def test_malformed_commands_are_refused_in_one_line_and_leave_nothing(tmp_path, monkeypatch, capfd, seed):
    monkeypatch.chdir(tmp_path)

    def command(words):
        code = run(words)
        return code, capfd.readouterr().err

    assert search_shell(seed, 60, tmp_path, command) == []
