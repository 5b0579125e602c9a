"""Rows with columns that the table lacks: `write.merge-schema`, in this process."""

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.statements import merged_schema

MERGES = {"write.merge-schema": "true"}
WIDENS = MERGES | {"spark.paimon.write.merge-schema.type-widening": "TRUE"}
INSERT = "INSERT INTO s.t BY NAME SELECT * FROM r"
MERGE = "MERGE INTO s.t AS t USING r AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


@pytest.fixture(params=["key", "append", "dynamic"])
def table(request, empty) -> lc.Table:
    keys = [] if request.param == "append" else ["id"]
    options = {"bucket": "1"} if request.param == "key" else {}
    table = empty.create_table("s.t", {"id": "INT", "n": "INT"}, primary_keys=keys, options=options)
    table.write([{"id": 1, "n": 1}])
    return table


def rows(**columns):
    return {"r": pa.table({"id": pa.array([1, 2], pa.int32()), "n": pa.array([5, 6], pa.int32()), **columns})}


def read(table):
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["id"], row["n"]))


@pytest.mark.parametrize("statement", [INSERT, MERGE])
def test_columns_that_the_table_lacks_are_added(empty, table, statement):
    answer = empty.sql(statement, tables=rows(note=["a", "b"]), settings=MERGES)

    assert read(table)[-2:] == [{"id": 1, "n": 5, "note": "a"}, {"id": 2, "n": 6, "note": "b"}]
    assert [type(report).__name__ for report in answer.reports][1:] == ["SchemaReport"]
    # Rows with the same columns change no schema.
    assert len(empty.sql(statement, tables=rows(note=["c", "d"]), settings=MERGES).reports) == 1
    assert table.schema.id == 1


@pytest.mark.parametrize("statement", [INSERT, MERGE])
def test_types_grow_only_with_the_setting_for_it(empty, table, statement):
    wide = rows(n=pa.array([2**40, 6]))

    with pytest.raises(lc.InvalidRequest, match="'n' is INT, and a value is out of its range"):
        empty.sql(statement, tables=wide, settings=MERGES)
    empty.sql(statement, tables=wide, settings=WIDENS)

    assert table.schema.field("n").type == lc.connect(table.uri.rsplit("/", 2)[0]).table("s.t").schema.field("n").type
    assert [row["n"] for row in read(table)][-2:] == [2**40, 6]


@pytest.mark.parametrize("settings", [None, {"write.merge-schema": "false"}])
def test_without_the_setting_no_column_is_added(empty, table, settings):
    with pytest.raises(lc.InvalidRequest, match=r"column 13: s\.t has no column 'note'"):
        empty.sql(INSERT, tables=rows(note=["a", "b"]), settings=settings)
    empty.sql(MERGE, tables=rows(note=["a", "b"]), settings=settings)

    assert table.schema.column_names == ("id", "n")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO s.t SELECT id, n FROM r",
        "MERGE INTO s.t AS t USING r AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n",
        "UPDATE s.t SET n = 3",
        "DELETE FROM s.t",
    ],
)
def test_a_statement_that_names_its_columns_adds_none(empty, table, statement):
    empty.sql(statement, tables=rows(note=["a", "b"]), settings=WIDENS)

    assert table.schema.id == 0


def test_an_insert_by_position_is_refused_as_without_the_setting(empty, table):
    with pytest.raises(lc.InvalidRequest, match="the query has 3 columns, the table 2"):
        empty.sql("INSERT INTO s.t SELECT * FROM r", tables=rows(note=["a", "b"]), settings=MERGES)

    assert table.schema.id == 0


def test_an_overwrite_adds_columns_too(empty, table):
    empty.sql("INSERT OVERWRITE s.t BY NAME SELECT * FROM r", tables=rows(note=["a", "b"]), settings=MERGES)

    assert [row["note"] for row in read(table)] == ["a", "b"]


def test_rows_that_replace_others_may_have_new_columns(empty):
    table = empty.create_table("s.t", {"id": "INT", "n": "INT"})
    table.write([{"id": 1, "n": 1}, {"id": -1, "n": 1}])
    replace = "INSERT INTO s.t BY NAME REPLACE WHERE id > 0 SELECT * FROM r"
    empty.sql(replace, tables=rows(note=["a", "b"]), settings=MERGES)

    assert [(row["id"], row["note"]) for row in read(table)] == [(-1, None), (1, "a"), (2, "b")]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO s.t BY NAME SELECT 3 AS id, NULL AS n",
        "MERGE INTO s.t AS t USING (SELECT 3 AS id, NULL AS n) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ],
)
def test_null_alone_is_a_value_of_a_column_and_no_new_column(empty, table, statement):
    answer = empty.sql(statement, settings=WIDENS)

    assert (len(answer.reports), table.schema.id) == (1, 0)
    with pytest.raises(lc.InvalidRequest, match="void"):
        empty.sql("INSERT INTO s.t BY NAME SELECT 3 AS id, NULL AS void", settings=MERGES)
    assert table.schema.id == 0


def test_columns_of_types_that_only_tables_have_are_left_as_they_are(empty):
    table = empty.create_table("s.t", {"id": "INT", "at": "TIME(3)", "name": "VARCHAR(3)", "tags": "ARRAY<INT>"})
    table.write([{"id": 1, "at": None, "name": "a", "tags": [1]}])

    empty.sql("INSERT INTO s.t BY NAME SELECT * FROM s.t", settings=WIDENS)
    empty.sql("INSERT INTO s.t BY NAME SELECT 2 AS id, array() AS tags, 'b' AS name", settings=WIDENS)

    assert (table.schema.id, table.scan().count()) == (0, 3)


@pytest.mark.parametrize(
    "merge",
    [
        MERGE.replace("t.id = s.id", "t.id = s.nothing"),
        MERGE.replace("t.id = s.id", "t.id = s.id AND t.nothing = 1"),
        MERGE.replace("UPDATE SET *", "UPDATE SET nothing = 1"),
    ],
)
def test_a_merge_that_is_wrong_changes_no_schema(empty, table, merge):
    with pytest.raises(lc.InvalidRequest, match="nothing") as refused:
        empty.sql(merge, tables=rows(note=["a", "b"]), settings=MERGES)

    assert "schema was changed" not in str(refused.value)
    assert table.schema.id == 0


def test_a_merge_whose_source_lacks_a_column_changes_no_schema(empty, table):
    source = {"r": pa.table({"id": pa.array([1], pa.int32()), "note": ["a"]})}

    with pytest.raises(lc.InvalidRequest, match="n"):
        empty.sql(MERGE, tables=source, settings=MERGES)

    assert table.schema.id == 0


@pytest.mark.parametrize("statement", [INSERT, MERGE])
def test_a_change_that_others_make_meanwhile_is_neither_made_twice_nor_taken_back(empty, table, statement, monkeypatch):
    given = rows(n=pa.array([3, 4], pa.int32()), note=["a", "b"])
    narrow = empty.create_table("s.u", {"id": "INT", "n": "SMALLINT"}, primary_keys=["id"], options={"bucket": "1"})
    before = merged_schema.alter_by
    others = [lc.AddColumn("note", "STRING"), lc.UpdateColumnType("n", "BIGINT")]

    def overtaken(context, make):
        narrow.alter(*others)
        narrow.write([{"id": 9, "n": 2**40}])
        return before(context, make)

    monkeypatch.setattr(merged_schema, "alter_by", overtaken)
    answer = empty.sql(statement.replace("s.t", "s.u"), tables=given, settings=WIDENS)

    assert len(answer.reports) == 1
    assert narrow.schema.field("n").type.root == "BIGINT"
    assert [(row["n"], row["note"]) for row in read(narrow)] == [(3, "a"), (4, "b"), (2**40, None)]


@pytest.mark.parametrize("statement", [INSERT, MERGE])
def test_an_error_after_the_change_says_what_stays(empty, table, statement):
    wide = rows(n=pa.array([2**40, 6]), note=["a", "b"])

    with pytest.raises(
        lc.InvalidRequest, match=r"But the schema was changed before, and stays so: note STRING is added\.$"
    ):
        empty.sql(statement, tables=wide, settings=MERGES)

    assert table.schema.column_names == ("id", "n", "note")
    assert read(table) == [{"id": 1, "n": 1, "note": None}]
    assert not table.verify().findings


@pytest.mark.parametrize("statement", [INSERT, MERGE])
def test_explain_tells_the_change_and_makes_none(empty, table, statement):
    wide = rows(n=pa.array([2**40, 6]), note=["a", "b"])

    lines = empty.sql(f"EXPLAIN {statement}", tables=wide, settings=WIDENS).to_arrow().column("plan").to_pylist()

    assert "  schema: n becomes BIGINT, note STRING is added" in lines
    assert table.schema.id == 0


def test_a_key_keeps_its_type(empty):
    table = empty.create_table("s.t", {"id": "INT", "n": "INT"}, primary_keys=["id"], options={"bucket": "1"})
    wide = {"r": pa.table({"id": [1], "n": [2**40]})}

    for statement in (INSERT, MERGE):
        empty.sql(statement, tables=wide, settings=WIDENS)

    assert [field.type.root for field in table.schema.fields] == ["INT", "BIGINT"]
    with pytest.raises(lc.InvalidRequest, match="'id' is INT, and a value is out of its range"):
        empty.sql(INSERT, tables={"r": pa.table({"id": [2**40], "n": [1]})}, settings=WIDENS)


def test_data_whose_columns_sql_does_not_tell_apart_are_refused(empty):
    twins = {"r": pa.table({"x": [1], "X": [2]})}

    with pytest.raises(lc.InvalidRequest, match=r"the columns 'x' and 'X' differ by case alone\. Rename one"):
        empty.sql("SELECT * FROM r", tables=twins)
