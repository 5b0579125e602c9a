"""Cases in turn: `make test` takes some of each kind, always the same, and `make test-long` takes the others."""

from collections.abc import Collection
from typing import Any

import pytest


def each_with_one(cases: Collection[Any], ways: Collection[Any], *, step: int = 1, first: int = 0) -> list[Any]:
    """Return every case with every way. `make test` takes each case with one way, and each way about as often.

    With a `step` it takes every `step`-th case only, from the one at place `first` on.
    """
    return [
        pytest.param(case, way, marks=[pytest.mark.long] * (not _has_its_turn(place, step, first) or turn != chosen))
        for place, case in enumerate(cases)
        for chosen in [place // step % len(ways)]
        for turn, way in enumerate(ways)
    ]


def in_turn(step: int, cases: Collection[Any], *, first: int = 0) -> list[Any]:
    """Return all cases. `make test` takes every `step`-th of them, from the one at place `first` on.

    A case of several values is a tuple.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.long] * (not _has_its_turn(place, step, first)),
        )
        for place, case in enumerate(cases)
    ]


def _has_its_turn(place: int, step: int, first: int) -> bool:
    return (place - first) % step == 0
