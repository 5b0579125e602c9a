"""What SQL stores in a column: defaults, rounded numbers, texts within their length. Spark stores the same."""

from datetime import date, datetime
from decimal import Decimal
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
    ("INSERT INTO s.t (id, l, m) VALUES (15, array(), map())", {"id": 15, "l": [], "m": []}),
    ("INSERT INTO s.t (id, a) (SELECT 13, DEFAULT)", {"id": 13, "a": 7}),
    ("INSERT INTO s.t (id, a) SELECT 14, DEFAULT ORDER BY 1 LIMIT 1", {"id": 14, "a": 7}),
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
# The type of a column, a value, and what Spark stores of it in the column.
ASSIGNED: list[tuple[str, str, Any]] = [
    ("INT", "1.9D", 1),
    ("INT", "-1.9D", -1),
    ("INT", "2.5", 2),
    ("INT", "CAST(5 AS BIGINT)", 5),
    ("TINYINT", "127", 127),
    ("BIGINT", "CAST(1e10 AS DOUBLE)", 10_000_000_000),
    ("FLOAT", "1e39D", float("inf")),
    ("FLOAT", "16777217", 16777216.0),
    ("DOUBLE", "0.1", 0.1),
    ("DOUBLE", "7.1", 7.1),
    ("FLOAT", "16777217.000001", 16777218.0),
    ("BIGINT", "9223372036854775808D", (1 << 63) - 1),
    ("DECIMAL(5, 2)", "1.005", Decimal("1.01")),
    ("DECIMAL(5, 2)", "-1.005", Decimal("-1.01")),
    ("DECIMAL(5, 2)", "1.125D", Decimal("1.13")),
    ("DECIMAL(5, 2)", "7", Decimal("7.00")),
    ("STRING", "5", "5"),
    ("STRING", "1e7D", "1.0E7"),
    ("STRING", "1.50", "1.50"),
    ("STRING", "true", "true"),
    ("STRING", "DATE '2013-01-05'", "2013-01-05"),
    ("STRING", "TIMESTAMP_NTZ '2013-01-05 01:02:03.50'", "2013-01-05 01:02:03.5"),
    ("STRING", "TIMESTAMP_NTZ '2013-01-05 00:00:00'", "2013-01-05 00:00:00"),
    ("STRING", "make_date(10000, 1, 1)", "+10000-01-01"),
    ("STRING", "CAST(DATE '0001-01-01' - 800 AS TIMESTAMP_NTZ)", "-0002-10-24 00:00:00"),
    ("DATE", "TIMESTAMP_NTZ '1969-12-31 23:00:00'", date(1969, 12, 31)),
    ("TIMESTAMP_NTZ", "DATE '2013-01-05'", datetime(2013, 1, 5)),
    ("ARRAY<BIGINT>", "array(1, NULL)", [1, None]),
    ("ARRAY<INT>", "array(1.5D)", [1]),
    ("MAP<STRING, BIGINT>", "map(1, 2)", [("1", 2)]),
    ("ARRAY<DOUBLE>", "array(7.1)", [7.1]),
    ("STRUCT<x: BIGINT, y: STRING>", "named_struct('x', 1, 'y', 2)", {"x": 1, "y": "2"}),
    ("STRUCT<x: DATE, y: STRING>", "named_struct('x', NULL, 'y', 2)", {"x": None, "y": "2"}),
    ("STRUCT<x: INT>", "named_struct('X', 1)", {"x": 1}),
]
# The type of a column, and a value that it does not take.
NOT_ASSIGNED: list[tuple[str, str]] = [
    ("INT", "'5'"),
    ("INT", "true"),
    ("INT", "DATE '2013-01-05'"),
    ("FLOAT", "'1'"),
    ("DATE", "'2013-01-05'"),
    ("DATE", "5"),
    ("TIMESTAMP", "5"),
    ("BOOLEAN", "1"),
    ("BOOLEAN", "'true'"),
    ("BINARY", "5"),
    ("ARRAY<BIGINT>", "array('1')"),
    ("STRING", "array(1)"),
]
# The type of a column, and a value that is out of its range, or has keys that are equal there.
OUT_OF_RANGE: list[tuple[str, str]] = [
    ("INT", "3000000000"),
    ("INT", "1e10D"),
    ("INT", "CAST('NaN' AS DOUBLE)"),
    ("TINYINT", "128"),
    ("DECIMAL(5, 2)", "1234.5"),
    ("DECIMAL(5, 2)", "1e300D"),
    ("ARRAY<MAP<INT, STRING>>", "array(map(1, 'a'), NULL, map(1.1D, 'a', 1.2D, 'b'))"),
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
    ("INSERT INTO s.t (id, a) VALUES (1, 2, DEFAULT)", "has 3 columns, the table 2"),
    ("INSERT INTO s.t (id, a) VALUES (DEFAULT, 1)", "holds null"),
    ("INSERT INTO s.t (id, a) SELECT 1, DEFAULT UNION ALL SELECT 2, 3", r"column 35: DEFAULT is taken in VALUES"),
    ("INSERT INTO s.t (id, a) SELECT 1, 2 UNION ALL SELECT 2, DEFAULT", r"column 57: DEFAULT is taken in VALUES"),
    ("INSERT INTO s.t (id, a) VALUES (1, DEFAULT) UNION ALL VALUES (2, 3)", "column 36: DEFAULT is taken in VALUES"),
    ("INSERT INTO s.t (id, a) VALUES (1, DEFAULT) LIMIT 1", "column 36: DEFAULT is taken in VALUES"),
    ("INSERT INTO s.t (id, a) SELECT DISTINCT 1, DEFAULT", "column 44: DEFAULT is taken in VALUES"),
    ("INSERT INTO s.t (id, a) SELECT count(*), DEFAULT FROM s.t", "column 42: DEFAULT is taken in VALUES"),
    ("INSERT INTO s.t (id, a) SELECT id, DEFAULT FROM s.t GROUP BY id", "column 36: DEFAULT is taken in VALUES"),
    ("INSERT INTO s.t (id, a) SELECT * FROM (SELECT 1, DEFAULT)", "column 50: DEFAULT is taken in VALUES"),
    ("INSERT INTO s.t (id, a) WITH q AS (SELECT 1 AS k) SELECT k, DEFAULT FROM q", "column 61: DEFAULT is taken in"),
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


def assigning(column: str, value: str) -> list[str]:
    """Return a statement of each kind that stores the value in the column of a row of table `s.v`."""
    return [
        f"INSERT INTO s.v (id, {column}) SELECT 1, {value}",
        f"UPDATE s.v SET {column} = {value} WHERE id = 0",
        f"MERGE INTO s.v USING (SELECT 0 AS id) AS n ON v.id = n.id WHEN MATCHED THEN UPDATE SET {column} = {value}",
    ]


def check_assigned(catalog: lc.Catalog) -> None:
    catalog.create_database("s")
    columns = [f"c{number}" for number in range(len(ASSIGNED))]
    typed = ", ".join(f"{name} {kind}" for name, (kind, _, _) in zip(columns, ASSIGNED, strict=True))
    table = catalog.sql(f"CREATE TABLE s.v (id INT, {typed})") and catalog.table("s.v")
    values = [value for _, value, _ in ASSIGNED]
    pairs = ", ".join(f"{name} = {value}" for name, value in zip(columns, values, strict=True))
    for text in (
        f"INSERT INTO s.v SELECT 1, {', '.join(values)}",
        f"UPDATE s.v SET {pairs}",
        f"MERGE INTO s.v USING (SELECT 1 AS id) AS n ON v.id = n.id WHEN MATCHED THEN UPDATE SET {pairs}",
    ):
        catalog.sql(text)

        (row,) = table.scan(columns=columns).to_arrow().to_pylist()
        assert list(row.values()) == [stored for _, _, stored in ASSIGNED], text
        catalog.sql(f"UPDATE s.v SET {', '.join(f'{name} = NULL' for name in columns)}")


def check_not_assigned(catalog: lc.Catalog, cases: list[tuple[str, str]], message: str) -> None:
    catalog.create_database("s")
    typed = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(cases))
    table = catalog.sql(f"CREATE TABLE s.v (id INT, {typed})") and catalog.table("s.v")
    table.write([{"id": 0}])
    for number, (_, value) in enumerate(cases):
        for text in assigning(f"c{number}", value):
            with pytest.raises(lc.InvalidRequest, match=message):
                catalog.sql(text)
    assert table.snapshot().id == 1


NOT_TAKEN = "line 1, column .*column 'c.*' is .*, and the value is"
NO_ROOM = (
    "out of (its )?range|are the same key|lies outside|before the point|OVERFLOW|OUT_OF_RANGE|CANNOT_BE_REPRESENTED"
)


def test_every_statement_stores_a_value_as_spark_does(tmp_path):
    check_assigned(lc.connect(tmp_path))


@pytest.mark.parametrize(("cases", "message"), [(NOT_ASSIGNED, NOT_TAKEN), (OUT_OF_RANGE, NO_ROOM)])
def test_every_statement_refuses_a_value_that_its_column_does_not_take(tmp_path, cases, message):
    check_not_assigned(lc.connect(tmp_path), cases, message)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("null", ["NULL", "CAST(NULL AS INT)", "(SELECT max(a) FROM s.t WHERE id > 9)"])
def test_a_null_that_is_assigned_is_the_default_in_every_statement(empty, null):
    empty.sql(TABLE)
    empty.table("s.t").write([{"id": 1, "a": 1}, {"id": 2, "a": 2}])
    for text in (
        f"INSERT INTO s.t (id, a) SELECT 3, {null}",
        f"UPDATE s.t SET a = {null} WHERE id = 1",
        f"MERGE INTO s.t USING (SELECT 2 AS id) AS n ON t.id = n.id WHEN MATCHED THEN UPDATE SET a = {null}",
        f"MERGE INTO s.t USING (SELECT 4 AS id) AS n ON t.id = n.id WHEN NOT MATCHED THEN INSERT (id, a) "
        f"VALUES (n.id, {null})",
    ):
        empty.sql(text)
    empty.table("s.t").update({"a": None}, "id = 1")

    assert {row["id"]: row["a"] for row in empty.table("s.t").scan().to_arrow().to_pylist()} == dict.fromkeys(
        (1, 2, 3, 4), 7
    )


def test_a_null_that_is_stored_stays_one_when_other_columns_change(empty):
    empty.sql("CREATE TABLE s.n (id INT, a INT)")
    table = empty.table("s.n")
    table.write([{"id": 1}])
    table.alter(lc.UpdateColumnDefault("a", "7"))

    empty.sql("UPDATE s.n SET id = id + 1")
    empty.sql("UPDATE s.n SET id = abs(id) + 1")

    assert table.scan().to_arrow().to_pylist() == [{"id": 3, "a": None}]


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
