"""The changes by which a schema takes rows with more or wider columns."""

import pytest

from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.schema_change import AddColumn, UpdateColumnType
from lakehouse_core.planning.alter.wider import wider_changes
from lakehouse_core.table.schema import new_schema


def schema(**columns):
    return new_schema(columns, now_millis=0)


def changes(known, given, *, widens=False):
    return list(wider_changes(schema(**known).fields, schema(**given).fields, widens=widens))


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
    ("VARCHAR(3)", "STRING", "STRING"),
    ("CHAR(3)", "VARCHAR(3)", "VARCHAR(3)"),
    ("BINARY(3)", "BYTES", "BYTES"),
    ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6)"),
]
# Not every value of the first type is one of the second, or the first holds the second.
KEPT = [
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
    new = apply_changes(old, list(wider_changes(old.fields, rows, widens=True)), has_snapshots=True, now_millis=0)

    assert new.column_names == ("id", "a", "b")
    assert [field.id for field in new.fields] == [0, 1, 2]
    assert list(wider_changes(new.fields, rows, widens=True)) == []
