"""Values of old files become values of the present type as Java makes them, and no cast is invented."""

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.cast import cast_array
from lakehouse_core.format.cast_rules import can_cast
from lakehouse_core.format.data_types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    arrow_type,
    column_of,
    from_internal,
    parse_type,
    timestamp_unit,
    to_internal,
    type_to_sql,
    values_of,
)
from tests.format.strategies import of_root, values
from tests.oracle.casts import cast_value
from tests.vectors.values import column

# Rows: from, columns: to. I: by itself, e: on request only. As Java 1.4.2 and 2.0.0 answer.
TYPES = [
    "CHAR(5)",
    "VARCHAR(10)",
    "BOOLEAN",
    "BINARY(3)",
    "VARBINARY(10)",
    "DECIMAL(10,2)",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP_LTZ(6)",
]
MATRIX = """
    I I e e e e e e e e e e e e e e
    e I e e e e e e e e e e e e e e
    e e I . . e e e e e e e . . . .
    e e . I I . . . . . . . . . . .
    e e . e I . . . . . . . . . . .
    e e . . . I e e e e I I . . . .
    e e e . . I I I I I I I . . . .
    e e e . . I e I I I I I . . . .
    e e e . . I e e I I I I . . e e
    e e e . . I e e e I I I . . e e
    e e . . . I e e e e I I . . . .
    e e . . . I e e e e e I . . . .
    . . . . . . . . . . . . I . e e
    . . . . . . . . . . . . . I e e
    . . . . . . . . e e . . I I I I
    . . . . . . . . e e . . e e I I
"""
CELLS = [
    (source, target, cell)
    for source, line in zip(TYPES, MATRIX.strip().splitlines(), strict=True)
    for target, cell in zip(TYPES, line.split(), strict=True)
]


@pytest.mark.parametrize(("source", "target", "cell"), CELLS)
def test_types_cast_to_each_other_as_in_java(source: str, target: str, cell: str) -> None:
    old, new = parse_type(source), parse_type(target)

    assert can_cast(old, new) == (cell == "I")
    assert can_cast(old, new, explicit=True) == (cell != ".")


@pytest.mark.parametrize(("source", "target"), [(source, target) for source, target, cell in CELLS if cell == "."])
def test_a_cast_that_there_is_not_is_refused_by_both_names(source: str, target: str) -> None:
    old, new = parse_type(source), parse_type(target)

    with pytest.raises(UnsupportedFeature) as caught:
        cast_array(pa.nulls(1, arrow_type(old)), old, new)

    assert type_to_sql(old) in str(caught.value)
    assert type_to_sql(new) in str(caught.value)


# What Java 2.0.0 read after ALTER TABLE, value by value.
JAVA = [
    ("TINYINT", "DECIMAL(3, 1)", [-128, 99, 5], [None, "99.0", "5.0"]),
    ("BIGINT", "DECIMAL(5, 0)", [99_999, 100_000, -99_999], ["99999", None, "-99999"]),
    ("BIGINT", "FLOAT", [2**63 - 1, 16_777_217], [9.223372036854776e18, 16_777_216.0]),
    ("BIGINT", "DOUBLE", [9_007_199_254_740_993], [9_007_199_254_740_992.0]),
    ("FLOAT", "DOUBLE", [0.1], [0.10000000149011612]),
    ("FLOAT", "DECIMAL(20, 15)", [0.1], ["0.100000001490116"]),
    ("DOUBLE", "DECIMAL(10, 3)", [2.0005, 1e300, 9_999_999.9995, 1e-300], ["2.001", None, None, "0.000"]),
    ("DECIMAL(10, 2)", "DECIMAL(8, 1)", ["-0.05", "99999999.99", "12.34"], ["-0.1", None, "12.3"]),
    ("DECIMAL(10, 2)", "DECIMAL(38, 30)", ["99999999.99", "99.99"], ["99999999.99" + "0" * 28, "99.99" + "0" * 28]),
    ("DECIMAL(38, 20)", "DECIMAL(38, 2)", ["0.00500000000000000000"], ["0.01"]),
    ("DECIMAL(38, 20)", "FLOAT", ["16777217.00000000000000000001"], [16_777_216.0]),
    ("CHAR(3)", "CHAR(5)", ["a", ""], ["a    ", "     "]),
    ("CHAR(5)", "VARCHAR(3)", ["€uröx", "😀😀😀😀"], ["€ur", "😀😀😀"]),
    ("BINARY(3)", "BINARY(5)", [b"\x01"], [b"\x01\0\0\0\0"]),
    ("VARBINARY(5)", "VARBINARY(3)", [b"12345", b""], [b"123", b""]),
    ("TIMESTAMP(6)", "DATE", ["1969-12-31 23:59:59.999999", "1582-10-10 01:02:03"], ["1970-01-01", "1582-10-11"]),
    ("TIMESTAMP(6)", "TIME(3)", ["1969-12-31 23:59:59.999999"], ["23:59:59.999"]),
    ("TIMESTAMP(6)", "TIMESTAMP(0)", ["1969-12-31 23:59:59.5", "2024-01-01 00:00:00.9"], ["1970-01-01", "2024-01-01"]),
    ("TIMESTAMP(6)", "TIMESTAMP(5)", ["1969-12-31 23:59:59.999999"], ["1969-12-31 23:59:59.99999"]),
    ("TIMESTAMP(3)", "TIMESTAMP(9)", ["1969-12-31 23:59:59.999"], ["1969-12-31 23:59:59.999"]),
    ("TIMESTAMP_LTZ(6)", "TIMESTAMP(3)", ["2024-01-01T00:00:00.1239Z"], ["2024-01-01 00:00:00.123"]),
]


@pytest.mark.parametrize(("source", "target", "old", "new"), JAVA)
def test_values_become_what_java_reads(source: str, target: str, old: list[Any], new: list[Any]) -> None:
    types = parse_type(source), parse_type(target)
    written = [to_internal(value, types[0]) for value in [*old, None]]

    read = cast_array(column(written, types[0]), *types)

    assert read.type == arrow_type(types[1])
    assert [to_internal(value, types[1]) for value in read] == [to_internal(value, types[1]) for value in [*new, None]]


IMPLICIT = [
    (parse_type(source), parse_type(target))
    for source, target, cell in CELLS
    if cell == "I" and (source, target) != ("TIME(3)", "TIME(3)")
]


# Those from and to text of numbers and times are cases of `java_casts.json`.
EXPLICIT = [
    (parse_type(source), parse_type(target))
    for source, target, cell in CELLS
    if cell == "e"
    and (("CHAR" not in source and "CHAR" not in target) or {"BINARY(3)", "VARBINARY(10)"} & {source, target})
]


TICK_NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}


def is_held(value: Any, source: AtomicType, target: AtomicType) -> bool:
    """Whether Arrow and decimals have room for the value at all."""
    if isinstance(value, float):
        return target.root is not TypeRoot.DECIMAL or math.isfinite(value)
    if value is not None and target.root in TIMESTAMP_ROOTS:
        millis, nanos = cast_value(value, source, target)
        return -(2**63) <= (millis * 1_000_000 + nanos) // TICK_NANOS[timestamp_unit(target.precision or 0)] < 2**63
    return True


@st.composite
def castable(draw: st.DrawFn) -> tuple[AtomicType, AtomicType, list[Any]]:
    old, new = draw(st.sampled_from([*IMPLICIT, *EXPLICIT]))
    assert isinstance(old, AtomicType)
    assert isinstance(new, AtomicType)
    source, target = draw(of_root(old.root)), draw(of_root(new.root))
    written = [value for value in draw(st.lists(values(source), max_size=5)) if is_held(value, source, target)]
    return source, target, [None] * len(written) if is_too_wide(target) else written


def is_too_wide(target: AtomicType) -> bool:
    return target.root in (TypeRoot.CHAR, TypeRoot.BINARY) and (target.length or 0) > 1_000_000


@given(castable())
def test_columns_are_cast_as_their_values_are(case: tuple[AtomicType, AtomicType, list[Any]]) -> None:
    source, target, written = case

    read = cast_array(column(written, source), source, target)

    assert values_of(read, target) == [cast_value(value, source, target) for value in written]


# What Java 2.0.0 made of values near the ends of 64 bits; a timestamp as its milliseconds and nanoseconds.
FAR = """
    BIGINT            TIMESTAMP(0)   9223372036854775         9223372036854775000/0
    BIGINT            TIMESTAMP(0)   9223372036854776         -9223372036854775616/0
    BIGINT            TIMESTAMP(0)   -9223372036854776        9223372036854775616/0
    BIGINT            TIMESTAMP(2)   9223372036854776         -9223372036854775616/0
    BIGINT            TIMESTAMP(3)   -1152921504606846976     -9223372036854775808/0
    BIGINT            TIMESTAMP(6)   9223372036854            9223372036854000/0
    BIGINT            TIMESTAMP(6)   9223372036855            refused
    BIGINT            TIMESTAMP(6)   -9223372036855           refused
    BIGINT            TIMESTAMP(9)   -9223372036              -9223372036000/0
    BIGINT            TIMESTAMP(9)   9223372037               refused
    STRING            TIMESTAMP(0)   9223372036854776         -9223372036854775616/0
    STRING            TIMESTAMP(0)   -9223372036854776        9223372036854775616/0
    STRING            DATE           2024-99999999999-1       refused
    STRING            DATE           2024-2147483647-1        refused
    STRING            DATE           2024-1-99999999999999999999  refused
    TIMESTAMP(3)      BIGINT         -9223372036854775808/0   -9223372036854775
    TIMESTAMP(3)      INT            -9223372036854775808/0   1511828489
    TIMESTAMP(3)      INT            9223372036854775807/0    -1511828489
    TIMESTAMP(3)      DATE           -9223372036854775808/0   622191233
    TIMESTAMP(3)      DATE           185542587187199999/0     2147483647
    TIMESTAMP(3)      DATE           185542587187200000/0     -2147483648
    TIMESTAMP(3)      TIME(3)        -9223372036854775808/0   60424192
    TIMESTAMP(3)      TIME(3)        9223372036854775807/0    25975807
    TIMESTAMP(3)      TIMESTAMP(0)   -9223372036854775808/0   -9223372036854775000/0
    TIMESTAMP(3)      TIMESTAMP(2)   9223372036854775807/0    9223372036854775800/0
    TIMESTAMP(3)      TIMESTAMP(6)   9223372036854776/0       refused
    TIMESTAMP(6)      TIMESTAMP(5)   -9223372036854776/193000  refused
    TIMESTAMP(6)      TIMESTAMP(2)   -9223372036854776/193000  -9223372036854770/0
    TIMESTAMP(6)      TIMESTAMP(5)   -9223372036854775/224000  -9223372036854775/220000
    TIMESTAMP_LTZ(3)  DATE           185542587187199999/0     2147483647
    DATE              TIMESTAMP(0)   2147483647               185542587100800000/0
    DATE              TIMESTAMP(0)   -2147483648              -185542587187200000/0
    DATE              TIMESTAMP(6)   2147483647               refused
"""
FAR_CASES = [line.split() for line in FAR.strip().splitlines()]


def internal(text: str, data_type: DataType) -> Any:
    if "/" in text:
        millis, nanos = map(int, text.split("/"))
        return millis, nanos
    return text if data_type == parse_type("STRING") else int(text)


@pytest.mark.parametrize(("source", "target", "old", "new"), FAR_CASES, ids=[" ".join(case[:3]) for case in FAR_CASES])
def test_values_near_the_ends_of_64_bits_become_javas_or_are_refused(
    source: str, target: str, old: str, new: str
) -> None:
    types = parse_type(source), parse_type(target)
    written = column_of([internal(old, types[0])], types[0])

    if new == "refused":
        with pytest.raises(UnsupportedFeature):
            cast_array(written, *types)
    else:
        assert values_of(cast_array(written, *types), types[1]) == [internal(new, types[1])]


def test_parts_beyond_pythons_dates_have_a_text() -> None:
    old = parse_type("ARRAY<TIMESTAMP(9)>")
    written = column_of([((1, 1), None), None, ((-9_000_000_000_000, 0),)], old)

    text = cast_array(written, old, parse_type("STRING"))

    assert text.to_pylist() == ["[1970-01-01 00:00:00.001000001, null]", None, "[1684-10-19 08:00:00.000000000]"]


ROW = parse_type("ROW<a INT, b ARRAY<SMALLINT>, c STRING>")
assert isinstance(ROW, RowType)
OLD_ROW = RowType(tuple(DataField(id, f.name, f.type) for id, f in enumerate(ROW.fields)))
NEW_ROW = RowType(
    (
        DataField(7, "added", parse_type("DATE")),
        DataField(1, "renamed", parse_type("ARRAY<DECIMAL(3, 1)>")),
        DataField(0, "a", parse_type("BIGINT")),
    )
)
RENAMED_ROW = RowType(tuple(DataField(field.id, f"{field.name}2", field.type) for field in OLD_ROW.fields))
NESTED = [
    (OLD_ROW, NEW_ROW),
    (OLD_ROW, RENAMED_ROW),
    (ArrayType(OLD_ROW), ArrayType(RENAMED_ROW)),
    (MapType(parse_type("INT"), OLD_ROW), MapType(parse_type("INT"), RENAMED_ROW)),
    (parse_type("ARRAY<INT>"), parse_type("ARRAY<BIGINT>")),
    (parse_type("MAP<STRING, FLOAT>"), parse_type("MAP<STRING, DOUBLE>")),
    (parse_type("MULTISET<STRING>"), parse_type("MULTISET<STRING>")),
    (parse_type("ARRAY<MAP<INT, ARRAY<TINYINT>>>"), parse_type("ARRAY<MAP<INT, ARRAY<INT>>>")),
]


@given(st.data(), st.sampled_from(NESTED))
def test_parts_of_constructed_types_are_cast_where_they_lie(
    data: st.DataObject, types: tuple[DataType, DataType]
) -> None:
    source, target = types
    written = data.draw(st.lists(values(source), max_size=6))
    whole = pa.array([from_internal(value, source) for value in written], arrow_type(source))
    start = data.draw(st.integers(0, len(written)))

    read = cast_array(whole.slice(start), source, target)

    read.validate(full=True)
    assert read.type == arrow_type(target)
    expected = [cast_value(value, source, target) for value in written[start:]]
    assert [to_internal(value, target) for value in read] == expected


def test_rows_meet_by_id_whatever_their_fields_are_called() -> None:
    same_names = RowType(tuple(DataField(field.id + 10, field.name, field.type) for field in OLD_ROW.fields))

    read = cast_array(pa.array([{"a": 1, "b": [2], "c": "x"}], arrow_type(OLD_ROW)), OLD_ROW, same_names)

    assert read.to_pylist() == [{"a": None, "b": None, "c": None}]


def test_keys_of_maps_never_change() -> None:
    assert not can_cast(parse_type("MAP<INT, INT>"), parse_type("MAP<BIGINT, INT>"), explicit=True)
    assert not can_cast(parse_type("MULTISET<INT>"), parse_type("MULTISET<BIGINT>"), explicit=True)


def test_a_time_beyond_nanoseconds_is_refused_not_wrapped() -> None:
    old, new = parse_type("TIMESTAMP(3)"), parse_type("TIMESTAMP(9)")

    with pytest.raises(UnsupportedFeature, match="1677 to 2262"):
        cast_array(column([to_internal("9999-12-31", old)], old), old, new)


@pytest.mark.parametrize("name", ["CHAR", "BINARY"])
def test_values_are_not_filled_beyond_what_a_batch_holds(name: str) -> None:
    old, new = parse_type(f"{name}(1)"), parse_type(f"{name}(2147483647)")

    with pytest.raises(UnsupportedFeature, match="exceed what one batch holds"):
        cast_array(column([to_internal("a", old), to_internal("b", old)], old), old, new)
    assert cast_array(pa.nulls(3, arrow_type(old)), old, new).null_count == 3


def test_what_no_decimal_can_be_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="has no value of"):
        cast_array(pa.array([float("inf")]), parse_type("DOUBLE"), parse_type("DECIMAL(5, 2)"))


def test_arrays_as_parquet_readers_give_them_are_taken() -> None:
    text, number = parse_type("STRING"), parse_type("DECIMAL(9, 2)")

    assert cast_array(pa.array(["a"], pa.large_string()), text, text).type == pa.string()
    assert cast_array(pa.array(["a", "a"]).dictionary_encode(), text, text).to_pylist() == ["a", "a"]
    assert cast_array(pa.array([Decimal("1.50")], pa.decimal256(9, 2)), number, number).type == pa.decimal128(9, 2)
