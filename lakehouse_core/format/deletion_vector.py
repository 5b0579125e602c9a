"""Deletion vectors: encode and decode the deleted positions of a data file as bytes of an index file.

Positions are sorted numpy int64, from 0, counting every row of the file. Rule: a vector whose length, magic number,
checksum or count is wrong raises CorruptTable, because rows would reappear or be lost.
Source: docs/format/deletion-vectors.md#file-layout.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lakehouse_core.errors import CorruptTable, InvalidRequest

Positions: TypeAlias = npt.NDArray[np.int64]

# Stored in every vector and index file. Never change.
_FILE_VERSION: Final = b"\x01"
_MAGIC_32: Final = (1581511376).to_bytes(4, "big")
_MAGIC_64: Final = (1681511377).to_bytes(4, "little")

# Length and checksum enclose the data of a vector. The 64-bit form counts them in the length that the index manifest
# records, the 32-bit form does not.
_FRAME_BYTES: Final = 8
_MOST_32: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class VectorSpan:
    """The offset of a vector in its index file, and its length as the index manifest records it."""

    offset: int
    length: int

    @property
    def most_bytes(self) -> int:
        """The number of bytes from the offset that certainly hold the whole vector, in either form."""
        return self.length + _FRAME_BYTES


def encode_index_file(vectors: Iterable[bytes]) -> tuple[bytes, list[VectorSpan]]:
    """Return an index file with vectors from `encode_vector`, and the span of each in it."""
    parts, spans = [_FILE_VERSION], []
    offset = len(_FILE_VERSION)
    for vector in vectors:
        spans.append(VectorSpan(offset, _recorded_length(vector)))
        parts.append(vector)
        offset += len(vector)
    return b"".join(parts), spans


def check_index_file(start: bytes, name: str) -> None:
    """Raise CorruptTable unless `start`, the beginning of an index file, has the known version."""
    if start[:1] != _FILE_VERSION:
        raise _corrupt(name, f"it begins with {start[:1].hex() or 'nothing'}, expected the version {_FILE_VERSION[0]}")


def encode_vector(positions: npt.ArrayLike, *, bits64: bool) -> bytes:
    """Return the bytes of a vector: length, data, checksum; equal to Java's for the same positions.

    Raises InvalidRequest for a position that the form cannot hold.
    """
    rows = np.unique(np.asarray(positions, np.int64))
    highest = int(rows[-1]) if len(rows) else -1
    if (len(rows) and rows[0] < 0) or (not bits64 and highest > _MOST_32):
        raise InvalidRequest(
            f"Row {int(rows[0]) if rows[0] < 0 else highest} cannot be marked as deleted: expected 0 to {_MOST_32}. "
            "Set deletion-vectors.bitmap64 = true for larger files."
        )
    if not bits64:
        data = _MAGIC_32 + _bitmap_bytes(rows)
    else:
        # Java writes every key from 0, with empty bitmaps for keys without rows.
        count = 0 if highest < 0 else (highest >> 32) + 1
        bounds = np.searchsorted(rows, np.arange(count + 1, dtype=np.int64) << 32)
        parts = [_MAGIC_64, count.to_bytes(8, "little")]
        for key in range(count):
            low = rows[bounds[key] : bounds[key + 1]] & 0xFFFFFFFF
            parts += [key.to_bytes(4, "little"), _bitmap_bytes(low)]
        data = b"".join(parts)
    return len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")


def checksum_of(vector: bytes) -> int:
    """Return the checksum at the end of a vector from `encode_vector`."""
    return int.from_bytes(vector[-4:], "big")


def decode_vector(
    data: bytes, length: int, name: str, *, cardinality: int | None = None, checksum: int | None = None
) -> Positions:
    """Return the positions of the vector at the start of `data`; bytes after the vector are ignored.

    `length`, `cardinality` and `checksum` are what the index manifest records; `name` stands for the vector in errors.
    """
    framed = vector_bytes(data, length, name, checksum=checksum)
    body = framed[4:-4]
    positions = _positions_64(body, name) if body[:4] == _MAGIC_64 else _positions_32(body[4:], name)
    if cardinality is not None and cardinality != len(positions):
        raise _corrupt(name, f"it has {len(positions)} positions, its index manifest says {cardinality}")
    return positions


def vector_bytes(data: bytes, length: int, name: str, *, checksum: int | None = None) -> bytes:
    """Return the vector at the start of `data` without the bytes after it, with length and checksum verified."""
    magic = data[4:8]
    if magic not in (_MAGIC_32, _MAGIC_64):
        raise _corrupt(name, f"its magic number is {magic.hex() or 'missing'}")
    size = int.from_bytes(data[:4], "big")
    recorded = size + _FRAME_BYTES if magic == _MAGIC_64 else size
    if recorded != length:
        raise _corrupt(name, f"it says that it is {recorded} bytes long, its index manifest says {length}")
    framed = data[: size + _FRAME_BYTES]
    if len(framed) < size + _FRAME_BYTES or size < 4:
        raise _corrupt(name, f"it ends after {len(framed)} bytes, expected {size + _FRAME_BYTES}")
    stored, found = checksum_of(framed), zlib.crc32(framed[4:-4])
    if stored != found:
        raise _corrupt(name, f"its check sum is {stored:08x}, its bytes have {found:08x}")
    if checksum is not None and checksum != found:
        raise _corrupt(name, f"its check sum is {found:08x}, its index manifest says {checksum:08x}: it is another")
    return framed


def _recorded_length(vector: bytes) -> int:
    return len(vector) if vector[4:8] == _MAGIC_64 else len(vector) - _FRAME_BYTES


def _bitmap_bytes(positions: npt.NDArray[np.int64]) -> bytes:
    bitmap = BitMap(positions.astype(np.uint32))
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def _positions_32(body: bytes, name: str) -> Positions:
    positions, rest = _bitmap(body, name)
    if rest:
        raise _corrupt(name, f"{len(rest)} bytes follow its bitmap")
    return positions


def _positions_64(body: bytes, name: str) -> Positions:
    count, rest = int.from_bytes(body[4:12], "little", signed=True), body[12:]
    parts: list[Positions] = []
    last = -1
    # Each bitmap takes bytes, so a count that is too large fails at the end of the bytes.
    for _ in range(max(0, count)):
        key = int.from_bytes(rest[:4], "little", signed=True)
        if len(rest) >= 4 and key <= last:
            raise _corrupt(name, f"bitmap {key} comes after {last}")
        low, rest = _bitmap(rest[4:], name)
        parts.append(low | (key << 32))
        last = key
    if count < 0 or rest:
        raise _corrupt(name, f"it counts {count} bitmaps, and {len(rest)} bytes follow them")
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _bitmap(data: bytes, name: str) -> tuple[Positions, bytes]:
    """Return the values of the bitmap at the start of `data`, and the bytes after it."""
    bitmap: Any
    try:
        bitmap = BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise _corrupt(name, f"its bitmap cannot be read ({error})") from error
    positions = np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64)
    return positions, data[len(bitmap.serialize()) :]


def _corrupt(name: str, found: str) -> CorruptTable:
    return CorruptTable(
        f"{name}: the deletion vector cannot be trusted: {found}. Keep the file as evidence; restore it from a copy of "
        "the table."
    )
