"""All 99 queries of TPC-DS, as its packaged generator writes them, on the generator's rows in tables of ours: with and
without Spark they have the answers of DuckDB on plain Parquet files.

Results are not comparable with published results of TPC.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from math import isclose
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import lakehouse_core as lc
from tests.catalog.statements.query_tables import rows_of
from tests.environments import python_of
from tests.tpc.tables import TPC_DS

pytestmark = pytest.mark.interop
HERE = Path(__file__).resolve().parent
LOCK = HERE / "tpcds.lock"
SCALE = 0.1
NUMBERS = range(1, 100)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def queries(files: Path) -> Mapping[int, str]:
    """Return the queries by number, with names in backquotes as in Spark; the tables are in `files` then."""
    command = [python_of(LOCK), HERE / "tpcds_generator.py", files, str(SCALE)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {number: text.rstrip(";\n ").replace('"', "`") for number, text in json.loads(printed)}


@pytest.fixture(scope="module")
def warehouse(queries: Mapping[int, str], files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a warehouse with the tables, of the kinds of `TPC_DS`; the others are append tables."""
    folder = tmp_path_factory.mktemp("warehouse")
    catalog = lc.connect(folder)
    catalog.create_database("d")
    for file in files.glob("*.parquet"):
        keys, options = TPC_DS.kinds.get(file.stem, ((), {}))
        rows = pq.read_table(file)
        catalog.create_table(f"d.{file.stem}", rows.schema, primary_keys=keys, options=options).write(rows)
    return folder


@pytest.fixture(scope="module")
def plain(queries: Mapping[int, str], files: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for file in files.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {file.stem} AS SELECT * FROM read_parquet('{file}')")
        yield connection


def assert_same(found: Any, query: str, plain: duckdb.DuckDBPyConnection) -> None:
    """Compare rows in any order: not every query orders all columns. DuckDB divides decimals as DOUBLE."""
    expected = plain.sql(query.replace("`", '"')).to_arrow_table()
    assert found.num_columns == expected.num_columns
    ours, theirs = (sorted(rows_of(table, ordered=True), key=_place) for table in (found, expected))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert all(map(_is_near, one, other)), (one, other)


def _place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a row is sorted by; numbers that are nearly equal have one place."""
    return tuple(f"{round(value, 1)}" if isinstance(value, float) else str(value) for value in row)


def _is_near(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    return one == other


def test_the_generator_has_each_query(queries: Mapping[int, str]) -> None:
    assert list(queries) == list(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_an_answer_is_that_of_plain_files(
    queries: Mapping[int, str], warehouse: Path, plain: duckdb.DuckDBPyConnection, number: int
) -> None:
    assert_same(lc.connect(warehouse).sql(queries[number], database="d").to_arrow(), queries[number], plain)


@pytest.mark.spark
@pytest.mark.parametrize("number", NUMBERS)
def test_spark_gives_the_same_answer(
    spark: Any, queries: Mapping[int, str], warehouse: Path, plain: duckdb.DuckDBPyConnection, number: int
) -> None:
    found = lc.connect(warehouse, spark=spark).sql(queries[number], database="d").to_arrow()
    assert_same(found, queries[number], plain)
