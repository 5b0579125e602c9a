"""The two sides that work on one table: ours, and real Java."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.engines import Java, Ours
from tests.interop.judge import VERSIONS, Judge


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """The newest Java. A module that asks others has a fixture of its own of this name."""
    with Judge(VERSIONS[-1]) as java:
        yield java


@pytest.fixture
def ours(tmp_path: Path) -> Ours:
    return Ours(tmp_path)


@pytest.fixture
def java(judge: Judge, tmp_path: Path) -> Java:
    return Java(judge, tmp_path)
