"""ORC checksum: a checksum of the whole file and its name, in the bytes before its tail, which other readers ignore.

ORC has no checksums, and damaged files can crash its C++ reader, so the checksum is verified before the reader opens
the file. Files of other engines have no checksum and are read without a check.
"""

import zlib
from collections.abc import Callable
from typing import Any, Final

# Stored in every ORC file. Never change.
_MARK: Final = b"lh-orc-2"
# The mark of older files, whose name has no checksum.
_NAMELESS_MARK: Final = b"lh-orc-1"
_MARKS: Final = (_MARK, _NAMELESS_MARK)
_MARK_BYTES: Final = len(_MARK)
_CHECKSUM_BYTES: Final = 4
# The mark, the checksum of all other bytes, and that of the name.
_SEAL_BYTES: Final = _MARK_BYTES + 2 * _CHECKSUM_BYTES
_NAMELESS_SEAL_BYTES: Final = _MARK_BYTES + _CHECKSUM_BYTES
# This many bytes of a mark at the mark's position are not there by chance.
_TELLING_BYTES: Final = 5
_WINDOW_BYTES: Final = 1 << 20
# The tail of a file is the statistics of its stripes, footer and postscript. If its sizes are damaged, the mark is
# searched in this many bytes.
_SOUGHT_BYTES: Final = 1 << 20
_FOOTER_LENGTH: Final = 1
_METADATA_LENGTH: Final = 5


class OrcChecksum:
    """The checksum of one file that is being written, before its tail."""

    def __init__(self, file_name: str) -> None:
        self._checksum = 0
        self._name = _stored(zlib.crc32(file_name.encode()))

    def observe(self, data: Any) -> None:
        self._checksum = zlib.crc32(data, self._checksum)

    def with_checksum(self, held: bytes) -> bytes:
        tail_at = len(held) - _tail_bytes(held[-256:])
        checksum = zlib.crc32(held, self._checksum)
        return held[:tail_at] + _MARK + _stored(checksum) + self._name + held[tail_at:]


def is_broken(read_at: Callable[[int, int], bytes], size: int, file_name: str | None) -> bool:
    """Return whether the file does not fit its checksum, has only a part of one, or was written under another name.

    `read_at(count, position)` returns bytes of the file. `file_name` None: the file was renamed on purpose, so the name
    is not checked.
    """
    checksum_at = _checksum_at(read_at, size)
    if checksum_at is None:
        return False
    mark = read_at(_MARK_BYTES, checksum_at)
    if mark not in _MARKS:
        return True
    checksum_bytes = _NAMELESS_SEAL_BYTES if mark == _NAMELESS_MARK else _SEAL_BYTES
    checksums = read_at(checksum_bytes - _MARK_BYTES, checksum_at + _MARK_BYTES)
    if file_name is not None and checksums[_CHECKSUM_BYTES:] not in (b"", _stored(zlib.crc32(file_name.encode()))):
        return True
    checksum = 0
    for start, stop in ((0, checksum_at), (checksum_at + checksum_bytes, size)):
        for position in range(start, stop, _WINDOW_BYTES):
            checksum = zlib.crc32(read_at(min(_WINDOW_BYTES, stop - position), position), checksum)
    return checksums[:_CHECKSUM_BYTES] != _stored(checksum)


def _stored(checksum: int) -> bytes:
    return checksum.to_bytes(_CHECKSUM_BYTES, "little")


def _checksum_at(read_at: Callable[[int, int], bytes], size: int) -> int | None:
    """Return the position of the checksum, or of the remains of a damaged one; None if there is none."""
    end = read_at(min(size, 256), max(0, size - 256))
    for checksum_bytes in (_SEAL_BYTES, _NAMELESS_SEAL_BYTES):
        expected = size - _tail_bytes(end) - checksum_bytes
        if expected >= 0 and _is_nearly_a_mark(read_at(_MARK_BYTES, expected)):
            return expected
    start = max(0, size - _SOUGHT_BYTES)
    sought = read_at(size - start, start)
    found = start + max(map(sought.rfind, _MARKS))
    return found if start <= found <= size - _NAMELESS_SEAL_BYTES else None


def _is_nearly_a_mark(found: bytes) -> bool:
    return sum(one == other for one, other in zip(found, _MARK, strict=False)) >= _TELLING_BYTES


def _tail_bytes(end: bytes) -> int:
    """Return the size of a file's tail, given its last bytes; arbitrary if they are damaged."""
    if not end:
        return 0
    postscript_bytes = end[-1]
    fields = _numbers(end[-1 - postscript_bytes : -1])
    return fields.get(_METADATA_LENGTH, 0) + fields.get(_FOOTER_LENGTH, 0) + postscript_bytes + 1


def _numbers(message: bytes) -> dict[int, int]:
    """Return the integers of a protobuf message by field number, up to the first undecodable field."""
    found: dict[int, int] = {}
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        value, position = _varint(message, position)
        if tag & 7 == 0:
            found[tag >> 3] = value
        else:
            position += value
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number, shift = 0, 0
    while position < len(data):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return number, position
