"""JSON files are understood completely or refused."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.strict_json import MAX_JSON_BYTES, json_text, json_with_checksum, strict_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('abé\\"\n', max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text("xyz", min_size=1), _VALUES, max_size=4))
def test_what_is_written_is_read_back(document):
    assert strict_json(json_with_checksum(document), "f") == document


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "empty"),
        (b"{", "not one complete JSON object"),
        (b'{"a":1}x', "not one complete JSON object"),
        (b'{"a":1}{"a":1}', "not one complete JSON object"),
        (b'\xef\xbb\xbf{"a":1}', "not one complete JSON object"),
        (b'{"a":"\xff"}', "byte 6 is not UTF-8"),
        (b'{"a":1,"a":1}', "'a' occurs more than once"),
        (b'{"a":{"b":1,"b":2}}', "'b' occurs more than once"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":-Infinity}', "-Infinity is not JSON"),
        (b'{"a":9223372036854775808}', "beyond 64 bits"),
        (b'{"a":' + b"9" * 5000 + b"}", "beyond 64 bits"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b"[1]", "holds a JSON list"),
        (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "nested"),
        (b'{"a":' + b"[" * 900_000 + b"]" * 900_000 + b"}", "nested"),
    ],
)
def test_anything_else_is_refused_with_file_and_reason(text, reason):
    with pytest.raises(CorruptTable) as caught:
        strict_json(text, "snapshot/snapshot-7")

    assert str(caught.value).startswith("snapshot/snapshot-7: ")
    assert reason in str(caught.value)


def test_a_file_beyond_the_limit_is_refused_unread():
    with pytest.raises(CorruptTable, match="the limit is 16777216"):
        strict_json(b" " * (MAX_JSON_BYTES + 1), "f")


def test_numbers_stay_exact():
    document = strict_json(b'{"i":9223372036854775807,"d":86400.000000000,"e":0.1}', "f")

    assert document == {"i": 2**63 - 1, "d": Decimal("86400.000000000"), "e": Decimal("0.1")}
    assert '"d" : 86400.000000000' in json_text(document)


def test_the_layout_is_javas():
    document = {"a": 1, "b": [], "c": {}, "d": [1, 2], "e": [{"x": None}, {"y": {"z": "é"}}]}

    assert json_text(document) == (
        '{\n  "a" : 1,\n  "b" : [ ],\n  "c" : { },\n  "d" : [ 1, 2 ],\n'
        '  "e" : [ {\n    "x" : null\n  }, {\n    "y" : {\n      "z" : "é"\n    }\n  } ]\n}'
    )


def test_a_changed_value_breaks_the_checksum():
    checked = json_with_checksum({"count": 100, "name": "a"})

    with pytest.raises(CorruptTable, match="checksum"):
        strict_json(checked.replace(b"100", b"101"), "f")


def test_the_checksum_survives_another_layout_and_order():
    checked = strict_json(json_with_checksum({"a": 1, "b": {"c": [1, 2]}}), "f")
    reordered = b'{"lakehouseCrc32":"%s","b":{"c":[1,2]},"a":1}' % _checksum_of(json_with_checksum(checked))

    assert strict_json(reordered, "f") == checked


def test_a_file_of_another_engine_needs_no_checksum():
    assert strict_json(b'{"a":1}', "f") == {"a": 1}


def _checksum_of(data: bytes) -> bytes:
    return data.rsplit(b'"', 2)[1]
