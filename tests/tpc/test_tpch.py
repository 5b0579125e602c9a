"""22 queries derived from TPC-H: with and without Spark they have the answers of DuckDB on plain Parquet, also after
orders have moved to other keys, in a table of each kind.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.pairs import in_turn
from tests.tpc.answers import assert_same
from tests.tpc.tables import TPC_H

QUERIES = dict(TPC_H.queries())
SCALE = 0.01
# Orders up to here move. Of 32 keys the generator uses the first 8.
LAST_MOVED = 600
SHIFT = 8
KEYS = ("l_orderkey", "o_orderkey")


@pytest.fixture
def closing():
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    TPC_H.generate(folder, SCALE)
    return folder


@pytest.fixture(scope="module")
def warehouse(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("warehouse")
    TPC_H.load(lc.connect(folder), files)
    return folder


def plain_answer(files: Path, query: str) -> Any:
    with TPC_H.plain(files) as connection:
        return connection.sql(query).to_arrow_table()


def test_each_query_is_there_once():
    assert len({title for title, _ in TPC_H.queries()}) == 22


@pytest.mark.one_in(3)
@pytest.mark.parametrize("query", in_turn(3, QUERIES.values()), ids=QUERIES)
def test_an_answer_is_that_of_plain_files(warehouse, files, query):
    assert_same(lc.connect(warehouse).sql(query).to_arrow(), plain_answer(files, query), without=KEYS)


@pytest.mark.spark
@pytest.mark.parametrize("query", in_turn(len(QUERIES), QUERIES.values(), first=7), ids=QUERIES)
def test_spark_gives_the_same_answer(spark, warehouse, files, query):
    found = lc.connect(warehouse, spark=spark).sql(query).to_arrow()
    assert_same(found, plain_answer(files, query), without=KEYS)


def test_orders_that_move_to_other_keys_change_no_answer(files, tmp_path, closing):
    catalog = lc.connect(tmp_path)
    TPC_H.load(catalog, files)
    connection = closing.enter_context(TPC_H.plain(files))
    for name, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        columns = [field.name for field in catalog.table(f"h.{name}").schema.fields]
        moved = ", ".join(f"{each} + {SHIFT} AS {each}" if each == key else each for each in columns)
        block = f"SELECT {moved} FROM h.{name} WHERE {key} <= {LAST_MOVED}"
        if name == "orders":
            catalog.sql(f"INSERT INTO h.orders {block}")
        else:
            on = "t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber"
            catalog.sql(f"MERGE INTO h.lineitem t USING ({block}) s ON {on} WHEN NOT MATCHED THEN INSERT *")
        catalog.sql(f"DELETE FROM h.{name} WHERE {key} <= {LAST_MOVED} AND {key} % 32 < {SHIFT}")
        keys = catalog.sql(f"SELECT count(*) AS rows, sum({key}) AS keys FROM h.{name}").to_arrow()
        ((count, total),) = connection.sql(
            f"SELECT count(*), sum({key} + CASE WHEN {key} <= {LAST_MOVED} THEN {SHIFT} ELSE 0 END) FROM h.{name}"
        ).fetchall()
        assert keys.to_pylist() == [{"rows": count, "keys": total}]
        if name == "orders":
            catalog.table("h.orders").compact(full=True)
    for _, query in list(TPC_H.queries())[::3]:
        assert_same(catalog.sql(query).to_arrow(), connection.sql(query).to_arrow_table(), without=KEYS)
