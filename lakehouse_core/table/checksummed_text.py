"""Checksummed text: a short text with its CRC-32 before it, as in the small objects that only this package reads.

The checksum comes first, so that the rest of a truncated object is never taken for the text. Stored: never change.
"""

import re
import zlib
from typing import Final

_CONTENT: Final = re.compile(rb"crc32:([0-9a-f]{8}) (.*)", re.DOTALL)


def with_checksum(text: bytes) -> bytes:
    return b"crc32:%08x %s" % (zlib.crc32(text), text)


def checked_text(data: bytes) -> bytes | None:
    """Return the text in `data`; None if it does not have the checksum before it."""
    found = _CONTENT.fullmatch(data)
    return found[2] if found is not None and int(found[1], 16) == zlib.crc32(found[2]) else None
