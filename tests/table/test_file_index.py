"""An index never hides a row that matches, whatever the condition, and hides what it can."""

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.data_types import AtomicType, DataField, parse_type
from lakehouse_core.format.file_index import serialize_container
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_index import embedded_index, index_file_name, matching_rows
from lakehouse_core.table.growing_file_index import GrowingFileIndex
from lakehouse_core.table.predicate import (
    Compare,
    Comparison,
    Not,
    Or,
    Predicate,
    bind,
    col,
    columns_of,
    possible_rows,
)
from lakehouse_core.table.schema import TableSchema, new_schema
from tests.oracle.conditions import truth
from tests.table.condition_strategies import PREDICATES, ROW, TYPES
from tests.vectors.values import column, section

INDEXES = {
    "bloom-filter": ["i", "f", "s", "t"],
    "bitmap": ["i", "f", "s", "b", "t"],
    "range-bitmap": ["i", "f", "s", "d", "b"],
}
Row = dict[str, Any]


def schema_of(indexes: dict[str, list[str]], types: dict[str, str] = TYPES) -> TableSchema:
    options = {f"file-index.{kind}.columns": ",".join(names) for kind, names in indexes.items() if names}
    options |= {f"file-index.bloom-filter.{name}.items": "20" for name in indexes.get("bloom-filter", [])}
    return new_schema(types, options=options, now_millis=0)


def file_of(schema: TableSchema, rows: Sequence[Row]) -> DataFile:
    """An entry with the index of the rows in it."""
    index = GrowingFileIndex(schema, schema.table_options.indexed_columns)
    arrays = {}
    for field in schema.fields:
        assert isinstance(field.type, AtomicType)
        arrays[field.name] = column([row[field.name] for row in rows], field.type)
    index.add(pa.table(arrays))
    return entry(len(rows), serialize_container(index.bodies()))


def entry(row_count: int, index: bytes) -> DataFile:
    return DataFile(
        file_name="data-1.parquet",
        file_size=1,
        row_count=row_count,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        embedded_index=index,
    )


def found(predicate: Predicate, file: DataFile, written: TableSchema, read: TableSchema | None = None) -> list[int]:
    assert file.embedded_index is not None
    index = embedded_index(file.embedded_index, file)
    rows = matching_rows(predicate, index, file, written, (read or written).fields)
    return list(range(file.row_count)) if rows is None else list(rows)


ROWS = st.lists(ROW, max_size=8)
EXACT = schema_of({"bitmap": ["i", "f", "s", "b"], "range-bitmap": ["d", "i"]})
BLOOMS, BITMAPS, RANGES = (schema_of({kind: names}) for kind, names in INDEXES.items())
SCHEMAS = [BLOOMS, BITMAPS, RANGES, EXACT, schema_of(INDEXES)]


def nothing_but(**values: Any) -> Row:
    return {**dict.fromkeys(TYPES), **values}


@given(predicate=PREDICATES, rows=ROWS, schema=st.sampled_from(SCHEMAS))
@example(Not(Compare("f", Comparison.LESS, 2.0)), [nothing_but(f=math.nan)], RANGES)
@example(Compare("f", Comparison.EQUAL, 0.0), [nothing_but(f=-0.0)], BLOOMS)
@example(Not(Compare("t", Comparison.LESS, (0, 1))), [nothing_but(t=(0, 1))], BITMAPS)
def test_no_row_that_matches_is_hidden(predicate: Predicate, rows: list[Row], schema: TableSchema) -> None:
    expected = {index for index, row in enumerate(rows) if truth(predicate, row) is True}

    assert expected <= set(found(predicate, file_of(schema, rows), schema))


@pytest.mark.parametrize(("file_name", "expected"), [("data-1.parquet", []), ("data-1.orc", [0])])
@pytest.mark.parametrize("kind", ["bloom-filter", "bitmap", "range-bitmap"])
def test_char_whose_blanks_are_not_read_is_not_asked_for(kind: str, file_name: str, expected: list[int]) -> None:
    schema = schema_of({kind: ["c"]}, {"c": "CHAR(3)"})
    file = replace(file_of(schema, [{"c": "ab "}]), file_name=file_name)

    assert found(Compare("c", Comparison.EQUAL, "ab"), file, schema) == expected


@given(predicate=PREDICATES.filter(lambda predicate: "t" not in columns_of(predicate)), rows=ROWS)
def test_exact_indexes_of_all_its_columns_leave_a_condition_the_rows_that_match_and_no_others(
    predicate: Predicate, rows: list[Row]
) -> None:
    expected = [index for index, row in enumerate(rows) if truth(predicate, row) is True]

    assert found(predicate, file_of(EXACT, rows), EXACT) == expected


def test_a_bloom_filter_denies_whole_files_and_nothing_else() -> None:
    schema = schema_of({"bloom-filter": ["i", "s"]})
    file = file_of(schema, [nothing_but(i=1, s="a"), nothing_but(i=2, s="b")])
    ask = {
        "absent": col("i") == 77,
        "all absent": col("i").isin([77, 88]),
        "absent and more": (col("i") == 77) & (col("d") > 0),
        "present": col("i") == 1,
        "one of them present": col("i").isin([1, 77]),
        "absent or more": (col("i") == 77) | (col("d") > 0),
        "range": col("i") > 77,
        "not absent": ~(col("i") == 77),
        "not other than absent": ~(col("i") != 77),
        "null": col("i").is_null(),
    }

    left = {name: len(found(bind(predicate, schema.fields), file, schema)) for name, predicate in ask.items()}

    assert left == {
        "absent": 0,
        "all absent": 0,
        "absent and more": 0,
        "present": 2,
        "one of them present": 2,
        "absent or more": 2,
        "range": 2,
        "not absent": 2,
        "not other than absent": 0,
        "null": 2,
    }


def evolved(schema: TableSchema, **changed: str) -> TableSchema:
    """The schema with other types under the same ids; a column of another name has an id of its own."""
    fields = [replace(field, type=parse_type(changed.pop(field.name, TYPES[field.name]))) for field in schema.fields]
    fields += [DataField(100 + at, name, parse_type(kind)) for at, (name, kind) in enumerate(changed.items())]
    return replace(schema, id=1, fields=tuple(fields))


def test_after_a_change_of_type_only_keys_that_stayed_the_same_are_believed() -> None:
    indexes = {"bloom-filter": ["i"], "bitmap": ["i", "s"], "range-bitmap": ["f", "d"]}
    written = schema_of(indexes)
    rows = [nothing_but(i=number, s=str(number), f=number / 2, d=Decimal(number)) for number in range(4)]
    file = file_of(written, rows)
    wider = evolved(written, i="BIGINT")
    other = evolved(written, i="STRING", f="FLOAT", d="DECIMAL(6, 3)")

    assert found(bind(col("i") == 2, wider.fields), file, written, wider) == [2]
    assert found(bind(col("i") > 2**40, wider.fields), file, written, wider) == []
    assert found(bind(col("i") == 2**40, wider.fields), file, written, wider) == []
    assert found(bind(col("i") == "7", other.fields), file, written, other) == [0, 1, 2, 3]
    assert found(bind(col("f") == 7, other.fields), file, written, other) == [0, 1, 2, 3]
    assert found(bind(col("d") == 7, other.fields), file, written, other) == [0, 1, 2, 3]


def test_a_column_that_the_file_lacks_is_null_in_all_rows() -> None:
    written = schema_of({"bitmap": ["i"]})
    file = file_of(written, [nothing_but(i=1), nothing_but(i=2)])
    read = evolved(written, added="INT")

    assert found(bind(col("added") == 1, read.fields), file, written, read) == []
    assert found(bind(~(col("added") == 1), read.fields), file, written, read) == []
    assert found(bind(col("added").is_null(), read.fields), file, written, read) == [0, 1]


def test_a_renamed_column_is_found_under_the_name_it_has_in_the_file() -> None:
    written = schema_of({"bitmap": ["i"]})
    file = file_of(written, [nothing_but(i=1), nothing_but(i=2)])
    fields = tuple(replace(field, name={"i": "s", "s": "i"}.get(field.name, field.name)) for field in written.fields)
    read = replace(written, id=1, fields=fields)

    assert found(bind(col("s") == 2, read.fields), file, written, read) == [1]
    assert found(bind(col("i") == "2", read.fields), file, written, read) == [0, 1]


def test_an_index_without_a_body_says_that_there_are_no_values() -> None:
    schema = schema_of({"bitmap": ["i"]})
    file = entry(3, serialize_container({"i": {"bitmap": None}}))

    assert found(bind(col("i") == 2, schema.fields), file, schema) == []
    assert found(bind(col("i").is_null(), schema.fields), file, schema) == [0, 1, 2]


def test_an_unknown_kind_of_index_hides_nothing() -> None:
    schema = schema_of({})
    file = entry(3, serialize_container({"i": {"hilbert": b"x"}}))

    assert found(bind(col("i") == 2, schema.fields), file, schema) == [0, 1, 2]


def test_an_index_of_another_file_is_corrupt() -> None:
    schema = schema_of({"bitmap": ["i"]})
    file = replace(file_of(schema, [nothing_but(i=1)]), row_count=2)

    with pytest.raises(CorruptTable, match=r"data-1\.parquet, its embedded index: bitmap of column 'i': it has 1 rows"):
        found(bind(col("i") == 2, schema.fields), file, schema)


def test_only_what_ends_as_an_index_file_is_one() -> None:
    file = replace(entry(1, b""), extra_files=("data-1.parquet.row", "data-1.parquet.index"))

    assert index_file_name(file) == "data-1.parquet.index"
    assert index_file_name(replace(file, extra_files=("data-1.parquet.row",))) is None


def test_a_bsi_index_by_java_answers_comparisons() -> None:
    (case,) = (case for case in section("file_index") if case["name"] == "bsi_int")
    schema = schema_of({})
    values = case["values"]
    file = entry(len(values), serialize_container({"i": {"bsi": bytes.fromhex(case["hex"])}}))
    for comparison in Comparison:
        for literal in range(-5, 8):
            predicate = Compare("i", comparison, literal)
            expected = [row for row, value in enumerate(values) if truth(predicate, {"i": value})]

            assert found(predicate, file, schema) == expected


def test_rows_of_which_nothing_is_known_stay_possible() -> None:
    leaf = Compare("i", Comparison.EQUAL, 1)

    assert possible_rows(Not(Or((leaf, leaf))), lambda leaf, wanted: None) is None
