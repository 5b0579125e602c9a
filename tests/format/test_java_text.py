"""Values print as Java prints them."""

from decimal import Decimal

import pytest

from lakehouse_core.format.data_types import parse_type, to_internal
from lakehouse_core.format.java_text import array_text, duration_text, map_text, object_text, row_text


@pytest.mark.parametrize(
    ("kind", "value", "cast", "inside"),
    [
        ("INT", -7, "-7", "-7"),
        ("BOOLEAN", True, "true", "true"),
        ("STRING", "a, b", "a, b", "a, b"),
        ("DATE", "2024-02-29", "2024-02-29", "19782"),
        ("DECIMAL(6, 2)", "12.5", "12.50", "12.50"),
        ("DOUBLE", 1e7, "1.0E7", "1.0E7"),
        ("FLOAT", float("nan"), "NaN", "NaN"),
        ("TIMESTAMP(3)", "1969-12-31 23:59:59", "1969-12-31 23:59:59.000", "1969-12-31T23:59:59"),
        ("TIMESTAMP(6)", "2024-02-29 01:02:03.004", "2024-02-29 01:02:03.004000", "2024-02-29T01:02:03.004"),
        ("TIMESTAMP(6)", "1900-01-01 00:00:00", "1900-01-01 00:00:00.000000", "1900-01-01T00:00"),
    ],
)
def test_a_value_is_cast_in_partitions_and_printed_raw_in_keys_and_bounds(kind, value, cast, inside):
    data_type = parse_type(kind)
    internal = to_internal(value, data_type)

    assert row_text([internal], [data_type]) == f"{{{cast}}}"
    assert array_text([internal], [data_type]) == f"[{inside}]"


def test_null_is_a_word_and_bytes_are_hexadecimal():
    assert object_text(None, parse_type("INT")) == "null"
    assert row_text([None, 1], [parse_type("INT")] * 2) == "{null, 1}"
    assert object_text(b"\x00\xff", parse_type("BYTES")) == "00ff"


def test_maps_are_ordered_by_utf_16():
    assert map_text({"b": "1", "\U0001f600": "2", "\uff5e": "3", "B": "4"}) == "{B=4, b=1, \U0001f600=2, \uff5e=3}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ("0", "PT0S"),
        ("1", "PT1S"),
        ("90.5", "PT1M30.5S"),
        ("86400", "PT24H"),
        ("1000000000", "PT277777H46M40S"),
        ("0.000000001", "PT0.000000001S"),
    ],
)
def test_durations_are_hours_minutes_and_seconds(seconds, text):
    assert duration_text(Decimal(seconds)) == text
