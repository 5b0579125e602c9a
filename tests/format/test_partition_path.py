"""A partition lies in the folder where Java looks for it."""

from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import TypeRoot, parse_literal, parse_type, to_internal
from lakehouse_core.format.partition_path import escape, partition_path, partition_spec_text
from tests.format.strategies import atomic_types, values
from tests.vectors.values import comparable, section

DEFAULT = "__DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    "case", section("partition_paths"), ids=lambda case: f"{case['name']}-legacy-{case['partition.legacy-name']}"
)
def test_a_partition_has_the_folder_that_java_gives_it(case: dict[str, Any]) -> None:
    types = [parse_type(text) for text in case["types"]]
    row = [comparable(value, data_type) for value, data_type in zip(case["values"], types, strict=True)]

    path = partition_path(case["keys"], types, row, default_name=DEFAULT, legacy=case["partition.legacy-name"])

    assert path == case["path"]


@pytest.mark.parametrize(
    "case", section("partition_escape"), ids=lambda case: str(case.get("codepoint", case.get("key")))
)
def test_characters_are_escaped_as_java_escapes_them(case: dict[str, Any]) -> None:
    if "codepoint" in case:
        assert escape(f"a{chr(case['codepoint'])}b") == case["result"]
    else:
        assert f"{escape(case['key'])}={escape(case['value'])}/" == case["path"]


@given(st.text())
def test_what_was_escaped_is_found_again(text: str) -> None:
    assert unquote(escape(text)) == text


# Folders that Java 2.0.0 made for these values (on Java 17, which prints these numbers as newer ones do).
FOLDERS = [
    ("FLOAT", 1.5, "1.5", "1.5"),
    ("FLOAT", 1e7, "1.0E7", "1.0E7"),
    ("FLOAT", 9999999.0, "9999999.0", "9999999.0"),
    ("FLOAT", 0.001, "0.001", "0.001"),
    ("FLOAT", 9.999e-4, "9.999E-4", "9.999E-4"),
    ("FLOAT", -0.0, "-0.0", "-0.0"),
    ("FLOAT", 1.4e-45, "1.4E-45", "1.4E-45"),
    ("FLOAT", "NaN", "NaN", "NaN"),
    ("FLOAT", "-Infinity", "-Infinity", "-Infinity"),
    ("DOUBLE", 123456789012.5, "1.234567890125E11", "1.234567890125E11"),
    ("DOUBLE", 4.9e-324, "4.9E-324", "4.9E-324"),
    ("DOUBLE", 1 / 3, "0.3333333333333333", "0.3333333333333333"),
    ("DECIMAL(38, 10)", "-0.0000000001", "-0.0000000001", "-0.0000000001"),
    ("DECIMAL(38, 10)", "0", "0.0000000000", "0.0000000000"),
    ("DATE", "0001-01-01", "-719162", "0001-01-01"),
    ("TIME(3)", "00:00:00", "0", "00:00:00.0"),
    ("TIME(3)", "23:59:59.120", "86399120", "23:59:59.12"),
    ("TIME(0)", "12:00:00", "43200000", "12:00:00"),
    ("TIMESTAMP(3)", "1969-12-31 23:59:59.999", "1969-12-31T23:59:59.999", "1969-12-31 23:59:59.999"),
    ("TIMESTAMP(3)", "0001-01-01", "0001-01-01T00:00", "0001-01-01 00:00:00.000"),
    ("TIMESTAMP(9)", "2024-02-29 12:00:00.0001", "2024-02-29T12:00:00.000100", "2024-02-29 12:00:00.000100000"),
    ("TIMESTAMP(1)", "2024-02-29 12:00:00.1", "2024-02-29T12:00:00.100", "2024-02-29 12:00:00.1"),
    ("STRING", "\u2003", DEFAULT, DEFAULT),
    ("STRING", "\u00a0", "\u00a0", "\u00a0"),
    ("STRING", "..", "..", ".."),
]


@pytest.mark.parametrize(("text", "value", "legacy", "readable"), FOLDERS)
def test_values_have_the_texts_of_java(text: str, value: Any, legacy: str, readable: str) -> None:
    data_type = parse_type(text)
    paths = [
        partition_path(["p"], [data_type], [to_internal(value, data_type)], default_name=DEFAULT, legacy=is_legacy)
        for is_legacy in (True, False)
    ]

    assert [unquote(path) for path in paths] == [f"p={legacy}/", f"p={readable}/"]


def test_a_table_without_partitions_has_no_folder() -> None:
    assert partition_path([], [], [], default_name=DEFAULT, legacy=True) == ""


def test_a_binary_has_no_legacy_folder() -> None:
    with pytest.raises(InvalidRequest, match="no stable folder name"):
        partition_path(["p"], [parse_type("BYTES")], [b"x"], default_name=DEFAULT, legacy=True)


def test_people_read_dates_not_day_numbers() -> None:
    types = [parse_type("DATE"), parse_type("DECIMAL(5, 2)"), parse_type("INT")]

    text = partition_spec_text(["dt", "price", "hour"], types, [15706, Decimal("1.50"), None], default_name=DEFAULT)

    assert text == {"dt": "2013-01-01", "price": "1.50", "hour": DEFAULT}


@given(
    atomic_types()
    .filter(lambda data_type: data_type.root not in (TypeRoot.BINARY, TypeRoot.VARBINARY))
    .flatmap(lambda data_type: st.tuples(st.just(data_type), values(data_type).filter(lambda value: value is not None)))
)
def test_the_text_of_a_partition_value_can_be_typed_in_again(case: tuple[Any, Any]) -> None:
    data_type, value = case
    if data_type.root is TypeRoot.TIME:
        # The text has the digits of the precision, the value milliseconds in any case.
        value -= value % 10 ** max(0, 3 - data_type.precision)

    text = partition_spec_text(["p"], [data_type], [value], default_name=DEFAULT)["p"]

    assert repr(parse_literal(text, data_type)) == repr(value)
