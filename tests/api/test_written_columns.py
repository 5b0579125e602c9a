"""Columns that the data of a write lacks, and columns that a new table lets hold nulls."""

import re

import pyarrow as pa
import pytest

import lakehouse_core as lc

ROW = {"id": 1, "status": "new", "amount": 5}


@pytest.fixture
def catalog(tmp_path):
    found = lc.connect(tmp_path)
    found.create_database("db")
    return found


def keyed(catalog, **options):
    columns = {"id": "INT NOT NULL", "status": "STRING", "amount": "INT"}
    return catalog.create_table("db.t", columns, primary_keys=["id"], options={"bucket": "1", **options})


def rows(table):
    return table.scan().to_arrow().to_pylist()


def test_a_column_that_is_missing_is_null_and_replaces_the_value_that_was_there(catalog):
    table = keyed(catalog)
    table.write([ROW])

    table.write([{"id": 1, "status": "paid"}])

    assert rows(table) == [{"id": 1, "status": "paid", "amount": None}]


def test_partial_updates_keep_the_value_of_a_column_that_is_missing(catalog):
    table = keyed(catalog, **{"merge-engine": "partial-update"})
    table.write([ROW])

    table.write([{"id": 1, "status": "paid"}])

    assert rows(table) == [{"id": 1, "status": "paid", "amount": 5}]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([{"id": 1, "status": "paid"}], "Row 0 has no column 'amount'"),
        ([ROW, {"id": 2, "amount": 5}], "Row 1 has no column 'status'"),
        (pa.table({"id": pa.array([1], pa.int32()), "amount": pa.array([1], pa.int32())}), "The data has no column"),
        (pa.record_batch({"id": pa.array([1], pa.int32()), "status": ["a"]}), "The data has no column 'amount'"),
    ],
    ids=["row", "one of rows", "table", "batch"],
)
@pytest.mark.parametrize("verb", ["write", "overwrite", "stage"])
def test_strict_writes_refuse_data_that_lacks_a_column(catalog, verb, data, says):
    table = keyed(catalog)
    table.write([ROW])
    more = {"commit_user": "u", "commit_identifier": 1} if verb == "stage" else {}

    with pytest.raises(lc.InvalidRequest, match=rf"^db\.t: {re.escape(says)}.* partial-update keeps"):
        getattr(table, verb)(data, missing="error", **more)

    assert rows(table) == [ROW]


def test_strict_writes_take_complete_rows_and_nulls_that_are_said(catalog):
    table = keyed(catalog)

    table.write([ROW, {"id": 2, "status": None, "amount": None}], missing="error")

    assert rows(table) == [ROW, {"id": 2, "status": None, "amount": None}]


@pytest.mark.parametrize("missing", ["ignore", None, True])
def test_what_becomes_of_missing_columns_is_one_of_two_words(catalog, missing):
    with pytest.raises(lc.InvalidRequest, match=r"expected 'null', or 'error' to refuse data that lacks a column"):
        keyed(catalog).write([ROW], missing=missing)


def test_a_table_may_let_every_column_but_its_keys_hold_nulls(catalog):
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("origin", pa.string(), nullable=False),
            pa.field("tags", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
            pa.field("place", pa.struct([pa.field("city", pa.string(), nullable=False)]), nullable=False),
        ]
    )

    table = catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "1"}, nullable=True)

    table.write([{"id": 1}, {"id": 2, "tags": [None], "place": {"city": None}}])
    assert rows(table) == [
        {"id": 1, "origin": None, "tags": None, "place": None},
        {"id": 2, "origin": None, "tags": [None], "place": {"city": None}},
    ]
    with pytest.raises(lc.InvalidRequest, match=r"The data has no column 'id', which is BIGINT NOT NULL"):
        table.write([{"origin": "a"}])


def test_a_schema_is_taken_as_it_is_declared_unless_told_otherwise(catalog):
    table = catalog.create_table("db.t", {"id": "INT NOT NULL", "status": "STRING"})

    with pytest.raises(lc.InvalidRequest, match=r"no column 'id', which is INT NOT NULL"):
        table.write([{"status": "new"}])
