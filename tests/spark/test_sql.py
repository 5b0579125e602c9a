"""SQL on Spark: the same values as in this process, and statements that write."""

import re
from datetime import datetime
from math import isclose

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lakehouse_core as lc
from tests.catalog.statements.query_tables import make_tables, queries, rows_of
from tests.catalog.statements.random_queries import make_table, random_query
from tests.catalog.statements.test_assignment import (
    ASSIGNED,
    NO_ROOM,
    NOT_ASSIGNED,
    NOT_TAKEN,
    OUT_OF_RANGE,
    STORED,
    TOO_LONG,
    check_assigned,
    check_not_assigned,
    check_refused,
    check_stored,
)

pytestmark = pytest.mark.spark
# Every so many queries; `make test-long` runs the others.
STEP = 15


@pytest.fixture(scope="module")
def catalogs(spark, tmp_path_factory) -> tuple[lc.Catalog, lc.Catalog]:
    """One warehouse, by DuckDB and by Spark."""
    folder = tmp_path_factory.mktemp("sql")
    here = lc.connect(folder)
    make_tables(here)
    return here, lc.connect(folder, spark=spark)


def compare(catalogs: tuple[lc.Catalog, lc.Catalog], query: str) -> None:
    here, there = (catalog.sql(query).to_arrow() for catalog in catalogs)
    ordered = "ORDER BY" in query

    assert rows_of(here, ordered=ordered) == rows_of(there, ordered=ordered)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("query", queries()[::STEP])
def test_both_engines_give_the_same_values(catalogs, query):
    compare(catalogs, query)


def test_lateral_before_a_function_is_carried_out_by_spark_alone(catalogs):
    here, there = catalogs
    joined = "SELECT id, tag FROM s.orders, LATERAL explode(tags) AS t(tag)"

    with pytest.raises(lc.UnsupportedFeature, match="line 1, column 39: without Spark LATERAL takes a query"):
        here.sql(joined)
    view = here.sql("SELECT id, tag FROM s.orders LATERAL VIEW explode(tags) t AS tag").to_arrow()
    assert rows_of(there.sql(joined).to_arrow(), ordered=False) == rows_of(view, ordered=False) != []


@pytest.mark.long
@pytest.mark.parametrize("query", [query for number, query in enumerate(queries()) if number % STEP])
def test_both_engines_give_the_same_values_for_every_query(catalogs, query):
    compare(catalogs, query)


@pytest.fixture(scope="module")
def measured(spark, tmp_path_factory) -> tuple[lc.Catalog, lc.Catalog]:
    folder = tmp_path_factory.mktemp("measured")
    here = lc.connect(folder)
    here.create_database("s")
    make_table(here)
    return here, lc.connect(folder, spark=spark)


def compare_numbers(catalogs: tuple[lc.Catalog, lc.Catalog], query: str) -> None:
    """Compare the answers, decimals to the digits that Spark keeps.

    Where a decimal needs more than 38 digits, Spark gives up some, and DuckDB more or the whole query.
    """
    there = catalogs[1].sql(query).to_arrow()
    try:
        here = catalogs[0].sql(query).to_arrow()
    except lc.InvalidRequest as error:
        if re.search("multiplication of decimals needs more than|Needed scale|Could not cast value", str(error)):
            return
        raise
    rows = [rows_of(answer, ordered=True) for answer in (here, there)]
    assert len(rows[0]) == len(rows[1])
    for number, field in enumerate(there.schema):
        most = 10.0**-field.type.scale if pa.types.is_decimal(field.type) else 1e-9
        for one, other in zip(*([row[number] for row in side] for side in rows), strict=True):
            assert one == other or isclose(one, other, rel_tol=1e-9, abs_tol=most), (field, one, other)


@pytest.mark.parametrize("seed", range(2))
def test_computed_numbers_are_the_same_on_both_engines(measured, seed):
    compare_numbers(measured, random_query(seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 340))
def test_more_computed_numbers_are_the_same_on_both_engines(measured, seed):
    compare_numbers(measured, random_query(seed))


def test_parameters_data_of_the_call_and_frames_are_named(catalogs, spark):
    _, there = catalogs
    values = {"text": "it's; --", "number": 0.5, "local": datetime(2013, 1, 5, 6), "nothing": None}
    frame = spark.createDataFrame([(1, "a")], "id BIGINT, x STRING")
    spark.range(1).createOrReplaceTempView("lakehouse_sql_0")
    before = spark.catalog.listTables()

    answer = there.sql(f"SELECT {', '.join(f':{name} AS {name}' for name in values)}", values)
    joined = there.sql(
        "SELECT f.x, d.y, '{x} lakehouse_sql_0' AS z FROM f JOIN d ON f.id = d.id JOIN s.orders o ON o.id = f.id",
        tables={"f": frame, "d": [{"id": 1, "y": "b"}]},
    )

    assert answer.to_arrow().to_pylist() == [values]
    assert joined.to_arrow().to_pylist() == [{"x": "a", "y": "b", "z": "{x} lakehouse_sql_0"}]
    assert joined.to_spark().collect()[0].asDict() == joined.to_arrow().to_pylist()[0]
    assert (spark.catalog.listTables(), spark.table("lakehouse_sql_0").columns) == (before, ["id"])
    spark.catalog.dropTempView("lakehouse_sql_0")


def test_what_is_read_is_explained(catalogs):
    lines = catalogs[1].sql("EXPLAIN SELECT id FROM s.customers WHERE id > 3").to_arrow().column("plan").to_pylist()

    assert lines[0] == "engine: spark"
    assert lines[2:4] == ["  columns: id", "  condition: id > 3"]
    assert "read by Spark itself" in lines[4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1 / 0", r"^SQL, line 1, column 8: in 1 / 0: \[DIVIDE_BY_ZERO\]"),
        ("SELECT CAST('x' AS INT), CAST('x' AS DATE)", r"^SQL, line 1, column 8: in CAST\('x' AS INT\): \[CAST"),
        ("SELECT id, count(*) FROM s.orders", r"^SQL, line 1, column 8: \[MISSING_GROUP_BY\]"),
        ("SELECT id, count(*) FROM s.orders GROUP BY customer", r"^SQL, line 1, column 8: \[MISSING_AGGREGATION\]"),
        ("SELECT id FROM s.orders WHERE sum(id) > 1", r"^SQL, line 1, column 31: \[INVALID_WHERE_CONDITION\]"),
        ("SELECT id FROM s.orders WHERE customer", r"^SQL, line 1, column 31: \[DATATYPE_MISMATCH"),
        ("SELECT (SELECT id FROM s.orders)", r"^SQL, line 1, column 16: \[SCALAR_SUBQUERY_TOO_MANY_ROWS\]"),
        ("SELECT CAST('1\n2' AS INT)", r"^SQL: in .* The value '1 2' .* SQLSTATE: 22018\.$"),
        ("SELECT CAST(300 AS TINYINT)", r"^SQL, line 1, column 13: \[CAST_OVERFLOW\]"),
        ("SELECT rank() FROM s.orders", r"^SQL, line 1, column 8: \[WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE\]"),
        ("SELECT idd FROM s.orders", "line 1, column 8: there is no column idd"),
        ("SELECT * FROM s.nix", "Table 's.nix' does not exist"),
    ],
)
def test_a_wrong_query_is_an_error_of_ours(catalogs, text, message):
    with pytest.raises(lc.LakehouseError, match=message):
        catalogs[1].sql(text).to_arrow()


def test_statements_that_write_go_through_spark(spark, tmp_path):
    catalog = lc.connect(tmp_path, spark=spark)
    catalog.sql("CREATE DATABASE s")
    catalog.sql("CREATE TABLE s.t (a INT, w DOUBLE, d DATE) PARTITIONED BY (d)")
    dynamic = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}

    def rows() -> list[tuple[object, ...]]:
        return [tuple(row) for row in catalog.sql("SELECT a, w, day(d) FROM s.t ORDER BY a").to_spark().collect()]

    report = catalog.sql("INSERT INTO s.t VALUES (1, 1.5, DATE '2013-01-01'), (2, 2, DATE '2013-01-02')").report
    assert (report.rows_added, rows()) == (2, [(1, 1.5, 1), (2, 2.0, 2)])
    catalog.sql("INSERT OVERWRITE s.t (a, d) SELECT a + 10, d FROM s.t WHERE a = 2", settings=dynamic)
    assert rows() == [(1, 1.5, 1), (12, None, 2)]
    catalog.sql("INSERT OVERWRITE s.t PARTITION (d = '2013-01-02') SELECT 3, 4")
    assert rows() == [(1, 1.5, 1), (3, 4.0, 2)]
    catalog.sql("CREATE TABLE s.u AS SELECT d, count(*) AS n FROM s.t GROUP BY d")
    assert catalog.sql("SELECT sum(n) AS n FROM s.u").to_arrow().to_pylist() == [{"n": 2}]
    catalog.sql("INSERT OVERWRITE s.t VALUES (9, 9, DATE '2013-01-09')")
    assert rows() == [(9, 9.0, 9)]


# Statements with a value that Spark cannot compute, and what it says. The first two compute it in a job of a verb.
FAILING = [
    ("INSERT INTO s.t SELECT id, 1 DIV a, w FROM s.t", "DIVIDE_BY_ZERO"),
    (
        "MERGE INTO s.t USING (SELECT id, 1 DIV a AS v FROM s.t) AS n ON t.id = n.id "
        "WHEN MATCHED THEN UPDATE SET a = v",
        "DIVIDE_BY_ZERO",
    ),
    ("INSERT OVERWRITE s.t SELECT id, CAST(w AS INT), w FROM s.t", "CAST_INVALID_INPUT"),
    ("INSERT INTO s.t REPLACE WHERE id = 0 SELECT id, array(1)[a + 1], w FROM s.t", "INVALID_ARRAY_INDEX"),
    ("UPDATE s.t SET a = element_at(array(a), 2)", "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"),
    (
        "MERGE INTO s.t USING (SELECT 0 AS id) AS n ON t.id = n.id WHEN MATCHED THEN UPDATE SET a = CAST(w AS INT)",
        "CAST_INVALID_INPUT",
    ),
]


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(FAILING[:2], id="in a job"),
        pytest.param(FAILING[2:], id="each statement", marks=pytest.mark.long),
    ],
)
def test_a_value_that_cannot_be_computed_fails_its_statement_on_spark_as_in_this_process(spark, tmp_path, cases):
    here, there = lc.connect(tmp_path), lc.connect(tmp_path, spark=spark)
    here.create_database("s")
    here.sql("CREATE TABLE s.t (id INT, a INT, w STRING)")
    here.sql("INSERT INTO s.t VALUES (0, 0, 'abc')")
    for text, reason in cases:
        with pytest.raises(lc.InvalidRequest, match=r"SQL[:,] "):
            here.sql(text)
        with pytest.raises(lc.InvalidRequest, match=rf"SQL[:,] .*\[{reason}"):
            there.sql(text)

    assert here.table("s.t").snapshot().id == 1


def test_a_value_is_stored_on_spark_as_in_this_process(spark, tmp_path):
    check_stored(lc.connect(tmp_path, spark=spark), STORED)


# One of each statement: text of an INSERT, what an UPDATE computes, a MERGE.
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param([TOO_LONG[0], *TOO_LONG[6:]], id="each statement"),
        pytest.param(TOO_LONG[1:6], id="each type", marks=pytest.mark.long),
    ],
)
def test_a_value_that_is_longer_than_its_column_is_refused_on_spark(spark, tmp_path, cases):
    check_refused(lc.connect(tmp_path, spark=spark), cases)


def test_every_statement_stores_a_value_on_spark_as_in_this_process(spark, tmp_path):
    check_assigned(lc.connect(tmp_path, spark=spark))


@pytest.mark.parametrize(("cases", "message"), [(NOT_ASSIGNED[::6], NOT_TAKEN), (OUT_OF_RANGE[::6], NO_ROOM)])
def test_every_statement_refuses_a_value_on_spark_as_in_this_process(spark, tmp_path, cases, message):
    check_not_assigned(lc.connect(tmp_path, spark=spark), cases, message)


def test_spark_stores_the_same_values_in_a_table_of_its_own(spark, tmp_path):
    """What `ASSIGNED` and its neighbours say is what Spark does."""
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _, _) in enumerate(ASSIGNED))
    spark.sql(f"CREATE TABLE own ({columns}) USING parquet LOCATION '{tmp_path}/own'")
    try:
        spark.sql(f"INSERT INTO own SELECT {', '.join(value for _, value, _ in ASSIGNED)}")
        stored = pa.Table.to_pylist(spark.table("own").toArrow())

        assert list(stored[0].values()) == [value for _, _, value in ASSIGNED]
        refused = [*NOT_ASSIGNED, *OUT_OF_RANGE]
        columns = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(refused))
        spark.sql(f"CREATE TABLE other ({columns}) USING parquet LOCATION '{tmp_path}/other'")
        spark.sql("INSERT INTO other (c0) SELECT NULL")
        for number, (_, value) in enumerate(refused):
            with pytest.raises(PySparkException):
                spark.sql(f"INSERT INTO other (c{number}) SELECT {value}")
    finally:
        spark.sql("DROP TABLE IF EXISTS other")
        spark.sql("DROP TABLE own")


def test_rows_with_new_columns_alter_the_table_on_spark_too(spark, tmp_path):
    catalog = lc.connect(tmp_path, spark=spark)
    catalog.create_database("s")
    table = catalog.create_table("s.t", {"id": "INT", "n": "INT"}, primary_keys=["id"], options={"bucket": "1"})
    table.write([{"id": 1, "n": 1}])
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "n": pa.array([5, 2**40]), "note": ["a", "b"]})
    merge = (
        "MERGE INTO s.t AS t USING r AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    settings = {"write.merge-schema": "true", "write.merge-schema.type-widening": "true"}

    catalog.sql("INSERT INTO s.t BY NAME SELECT id, n FROM r", tables={"r": rows}, settings=settings)
    catalog.sql(merge, tables={"r": rows}, settings=settings)

    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "n": 5, "note": "a"},
        {"id": 2, "n": 2**40, "note": "b"},
    ]
    assert table.schema.id == 2
