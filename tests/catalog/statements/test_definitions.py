"""INSERT, CREATE, ALTER, DROP, SHOW, DESCRIBE and CALL: each does what its verb does."""

from datetime import date

import pytest

import lakehouse_core as lc

ITEMS = """
    CREATE TABLE s.items (
        id BIGINT NOT NULL, name STRING COMMENT 'Its name', price DECIMAL(10,2) DEFAULT 0, w DOUBLE, d DATE,
        t TIMESTAMP, n TIMESTAMP_NTZ, a ARRAY<INT>, m MAP<STRING, INT>, r STRUCT<x: INT, y: ARRAY<STRING>>,
        PRIMARY KEY (d, id) NOT ENFORCED)
    USING paimon PARTITIONED BY (d) COMMENT 'Items' TBLPROPERTIES ('bucket' = 1, snapshot.num-retained.min = '2')
"""


def rows(catalog, text, **arguments):
    return catalog.sql(text, **arguments).to_arrow().to_pylist()


def test_a_table_is_made_as_the_statement_says(empty):
    empty.sql(ITEMS)

    schema = empty.table("s.items").schema
    assert schema.primary_keys == ("d", "id")
    assert schema.partition_keys == ("d",)
    assert schema.comment == "Items"
    assert dict(schema.options) == {"bucket": "1", "snapshot.num-retained.min": "2"}
    assert schema.field("name").description == "Its name"
    assert schema.field("price").default_value == "0"
    types = rows(empty, "DESCRIBE s.items")[:10]
    assert [row["data_type"] for row in types[:7]] == [
        *("bigint", "string", "decimal(10,2)", "double", "date", "timestamp", "timestamp_ntz")
    ]
    with pytest.raises(lc.InvalidRequest, match="Write IF NOT EXISTS to accept that"):
        empty.sql(ITEMS)
    empty.sql(ITEMS.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))


def test_the_shown_statement_makes_the_same_table(empty):
    empty.sql(ITEMS)
    made = empty.table("s.items").schema
    statement = rows(empty, "SHOW CREATE TABLE s.items")[0]["createtab_stmt"]

    empty.sql("DROP TABLE s.items")
    empty.sql(statement)

    again = empty.table("s.items").schema
    assert (again.fields, again.options, again.primary_keys, again.partition_keys, again.comment) == (
        made.fields,
        made.options,
        made.primary_keys,
        made.partition_keys,
        made.comment,
    )


def test_keys_are_given_as_a_property_too_and_partitions_as_columns(empty):
    empty.sql(
        "CREATE TABLE s.t (id INT) PARTITIONED BY (day STRING) TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '1')"
    )

    schema = empty.table("s.t").schema
    assert (schema.column_names, schema.primary_keys, schema.partition_keys) == (("id", "day"), ("day", "id"), ("day",))


def test_rows_are_inserted_by_position_by_columns_and_by_name(empty):
    empty.sql("CREATE TABLE s.t (a INT, b STRING, c DOUBLE)")

    report = empty.sql("INSERT INTO s.t VALUES (1, 'x', 1.5), (2, 'y', 2)").report
    empty.sql("INSERT INTO s.t (c, A) VALUES (3, 3)")
    empty.sql("INSERT INTO TABLE s.t BY NAME SELECT 'z' AS B, 4 AS a")
    empty.sql("INSERT INTO s.t SELECT a + 10, b, c FROM s.t WHERE a = :a", {"a": 1})

    assert (report.rows_added, report.commit_kind) == (2, "APPEND")
    assert rows(empty, "SELECT * FROM s.t ORDER BY a") == [
        {"a": 1, "b": "x", "c": 1.5},
        {"a": 2, "b": "y", "c": 2.0},
        {"a": 3, "b": None, "c": 3.0},
        {"a": 4, "b": "z", "c": None},
        {"a": 11, "b": "x", "c": 1.5},
    ]


def test_overwrite_is_static_as_in_spark_unless_the_setting_says_dynamic(empty):
    empty.sql("CREATE TABLE s.t (a INT, d DATE) PARTITIONED BY (d)")
    fill = "INSERT OVERWRITE s.t VALUES (1, DATE '2013-01-01'), (2, DATE '2013-01-02')"
    dynamic = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    one, two = {"a": 1, "d": date(2013, 1, 1)}, {"a": 2, "d": date(2013, 1, 2)}
    new = {"a": 9, "d": date(2013, 1, 2)}
    query = "SELECT * FROM s.t ORDER BY d"

    empty.sql(fill)
    assert rows(empty, query) == [one, two]
    empty.sql("INSERT OVERWRITE s.t VALUES (9, DATE '2013-01-02')", settings=dynamic)
    assert rows(empty, query) == [one, new]
    empty.sql("INSERT OVERWRITE s.t PARTITION (d = '2013-01-02') SELECT 2")
    assert rows(empty, query) == [one, two]
    empty.sql("INSERT OVERWRITE s.t PARTITION (d = DATE '2013-01-02') SELECT a FROM s.t WHERE false")
    assert rows(empty, query) == [one]
    empty.sql("INSERT OVERWRITE s.t PARTITION (d) VALUES (9, DATE '2013-01-02')")
    assert rows(empty, query) == [new]
    report = empty.sql("INSERT OVERWRITE s.t SELECT * FROM s.t WHERE a > 100").report
    assert (rows(empty, query), report.commit_kind) == ([], "OVERWRITE")


def test_a_table_is_made_of_a_query_or_not_at_all(empty):
    empty.sql("CREATE TABLE s.t AS SELECT id, count(*) AS n FROM VALUES (1), (1), (2) AS v(id) GROUP BY id")

    assert rows(empty, "SELECT * FROM s.t ORDER BY id") == [{"id": 1, "n": 2}, {"id": 2, "n": 1}]
    with pytest.raises(lc.InvalidRequest, match="Division by zero"):
        empty.sql("CREATE TABLE s.u AS SELECT 1 / (id - 1) AS x FROM s.t")
    assert empty.tables("s") == ["t"]


def test_columns_and_properties_are_altered(empty):
    empty.sql("CREATE TABLE s.t (a INT, b STRUCT<x: INT>)")

    for change in (
        "ADD COLUMNS (c STRING COMMENT 'n' AFTER a, e INT FIRST)",
        "ADD COLUMN b.y BIGINT",
        "ALTER COLUMN c TYPE VARCHAR(5)",
        "CHANGE COLUMN a COMMENT 'key'",
        "ALTER COLUMN a TYPE BIGINT",
        "RENAME COLUMN c TO f",
        "ALTER COLUMN f SET DEFAULT 'x'",
        "ALTER COLUMN e AFTER f",
        "SET TBLPROPERTIES ('file.format' = 'orc', comment = 'All')",
        "ADD COLUMN gone INT",
        "DROP COLUMN gone",
    ):
        assert empty.sql(f"ALTER TABLE s.t {change}").report is not None, change

    assert rows(empty, "DESCRIBE s.t") == [
        {"col_name": "a", "data_type": "bigint", "comment": "key"},
        {"col_name": "f", "data_type": "varchar(5)", "comment": "n"},
        {"col_name": "e", "data_type": "int", "comment": None},
        {"col_name": "b", "data_type": "struct<x: int, y: bigint>", "comment": None},
    ]
    assert empty.table("s.t").schema.comment == "All"
    assert rows(empty, "SHOW TBLPROPERTIES s.t") == [{"key": "file.format", "value": "orc"}]
    empty.sql("ALTER TABLE s.t UNSET TBLPROPERTIES IF EXISTS ('file.format', 'nix')")
    empty.sql("COMMENT ON TABLE s.t IS NULL")
    assert (dict(empty.table("s.t").schema.options), empty.table("s.t").schema.comment) == ({}, None)


def test_databases_and_tables_come_and_go(empty):
    empty.sql("CREATE DATABASE a")
    empty.sql("CREATE SCHEMA IF NOT EXISTS A1")
    empty.sql("CREATE TABLE a.t (id INT)")
    empty.sql("ALTER TABLE a.t RENAME TO u")

    assert rows(empty, "SHOW DATABASES LIKE 'a*'") == [{"namespace": "A1"}, {"namespace": "a"}]
    assert rows(empty, "SHOW TABLES IN a") == [{"namespace": "a", "tableName": "u", "isTemporary": False}]
    assert rows(empty, "SHOW TABLES LIKE 'x*|U'", database="a")[0]["tableName"] == "u"
    assert rows(empty, "SHOW COLUMNS IN a.u") == [{"col_name": "id"}]
    with pytest.raises(lc.InvalidRequest, match="or write CASCADE"):
        empty.sql("DROP DATABASE a")
    empty.sql("DROP TABLE u", database="A")
    empty.sql("DROP TABLE IF EXISTS a.u")
    empty.sql("DROP DATABASE a CASCADE")
    empty.sql("DROP DATABASE IF EXISTS a")
    assert empty.databases() == ["A1", "s"]


def test_a_text_before_a_query_in_brackets_is_no_name(empty):
    empty.sql("CREATE TABLE s.made COMMENT 'x' AS (SELECT 1 AS a)")
    empty.sql("CREATE TABLE s.other USING paimon COMMENT 'y' AS (SELECT 1 AS a) UNION ALL (SELECT 2)")

    assert empty.table("s.made").schema.comment == "x"
    assert empty.table("s.other").scan().count() == 2


def test_the_details_of_a_table_are_described(empty):
    empty.sql(ITEMS)
    empty.sql("INSERT INTO s.items (id, d) VALUES (1, DATE '2013-01-01')")
    empty.sql("INSERT INTO s.items (id, d) VALUES (1, DATE '2013-01-02')")

    found = {row["col_name"]: row["data_type"] for row in rows(empty, "DESC TABLE EXTENDED s.items")}
    assert (found["Name"], found["Comment"], found["Provider"]) == ("s.items", "Items", "paimon")
    assert "# Partition Information" in found
    assert rows(empty, "DESCRIBE s.items PRICE")[0]["data_type"] == "decimal(10,2)"
    assert rows(empty, "SHOW PARTITIONS s.items") == [{"partition": "d=2013-01-01"}, {"partition": "d=2013-01-02"}]
    assert [row["snapshot_id"] for row in rows(empty, "DESCRIBE HISTORY s.items")] == [2, 1]
    assert rows(empty, "DESCRIBE DATABASE s")[0] == {"info_name": "Namespace Name", "info_value": "s"}
    assert rows(empty, "SELECT price FROM s.items WHERE d = '2013-01-01'") == [{"price": 0}]


def test_procedures_do_what_their_verbs_do(empty):
    empty.sql(ITEMS)
    for day in (1, 2, 2):
        empty.sql(f"INSERT INTO s.items (id, d) VALUES (1, DATE '2013-01-0{day}')")

    compact = empty.sql("CALL sys.compact(table => 's.items', partitions => 'd=2013-01-02')")
    assert (compact.to_arrow().to_pylist(), compact.report.buckets_rewritten) == ([{"result": True}], 1)
    assert empty.sql("CALL lake.sys.compact('s.items', where => \"d = DATE '2013-01-01'\")").report is not None
    assert empty.sql("CALL sys.compact('s.items', NULL, 'minor')").report.noop_reason is not None
    assert empty.sql("CALL sys.compact_manifest(table => 's.items', dry_run => true)").report.dry_run
    empty.sql("CALL sys.create_tag('items', 'eod', 2, '1 d')", database="s")
    empty.sql("CALL sys.create_tag(table => 's.items', tag => 'now')")
    assert [tag.name for tag in empty.table("s.items").tags()] == ["eod", "now"]
    with pytest.raises(lc.NotFound, match="Tag 'nix'"):
        empty.sql("CALL sys.delete_tag('s.items', 'now,nix')")
    assert len(empty.sql("CALL sys.delete_tag('s.items', 'now, eod')").reports) == 2
    expired = empty.sql("CALL sys.expire_snapshots(table => 's.items', retain_max => 1, retain_min => 1)")
    assert expired.to_arrow().to_pylist() == [{"deleted_snapshots_count": expired.report.snapshots_expired}]
    assert expired.report.snapshots_expired > 0
    every = empty.sql("CALL sys.compact_database(including_databases => 's|x', excluding_tables => 'nothing')")
    assert [report.table for report in every.reports] == ["s.items"]
    assert every.to_arrow().to_pylist() == [{"result": "Success"}]


# The statement about tags of a table with three snapshots, and the tags after it: name and snapshot.
TAGS = [
    ("ALTER TABLE s.t CREATE TAG first AS OF VERSION 1", {"first": 1}),
    ("ALTER TABLE S.T CREATE TAG `TAG-2` AS OF VERSION 2 RETAIN 7 DAYS", {"first": 1, "TAG-2": 2}),
    ("alter table s.t create tag if not exists first as of version 3", {"first": 1, "TAG-2": 2}),
    ("ALTER TABLE s.t CREATE OR REPLACE TAG first RETAIN 24 HOURS", {"first": 3, "TAG-2": 2}),
    ("ALTER TABLE s.t CREATE OR REPLACE TAG more AS OF VERSION 1", {"first": 3, "TAG-2": 2, "more": 1}),
    ("ALTER TABLE s.t REPLACE TAG more AS OF VERSION 2 RETAIN 5 MINUTES", {"first": 3, "TAG-2": 2, "more": 2}),
    ("ALTER TABLE s.t RENAME TAG more TO `tag`", {"first": 3, "TAG-2": 2, "tag": 2}),
    ("ALTER TABLE s.t DELETE TAG `TAG-2`", {"first": 3, "tag": 2}),
    ("ALTER TABLE s.t DELETE TAG IF EXISTS nix", {"first": 3, "tag": 2}),
    ("ALTER TABLE s.t CREATE TAG retain", {"first": 3, "tag": 2, "retain": 3}),
]


def test_statements_about_tags_call_the_verbs(empty):
    table = empty.create_table("s.t", {"a": "INT"})
    for number in range(3):
        table.write([{"a": number}])
    for text, tags in TAGS:
        empty.sql(text)

        assert {tag.name: tag.snapshot_id for tag in table.tags()} == tags, text
    assert rows(empty, "SHOW TAGS s.t") == [{"tag": "first"}, {"tag": "retain"}, {"tag": "tag"}]
    assert rows(empty, "SELECT a FROM s.t VERSION AS OF 'tag' ORDER BY a") == [{"a": 0}, {"a": 1}]
    assert {tag.name: tag.time_retained_millis for tag in table.tags()} == {
        "first": 24 * 3_600_000,
        "tag": 5 * 60_000,
        "retain": None,
    }
    with pytest.raises(lc.InvalidRequest, match="'first'"):
        empty.sql("ALTER TABLE s.t CREATE TAG first")
    for text in ("REPLACE TAG nix", "DELETE TAG nix", "RENAME TAG nix TO other", "CREATE TAG x AS OF VERSION 9"):
        with pytest.raises(lc.NotFound):
            empty.sql(f"ALTER TABLE s.t {text}")


def test_comments_are_given_to_columns_and_to_fields_inside_them(empty):
    empty.sql(ITEMS)

    empty.sql("COMMENT ON COLUMN s.items.price IS 'it''s'")
    empty.sql("COMMENT ON COLUMN items.w IS 'Weight'", database="s")
    empty.sql("COMMENT ON COLUMN s.items.name IS NULL", database="s")
    empty.sql("COMMENT ON COLUMN s.items.r.x IS 'Inside'")
    empty.sql("COMMENT ON COLUMN items.r.y IS 'Others'", database="s")

    schema = empty.table("s.items").schema
    comments = {field.name: field.description for field in schema.fields if field.description is not None}
    assert comments == {"price": "it's", "w": "Weight"}
    assert [field.description for field in schema.field("r").type.fields] == ["Inside", "Others"]


# What EXPLAIN says of a statement that writes: some of its lines.
EXPLAINED = [
    (
        "DELETE FROM s.t WHERE a > 1",
        ["DELETE of s.t: snapshot 1, schema 0", "  method: files: files that hold such rows are written again"],
    ),
    ("DELETE FROM s.t WHERE a > 7", ["  condition: a > 7", "  files: 0 of 0 bytes in 0 splits may hold such rows"]),
    (
        "DELETE FROM s.t WHERE p = 'x'",
        ["  method: partitions: files are removed, and no row is read", "  condition: p = 'x'"],
    ),
    (
        "DELETE FROM s.t WHERE a IN (SELECT id FROM s.o) AND p = 'x'",
        [
            "  condition: p = 'x'",
            "  computed by: DuckDB",
            "  condition of a query, asked first: a IN (SELECT id FROM s.o)",
            "table s.o: snapshot 2",
        ],
    ),
    ("UPDATE s.t SET a = a + 1 WHERE p = 'x'", ["UPDATE of s.t: snapshot 1, schema 0", "  condition: p = 'x'"]),
    ("UPDATE s.t SET a = (SELECT max(id) FROM s.o)", ["  condition: none", "table s.o: snapshot 2"]),
    (
        "MERGE INTO s.t USING s.o ON t.a = o.id AND t.p = 'x' WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT "
        "(a) VALUES (o.id)",
        ["MERGE of s.t: snapshot 1, schema 0", "  condition: p = 'x'", "table s.o: snapshot 2, schema 0"],
    ),
    (
        "INSERT INTO s.t VALUES (1, DEFAULT)",
        ["INSERT into s.t: schema 0", "  rows: added", "  columns: a, p", "engine: duckdb"],
    ),
    (
        "INSERT OVERWRITE s.t PARTITION (p = 'x') SELECT id FROM s.o WHERE id > 1",
        ["  rows: replace the partition", "  columns: a", "  partition: p = x", "  condition: id > 1"],
    ),
    ("INSERT OVERWRITE s.t SELECT * FROM s.t", ["  rows: replace all rows", "table s.t: snapshot 1, schema 0"]),
    ("INSERT INTO s.t REPLACE WHERE a > 1 SELECT * FROM s.t", ["  rows: replace those where a > 1"]),
]


def test_a_statement_that_writes_is_explained_and_not_carried_out(empty):
    table = empty.create_table("s.t", {"a": "INT", "p": "STRING"}, partition_keys=["p"])
    table.write([{"a": 1, "p": "x"}, {"a": 2, "p": "y"}])
    others = empty.create_table("s.o", {"id": "INT"})
    for number in range(2):
        others.write([{"id": number}])
    for text, wanted in EXPLAINED:
        lines = empty.sql(f"EXPLAIN {text}").to_arrow().column("plan").to_pylist()

        assert [line for line in wanted if line not in lines] == [], (text, lines)
    assert (table.snapshot().id, others.snapshot().id) == (1, 2)


@pytest.mark.parametrize("merge_engine", ["first-row", "deduplicate"])
def test_an_explained_statement_is_refused_where_it_would_be(empty, merge_engine):
    empty.create_table("s.k", {"a": "INT"}, primary_keys=["a"], options={"bucket": "1", "merge-engine": merge_engine})

    with pytest.raises(lc.LakehouseError, match=r"first-row|part of the primary key"):
        empty.sql("EXPLAIN UPDATE s.k SET a = 1")
