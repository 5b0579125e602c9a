"""The README's example runs as it stands there."""

import re
import shlex
from pathlib import Path

from lakehouse_core.cli.program import run

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_example_and_its_shell_lines_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEHOUSE_WAREHOUSE", raising=False)
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    lines = re.findall(r"^\.venv/bin/lakehouse (.*)$", README, re.MULTILINE)

    for _ in range(2):
        exec(example, {})
    codes = [run(shlex.split(line)) for line in lines]

    out = capsys.readouterr().out
    assert codes == [0] * 7
    assert "paid" in out
