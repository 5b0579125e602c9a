"""The changes by which a schema takes rows with more or wider columns."""

import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import DataField, parse_type
from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.schema_change import AddColumn, UpdateColumnType
from lakehouse_core.planning.alter.wider import wider_changes
from lakehouse_core.table.schema import new_schema


def schema(**columns):
    return new_schema(columns, now_millis=0)


def changes(known, given, *, widens=False):
    return list(wider_changes(schema(**known), schema(**given).fields, widens=widens))


def test_a_column_that_the_table_lacks_is_added_without_its_not_null():
    assert changes({"a": "INT"}, {"b": "STRING NOT NULL", "A": "INT"}) == [AddColumn(("b",), "STRING")]


def test_a_field_of_a_struct_is_added_by_its_path():
    known, given = {"r": "ROW<x INT, q ROW<u INT>>"}, {"r": "ROW<X INT, y DATE, q ROW<v INT>>"}

    assert changes(known, given) == [AddColumn(("r", "y"), "DATE"), AddColumn(("r", "q", "v"), "INT")]


WIDER = [
    ("TINYINT", "SMALLINT", "SMALLINT"),
    ("INT", "BIGINT", "BIGINT"),
    ("INT", "DOUBLE", "DOUBLE"),
    ("SMALLINT", "FLOAT", "FLOAT"),
    ("FLOAT", "DOUBLE", "DOUBLE"),
    ("DECIMAL(5, 2)", "DECIMAL(9, 2)", "DECIMAL(9, 2)"),
]
# Not every value of the first type is one of the second, or the first holds the second. Texts and times have neither
# lengths nor digits in the engines of SQL.
KEPT = [
    ("VARCHAR(3)", "STRING"),
    ("CHAR(3)", "VARCHAR(3)"),
    ("BINARY(3)", "BYTES"),
    ("TIMESTAMP(3)", "TIMESTAMP(6)"),
    ("BIGINT", "INT"),
    ("INT", "FLOAT"),
    ("BIGINT", "DOUBLE"),
    ("DOUBLE", "DECIMAL(38, 2)"),
    ("DECIMAL(9, 2)", "DECIMAL(12, 4)"),
    ("DECIMAL(9, 2)", "DECIMAL(5, 2)"),
    ("STRING", "VARCHAR(3)"),
    ("VARCHAR(9)", "VARCHAR(3)"),
    ("CHAR(9)", "VARCHAR(3)"),
    ("TIMESTAMP(6)", "TIMESTAMP(3)"),
    ("TIMESTAMP(6)", "DATE"),
    ("DATE", "TIMESTAMP(6)"),
    ("TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("INT", "STRING"),
    ("STRING", "INT"),
    ("ARRAY<INT>", "ARRAY<BIGINT>"),
    ("ROW<x INT>", "INT"),
]


@pytest.mark.parametrize(("known", "given", "wider"), WIDER)
def test_a_type_grows_if_that_is_asked_for(known, given, wider):
    assert changes({"a": known}, {"a": given}, widens=True) == [UpdateColumnType(("a",), wider)]
    assert changes({"a": known}, {"a": given}) == []


@pytest.mark.parametrize(("known", "given"), KEPT)
def test_a_type_that_would_lose_values_stays(known, given):
    assert changes({"a": known}, {"a": given}, widens=True) == []


@pytest.mark.parametrize(("known", "given", "wider"), WIDER)
def test_what_was_changed_needs_no_change_any_more(known, given, wider):
    old, rows = schema(id="INT", a=known), schema(a=f"{given} NOT NULL", b="DATE").fields
    new = apply_changes(old, wider_changes(old, rows, widens=True), has_snapshots=True, now_millis=0)

    assert new.column_names == ("id", "a", "b")
    assert [field.id for field in new.fields] == [0, 1, 2]
    assert wider_changes(new, rows, widens=True) == ()
    # Nor do rows of the narrower type take the change back.
    assert wider_changes(new, old.fields, widens=True) == ()


def test_columns_that_place_rows_keep_their_types():
    columns = {"id": "INT", "day": "INT", "b": "INT", "n": "INT"}
    table = new_schema(
        columns,
        primary_keys=["id", "day", "b"],
        partition_keys=["day"],
        options={"bucket": "2", "bucket-key": "b"},
        now_millis=0,
    )

    found = wider_changes(table, schema(**dict.fromkeys(columns, "BIGINT")).fields, widens=True)

    assert found == (UpdateColumnType(("n",), "BIGINT"),)


@pytest.mark.parametrize(
    ("known", "given", "names"),
    [
        ({"id": "INT"}, {"q": "INT", "Q": "INT"}, "q and Q"),
        ({"r": "ROW<a INT>"}, {"r": "ROW<q INT, Q INT>"}, "r.q and r.Q"),
    ],
)
def test_new_columns_whose_names_sql_does_not_tell_apart_are_refused(known, given, names):
    given = tuple(DataField(0, name, parse_type(text)) for name, text in given.items())

    with pytest.raises(InvalidRequest, match=f"The new columns {names} differ by case alone. Rename one"):
        wider_changes(schema(**known), given, widens=False)
