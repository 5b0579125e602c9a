"""Avro codecs: compress and decompress the blocks of Avro files.

Rule: nothing is allocated for a size that a block merely claims.
Source: docs/reliability/store.md#bounds-before-allocation; Avro 1.11, "Object Container Files".
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
import zstandard

from lakehouse_core.errors import UnsupportedFeature

MAX_BLOCK_BYTES = 64 * 1024 * 1024
MAX_ZSTD_WINDOW_BYTES = 128 * 1024 * 1024
_CRC_BYTES = 4


class Undecodable(ValueError):
    """The compressed bytes are invalid; the text gives the reason."""


def decompressor(codec: str, name: str) -> Callable[[bytes], bytes]:
    """Return the function that decompresses a block of the file `name`; it raises Undecodable. Raises
    UnsupportedFeature.
    """
    if codec not in _DECOMPRESS:
        raise UnsupportedFeature(f"{name}: Avro codec is {codec!r}, expected one of {', '.join(sorted(_DECOMPRESS))}.")
    return partial(_decompressed, _DECOMPRESS[codec])


def compressor(codec: str) -> Callable[[bytes], bytes]:
    """Return the function that compresses a block. Raises UnsupportedFeature."""
    if codec not in _COMPRESS:
        raise UnsupportedFeature(f"Avro codec {codec!r} cannot be written: set one of {', '.join(sorted(_COMPRESS))}.")
    return _COMPRESS[codec]


def _decompressed(decompress: Callable[[bytes], bytes], data: bytes) -> bytes:
    try:
        return decompress(data)
    except (zlib.error, OSError, lzma.LZMAError, zstandard.ZstdError, pa.ArrowException) as error:
        raise Undecodable(str(error)) from error


def _limited(data: bytes) -> bytes:
    if len(data) > MAX_BLOCK_BYTES:
        raise Undecodable(f"it holds more than {MAX_BLOCK_BYTES} bytes")
    return data


def _zstandard(data: bytes) -> bytes:
    # The one-shot call allocates the size that the frame claims; a stream stops at the limit. A stream also accepts
    # several frames, which no engine writes, so bytes after the first frame are an error.
    frame = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW_BYTES).decompressobj()
    claimed = zstandard.get_frame_parameters(data).content_size if data else 0
    if claimed not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
        if claimed > MAX_BLOCK_BYTES:
            raise Undecodable(f"it claims {claimed} bytes, the limit is {MAX_BLOCK_BYTES}")
        content = frame.decompress(data)
    else:
        with zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW_BYTES).stream_reader(data) as stream:
            _limited(stream.read(MAX_BLOCK_BYTES + 1))
        content = frame.decompress(data)
    if not frame.eof or frame.unused_data:
        raise Undecodable("it is not exactly one zstd frame")
    return content


def _deflate(data: bytes) -> bytes:
    stream = zlib.decompressobj(-15)
    content = _limited(stream.decompress(data, MAX_BLOCK_BYTES + 1))
    # fastavro leaves three bytes of zlib's own checksum behind the stream.
    if not stream.eof or len(stream.unused_data) > 3:
        raise Undecodable("it is not exactly one deflate stream")
    return content


def compress_deflate_checked(data: bytes, level: int = 6) -> bytes:
    """Return a deflate stream with the CRC-32 of its content behind it, which other readers pass over.

    Other readers stop at the end of the stream, because fastavro leaves three bytes there. Level 0 does not compress.
    """
    return zlib.compress(data, level, -15) + zlib.crc32(data).to_bytes(_CRC_BYTES, "big")


def decompress_deflate_checked(data: bytes) -> bytes:
    """Return the content of a stream from `compress_deflate_checked`. Raises Undecodable."""
    stream = zlib.decompressobj(-15)
    try:
        content = _limited(stream.decompress(data, MAX_BLOCK_BYTES + 1))
    except zlib.error as error:
        raise Undecodable(str(error)) from error
    if not stream.eof or stream.unused_data != zlib.crc32(content).to_bytes(_CRC_BYTES, "big"):
        raise Undecodable("its checksum does not fit")
    return content


def _bzip2(data: bytes) -> bytes:
    stream = bz2.BZ2Decompressor()
    content = _limited(stream.decompress(data, MAX_BLOCK_BYTES + 1))
    if not stream.eof or stream.unused_data:
        raise Undecodable("it is not exactly one bzip2 stream")
    return content


def _xz(data: bytes) -> bytes:
    stream = lzma.LZMADecompressor(memlimit=MAX_ZSTD_WINDOW_BYTES)
    content = _limited(stream.decompress(data, MAX_BLOCK_BYTES + 1))
    if not stream.eof or stream.unused_data:
        raise Undecodable("it is not exactly one xz stream")
    return content


def _snappy(data: bytes) -> bytes:
    if len(data) < 5:
        raise Undecodable("it is too short")
    packed, crc = data[:-4], data[-4:]
    size, shift = 0, 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MAX_BLOCK_BYTES:
        raise Undecodable(f"it claims {size} bytes, the limit is {MAX_BLOCK_BYTES}")
    content: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    if zlib.crc32(content).to_bytes(4, "big") != crc:
        raise Undecodable("its checksum does not fit")
    return content


def compress_zstandard(data: bytes, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True).compress(data)


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
    "zstandard": compress_zstandard,
}
