"""Comparison of answers of two engines."""

from collections.abc import Collection
from math import isclose
from typing import Any

from tests.catalog.statements.query_tables import rows_of


def assert_same(found: Any, expected: Any, *, without: Collection[str] = ()) -> None:
    """Compare answers but for some columns. Averages and quotients of decimals have six digits in Spark."""
    names = [name for name in found.column_names if name not in without]
    assert found.num_rows > 0
    assert found.column_names == expected.column_names
    ours, theirs = (rows_of(table.select(names), ordered=True) for table in (found, expected))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert all(map(_is_near, one, other)), (one, other)


def _is_near(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return one == other
