"""The footer of a Parquet file whose column chunks are those of other files, one behind the other.

Rule: pages say how they are encoded, so the footer says only where they are and how many values they hold.
Source: parquet.thrift, and the Thrift compact protocol.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from lakehouse_core.format.varints import encode_long, encode_varint

MAGIC: Final = b"PAR1"

# Names of Arrow, numbers of parquet.thrift.
PHYSICAL_TYPES: Final = {
    "BOOLEAN": 0,
    "INT32": 1,
    "INT64": 2,
    "FLOAT": 4,
    "DOUBLE": 5,
    "BYTE_ARRAY": 6,
    "FIXED_LEN_BYTE_ARRAY": 7,
}
CODECS: Final = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}  # Arrow calls two codecs LZ4.
_STOP: Final = b"\0"
_STRUCT: Final = 0x0C
_MOST_IN_HEADER: Final = 14
# A field's header: how far its number is from the one before, and its type.
_TYPE, _CODEC = b"\x15", b"\x15"  # i32 each
_ENCODINGS: Final = b"\x19\x05"  # An empty list of i32.
_PATH: Final = b"\x19\x18"  # A list of one text.
_VALUES, _DECODED_BYTES, _STORED_BYTES, _OFFSET = b"\x16", b"\x16", b"\x16", b"\x26"
_CHUNK_BEGINS: Final = b"\x26\x00\x1c"  # The offset that readers ignore, then the description.
_ROW_GROUPS, _COLUMNS, _BYTES, _ROWS = b"\x19", b"\x19", b"\x16", b"\x16"


class JoinedChunk(NamedTuple):
    """A leaf column of a row group. `offset`: where its pages begin, those of a dictionary first; `physical_type` and
    `codec`: keys of the tables above.
    """

    path: str
    physical_type: str
    codec: str
    offset: int
    stored_bytes: int
    decoded_bytes: int


class JoinedGroup(NamedTuple):
    """A row group, whose columns are flat."""

    row_count: int
    chunks: Sequence[JoinedChunk]


def joined_footer(head: bytes, groups: Sequence[JoinedGroup]) -> bytes:
    """Return the end of a file: its footer, the footer's length, the magic number.

    `head`: the first fields of a footer, up to the schema, whose leaf columns are those of each group.
    """
    rows = encode_long(sum(group.row_count for group in groups))
    footer = b"".join([head, _ROWS, rows, _ROW_GROUPS, _list(map(_group, groups)), _STOP])
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def _group(group: JoinedGroup) -> bytes:
    size, rows = encode_long(sum(chunk.decoded_bytes for chunk in group.chunks)), encode_long(group.row_count)
    columns = _list(_column(chunk, rows) for chunk in group.chunks)
    return b"".join([_COLUMNS, columns, _BYTES, size, _ROWS, rows, _STOP])


def _column(chunk: JoinedChunk, value_count: bytes) -> bytes:
    return b"".join(
        [
            _column_head(chunk.path, chunk.physical_type, chunk.codec),
            _VALUES,
            value_count,
            _DECODED_BYTES,
            encode_long(chunk.decoded_bytes),
            _STORED_BYTES,
            encode_long(chunk.stored_bytes),
            _OFFSET,
            encode_long(chunk.offset),
            _STOP,
            _STOP,
        ]
    )


@lru_cache(maxsize=1024)
def _column_head(path: str, physical_type: str, codec: str) -> bytes:
    name = path.encode()
    number = encode_long(PHYSICAL_TYPES[physical_type])
    return b"".join(
        [
            _CHUNK_BEGINS,
            _TYPE,
            number,
            _ENCODINGS,
            _PATH,
            encode_varint(len(name)),
            name,
            _CODEC,
            encode_long(CODECS[codec]),
        ]
    )


def _list(structs: Iterable[bytes]) -> bytes:
    items = list(structs)
    if len(items) <= _MOST_IN_HEADER:
        return bytes([len(items) << 4 | _STRUCT]) + b"".join(items)
    return bytes([0xF0 | _STRUCT]) + encode_varint(len(items)) + b"".join(items)
