"""What SQL stores in a column: defaults, rounded numbers, texts within their length. Spark stores the same."""

from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc

TABLE = """CREATE TABLE s.t (
    id INT NOT NULL, a INT DEFAULT 7, w STRING DEFAULT 'it''s', d DATE DEFAULT DATE '2013-01-01', f FLOAT, x DOUBLE,
    v VARCHAR(3), c CHAR(3), l ARRAY<VARCHAR(2)>, m MAP<VARCHAR(2), STRING>, r STRUCT<x: VARCHAR(1)>)"""
# The statement, and what it stores of a row with this id.
STORED: list[tuple[str, dict[str, Any]]] = [
    ("INSERT INTO s.t (id, a, w) VALUES (1, DEFAULT, 'x'), (2, 3, default)", {"id": 1, "a": 7, "w": "x"}),
    ("INSERT INTO s.t (id, a, w) VALUES ((3), CASE WHEN TRUE THEN 4 END, DEFAULT)", {"id": 3, "a": 4, "w": "it's"}),
    (
        "INSERT INTO s.t (w, v, id) SELECT DEFAULT AS x, DEFAULT, CAST(4 AS INT) * 1 AS y",
        {"id": 4, "w": "it's", "v": None},
    ),
    ("INSERT INTO s.t (id, w, a) SELECT id + 4, concat(w, ', '), DEFAULT FROM s.t WHERE id = 1", {"id": 5, "w": "x, "}),
    ("INSERT INTO s.t (id, d, l) VALUES (6, DEFAULT, array('a', 'b'))", {"id": 6, "l": ["a", "b"]}),
    ("UPDATE s.t SET a = DEFAULT, w = 'DEFAULT' WHERE id = 3", {"id": 3, "a": 7, "w": "DEFAULT"}),
    (
        "MERGE INTO s.t USING (SELECT 3 AS id) AS n ON t.id = n.id WHEN MATCHED THEN UPDATE SET w = DEFAULT, a = 1",
        {"id": 3, "a": 1, "w": "it's"},
    ),
    ("INSERT INTO s.t (id, f) VALUES (7, 0.1D)", {"id": 7, "f": 0.10000000149011612}),
    ("INSERT INTO s.t (id, f, x) VALUES (8, 0.1, 9007199254740993)", {"id": 8, "f": 0.10000000149011612, "x": 2.0**53}),
    ("INSERT INTO s.t (id, f) SELECT 9, CAST('1e300' AS DOUBLE)", {"id": 9, "f": float("inf")}),
    ("UPDATE s.t SET f = f * 3.3D, x = 0.5 WHERE id = 7", {"id": 7, "f": 0.33000001311302185, "x": 0.5}),
    ("INSERT INTO s.t (id, v, c) VALUES (10, '漢é ', 'a')", {"id": 10, "v": "漢é ", "c": "a"}),
    ("INSERT INTO s.t (id, v, c) VALUES (11, '漢é    ', 'abc  ')", {"id": 11, "v": "漢é ", "c": "abc"}),
    ("UPDATE s.t SET v = concat(v, '  ') WHERE id = 10", {"id": 10, "v": "漢é "}),
    ("UPDATE s.t SET v = 'a     ' WHERE id = 10", {"id": 10, "v": "a  "}),
    (
        "INSERT INTO s.t (id, l, m, r) VALUES (12, array('ab', NULL), map('ab', 'long'), named_struct('x', 'é'))",
        {"id": 12, "l": ["ab", None], "m": [("ab", "long")], "r": {"x": "é"}},
    ),
]
# The statement, and the column that is too short for its value.
TOO_LONG: list[tuple[str, str]] = [
    ("INSERT INTO s.t (id, v) VALUES (20, 'abc'), (21, 'abcd')", "v"),
    ("INSERT INTO s.t (id, c) VALUES (20, ' abc')", "c"),
    ("INSERT INTO s.t (id, l) VALUES (20, array('ab', 'ab '))", "l"),
    ("INSERT INTO s.t (id, m) VALUES (20, map('abc', 'x'))", "m"),
    ("INSERT INTO s.t (id, r) VALUES (20, named_struct('x', 'ab'))", "r"),
    ("UPDATE s.t SET v = 'abcd' WHERE id = 1", "v"),
    ("UPDATE s.t SET v = concat('abc', w) WHERE id = 1", "v"),
    (
        "MERGE INTO s.t USING (SELECT 20 AS id, 'abcd' AS v) AS n ON t.id = n.id "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (n.id, n.v)",
        "v",
    ),
]
# What is wrong about a DEFAULT.
REFUSED: list[tuple[str, str]] = [
    ("INSERT INTO s.t SELECT *, DEFAULT FROM s.t", r"column 27: DEFAULT stands behind .\*."),
    ("INSERT INTO s.t SELECT t.*, DEFAULT AS x FROM s.t", r"column 29: DEFAULT stands behind .\*."),
    ("INSERT INTO s.t BY NAME SELECT DEFAULT AS id", "DEFAULT and BY NAME are both given"),
    ("INSERT INTO s.t (id, a) VALUES (1, `DEFAULT`)", "(?i)default"),
    ("INSERT INTO s.t (id, a) VALUES (1, 2, DEFAULT)", "has 3 columns, expected 2"),
    ("INSERT INTO s.t (id, a) VALUES (DEFAULT, 1)", "holds null"),
    ("SELECT DEFAULT", "there is no column default"),
]


def check_stored(catalog: lc.Catalog, statements: list[tuple[str, dict[str, Any]]]) -> None:
    catalog.create_database("s")
    catalog.sql(TABLE)
    for text, stored in statements:
        catalog.sql(text)

        rows = {row["id"]: row for row in catalog.table("s.t").scan().to_arrow().to_pylist()}
        assert rows[stored["id"]] | stored == rows[stored["id"]], text


def check_refused(catalog: lc.Catalog, statements: list[tuple[str, str]]) -> None:
    catalog.create_database("s")
    catalog.sql(TABLE)
    table = catalog.table("s.t")
    table.write([{"id": 1, "v": "a verb stores it"}])
    for text, column in statements:
        with pytest.raises(lc.InvalidRequest, match=f"s.t: Column '{column}' is .*, and a value is longer"):
            catalog.sql(text)

    assert (table.snapshot().id, table.scan().to_arrow().column("v").to_pylist()) == (1, ["a verb stores it"])


def test_a_value_is_stored_as_spark_stores_it(tmp_path):
    check_stored(lc.connect(tmp_path), STORED)


def test_a_value_that_is_longer_than_its_column_is_refused(tmp_path):
    check_refused(lc.connect(tmp_path), TOO_LONG)


def test_bytes_that_are_longer_than_their_column_are_refused(empty):
    empty.create_table("s.b", {"fixed": "BINARY(2)", "most": "VARBINARY(2)"})
    empty.sql("INSERT INTO s.b VALUES (X'0102', X'01')")

    for values in ("X'010203', NULL", "NULL, X'010203'"):
        with pytest.raises(lc.InvalidRequest, match="and a value is longer"):
            empty.sql(f"INSERT INTO s.b VALUES ({values})")


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.list_(pa.string(), 2), pa.large_list(pa.string())], ids=str)
def test_an_array_of_a_frame_is_measured_whatever_its_type_in_arrow_is(empty, kind):
    empty.sql("CREATE TABLE s.a (l ARRAY<VARCHAR(2)>)")
    given = {"f": pa.table({"l": pa.array([["a", "ab"], None], kind)})}
    longer = {"f": pa.table({"l": pa.array([["a", "ab"], None, ["ab", "abc"]], kind)})}

    empty.sql("INSERT INTO s.a SELECT l FROM f", tables=given)
    with pytest.raises(lc.InvalidRequest, match="and a value is longer"):
        empty.sql("INSERT INTO s.a SELECT l FROM f", tables=longer)

    assert empty.table("s.a").scan().to_arrow().column("l").to_pylist() == [["a", "ab"], None]


def test_the_value_of_a_partition_is_within_its_length(empty):
    empty.sql("CREATE TABLE s.p (id INT, day CHAR(2)) PARTITIONED BY (day)")
    empty.sql("INSERT INTO s.p PARTITION (day = 'ab  ') VALUES (1)")

    with pytest.raises(lc.InvalidRequest, match="Column 'day' is CHAR"):
        empty.sql("INSERT INTO s.p PARTITION (day = 'abc') VALUES (1)")
    assert [one.partition for one in empty.table("s.p").partitions()] == [{"day": "ab"}]


def test_a_key_that_on_compares_gets_its_default(empty):
    empty.sql(
        "CREATE TABLE s.k (p STRING NOT NULL DEFAULT 'x', id INT NOT NULL, PRIMARY KEY (p, id) NOT ENFORCED) "
        "PARTITIONED BY (p) TBLPROPERTIES ('bucket' = '1')"
    )

    empty.sql(
        "MERGE INTO s.k USING (SELECT 'y' AS p, 1 AS id) AS n ON k.p = n.p AND k.id = n.id "
        "WHEN NOT MATCHED THEN INSERT (p, id) VALUES (DEFAULT, n.id)"
    )

    assert empty.table("s.k").scan().to_arrow().to_pylist() == [{"p": "x", "id": 1}]
    with pytest.raises(lc.InvalidRequest, match="'p' is part of the primary key"):
        empty.sql(
            "MERGE INTO s.k USING (SELECT 'x' AS p, 1 AS id) AS n ON k.p = n.p AND k.id = n.id "
            "WHEN MATCHED THEN UPDATE SET p = DEFAULT"
        )


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_default_without_a_column_is_refused(empty, text, message):
    empty.sql(TABLE)

    with pytest.raises(lc.LakehouseError, match=message):
        empty.sql(text).to_arrow()
