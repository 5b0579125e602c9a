"""Pairs of cases: `make test` takes each case in one way, in turn, and `make test-long` takes the others."""

from collections.abc import Collection
from typing import Any

import pytest


def each_with_one(cases: Collection[Any], ways: Collection[Any]) -> list[Any]:
    """Return every case with every way. `make test` takes each case with one way, and each way about as often."""
    return [
        pytest.param(case, way, marks=[pytest.mark.long] * ((place - turn) % len(ways) > 0))
        for place, case in enumerate(cases)
        for turn, way in enumerate(ways)
    ]
