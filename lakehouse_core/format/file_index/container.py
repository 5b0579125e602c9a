"""The container that holds all indexes of one data file: a directory of columns, then the bodies.

Source: Paimon format, "File index". Numbers are big-endian.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import CorruptTable, UnsupportedFeature

# Stored in every container. Never change.
_MAGIC: Final = 1493475289347502
_VERSION: Final = 1
_PREFIX: Final = struct.Struct(">qii")
_COUNT: Final = struct.Struct(">i")
_PLACE: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">H")
_NOWHERE: Final = -1

PREFIX_BYTES: Final = _PREFIX.size


@dataclass(frozen=True, slots=True)
class Place:
    """Where the body of one index lies, from the beginning of the container. None in its stead: it has no body."""

    start: int
    length: int


# By column, then by kind of index.
Directory = dict[str, dict[str, Place | None]]


def head_length(prefix: bytes, what: str) -> int:
    """Return how many bytes hold the directory, given at least the first PREFIX_BYTES of a container.

    `what` names the container in errors. Raises CorruptTable, UnsupportedFeature.
    """
    if len(prefix) < PREFIX_BYTES:
        raise corrupt(what, f"{len(prefix)} bytes are too few for a file index")
    magic, version, length = _PREFIX.unpack_from(prefix)
    if magic != _MAGIC:
        raise corrupt(what, f"it begins with {magic}, a file index with {_MAGIC}")
    if version != _VERSION:
        raise UnsupportedFeature(
            f"{what}: a file index of version {version}; version {_VERSION} is known. Set file-index.read.enabled to "
            "false to read without it."
        )
    if length < PREFIX_BYTES + _COUNT.size:
        raise corrupt(what, f"its head has {length} bytes")
    return int(length)


def parse_directory(head: bytes, what: str) -> Directory:
    """Return where each index lies; `head` holds the first `head_length` bytes. Raises CorruptTable."""
    if len(head) < head_length(head, what):
        raise corrupt(what, f"it ends after {len(head)} bytes, inside its head")
    directory: Directory = {}
    try:
        (column_count,) = _COUNT.unpack_from(head, PREFIX_BYTES)
        position = PREFIX_BYTES + _COUNT.size
        for _ in range(column_count):
            column, position = _text(head, position)
            (index_count,) = _COUNT.unpack_from(head, position)
            position += _COUNT.size
            indexes = directory.setdefault(column, {})
            for _ in range(index_count):
                kind, position = _text(head, position)
                start, length = _PLACE.unpack_from(head, position)
                position += _PLACE.size
                indexes[kind] = None if start == _NOWHERE else _place(start, length, what)
    except (struct.error, UnicodeDecodeError) as error:
        raise corrupt(what, f"its directory cannot be decoded ({error})") from error
    return directory


def body_of(container: bytes, place: Place, what: str) -> bytes:
    """Return one body. Raises CorruptTable when the container ends before it does."""
    body = container[place.start : place.start + place.length]
    if len(body) != place.length:
        raise corrupt(what, f"it has {len(container)} bytes, and an index up to byte {place.start + place.length}")
    return body


def serialize_container(indexes: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """Return the container of the bodies by column and kind, in their order. None: an index without a body."""
    head_bytes = PREFIX_BYTES + 2 * _COUNT.size
    for column, bodies in indexes.items():
        head_bytes += len(_encoded(column)) + _COUNT.size
        head_bytes += sum(len(_encoded(kind)) + _PLACE.size for kind in bodies)
    directory = bytearray(_COUNT.pack(len(indexes)))
    start = head_bytes
    for column, bodies in indexes.items():
        directory += _encoded(column) + _COUNT.pack(len(bodies))
        for kind, body in bodies.items():
            directory += _encoded(kind) + (_PLACE.pack(_NOWHERE, 0) if body is None else _PLACE.pack(start, len(body)))
            start += 0 if body is None else len(body)
    directory += _COUNT.pack(0)  # The length of fields that later versions may add.
    parts = [body for bodies in indexes.values() for body in bodies.values() if body is not None]
    return b"".join([_PREFIX.pack(_MAGIC, _VERSION, head_bytes), bytes(directory), *parts])


def corrupt(what: str, found: str) -> CorruptTable:
    """Return the error for an index that contradicts itself or its data file."""
    return CorruptTable(
        f"{what}: {found}. Set file-index.read.enabled to false to read without it, and keep the file as evidence."
    )


def _place(start: int, length: int, what: str) -> Place:
    if start < 0 or length < 0:
        raise corrupt(what, f"an index lies at {start} and has {length} bytes")
    return Place(start, length)


def _text(head: bytes, position: int) -> tuple[str, int]:
    """Java's modified UTF-8: zero takes two bytes, characters beyond 16 bits are two surrogates of three each."""
    (length,) = _LENGTH.unpack_from(head, position)
    position += _LENGTH.size
    raw = head[position : position + length]
    if len(raw) != length:
        raise struct.error(f"a name of {length} bytes ends after {len(raw)}")
    surrogates = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return surrogates.encode("utf-16", "surrogatepass").decode("utf-16"), position + length


def _encoded(text: str) -> bytes:
    units = text.encode("utf-16-be", "surrogatepass")
    points = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    raw = b"".join(b"\xc0\x80" if point == 0 else chr(point).encode("utf-8", "surrogatepass") for point in points)
    return _LENGTH.pack(len(raw)) + raw
