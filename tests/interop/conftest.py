"""The two sides that work on one table: ours, and real Java."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.bucket import Bucket
from tests.interop.engines import Java, Ours
from tests.interop.judge import VERSIONS, Judge


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """The newest Java. A module that asks others has a fixture of its own of this name."""
    with Judge(VERSIONS[-1]) as java:
        yield java


@pytest.fixture
def place(tmp_path: Path) -> Path | Bucket:
    """The warehouse of both. A module whose tables are also in a bucket has a fixture of its own of this name."""
    return tmp_path


@pytest.fixture
def ours(place: Path | Bucket) -> Ours:
    return Ours(place)


@pytest.fixture
def java(judge: Judge, place: Path | Bucket) -> Java:
    return Java(judge, place)
