"""Types have one canonical text, the texts that Java writes, and the Arrow types that Java reads back."""

import io
import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.format.data_types import (
    DataField,
    DataType,
    arrow_field,
    arrow_schema,
    arrow_type,
    assign_field_ids,
    field_from_json,
    field_to_json,
    nanosecond_columns,
    parse_type,
    type_from_arrow,
    type_to_json,
    type_to_sql,
    with_nullable,
)
from tests.format.strategies import data_types, fields

SPELLINGS = [
    ("int", "INT"),
    ("  Integer\n NOT   null ", "INT NOT NULL"),
    ("INT NULL", "INT"),
    ("dec(5)", "DECIMAL(5, 0)"),
    ("NUMERIC", "DECIMAL(10, 0)"),
    ("DECIMAL(38,38)", "DECIMAL(38, 38)"),
    ("DOUBLE PRECISION", "DOUBLE"),
    ("VARCHAR(2147483647)", "STRING"),
    ("VARCHAR", "VARCHAR(1)"),
    ("string", "STRING"),
    ("VARBINARY(2147483647) NOT NULL", "BYTES NOT NULL"),
    ("TIME", "TIME(0)"),
    ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
    ("TIMESTAMP", "TIMESTAMP(6)"),
    ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
    ("TIMESTAMP_LTZ(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
    ("TIMESTAMP WITH LOCAL TIME ZONE NOT NULL", "TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL"),
    ("array < map<STRING,int not null> >", "ARRAY<MAP<STRING, INT NOT NULL>>"),
    ("MULTISET<STRING> NOT NULL", "MULTISET<STRING> NOT NULL"),
    ("ROW<a INT, `b ``c` STRING NOT NULL 'it''s'>", "ROW<`a` INT, `b ``c` STRING NOT NULL 'it''s'>"),
    ("STRUCT<a: INT, b: ARRAY<INT> COMMENT 'x'>", "ROW<`a` INT, `b` ARRAY<INT> 'x'>"),
    ("VARIANT", "VARIANT"),
    ("BLOB", "BLOB"),
]


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS)
def test_every_spelling_of_a_type_is_written_canonically(text: str, canonical: str) -> None:
    assert type_to_sql(parse_type(text)) == canonical == str(parse_type(text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "name of a type"),
        ("DECMAL", "unknown type DECMAL"),
        ("INT NOT", "expected NULL"),
        ("INT INT", "unexpected 'INT'"),
        ("DECIMAL(39, 2)", "precision of DECIMAL is 39"),
        ("DECIMAL(3, 4)", "scale of DECIMAL is 4"),
        ("TIMESTAMP(10)", "0 to 9"),
        ("CHAR(0)", "1 to 2147483647"),
        ("VARCHAR(99999999999)", "must be numbers"),
        ("ARRAY<INT", "expected '>'"),
        ("ARRAY", "expected '<'"),
        ("ROW<a>", "name of a type"),
        ("TIMESTAMP WITH TIME ZONE", "expected LOCAL"),
        ("INT;", "unexpected ';'"),
    ],
)
def test_a_text_that_is_no_type_says_where_it_stops_making_sense(text: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a data type") as caught:
        parse_type(text)

    assert says in str(caught.value)


@pytest.mark.parametrize(
    "source", [7, None, {}, {"type": "LIST", "element": "INT"}, {"type": "ARRAY"}, {"type": "ROW"}]
)
def test_json_that_is_no_type_is_refused(source: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_type(source)


@pytest.mark.parametrize(
    "field", [{}, {"id": "1", "name": "a", "type": "INT"}, {"id": True, "name": "a", "type": "INT"}]
)
def test_a_field_without_number_name_or_type_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="needs an integer id"):
        field_from_json(field)


@pytest.mark.parametrize("source", ["VECTOR", "GEOMETRY(crs)", {"type": "VECTOR", "element": "FLOAT", "length": 3}])
def test_types_of_newer_versions_are_named(source: Any) -> None:
    with pytest.raises(UnsupportedFeature, match=r"VECTOR|GEOMETRY"):
        parse_type(source)


def test_a_type_nested_beyond_all_sense_is_refused_before_python_gives_up() -> None:
    deep: Any = "INT"
    for _ in range(10_000):
        deep = {"type": "ARRAY", "element": deep}

    with pytest.raises(UnsupportedFeature, match="nested deeper"):
        parse_type(deep)
    with pytest.raises(UnsupportedFeature, match="nested deeper"):
        parse_type("ARRAY<" * 10_000 + "INT" + ">" * 10_000)


@given(data_types())
def test_json_and_text_say_the_whole_type(data_type: DataType) -> None:
    stored = json.loads(json.dumps(type_to_json(data_type)))

    assert parse_type(stored) == data_type
    assert type_to_sql(parse_type(type_to_sql(data_type))) == type_to_sql(data_type)
    assert not parse_type(type_to_json(with_nullable(data_type, False))).nullable


@given(fields(data_types(3)))
def test_fields_survive_their_json(columns: tuple[DataField, ...]) -> None:
    assert tuple(field_from_json(json.loads(json.dumps(field_to_json(field)))) for field in columns) == columns


def test_json_of_a_field_has_the_order_and_the_words_of_java() -> None:
    text = "ROW<a INT NOT NULL, b MAP<STRING, ARRAY<INT>>> NOT NULL"
    (field,), next_id = assign_field_ids([DataField(-1, "r", parse_type(text), "note", "x")], 4)

    assert json.dumps(field_to_json(field)) == (
        '{"id": 4, "name": "r", "type": {"type": "ROW NOT NULL", "fields": ['
        '{"id": 5, "name": "a", "type": "INT NOT NULL"}, '
        '{"id": 6, "name": "b", "type": {"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": "INT"}}}'
        ']}, "description": "note", "defaultValue": "x"}'
    )
    assert next_id == 7


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("TINYINT", pa.int8()),
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP(3)", pa.timestamp("ms")),
        ("TIMESTAMP(4)", pa.timestamp("us")),
        ("TIMESTAMP(6)", pa.timestamp("us")),
        ("TIMESTAMP(7)", pa.timestamp("ns")),
        ("TIMESTAMP_LTZ(3)", pa.timestamp("ms", "UTC")),
        ("TIME(9)", pa.time32("ms")),
        ("DECIMAL(5, 2)", pa.decimal128(5, 2)),
        ("CHAR(3)", pa.string()),
        ("BINARY(3)", pa.binary()),
        ("MULTISET<STRING>", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))),
    ],
)
def test_types_have_the_arrow_types_whose_parquet_java_reads(text: str, arrow: pa.DataType) -> None:
    assert arrow_type(parse_type(text)).equals(arrow)


def test_nested_parts_carry_the_field_ids_of_the_format() -> None:
    declared = [DataField(-1, "c", parse_type("ARRAY<MAP<STRING, ARRAY<ROW<x INT>>>>"))]
    (field,), _ = assign_field_ids(declared, 3)
    sink = io.BytesIO()
    pq.write_table(pa.table([pa.nulls(1, arrow_type(field.type))], schema=pa.schema([arrow_field(field)])), sink)

    written = str(pq.ParquetFile(sink).schema)

    for id_and_name in (
        "field_id=3 c",
        f"field_id={536870911 + 1024 * 3 + 1} element",
        f"field_id={536870911 - 1024 * 3 - 2} key",
        f"field_id={536870911 + 1024 * 3 + 2} value",
        f"field_id={536870911 + 1024 * 3 + 3} element",
        "field_id=4 x",
    ):
        assert id_and_name in written


@given(fields(data_types(4)))
def test_parquet_gives_back_the_arrow_schema_with_ids_and_nullability(columns: tuple[DataField, ...]) -> None:
    schema = arrow_schema(columns)
    fine, _ = nanosecond_columns(columns)
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink, use_deprecated_int96_timestamps=bool(fine), store_schema=True)

    read = pq.read_schema(sink)

    assert read.names == schema.names
    assert [field.metadata[b"PARQUET:field_id"] for field in read] == [str(field.id).encode() for field in columns]
    assert [field.nullable for field in read] == [field.type.nullable for field in columns]


@pytest.mark.parametrize(
    ("arrow", "text"),
    [
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.binary(4), "BINARY(4)"),
        (pa.large_binary(), "BYTES"),
        (pa.decimal256(20, 2), "DECIMAL(20, 2)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("ns", "Europe/Berlin"), "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        (pa.time32("ms"), "TIME(3)"),
        (pa.dictionary(pa.int8(), pa.string()), "STRING"),
        (pa.large_list(pa.field("item", pa.int32(), nullable=False)), "ARRAY<INT NOT NULL>"),
        (pa.map_(pa.string(), pa.int64()), "MAP<STRING NOT NULL, BIGINT>"),
        (pa.struct([pa.field("a", pa.int32(), nullable=False)]), "ROW<`a` INT NOT NULL>"),
    ],
)
def test_arrow_types_become_the_narrowest_type_that_holds_them(arrow: pa.DataType, text: str) -> None:
    assert type_to_sql(type_from_arrow(arrow)) == text


@pytest.mark.parametrize(
    "arrow",
    [pa.uint8(), pa.uint64(), pa.time64("us"), pa.float16(), pa.null(), pa.duration("s"), pa.decimal256(50, 2)],
)
def test_arrow_types_without_a_counterpart_are_refused(arrow: pa.DataType) -> None:
    with pytest.raises(InvalidRequest, match="cast it first"):
        type_from_arrow(arrow)


@given(fields(data_types(4)))
def test_columns_are_told_apart_by_the_digits_of_their_timestamps(columns: tuple[DataField, ...]) -> None:
    fine, coarse = nanosecond_columns(columns)
    schema = arrow_schema(columns)

    assert fine == [name for name in schema.names if "timestamp[ns" in str(schema.field(name).type)]
    assert coarse == [name for name in schema.names if re.search(r"timestamp\[[mu]s", str(schema.field(name).type))]
