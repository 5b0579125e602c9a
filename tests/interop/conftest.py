"""The two sides that work on one table: ours, and real Java by the judge of the module."""

from pathlib import Path

import pytest

from tests.interop.engines import Java, Ours
from tests.interop.judge import Judge


@pytest.fixture
def ours(tmp_path: Path) -> Ours:
    return Ours(tmp_path)


@pytest.fixture
def java(judge: Judge, tmp_path: Path) -> Java:
    return Java(judge, tmp_path)
