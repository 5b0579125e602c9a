"""Indexes of data files have the bytes of Java, both ways, and find the rows that a look at each value finds."""

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.data_types import AtomicType, DataType, parse_type
from lakehouse_core.format.file_index import (
    BitmapIndex,
    BloomFilter,
    BsiIndex,
    DistinctValues,
    GrowingBloomFilter,
    GrowingDistinctValues,
    KeyForm,
    RangeBitmapIndex,
    RowIndex,
    bitmap_index_bytes,
    body_of,
    default_chunk_bytes,
    filter_size,
    hash_column,
    hash_literal,
    key_form,
    literal_key,
    open_row_index,
    parse_directory,
    range_bitmap_bytes,
    serialize_container,
    successor,
    takes,
)
from lakehouse_core.options import parse_size
from tests.vectors.values import column, comparable, section

CASES = {case["name"]: case for case in section("file_index")}
WRITTEN = [name for name in CASES if not name.startswith(("bsi", "bitmap_v1"))]
ROW_CASES = [name for name in CASES if not name.startswith("bloom")]


def data_type(text: str) -> AtomicType:
    parsed = parse_type(text)
    assert isinstance(parsed, AtomicType)
    return parsed


def form_of(kind: DataType) -> KeyForm:
    form = key_form(kind)
    assert form is not None
    return form


def values_of(case: dict[str, Any]) -> list[Any]:
    return [comparable(value, data_type(case["type"])) for value in case["values"]]


def distinct(values: list[Any], kind: AtomicType, *, batch_rows: int = 1000) -> DistinctValues:
    growing = GrowingDistinctValues(form_of(kind))
    for start in range(0, len(values), batch_rows):
        growing.add(column(values[start : start + batch_rows], kind))
    return growing.distinct()


def bloom(values: list[Any], kind: AtomicType, items: int, fpp: float) -> bytes:
    growing = GrowingBloomFilter(items, fpp)
    growing.add(hash_column(column(values, kind), kind))
    return growing.to_bytes()


def written(case: dict[str, Any]) -> bytes:
    kind, values, options = data_type(case["type"]), values_of(case), case["options"]
    match case["index_type"]:
        case "bloom-filter":
            return bloom(values, kind, int(options["items"]), float(options["fpp"]))
        case "bitmap":
            return bitmap_index_bytes(distinct(values, kind), form_of(kind), block_bytes=16 << 10)
        case _:
            chunk = options.get("chunk-size")
            chunk_bytes = default_chunk_bytes(form_of(kind)) if chunk is None else parse_size("chunk-size", chunk)
            return range_bitmap_bytes(distinct(values, kind), form_of(kind), chunk_bytes=chunk_bytes)


def opened(case: dict[str, Any]) -> RowIndex:
    index = open_row_index(case["index_type"], bytes.fromhex(case["hex"]), form_of(data_type(case["type"])), "case")
    assert index is not None
    return index


@pytest.mark.parametrize("case", section("bloom_hash64"), ids=lambda case: f"{case['type']}-{case['hash_hex']}")
def test_values_hash_as_in_java(case: dict[str, Any]) -> None:
    kind = data_type(case["type"])
    value = comparable(case["value"], kind)

    assert hash_literal(value, kind) == case["hash"]
    assert hash_column(column([None, value], kind), kind).tolist() == [case["hash"]]


@pytest.mark.parametrize("name", WRITTEN)
def test_an_index_has_the_bytes_that_java_writes(name: str) -> None:
    assert written(CASES[name]).hex() == CASES[name]["hex"]


@pytest.mark.parametrize("name", ROW_CASES)
def test_every_value_of_an_index_by_java_is_found_in_its_rows(name: str) -> None:
    case = CASES[name]
    values, form, index = values_of(case), form_of(data_type(case["type"])), opened(case)

    assert index.row_count == len(values)
    assert list(index.non_null()) == [row for row, value in enumerate(values) if value is not None]
    for value in values:
        if value is not None:
            key = literal_key(value, form)
            rows = [row for row, other in enumerate(values) if other == value]
            assert list(index.rows_in([(key, successor(key))])) == rows


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("bloom")])
def test_a_bloom_filter_by_java_knows_its_values(name: str) -> None:
    case = CASES[name]
    kind = data_type(case["type"])
    filtered = BloomFilter(bytes.fromhex(case["hex"]), name)

    assert all(filtered.may_contain(hash_literal(value, kind)) for value in values_of(case) if value is not None)


def test_an_empty_bloom_filter_contains_nothing() -> None:
    filtered = BloomFilter(bytes.fromhex(CASES["bloom_empty"]["hex"]), "case")

    assert not any(filtered.may_contain(hash_literal(value, data_type("INT"))) for value in range(100))


def test_a_container_has_the_bytes_that_java_writes() -> None:
    (case,) = section("file_index_container")
    bodies = {
        "id": {"bloom-filter": bytes.fromhex(case["id_bloom_hex"]), "bitmap": bytes.fromhex(case["id_bitmap_hex"])},
        "na你me": {"bloom-filter": None},
    }
    data = bytes.fromhex(case["hex"])
    directory = parse_directory(data, "case", "f")

    assert serialize_container(bodies) == data
    assert {
        name: {kind: place and body_of(data, place, "case") for kind, place in indexes.items()}
        for name, indexes in directory.items()
    } == bodies


@given(st.lists(st.text(max_size=4), unique=True, max_size=4))
def test_any_column_name_comes_back(names: list[str]) -> None:
    data = serialize_container({name: {"bitmap": name.encode()} for name in names})
    directory = parse_directory(data, "case", "f")

    assert list(directory) == names
    for name in names:
        place = directory[name]["bitmap"]
        assert place is not None
        assert body_of(data, place, "case") == name.encode()


SAMPLES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "INT": st.integers(-5, 5) | st.sampled_from([-(2**31), 2**31 - 1]),
    "BIGINT": st.integers(-5, 5) | st.sampled_from([1 - 2**63, 2**63 - 1]),
    "FLOAT": st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.25, math.inf, math.nan]),
    "DOUBLE": st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.25, math.inf, math.nan]),
    "STRING": st.sampled_from(["", "a", "ab", "abc", "b", "é", "\U0001f600", "\uffff"]),
    "DATE": st.integers(-3, 3),
    "TIME(3)": st.integers(0, 5),
    "DECIMAL(18, 2)": st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2)),
    "TIMESTAMP(3)": st.tuples(st.integers(-3, 3), st.just(0)),
    "TIMESTAMP(6)": st.tuples(st.integers(-3, 3), st.sampled_from([0, 1000, 999_000])),
}


def ordered(value: Any) -> Any:
    """A value as Java orders it: -0.0 before 0.0, NaN last; texts by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value) > 0)
    return value.encode() if isinstance(value, str) else value


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, list[Any], Any, Any]:
    """Draw a type, values of it with nulls among them, and two values to search between."""
    name = draw(st.sampled_from(sorted(SAMPLES)))
    return (
        name,
        draw(st.lists(st.none() | SAMPLES[name], max_size=30)),
        draw(st.none() | SAMPLES[name]),
        draw(st.none() | SAMPLES[name]),
    )


@given(columns(), st.integers(1, 8), st.sampled_from([0, 12, 40, 16 << 10]))
def test_rows_between_two_values_are_those_that_a_look_at_each_finds(
    case: tuple[str, list[Any], Any, Any], batch_rows: int, piece_bytes: int
) -> None:
    name, values, low, high = case
    kind = data_type(name)
    form = form_of(kind)
    gathered = distinct(values, kind, batch_rows=batch_rows)
    bodies: dict[str, bytes] = {
        "bitmap": bitmap_index_bytes(gathered, form, block_bytes=piece_bytes),
        "range-bitmap": range_bitmap_bytes(gathered, form, chunk_bytes=piece_bytes),
    }
    key_range = (None if low is None else literal_key(low, form), None if high is None else literal_key(high, form))
    expected = [
        row
        for row, value in enumerate(values)
        if value is not None
        and (low is None or ordered(value) >= ordered(low) or same_nan(value, low))
        and (high is None or ordered(value) < ordered(high))
    ]

    for index_kind, body in bodies.items():
        index = open_row_index(index_kind, body, form, "case")
        assert index is not None
        assert index.row_count == len(values)
        assert list(index.non_null()) == [row for row, value in enumerate(values) if value is not None]
        assert list(index.rows_in([key_range])) == expected, index_kind


def same_nan(left: Any, right: Any) -> bool:
    return isinstance(left, float) and math.isnan(left) and math.isnan(right)


@given(st.none() | st.integers(-9, 230), st.none() | st.integers(-9, 230))
def test_a_bsi_index_by_java_finds_ranges(low: int | None, high: int | None) -> None:
    for name in ("bsi_int", "bsi_positive"):
        values = CASES[name]["values"]
        expected = [
            row
            for row, value in enumerate(values)
            if value is not None and (low is None or value >= low) and (high is None or value < high)
        ]

        assert list(opened(CASES[name]).rows_in([(low, high)])) == expected


@given(
    st.sampled_from(sorted(set(SAMPLES) - {"BOOLEAN", "DECIMAL(18, 2)"})).flatmap(
        lambda name: st.tuples(st.just(name), st.lists(st.none() | SAMPLES[name], max_size=30))
    )
)
def test_a_bloom_filter_never_denies_a_value_that_it_was_given(case: tuple[str, list[Any]]) -> None:
    name, values = case
    kind = data_type(name)
    filtered = BloomFilter(bloom(values, kind, 10, 0.01), "case")

    assert all(filtered.may_contain(hash_literal(value, kind)) for value in values if value is not None)


def test_a_bloom_filter_denies_about_as_many_values_as_its_rate_says() -> None:
    kind = data_type("BIGINT")
    filtered = BloomFilter(bloom(list(range(2000)), kind, 2000, 0.05), "case")

    found = sum(filtered.may_contain(hash_literal(value, kind)) for value in range(10_000, 12_000))
    assert found < 2 * 0.05 * 2000


def test_a_large_bloom_filter_is_written_bit_by_bit_with_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = data_type("STRING")
    values = [f"value {number}" for number in range(1000)]
    spread = bloom(values, kind, 1000, 0.01)
    monkeypatch.setattr("lakehouse_core.format.file_index.bloom_filter._MOST_SPREAD_BITS", 0)

    assert bloom(values, kind, 1000, 0.01) == spread


SIZES = [(10, 0.1, 6, 3), (100, 0.01, 120, 7), (8, 0.05, 7, 5), (1_000_000, 0.1, 599_067, 3)]


@pytest.mark.parametrize(("items", "fpp", "size_bytes", "function_count"), SIZES)
def test_the_size_of_a_bloom_filter_follows_from_items_and_rate(
    items: int, fpp: float, size_bytes: int, function_count: int
) -> None:
    assert filter_size(items, fpp) == (size_bytes, function_count)


# What Java 2.0.0 took when asked to create a table with each.
TAKEN = {
    "bloom-filter": "TINYINT SMALLINT INT BIGINT FLOAT DOUBLE CHAR(3) VARCHAR(10) STRING BINARY(3) BYTES DATE TIME(3) "
    "TIMESTAMP(3) TIMESTAMP(6) TIMESTAMP(9) TIMESTAMP_LTZ(3)",
    "bitmap": "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE CHAR(3) VARCHAR(10) STRING DATE TIME(3) TIMESTAMP(3) "
    "TIMESTAMP(6) TIMESTAMP(9) TIMESTAMP_LTZ(3)",
    "bsi": "TINYINT SMALLINT INT BIGINT DECIMAL(10,2) DATE TIME(3) TIMESTAMP(3) TIMESTAMP(6) TIMESTAMP(9) "
    "TIMESTAMP_LTZ(3)",
    "range-bitmap": "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(10,2) CHAR(3) VARCHAR(10) STRING DATE "
    "TIME(3) TIMESTAMP(3) TIMESTAMP(6) TIMESTAMP_LTZ(3)",
}
TYPES = {name for names in TAKEN.values() for name in names.split()} | {"ARRAY<INT>", "DECIMAL(25,2)", "MAP<INT, INT>"}


@pytest.mark.parametrize("kind", sorted(TAKEN))
def test_an_index_takes_the_types_that_java_takes(kind: str) -> None:
    assert {name for name in TYPES if takes(kind, parse_type(name))} == set(TAKEN[kind].split())


def test_an_unknown_kind_takes_nothing_and_opens_nothing() -> None:
    assert not takes("hilbert", parse_type("INT"))
    assert open_row_index("hilbert", b"", form_of(parse_type("INT")), "case") is None


OPENERS = {"bitmap": BitmapIndex, "bsi": BsiIndex, "range-bitmap": RangeBitmapIndex}


@given(st.sampled_from(ROW_CASES), st.data())
def test_damaged_bytes_are_called_corrupt_or_read_as_something(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    body = bytearray.fromhex(case["hex"])
    if data.draw(st.booleans()):
        body = body[: data.draw(st.integers(0, len(body) - 1))]
    else:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    try:
        index = OPENERS[case["index_type"]](bytes(body), form_of(data_type(case["type"])), "x.index: column a")
        rows = index.rows_in([(None, None)]) | index.non_null()
        outcome = "x.index: column a" if not rows or rows.max() < index.row_count else "rows beyond the file"
    except (CorruptTable, UnsupportedFeature) as error:
        outcome = str(error)

    assert outcome.startswith("x.index: column a")


@given(st.data())
def test_a_damaged_container_is_called_corrupt_or_read_as_something(data: st.DataObject) -> None:
    body = bytearray.fromhex(section("file_index_container")[0]["hex"])
    if data.draw(st.booleans()):
        body = body[: data.draw(st.integers(0, len(body) - 1))]
    else:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    outcome = "x.index: "
    try:
        for indexes in parse_directory(bytes(body), "x.index", "x").values():
            for place in indexes.values():
                if place is not None and len(body_of(bytes(body), place, "x.index")) != place.length:
                    outcome = "a short body"
    except (CorruptTable, UnsupportedFeature) as error:
        outcome = str(error)

    assert outcome.startswith("x.index: ")


DAMAGED = [
    (BitmapIndex, b"\x02", "1 bytes are not a bitmap index"),
    (BitmapIndex, bytes.fromhex("03000000010000000000"), "version 3"),
    (RangeBitmapIndex, b"\0\0", "cannot be decoded"),
    (BsiIndex, bytes.fromhex("0200000001"), "version 2"),
]


@pytest.mark.parametrize(("index", "body", "message"), DAMAGED)
def test_what_is_no_index_is_named(index: Any, body: bytes, message: str) -> None:
    with pytest.raises((CorruptTable, UnsupportedFeature), match=message):
        index(body, form_of(parse_type("INT")), "x.index")


def test_a_bloom_filter_without_bits_is_corrupt() -> None:
    with pytest.raises(CorruptTable, match=r"x\.index: 4 bytes are not a bloom filter"):
        BloomFilter(b"\0\0\0\1", "x.index")
    with pytest.raises(CorruptTable, match="of 0 hash functions"):
        BloomFilter(bytes(8), "x.index")


def test_nanoseconds_are_cut_from_keys() -> None:
    kind = data_type("TIMESTAMP(9)")
    nanos = pa.array([1_000_001_999, -1], pa.timestamp("ns"))
    growing = GrowingDistinctValues(form_of(kind))
    growing.add(nanos)

    assert growing.distinct().keys == [-1, 1_000_001]
    assert literal_key((1000, 1999), form_of(kind)) == 1_000_001
