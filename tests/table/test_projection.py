"""Old files are read by field id: renamed, re-added, moved and retyped columns each mean what they meant."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.cast import cast_array
from lakehouse_core.format.data_types import DataField, arrow_schema, parse_type
from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.schema_change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    UpdateColumnType,
)
from lakehouse_core.table.projection import file_projection, source_columns
from lakehouse_core.table.schema import TableSchema, new_schema

OLD = new_schema(
    {"id": "INT NOT NULL", "price": "DECIMAL(6, 2)", "note": "STRING", "r": "ROW<x INT, y STRING>"}, now_millis=0
)
NEW = apply_changes(
    OLD,
    [
        UpdateColumnType("id", "BIGINT"),
        RenameColumn("price", "amount"),
        UpdateColumnType("amount", "DECIMAL(6, 1)"),
        DropColumn("note"),
        AddColumn("note", "STRING"),
        AddColumn(("r", "z"), "DATE", first=True),
        RenameColumn(("r", "x"), "xx"),
        MoveColumn("r", first=True),
    ],
    has_snapshots=True,
    now_millis=1,
)


def batch(rows: list[dict[str, Any]], schema: TableSchema = OLD) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema.fields))


def test_columns_of_a_file_are_found_by_id() -> None:
    projections = file_projection(OLD, NEW.fields)

    assert [(p.target.name, p.source and p.source.name) for p in projections] == [
        ("r", "r"),
        ("id", "id"),
        ("amount", "price"),
        ("note", None),
    ]
    assert source_columns(projections) == ["r", "id", "price"]
    assert [p.target_type for p in projections][1:] == [NEW.field(name).type for name in ("id", "amount", "note")]


def test_values_of_an_old_file_are_values_of_the_present_columns() -> None:
    stored = batch(
        [
            {"id": 1, "price": Decimal("1.25"), "note": "old", "r": {"x": 5, "y": "a"}},
            {"id": 2, "price": None, "note": "old", "r": None},
        ]
    )
    read = {
        projection.target.name: cast_array(
            stored.column(projection.source.name), projection.source.type, projection.target_type
        ).to_pylist()
        for projection in file_projection(OLD, NEW.fields)
        if projection.source is not None
    }

    assert read == {
        "r": [{"z": None, "xx": 5, "y": "a"}, None],
        "id": [1, 2],
        "amount": [Decimal("1.3"), None],
    }


def test_columns_may_be_asked_for_in_any_order_and_number() -> None:
    wanted = [NEW.field("amount"), NEW.field("note"), NEW.field("id")]

    assert source_columns(file_projection(OLD, wanted)) == ["price", "id"]
    assert source_columns(file_projection(OLD, [NEW.field("note")])) == []


def test_a_file_that_nobody_can_cast_is_refused_by_column() -> None:
    retyped = DataField(OLD.field("note").id, "note", parse_type("ARRAY<INT>"))

    with pytest.raises(UnsupportedFeature, match="Column note: files of schema 0"):
        file_projection(OLD, [retyped])
