"""Avro object files as bytes: header, blocks, codecs, checksums; what is in a block is `avro_file`'s matter.

Rule: nothing is believed before it is checked, and nothing is allocated for a size that a file merely claims.
Source: Avro 1.11 specification, "Object Container Files"; limits: reliability rules of this project.
"""

import bz2
import hashlib
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import zstandard

from lakehouse_core.errors import CorruptTable, UnsupportedFeature

MAX_BLOCK_BYTES = 64 * 1024 * 1024
MAX_BLOCK_RECORDS = 10_000_000
MAX_HEADER_BYTES = 16 * 1024 * 1024
MAX_ZSTD_WINDOW_BYTES = 128 * 1024 * 1024
# Avro's own default in Java; blocks of this size keep a reader's memory small and still compress well.
BLOCK_BYTES = 64_000

# In the header of each file we write: CRC-32 of schema, codec and everything after the header, in hex. Other engines
# ignore it. A file that ends early at the end of a block shows in nothing else. Stored in tables. Never rename.
CHECKSUM_KEY = "lakehouse.crc32"

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_LONGEST_VARINT = 10
_CHECKSUM = re.compile(rb"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class AvroBlock:
    """`count` records in `data`, decompressed."""

    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class AvroContainer:
    """A whole file: its name in errors, the schema it was written with, its metadata without schema and codec."""

    name: str
    schema: Mapping[str, Any]
    codec: str
    metadata: Mapping[str, bytes]
    blocks: tuple[AvroBlock, ...]

    @property
    def count(self) -> int:
        """Records in all blocks."""
        return sum(block.count for block in self.blocks)


def open_container(data: bytes, name: str) -> AvroContainer:
    """Return the blocks of `data`, decompressed and checked; `name` stands for the file in errors.

    Raises CorruptTable at the first thing that is not as it must be, UnsupportedFeature for an unknown codec.
    """
    if data[:4] != _MAGIC:
        raise corrupt(name, 0, f"it starts with {data[:4]!r}, expected the Avro magic {_MAGIC!r}")
    metadata, position = _metadata(data, 4, name)
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    schema = _schema(metadata.get("avro.schema"), name)
    sync = data[position : position + _SYNC_BYTES]
    if len(sync) != _SYNC_BYTES:
        raise corrupt(name, position, "the file ends within the header")
    position += _SYNC_BYTES
    _check(metadata, data[position:], name)
    decompress = _DECOMPRESS.get(codec)
    if decompress is None:
        raise UnsupportedFeature(f"{name}: Avro codec is {codec!r}, expected one of {', '.join(sorted(_DECOMPRESS))}.")
    blocks = []
    while position < len(data):
        block, position = _block(data, position, sync, decompress, name)
        blocks.append(block)
    rest = {key: value for key, value in metadata.items() if key not in ("avro.schema", "avro.codec")}
    return AvroContainer(name=name, schema=schema, codec=codec, metadata=rest, blocks=tuple(blocks))


def build_container(
    schema_text: str, blocks: Iterable[tuple[int, bytes]], *, codec: str, metadata: Mapping[str, bytes]
) -> bytes:
    """Return the file of `blocks` (record count, encoded records). Equal input gives equal bytes.

    `codec` is Avro's name of one of "zstandard", "deflate", "null", "snappy".
    """
    compress = _COMPRESS.get(codec)
    if compress is None:
        raise UnsupportedFeature(f"Avro codec {codec!r} cannot be written: set one of {', '.join(sorted(_COMPRESS))}.")
    packed = [(count, compress(data)) for count, data in blocks]
    # The marker separates blocks and must not occur within them: a digest of them is as good as chance and repeats.
    digest = hashlib.blake2b(digest_size=_SYNC_BYTES)
    for _, data in packed:
        digest.update(data)
    sync = digest.digest()
    body = b"".join(encode_long(count) + encode_long(len(data)) + data + sync for count, data in packed)
    header = {"avro.schema": schema_text.encode(), "avro.codec": codec.encode(), **metadata}
    header[CHECKSUM_KEY] = _checksum(header, body)
    entries = b"".join(_bytes(key.encode()) + _bytes(value) for key, value in header.items())
    return _MAGIC + encode_long(len(header)) + entries + b"\x00" + sync + body


def encode_long(number: int) -> bytes:
    """Return the zigzag variable-length form of a signed 64-bit integer."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def corrupt(name: str, position: int, found: str) -> CorruptTable:
    """Return the error for `found` at byte `position` of the file `name`."""
    return CorruptTable(
        f"{name}: byte {position}: {found}. Keep the file as evidence; restore it from a copy of the table, "
        "or read a snapshot that does not name it."
    )


def _metadata(data: bytes, position: int, name: str) -> tuple[dict[str, bytes], int]:
    found: dict[str, bytes] = {}
    while True:
        count, position = _long(data, position, name)
        if count == 0:
            return found, position
        if count < 0:
            # A negative count announces the size of the block in bytes, which only helps to skip it.
            count = -count
            _, position = _long(data, position, name)
        if count > len(data):
            raise corrupt(name, position, f"the header claims {count} entries")
        for _ in range(count):
            start = position
            key, position = _sized(data, position, name)
            value, position = _sized(data, position, name)
            try:
                text = key.decode("utf-8")
            except UnicodeDecodeError as error:
                raise corrupt(name, start, "a key of the header is not UTF-8") from error
            if text in found:
                raise corrupt(name, start, f"the header holds {text!r} twice")
            found[text] = value


def _schema(text: bytes | None, name: str) -> Mapping[str, Any]:
    if text is None:
        raise corrupt(name, 4, "the header holds no avro.schema")
    try:
        schema = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise corrupt(name, 4, "avro.schema in the header is not JSON") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise corrupt(name, 4, "avro.schema in the header is no record")
    return schema


def _check(metadata: Mapping[str, bytes], body: bytes, name: str) -> None:
    if CHECKSUM_KEY not in metadata:
        # Damage may hit our key and something else; what is left of key or value gives it away.
        nearly = [
            key
            for key, value in metadata.items()
            if key.startswith("lakehouse.crc") or key.endswith("use.crc32") or _CHECKSUM.fullmatch(value)
        ]
        if nearly:
            raise corrupt(name, 4, f"the header holds {nearly[0]!r}, which no engine writes: expected {CHECKSUM_KEY!r}")
        return
    expected = _checksum({key: value for key, value in metadata.items() if key != CHECKSUM_KEY}, body)
    if metadata[CHECKSUM_KEY] != expected:
        raise corrupt(
            name,
            4,
            f"the header's checksum is {metadata[CHECKSUM_KEY]!r}, the content has {expected!r}: changed or cut",
        )


def _checksum(header: Mapping[str, bytes], body: bytes) -> bytes:
    crc = 0
    for key in sorted(header):
        crc = zlib.crc32(_bytes(key.encode()) + _bytes(header[key]), crc)
    return b"%08x" % zlib.crc32(body, crc)


def _block(
    data: bytes, position: int, sync: bytes, decompress: Callable[[bytes], bytes], name: str
) -> tuple[AvroBlock, int]:
    start = position
    count, position = _long(data, position, name)
    size, position = _long(data, position, name)
    if not 0 <= count <= MAX_BLOCK_RECORDS:
        raise corrupt(name, start, f"a block claims {count} records, the limit is {MAX_BLOCK_RECORDS}")
    if not 0 <= size <= len(data) - position - _SYNC_BYTES:
        raise corrupt(name, start, f"a block claims {size} bytes, {len(data) - position} are left: the file is cut")
    end = position + size
    if data[end : end + _SYNC_BYTES] != sync:
        raise corrupt(name, end, "a block does not end with the file's marker")
    try:
        content = decompress(data[position:end])
    except (_Undecodable, zlib.error, OSError, lzma.LZMAError, zstandard.ZstdError, pa.ArrowException) as error:
        raise corrupt(name, start, f"a block does not decompress ({error})") from error
    return AvroBlock(count=count, data=content), end + _SYNC_BYTES


def _sized(data: bytes, position: int, name: str) -> tuple[bytes, int]:
    size, start = _long(data, position, name)
    if not 0 <= size <= min(MAX_HEADER_BYTES, len(data) - start):
        raise corrupt(name, position, f"a value of the header claims {size} bytes, {len(data) - start} are left")
    return data[start : start + size], start + size


def _long(data: bytes, position: int, name: str) -> tuple[int, int]:
    number, shift = 0, 0
    for byte in data[position : position + _LONGEST_VARINT]:
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= 2**64:
                break
            return (number >> 1) ^ -(number & 1), position
        shift += 7
    raise corrupt(name, position, "a number is longer than 64 bits or the file ends within it")


def _bytes(value: bytes) -> bytes:
    return encode_long(len(value)) + value


class _Undecodable(ValueError):
    """Compressed bytes that no compressor makes."""


def _limited(data: bytes) -> bytes:
    if len(data) > MAX_BLOCK_BYTES:
        raise _Undecodable(f"it holds more than {MAX_BLOCK_BYTES} bytes")
    return data


def _zstandard(data: bytes) -> bytes:
    # The one-shot call allocates what the frame claims; a stream stops at the limit. It also takes several frames in
    # a row, which nobody writes, so what follows the first frame is an error.
    frame = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW_BYTES).decompressobj()
    claimed = zstandard.get_frame_parameters(data).content_size if data else 0
    if claimed not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
        if claimed > MAX_BLOCK_BYTES:
            raise _Undecodable(f"it claims {claimed} bytes, the limit is {MAX_BLOCK_BYTES}")
        content = frame.decompress(data)
    else:
        with zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW_BYTES).stream_reader(data) as stream:
            _limited(stream.read(MAX_BLOCK_BYTES + 1))
        content = frame.decompress(data)
    if not frame.eof or frame.unused_data:
        raise _Undecodable("it is not exactly one zstd frame")
    return content


def _deflate(data: bytes) -> bytes:
    stream = zlib.decompressobj(-15)
    content = _limited(stream.decompress(data, MAX_BLOCK_BYTES + 1))
    # fastavro leaves three bytes of zlib's own checksum behind the stream.
    if not stream.eof or len(stream.unused_data) > 3:
        raise _Undecodable("it is not exactly one deflate stream")
    return content


def _bzip2(data: bytes) -> bytes:
    stream = bz2.BZ2Decompressor()
    content = _limited(stream.decompress(data, MAX_BLOCK_BYTES + 1))
    if not stream.eof or stream.unused_data:
        raise _Undecodable("it is not exactly one bzip2 stream")
    return content


def _xz(data: bytes) -> bytes:
    stream = lzma.LZMADecompressor(memlimit=MAX_ZSTD_WINDOW_BYTES)
    content = _limited(stream.decompress(data, MAX_BLOCK_BYTES + 1))
    if not stream.eof or stream.unused_data:
        raise _Undecodable("it is not exactly one xz stream")
    return content


def _snappy(data: bytes) -> bytes:
    if len(data) < 5:
        raise _Undecodable("it is too short")
    packed, crc = data[:-4], data[-4:]
    size, shift = 0, 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MAX_BLOCK_BYTES:
        raise _Undecodable(f"it claims {size} bytes, the limit is {MAX_BLOCK_BYTES}")
    content: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    if zlib.crc32(content).to_bytes(4, "big") != crc:
        raise _Undecodable("its checksum does not fit")
    return content


def _compress_zstandard(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=True)
    return compressor.compress(data)


def _compress_deflate(data: bytes) -> bytes:
    return zlib.compress(data, 6, -15)


def _compress_snappy(data: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return packed + zlib.crc32(data).to_bytes(4, "big")


_DECOMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": _limited,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
_COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": _limited,
    "deflate": _compress_deflate,
    "snappy": _compress_snappy,
    "zstandard": _compress_zstandard,
}
