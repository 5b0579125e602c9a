"""26 queries derived from TPC-DS: with and without Spark they have the answers of DuckDB on plain Parquet, from tables
of several kinds.
"""

import pytest

import lakehouse_core as lc
from tests.tpc.answers import assert_same
from tests.tpc.tables import TPC_DS

pytestmark = pytest.mark.long
QUERIES = [pytest.param(query, id=title) for title, query in TPC_DS.queries()]
SCALE = 0.01


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    TPC_DS.generate(folder, SCALE)
    return folder


@pytest.fixture(scope="module")
def warehouse(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("warehouse")
    TPC_DS.load(lc.connect(folder), files)
    return folder


def plain_answer(files, query):
    with TPC_DS.plain(files) as connection:
        return connection.sql(query).to_arrow_table()


def test_each_query_is_there_once():
    assert len({title for title, _ in TPC_DS.queries()}) == 26


@pytest.mark.parametrize("query", QUERIES)
def test_an_answer_is_that_of_plain_files(warehouse, files, query):
    assert_same(lc.connect(warehouse).sql(query).to_arrow(), plain_answer(files, query))


@pytest.mark.spark
@pytest.mark.parametrize("query", QUERIES)
def test_spark_gives_the_same_answer(spark, warehouse, files, query):
    assert_same(lc.connect(warehouse, spark=spark).sql(query).to_arrow(), plain_answer(files, query))
