"""A shell in this process: the verb's words in, exit code and both streams out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakehouse_core.cli.program import run

ORDERS = """
columns:
  dt: DATE NOT NULL
  id: BIGINT NOT NULL
  status: STRING
  amount: DECIMAL(12, 2)
primary_key: [dt, id]
partition_by: [dt]
options: {bucket: 2, changelog-producer: input, lakehouse.read.grace: 0 s}
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the shell stands in; its warehouse is `wh`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_WAREHOUSE", str(tmp_path / "wh"))
    (tmp_path / "orders.yaml").write_text(ORDERS)
    return tmp_path


@pytest.fixture
def shell(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def call(*words: str) -> Answer:
        code = run(list(words))
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return call


@pytest.fixture
def orders(home: Path, shell: Callable[..., Answer]) -> str:
    """A table of two rows in one snapshot."""
    assert shell("create", "sales.orders", "--schema", "orders.yaml").code == 0
    (home / "orders.csv").write_text('dt,id,status,amount\n2013-01-01,1,new,1.50\n2013-01-02,2,"a,b",\n')
    assert shell("write", "sales.orders", "orders.csv").code == 0
    return "sales.orders"
