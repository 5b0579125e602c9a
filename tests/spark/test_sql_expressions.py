"""Expressions of SQL, for each type and values at its edges: this process computes the values and types of Spark."""

import re

import pyarrow as pa
import pytest

import lakehouse_core as lc
from tests.catalog.statements.query_tables import rows_of
from tests.catalog.statements.samples import ANSWERS, TABLE, expressions, failures, files, make_samples, refused

pytestmark = pytest.mark.spark
# Columns of one query, and every so many expressions; `make test-long` runs the others.
TOGETHER = 40
STEP = 8


@pytest.fixture(scope="module")
def catalogs(spark, tmp_path_factory) -> tuple[lc.Catalog, lc.Catalog]:
    """One warehouse, by DuckDB and by Spark."""
    folder = tmp_path_factory.mktemp("expressions")
    here = lc.connect(folder)
    here.create_database("s")
    make_samples(here)
    return here, lc.connect(folder, spark=spark)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", files())
def test_expressions_have_the_values_and_types_that_spark_computes(catalogs, name):
    compare(catalogs, name, expressions(name)[::STEP])


@pytest.mark.long
@pytest.mark.parametrize("name", files())
def test_each_expression_has_the_value_and_the_type_that_spark_computes(catalogs, name):
    compare(catalogs, name, [text for number, text in enumerate(expressions(name)) if number % STEP])


def type_of(kind: pa.DataType) -> str:
    """Return a type without the names of elements, and without what cannot be NULL."""
    return re.sub(r" not null|(?<=list<)\w+: ", "", str(kind))


def compare(catalogs: tuple[lc.Catalog, lc.Catalog], name: str, texts: list[str]) -> None:
    of_one_row = name != "aggregates"
    found = []
    for start in range(0, len(texts), TOGETHER):
        some = texts[start : start + TOGETHER]
        columns = [f"{text} AS c{number}" for number, text in enumerate(some)]
        query = f"SELECT {', '.join(['k'] * of_one_row + columns)} FROM {TABLE}" + " ORDER BY k" * of_one_row
        tables = [catalog.sql(query).to_arrow() for catalog in catalogs]
        here, there = (rows_of(table, ordered=True) for table in tables)
        assert len(here) == len(there) > 0
        for number, text in enumerate(some, int(of_one_row)):
            kinds = [type_of(table.schema.types[number]) for table in tables]
            if kinds[0].startswith(("int", "decimal")):
                # To the last digit.
                columns = (table.column(number).to_pylist() for table in tables)
                pairs = [(row[0], *values) for row, values in zip(here, zip(*columns, strict=True), strict=True)]
            else:
                pairs = [(one[0], one[number], other[number]) for one, other in zip(here, there, strict=True)]
            wrong = [pair for pair in pairs if pair[1] != pair[2]]
            if kinds[0] != kinds[1]:
                found.append(f"{text}: {kinds[0]}, in Spark {kinds[1]}")
            found += [f"{text}, row {row}: {one!r}, in Spark {other!r}" for row, one, other in wrong[:1]]
    assert not found, "\n".join(found)


@pytest.mark.long
@pytest.mark.parametrize("query", ANSWERS)
def test_decimals_of_queries_have_the_digits_and_values_that_spark_computes(catalogs, query):
    here, there = (catalog.sql(query).to_arrow() for catalog in catalogs)

    assert tuple(map(type_of, there.schema.types)) == ANSWERS[query]
    assert rows_of(here, ordered=False) == rows_of(there, ordered=False)


@pytest.mark.long
@pytest.mark.parametrize("text", failures())
def test_what_is_an_error_here_is_one_in_spark(catalogs, text):
    with pytest.raises(lc.InvalidRequest):
        catalogs[1].sql(f"SELECT {text} AS c").to_arrow()


@pytest.mark.long
@pytest.mark.parametrize("text", refused())
def test_what_is_refused_here_is_computed_by_spark(catalogs, text):
    assert catalogs[1].sql(f"SELECT {text} FROM {TABLE}").to_arrow().num_rows > 0


def test_an_answer_of_spark_has_a_map_of_no_type_beside_a_date_that_python_has_not(catalogs):
    query = "SELECT struct(map() AS m, array(map()) AS l, date_add(DATE '9999-12-31', 1) AS d) AS s"

    answer = catalogs[1].sql(query).to_arrow()["s"].combine_chunks()

    assert answer.field("d").cast(pa.int32()).to_pylist() == [2_932_897]
    assert [answer.field(name).to_pylist() for name in ("m", "l")] == [[[]], [[[]]]]
