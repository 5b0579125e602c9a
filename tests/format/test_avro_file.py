"""Avro files: what fastavro writes we read and the other way round; every damaged byte is noticed or harmless."""

import io
import json
import zlib
from typing import Any

import fastavro
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.avro_container import CHECKSUM_KEY, build_container, open_container
from lakehouse_core.format.avro_file import read_avro, value_decoder, write_avro
from lakehouse_core.format.varints import encode_long
from tests.damage import damaged, every_flipped_bit, survivors

SCHEMA = {
    "type": "record",
    "name": "record",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": ["null", "int"], "default": None},
        {"name": "name", "type": "string"},
        {"name": "data", "type": ["null", "bytes"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "flag", "type": "boolean"},
        {"name": "price", "type": "double"},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {
            "name": "inner",
            "type": ["null", {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "float"}]}],
        },
    ],
}
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(-(2**63), 2**63 - 1),
            "small": st.none() | st.integers(-(2**31), 2**31 - 1),
            "name": st.text(max_size=10),
            "data": st.none() | st.binary(max_size=10),
            "tags": st.lists(st.none() | st.text(max_size=5), max_size=3),
            "flag": st.booleans(),
            "price": st.floats(allow_nan=False),
            "counts": st.dictionaries(st.text(max_size=3), st.integers(-5, 5), max_size=2),
            "inner": st.none() | st.fixed_dictionaries({"x": st.floats(width=32, allow_nan=False)}),
        }
    ),
    max_size=6,
)
CODECS = ["null", "deflate", "snappy", "zstandard"]
SAMPLE: list[dict[str, Any]] = [
    {
        "id": 2**40 + number,
        "small": None,
        "name": f"file-{number}",
        "data": bytes(number),
        "tags": ["x", None],
        "flag": True,
        "price": 1.5,
        "counts": {"a": 1},
        "inner": None,
    }
    for number in range(5)
]


@given(RECORDS, st.sampled_from(CODECS))
def test_what_is_written_is_read_back(records: list[dict[str, Any]], codec: str) -> None:
    assert read_avro(write_avro(SCHEMA, records, codec=codec), "f") == records


@given(RECORDS, st.sampled_from(["null", "deflate"]))
def test_fastavro_reads_what_we_write(records: list[dict[str, Any]], codec: str) -> None:
    data = write_avro(SCHEMA, records, codec=codec)

    assert list(fastavro.reader(io.BytesIO(data))) == records


@given(RECORDS, st.sampled_from(["null", "deflate", "bzip2", "xz"]), st.integers(1, 200))
def test_we_read_what_fastavro_writes(records: list[dict[str, Any]], codec: str, block_bytes: int) -> None:
    file = io.BytesIO()
    fastavro.writer(file, SCHEMA, records, codec=codec, sync_interval=block_bytes)

    assert read_avro(file.getvalue(), "f") == records


def test_equal_records_give_equal_bytes_and_large_ones_several_blocks() -> None:
    records = [{**SAMPLE[0], "name": "x" * 5000} for _ in range(40)]
    data = write_avro(SCHEMA, records)

    assert data == write_avro(SCHEMA, records)
    assert len(open_container(data, "f").blocks) == 4
    assert read_avro(data, "f") == records


def test_metadata_of_the_caller_is_kept() -> None:
    data = write_avro(SCHEMA, [], metadata={"lakehouse.note": b"\x00x"})

    assert open_container(data, "f").metadata["lakehouse.note"] == b"\x00x"


def test_every_flipped_bit_is_noticed_or_changes_nothing() -> None:
    data = write_avro(SCHEMA, SAMPLE)

    assert survivors(lambda copy: read_avro(copy, "f"), every_flipped_bit(data), SAMPLE) == []


@pytest.mark.parametrize("codec", CODECS)
def test_damage_of_any_kind_is_noticed_or_changes_nothing(codec: str) -> None:
    data = write_avro(SCHEMA, SAMPLE, codec=codec)

    assert survivors(lambda copy: read_avro(copy, "f"), damaged(data, seed=7, count=500), SAMPLE) == []


@pytest.mark.parametrize("codec", CODECS)
def test_damage_to_a_file_without_our_checksum_ends_in_a_value_or_in_corrupt(codec: str) -> None:
    data = _without_checksum(write_avro(SCHEMA, SAMPLE, codec=codec))
    assert read_avro(data, "f") == SAMPLE

    # A wrong value cannot be told there; another exception would pass through and fail the test.
    survivors(lambda copy: read_avro(copy, "f"), damaged(data, seed=8, count=500), SAMPLE)


def test_random_bytes_are_corrupt() -> None:
    noise = [copy for seed in range(4) for copy in damaged(bytes(200), seed=seed, count=50)]

    for data in noise:
        with pytest.raises(CorruptTable, match=r"^f: byte 0: "):
            read_avro(data, "f")


def test_a_file_that_ends_after_a_block_is_noticed() -> None:
    records = [{**SAMPLE[0], "name": "x" * 5000} for _ in range(40)]
    data = write_avro(SCHEMA, records)
    sync = data[-16:]
    last_block = data[:-16].rindex(sync) + 16

    with pytest.raises(CorruptTable, match="changed or cut"):
        read_avro(data[:last_block], "f")


def test_an_unknown_codec_is_unsupported() -> None:
    data = write_avro(SCHEMA, [], codec="null").replace(b"\x08null", b"\x08nulx")

    with pytest.raises((UnsupportedFeature, CorruptTable)):
        read_avro(data, "f")
    with pytest.raises(UnsupportedFeature, match="codec is 'lzo'"):
        read_avro(_file(_header(b"lzo"), []), "f")


@pytest.mark.parametrize(
    ("count", "content", "reason"),
    [
        (1, b"\x02a", "ends within a number|are left in its block"),
        (1, b"\x06ab", "claims 3 bytes, 2 are left in its block"),
        (1, b"\x01" + b"a" * 5, "claims -1 bytes"),
        (1, encode_long(2**62) + b"a", "claims 4611686018427387904 bytes"),
        (1, b"\x02\xff\x00", "not UTF-8"),
        (1, b"\x02a" + encode_long(2**31), "not a 32-bit integer"),
        (1, b"\x02a" + b"\xff" * 9 + b"\x02", "more than 64 bits"),
        (1, b"\x02a" + b"\xff" * 11, "more than 64 bits"),
        (1, b"\x02a\x02\x00", "1 bytes follow the last of 1 records"),
        (2, b"\x02a\x02", "record 1"),
        (0, b"\x02a\x02", "3 bytes follow the last of 0 records"),
        (10_000_001, b"", "claims 10000001 records"),
        (-1, b"", "claims -1 records"),
    ],
)
def test_a_block_is_used_up_exactly(count: int, content: bytes, reason: str) -> None:
    with pytest.raises(CorruptTable, match=reason):
        read_avro(_file(_header(b"null"), [(count, content)]), "manifest-x")


def test_an_array_that_claims_more_than_memory_is_refused_at_once() -> None:
    decode = value_decoder({"type": "array", "items": "null"})

    with pytest.raises(ValueError, match="items are claimed"):
        decode(encode_long(2**60))


@pytest.mark.parametrize("codec", ["zstandard", "deflate"])
def test_a_bomb_is_refused_before_it_unfolds(codec: str) -> None:
    zeros = bytes(1 << 20)
    bomb = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join((bomb if codec == "zstandard" else packer).compress(zeros) for _ in range(70))
    packed += bomb.flush() if codec == "zstandard" else packer.flush()

    with pytest.raises(CorruptTable, match="67108864"):
        open_container(_file(_header(codec.encode()), [(1, packed)]), "f")


def test_a_size_that_is_only_claimed_is_not_allocated() -> None:
    # Magic, a descriptor of a single segment with a size of eight bytes, that size; then a block of one repeated byte.
    huge = b"\x28\xb5\x2f\xfd\xe0" + (2**50).to_bytes(8, "little") + b"\x0b\x00\x00x"

    with pytest.raises(CorruptTable, match="claims 1125899906842624 bytes"):
        open_container(_file(_header(b"zstandard"), [(1, huge)]), "f")


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"[]",
        b'"string"',
        b"{",
        b'{"type":"record","fields":[{"name":"a"}]}',
        b'{"type":"record","fields":[{"name":"a","type":"nothing"}]}',
        b'{"type":"record","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        b'{"type":"record","fields":7}',
        b'{"type":"record","fields":[{"name":"a","type":' + b'{"type":' * 60 + b'"int"' + b"}" * 60 + b"}]}",
    ],
)
def test_a_schema_that_is_none_is_corrupt(schema: bytes) -> None:
    with pytest.raises(CorruptTable, match=r"avro\.schema"):
        read_avro(_file({"avro.schema": schema, "avro.codec": b"null"}, []), "f")


def test_a_key_twice_in_the_header_is_corrupt() -> None:
    pair = encode_long(1) + b"k" + encode_long(0)

    with pytest.raises(CorruptTable, match="'k' twice"):
        read_avro(b"Obj\x01" + encode_long(2) + pair + pair + b"\x00" + bytes(16), "f")


def _header(codec: bytes) -> dict[str, bytes]:
    fields = [{"name": "s", "type": "string"}, {"name": "i", "type": "int"}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields}).encode()
    return {"avro.schema": schema, "avro.codec": codec}


def _file(header: dict[str, bytes], blocks: list[tuple[int, bytes]]) -> bytes:
    entries = b"".join(
        encode_long(len(key)) + key.encode() + encode_long(len(value)) + value for key, value in header.items()
    )
    sync = bytes(range(16))
    body = b"".join(encode_long(count) + encode_long(len(data)) + data + sync for count, data in blocks)
    return b"Obj\x01" + encode_long(len(header)) + entries + b"\x00" + sync + body


def _without_checksum(data: bytes) -> bytes:
    container = open_container(data, "f")
    blocks = [(block.count, block.data) for block in container.blocks]
    checked = build_container(json.dumps(container.schema), blocks, codec=container.codec, metadata={})
    start = checked.index(encode_long(len(CHECKSUM_KEY)) + CHECKSUM_KEY.encode())
    size = 1 + len(CHECKSUM_KEY) + 1 + 8
    return checked[:4] + encode_long(2) + checked[5:start] + checked[start + size :]
