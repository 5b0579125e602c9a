"""A condition keeps the same rows however its table is stored and whatever is known of its files."""

import math

import pyarrow as pa
import pytest

import lakehouse_core as lc
from tests.oracle.conditions import users_truth
from tests.pairs import in_turn

NUMBERS = [-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan, None]
LITERALS = [-0.0, 2.0, math.inf, math.nan]
STORED = {
    "parquet": {"file.format": "parquet"},
    "orc": {"file.format": "orc"},
    "avro": {"file.format": "avro"},
    "without statistics": {"metadata.stats-mode": "none"},
    "full statistics": {"metadata.stats-mode": "full"},
    "bloom filter": {"file-index.bloom-filter.columns": "f"},
    "range bitmap": {"file-index.range-bitmap.columns": "f"},
}


def conditions():
    column = lc.col("f")
    for value in LITERALS:
        yield from (column == value, column != value, column < value, column <= value, column > value, column >= value)
        yield column.isin([value, 7.0])
        yield column.between(-1.5, value)
        yield column.between(value, math.inf)
    yield column.isin([math.nan])
    yield column.is_null()


CONDITIONS = [*conditions(), *(~one for one in conditions())]


def table_of(tmp_path, kind, options, *, is_key):
    """A table of several files, each of which holds few of the numbers."""
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    columns = {"n": "INT NOT NULL", "f": kind}
    shape = {"primary_keys": ["n"], "options": {"bucket": "1", **options}} if is_key else {"options": options}
    table = catalog.create_table("db.t", columns, **shape)
    arrow = pa.float32() if kind == "FLOAT" else pa.float64()
    for first in range(0, len(NUMBERS), 2):
        numbers = pa.array(range(first, first + 2), pa.int32())
        table.write(pa.table({"n": numbers, "f": pa.array(NUMBERS[first : first + 2], arrow)}))
    return table


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("number", "options"), in_turn(3, list(enumerate(STORED.values()))), ids=STORED)
def test_nan_is_the_greatest_number_however_rows_are_stored(tmp_path, number, options):
    is_key = number % 2 == 1
    table = table_of(tmp_path, "FLOAT" if is_key else "DOUBLE", options, is_key=is_key)
    wrong = []

    for condition in CONDITIONS:
        kept = table.scan(columns=["n"], where=condition).to_arrow()["n"].to_pylist()
        expected = [n for n, number in enumerate(NUMBERS) if users_truth(condition, {"f": number})]
        if sorted(kept) != expected:
            wrong.append((condition, sorted(kept), expected))

    assert wrong == []


def test_sql_means_what_python_means(tmp_path):
    table = table_of(tmp_path, "DOUBLE", {}, is_key=False)

    def count(where: str) -> int:
        return table.scan(where=where).count()

    assert count("f > 1") == 3
    assert count("f = 'NaN'") == 1
    assert count("f <> 'NaN'") == 6
    assert count("NOT f >= 'NaN'") == 6
    assert count("f BETWEEN 1 AND 'NaN'") == 3
    assert count("f BETWEEN 1 AND 9") == 1
    assert count("f IN ('NaN', 0)") == 3


@pytest.mark.parametrize("value", [math.nan, 0.0])
def test_a_partition_of_a_number_is_found_by_it(tmp_path, value):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"p": "DOUBLE", "n": "INT"}, partition_keys=["p"])
    table.write([{"p": number, "n": 1} for number in (1.0, value)])

    assert table.scan(where=lc.col("p") == value).count() == 1
    assert table.scan(where=lc.col("p") > 0.5).count() == (2 if math.isnan(value) else 1)
    assert table.scan(where=lc.col("p") <= 1.0).count() == (1 if math.isnan(value) else 2)


def test_all_conditions_of_a_list_hold(tmp_path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"id": "INT", "s": "STRING"}, options={"bucket": "-1"})
    table.write([{"id": i, "s": str(i % 2)} for i in range(10)])

    found = table.scan(where=["id > 2 OR id = 0", lc.col("s") == "0"]).to_arrow()

    assert sorted(found["id"].to_pylist()) == [0, 4, 6, 8]
    assert table.scan(where=[]).count() == 10
