"""The container that holds all indexes of one data file: a directory of columns, then the bodies.

A separate index file has checksums, because a changed bit could exclude matching rows: the directory ends with a field
that other readers ignore. There we store checksums of the bodies, and one of all these, the directory and the data
file's name. Containers of other engines have none. Numbers are big-endian.
Source: docs/format/file-index.md#container.
"""

import hashlib
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lakehouse_core.errors import CorruptTable, UnsupportedFeature

# Stored in every container. Never change.
_MAGIC: Final = 1493475289347502
_VERSION: Final = 1
_PREFIX: Final = struct.Struct(">qii")
_COUNT: Final = struct.Struct(">i")
_PLACE: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">H")
_CHECKSUM: Final = struct.Struct(">I")
_NOWHERE: Final = -1
# Higher ones are damage rather than versions to come.
_LAST_LIKELY_VERSION: Final = 15
# At the end of the head: what it is, and a digest of all of the head before that. Stored in index files. Never change.
_CHECKSUM_MARK: Final = b"lh-indx1"
_DIGEST_BYTES: Final = 8
_CHECKSUM_BYTES: Final = len(_CHECKSUM_MARK) + _DIGEST_BYTES
# This many bytes of a mark at the mark's position are not there by chance.
_TELLING_BYTES: Final = 5

PREFIX_BYTES: Final = _PREFIX.size


@dataclass(frozen=True, slots=True)
class Place:
    """The position of an index's body in the container. None in place of a Place: the index has no body.

    `checksum`: CRC-32 of the body, None if the container has no checksums.
    """

    start: int
    length: int
    checksum: int | None = None


# By column, then by kind of index.
Directory = dict[str, dict[str, Place | None]]


def head_length(prefix: bytes, what: str) -> int:
    """Return how many bytes hold the directory, given at least the first PREFIX_BYTES of a container.

    `what` names the container in errors. Raises CorruptTable.
    """
    if len(prefix) < PREFIX_BYTES:
        raise corrupt(what, f"{len(prefix)} bytes are too few for a file index")
    magic, version, length = _PREFIX.unpack_from(prefix)
    if magic != _MAGIC:
        raise corrupt(what, f"it begins with {magic}, a file index with {_MAGIC}")
    if not _VERSION <= version <= _LAST_LIKELY_VERSION:
        raise corrupt(what, f"its version is {version}")
    if length < PREFIX_BYTES + _COUNT.size:
        raise corrupt(what, f"its head has {length} bytes")
    return int(length)


def parse_directory(head: bytes, what: str, data_file_name: str) -> Directory:
    """Return where each index lies; `head` begins with the `head_length` bytes of the head.

    Raises CorruptTable, also where its checksum is wrong or that of another data file, UnsupportedFeature.
    """
    length = head_length(head, what)
    if len(head) < length:
        raise corrupt(what, f"it ends after {len(head)} bytes, inside its head")
    head = head[:length]
    has_checksum = _check_digest(head, what, data_file_name)
    # The version is checked after the checksum, so that a damaged number is not reported as an unknown version.
    _, version, _ = _PREFIX.unpack_from(head)
    if version != _VERSION:
        raise UnsupportedFeature(
            f"{what}: a file index of version {version}; version {_VERSION} is known. Set file-index.read.enabled to "
            "false to read without it."
        )
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
        (extra_bytes,) = _COUNT.unpack_from(head, position)
        position += _COUNT.size
    except (struct.error, UnicodeDecodeError) as error:
        raise corrupt(what, f"its directory cannot be decoded ({error})") from error
    if position + extra_bytes != len(head):
        raise corrupt(what, f"its head has {len(head)} bytes, its directory ends after {position + extra_bytes}")
    if extra_bytes and not has_checksum:
        raise corrupt(what, f"its directory is followed by {extra_bytes} bytes that no engine writes")
    return _with_checksums(directory, head[position:-_CHECKSUM_BYTES], what) if has_checksum else directory


def body_of(container: bytes, place: Place, what: str) -> bytes:
    """Return one body. Raises CorruptTable when the container ends before it does."""
    body = container[place.start : place.start + place.length]
    if len(body) != place.length:
        raise corrupt(what, f"it has {len(container)} bytes, and an index up to byte {place.start + place.length}")
    return checked(body, place, what)


def checked(body: bytes, place: Place, what: str) -> bytes:
    """Return `body`. Raises CorruptTable where it does not fit its checksum."""
    if place.checksum is not None and zlib.crc32(body) != place.checksum:
        raise corrupt(what, f"the index from byte {place.start} does not fit its checksum")
    return body


def serialize_container(indexes: Mapping[str, Mapping[str, bytes | None]], *, checked_for: str | None = None) -> bytes:
    """Return the container of the bodies by column and kind, in their order. None: an index without a body.

    `checked_for`: the name of the data file, where the container is to be a file of its own, with checksums.
    """
    parts = [body for bodies in indexes.values() for body in bodies.values() if body is not None]
    checksums = b"" if checked_for is None else b"".join(_CHECKSUM.pack(zlib.crc32(body)) for body in parts)
    extra_bytes = 0 if checked_for is None else len(checksums) + _CHECKSUM_BYTES
    head_bytes = PREFIX_BYTES + 2 * _COUNT.size + extra_bytes
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
    directory += _COUNT.pack(extra_bytes)  # The length of fields that later versions may add: readers pass over them.
    head = _PREFIX.pack(_MAGIC, _VERSION, head_bytes) + bytes(directory) + checksums
    mark = b"" if checked_for is None else _marked_digest(head, checked_for)
    return b"".join([head, mark, *parts])


def corrupt(what: str, found: str) -> CorruptTable:
    """Return the error for an index that contradicts itself or its data file."""
    return CorruptTable(
        f"{what}: {found}. Set file-index.read.enabled to false to read without it, and keep the file as evidence."
    )


def _check_digest(head: bytes, what: str, data_file_name: str) -> bool:
    """Return whether the head ends with a checksum. Raises CorruptTable if the head does not fit it."""
    mark = head[-_CHECKSUM_BYTES:-_DIGEST_BYTES]
    if sum(one == other for one, other in zip(mark, _CHECKSUM_MARK, strict=False)) < _TELLING_BYTES:
        return False
    if head[-_CHECKSUM_BYTES:] != _marked_digest(head[:-_CHECKSUM_BYTES], data_file_name):
        raise corrupt(what, f"its head does not fit its checksum, or is not that of an index of {data_file_name}")
    return True


def _marked_digest(head: bytes, data_file_name: str) -> bytes:
    return _CHECKSUM_MARK + hashlib.blake2b(head + data_file_name.encode(), digest_size=_DIGEST_BYTES).digest()


def _with_checksums(directory: Directory, checksums: bytes, what: str) -> Directory:
    """Return the directory with the checksums of its bodies, which are in its order."""
    count = sum(place is not None for indexes in directory.values() for place in indexes.values())
    if len(checksums) != count * _CHECKSUM.size:
        raise corrupt(what, f"its head has {len(checksums)} bytes of checksums, for {count} indexes")
    numbers = (number for (number,) in _CHECKSUM.iter_unpack(checksums))
    return {
        column: {kind: place and replace(place, checksum=next(numbers)) for kind, place in indexes.items()}
        for column, indexes in directory.items()
    }


def _place(start: int, length: int, what: str) -> Place:
    if start < 0 or length < 0:
        raise corrupt(what, f"an index lies at {start} and has {length} bytes")
    return Place(start, length)


def _text(head: bytes, position: int) -> tuple[str, int]:
    """Return a text in Java's modified UTF-8 and the position after it: zero takes two bytes, characters above 16 bits
    are two surrogates of three bytes.
    """
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
