"""Avro container: header, blocks and checksums of Avro object files; `avro_file` decodes the records of a block.

Rule: every value is checked before use, and no memory is allocated for a size that a file only claims.
Source: docs/reliability/store.md#bounds-before-allocation; Avro 1.11, "Object Container Files".
"""

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_core.errors import CorruptTable, InvalidRequest
from lakehouse_core.format.avro_codecs import (
    MAX_BLOCK_BYTES,
    Undecodable,
    compress_deflate_checked,
    compress_zstandard,
    compressor,
    decompress_deflate_checked,
    decompressor,
)
from lakehouse_core.format.varints import encode_long

MAX_BLOCK_RECORDS = 10_000_000
MAX_HEADER_BYTES = 16 * 1024 * 1024
# Avro's own default in Java; blocks of this size keep a reader's memory small and still compress well.
BLOCK_BYTES = 64_000

# In the header of each file we write: CRC-32 of schema, codec and everything after the header, in hex. Other engines
# ignore it. Nothing else detects a file that is truncated at the end of a block. Stored in tables. Never rename.
CHECKSUM_KEY = "lakehouse.crc32"
# The same of schema, codec and marker alone, where the blocks are not known yet. Stored in data files. Never rename.
HEADER_CHECKSUM_KEY = "lakehouse.header.crc32"
# In the same headers where the codec is deflate, which has no checksum: each block ends with the CRC-32 of its content.
# Stored in data files. Never rename.
BLOCK_CHECKSUM_KEY = "lakehouse.block.checksum"
_BLOCK_CHECKSUM = b"crc32"

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_LONGEST_VARINT = 10
_WINDOW_BYTES = 1 << 20
_CHECKSUM = re.compile(rb"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class AvroBlock:
    """`count` records in `data`, decompressed."""

    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """The header of a file, and its size in bytes."""

    schema: Mapping[str, Any] | list[Any]
    codec: str
    metadata: Mapping[str, bytes]
    sync: bytes
    size_bytes: int


@dataclass(frozen=True, slots=True)
class AvroContainer:
    """A whole file: its name in errors, the schema it was written with, its metadata without schema and codec."""

    name: str
    schema: Mapping[str, Any]
    schema_text: bytes
    codec: str
    metadata: Mapping[str, bytes]
    blocks: tuple[AvroBlock, ...]

    @property
    def count(self) -> int:
        """Records in all blocks."""
        return sum(block.count for block in self.blocks)


def open_container(data: bytes, name: str) -> AvroContainer:
    """Return the blocks of `data`, decompressed and checked; `name` stands for the file in errors.

    Raises CorruptTable for the first fault, UnsupportedFeature for an unknown codec.
    """
    header = read_header(data, name)
    if not isinstance(header.schema, dict):
        raise corrupt(name, 4, "avro.schema in the header is not a record")
    position = header.size_bytes
    _check(header.metadata, data[position:], name)
    decompress = decompressor(header.codec, name)
    blocks = []
    while position < len(data):
        block, position = _block(data, position, header.sync, decompress, name)
        blocks.append(block)
    rest = {key: value for key, value in header.metadata.items() if key not in ("avro.schema", "avro.codec")}
    return AvroContainer(
        name=name,
        schema=header.schema,
        schema_text=header.metadata["avro.schema"],
        codec=header.codec,
        metadata=rest,
        blocks=tuple(blocks),
    )


def read_header(data: bytes, name: str) -> AvroHeader:
    """Return the header at the start of `data`. Raises CorruptTable if there is none, or if it is truncated.

    The schema is a record, or, as data files of Java before 1.1 have it, a union of null and a record.
    """
    if data[:4] != _MAGIC:
        raise corrupt(name, 0, f"it starts with {data[:4]!r}, expected the Avro magic {_MAGIC!r}")
    metadata, position = _metadata(data, 4, name)
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    schema = _schema(metadata.get("avro.schema"), name)
    sync = data[position : position + _SYNC_BYTES]
    if len(sync) != _SYNC_BYTES:
        raise corrupt(name, position, "the file ends within the header")
    return AvroHeader(schema, codec, metadata, sync, position + _SYNC_BYTES)


def stream_blocks(
    read_at: Callable[[int, int], bytes], size: int, header: AvroHeader, name: str
) -> Iterator[AvroBlock]:
    """Yield the blocks of a file one by one; `read_at(count, position)` returns bytes of it, fewer at its end.

    Raises as `open_container` does, but does not verify a checksum of the whole file, because it holds one block at a
    time.
    """
    is_checked = header.codec == "deflate" and header.metadata.get(BLOCK_CHECKSUM_KEY) == _BLOCK_CHECKSUM
    decompress = decompress_deflate_checked if is_checked else decompressor(header.codec, name)
    position, window, start = header.size_bytes, b"", header.size_bytes
    while position < size:
        at = position - start
        # The two sizes of a block take at most 20 bytes; the rest of the block is read once its size is known.
        if len(window) - at < min(2 * _LONGEST_VARINT, size - position):
            window, start, at = read_at(_WINDOW_BYTES, position), position, 0
        _, after = _long(window, at, name)
        stored_bytes, after = _long(window, after, name)
        needed = after - at + stored_bytes + _SYNC_BYTES
        if stored_bytes >= 0 and len(window) - at < needed <= size - position:
            window, start, at = read_at(max(_WINDOW_BYTES, needed), position), position, 0
        block, end = _block(window, at, header.sync, decompress, name)
        yield block
        position = start + end


def streamed_header(schema_text: str, codec: str, sync: bytes, metadata: Mapping[str, bytes]) -> bytes:
    """Return the header, with its own checksum, of a file whose blocks `streamed_block` makes one by one.

    `metadata` goes into it. Blocks of zstandard and snappy have checksums, after blocks of deflate we add one. Blocks
    of null can have none, so they are written as uncompressed deflate.
    Raises UnsupportedFeature for a codec that cannot be written.
    """
    compressor(codec)
    header = {"avro.schema": schema_text.encode(), "avro.codec": _stored_codec(codec).encode(), **metadata}
    if _stored_codec(codec) == "deflate":
        header[BLOCK_CHECKSUM_KEY] = _BLOCK_CHECKSUM
    header[HEADER_CHECKSUM_KEY] = _checksum(header, sync)
    return _MAGIC + encode_long(len(header)) + _entries(header) + b"\x00" + sync


def streamed_block(count: int, data: bytes, codec: str, sync: bytes, *, zstd_level: int) -> bytes:
    """Return a block of `count` encoded records. Raises InvalidRequest if it would be larger than readers accept."""
    if len(data) > MAX_BLOCK_BYTES:
        raise InvalidRequest(
            f"A row takes {len(data)} bytes in an Avro file, whose blocks hold {MAX_BLOCK_BYTES} at most: store it in "
            "parts, or set file.format to parquet."
        )
    match codec:
        case "zstandard":
            packed = compress_zstandard(data, zstd_level)
        case "deflate":
            packed = compress_deflate_checked(data)
        case "null":
            packed = compress_deflate_checked(data, level=0)
        case _:
            packed = compressor(codec)(data)
    return encode_long(count) + encode_long(len(packed)) + packed + sync


def _stored_codec(codec: str) -> str:
    return "deflate" if codec == "null" else codec


def check_streamed_header(header: AvroHeader, name: str) -> None:
    """Raise CorruptTable if a header does not fit its checksum, or has only a part of one."""
    stored = header.metadata.get(HEADER_CHECKSUM_KEY)
    rest = {key: value for key, value in header.metadata.items() if key != HEADER_CHECKSUM_KEY}
    if stored is None:
        nearly = [key for key, value in rest.items() if key.startswith("lakehouse.") or _CHECKSUM.fullmatch(value)]
        if nearly:
            raise corrupt(name, 4, f"the header holds {nearly[0]!r}, expected {HEADER_CHECKSUM_KEY!r}")
    elif stored != _checksum(rest, header.sync):
        raise corrupt(name, 4, "the header does not fit its checksum")


def build_container(
    schema_text: str, blocks: Iterable[tuple[int, bytes]], *, codec: str, metadata: Mapping[str, bytes]
) -> bytes:
    """Return the file of `blocks` (record count, encoded records). Equal input gives equal bytes.

    `codec` is Avro's name of one of "zstandard", "deflate", "null", "snappy".
    """
    compress = compressor(codec)
    packed = [(count, compress(data)) for count, data in blocks]
    # The marker separates blocks and must not occur within them. A digest of the blocks is as unlikely to occur as a
    # random marker, and is repeatable.
    digest = hashlib.blake2b(digest_size=_SYNC_BYTES)
    for _, data in packed:
        digest.update(data)
    sync = digest.digest()
    body = b"".join(encode_long(count) + encode_long(len(data)) + data + sync for count, data in packed)
    header = {"avro.schema": schema_text.encode(), "avro.codec": codec.encode(), **metadata}
    header[CHECKSUM_KEY] = _checksum(header, body)
    return _MAGIC + encode_long(len(header)) + _entries(header) + b"\x00" + sync + body


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
            # After a negative count comes the size of the block in bytes, which is needed only to skip the block.
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


def _schema(text: bytes | None, name: str) -> Mapping[str, Any] | list[Any]:
    if text is None:
        raise corrupt(name, 4, "the header holds no avro.schema")
    try:
        schema = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise corrupt(name, 4, "avro.schema in the header is not JSON") from error
    record = schema[1] if isinstance(schema, list) and len(schema) == 2 and schema[0] == "null" else schema
    if not isinstance(record, dict) or record.get("type") != "record":
        raise corrupt(name, 4, "avro.schema in the header is not a record")
    return schema if isinstance(schema, list) else record


def _check(metadata: Mapping[str, bytes], body: bytes, name: str) -> None:
    if CHECKSUM_KEY not in metadata:
        # Damage may change our key and other bytes; the remains of key or value show it.
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
    except Undecodable as error:
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


def _entries(header: Mapping[str, bytes]) -> bytes:
    return b"".join(_bytes(key.encode()) + _bytes(value) for key, value in header.items())


def _bytes(value: bytes) -> bytes:
    return encode_long(len(value)) + value
