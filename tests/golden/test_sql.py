"""SQL without Spark answers of every table of Java what a scan of it gives, whichever files DuckDB reads by itself."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc

pytestmark = [pytest.mark.golden, pytest.mark.long]

SETS = ["java-0.9", "java-1.4.2", "java-2.0.0", "java-2.1-snapshot", "flink-2.0.0"]
NATIVE = re.compile(r"; (\d+) splits are read by DuckDB itself")
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@pytest.mark.parametrize("name", SETS)
def test_a_query_answers_the_rows_of_a_scan(unpacked: Callable[[str], Path], name: str) -> None:
    catalog = lc.connect(unpacked(name))
    native = 0
    for table in catalog.tables("db"):
        rows = _answered(lambda table=table: catalog.table(f"db.{table}").scan().to_arrow())
        text = f"SELECT * FROM db.`{table}`"

        assert _answered(lambda text=text: catalog.sql(text).to_arrow()) == rows, table
        if rows is not None:
            explained = str(catalog.sql(f"EXPLAIN {text}").to_arrow().to_pylist())
            native += int(NATIVE.findall(explained)[0])
    assert native


def _answered(read: Callable[[], pa.Table]) -> list[str] | None:
    """Return the rows in an order of their own, None if the table is refused."""
    try:
        found = read()
    except lc.LakehouseError:
        return None
    return sorted(map(repr, zip(*(_values(column.combine_chunks()) for column in found.columns), strict=True)))


def _values(column: pa.Array) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        return column.to_pylist()
    # Python has no value for some instants: nanoseconds since 1970.
    nanos = NANOS[column.type.unit]
    return [None if value is None else value * nanos for value in column.cast(pa.int64()).to_pylist()]
