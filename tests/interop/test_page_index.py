"""Java passes over pages by the page index of our files, and still finds every row that a condition keeps."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakehouse_core as lc
from tests.interop.judge import Judge

pytestmark = pytest.mark.interop

ROWS = 150_000
COLUMNS = {"k": "BIGINT NOT NULL", "i": "INT", "d": "DECIMAL(12, 2)", "s": "STRING", "dt": "DATE"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose only file has row groups of several pages; every third row of it is marked as deleted."""
    folder = tmp_path_factory.mktemp("wh")
    catalog = lc.connect(folder)
    catalog.create_database("db")
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "compaction.force-up-level-0": "true"}
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={**options, "write-only": "true"})
    table.write(rows(np.arange(ROWS)))
    table.compact(full=True)
    table.write(rows(np.arange(0, ROWS, 3), is_newer=True))
    table.compact()
    return folder


def rows(keys: np.ndarray, *, is_newer: bool = False) -> pa.Table:
    """Columns that rise with the key, with nulls; in a newer version numbers are low."""
    numbers = pa.array(-keys if is_newer else keys, mask=keys % 13 == 0)
    return pa.table(
        {
            "k": keys,
            "i": pa.array(keys // 7, pa.int32(), mask=keys % 11 == 0),
            "d": numbers.cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
            "s": pa.array([f"prefix-{key:09}" for key in keys], mask=keys % 17 == 0),
            "dt": pa.array((keys // 50).astype(np.int32), pa.date32()),
        }
    )


@pytest.mark.parametrize(
    ("condition", "where"),
    [
        ([("k", "=", 77_777)], "k = 77777"),
        ([("k", ">=", 140_000), ("k", "<", 140_100)], "k >= 140000 AND k < 140100"),
        ([("i", "=", 12_345)], "i = 12345"),
        ([("i", "<", 20)], "i < 20"),
        ([("d", ">", "149900.00"), ("d", "<", "149950.50")], "d > 149900 AND d < 149950.5"),
        ([("s", "=", "prefix-000099998")], "s = 'prefix-000099998'"),
        ([("s", "startsWith", "prefix-00014999")], "s LIKE 'prefix-00014999%'"),
        ([("dt", "=", "1973-01-01")], "dt = DATE '1973-01-01'"),
        ([("s", "isNull", None), ("k", "<", 500)], "s IS NULL AND k < 500"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_java_finds_every_row_that_a_condition_keeps(
    judge: Judge, warehouse: Path, condition: list[tuple[str, str, Any]], where: str
) -> None:
    wanted = lc.connect(warehouse).table("db.t").scan(columns=["k"], where=where).to_arrow()["k"].to_pylist()
    asked = [{"field": name, "op": op, **({} if value is None else {"value": value})} for name, op, value in condition]

    found = {row["k"] for row in judge.call("read", table="db.t", warehouse=str(warehouse), filter=asked)["rows"]}

    # Java leaves the last of the filtering to the engine.
    assert 0 < len(wanted) < ROWS / 100
    assert set(wanted) <= found


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_java_finds_a_nan_which_it_counts_as_greatest(judge: Judge, tmp_path: Path, kind: str) -> None:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.nan", {"k": "INT", "f": kind})
    values = np.arange(100_000, dtype=np.float64)
    values[5] = np.nan
    keys = pa.array(np.arange(len(values)), pa.int32())
    table.write(pa.table({"k": keys, "f": pa.array(values).cast(pa.float64() if kind == "DOUBLE" else pa.float32())}))

    asked = [{"field": "f", "op": ">", "value": 1e9}]
    found = judge.call("read", table="db.nan", warehouse=str(tmp_path), filter=asked)["rows"]

    assert 5 in [row["k"] for row in found]
