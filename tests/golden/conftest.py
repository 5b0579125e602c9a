"""What Java wrote, unpacked once for all tests of a worker that only read it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.golden import sets


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the warehouse of a set by its name. Who changes a table unpacks a warehouse of its own."""
    return cache(lambda name: sets.unpack(name, tmp_path_factory.mktemp("golden")))
