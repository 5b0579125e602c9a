"""Boundary: the smallest snapshot id that has not expired, in an object that only this package reads.

A wrong boundary would hide snapshots or show expired ones, so the id follows its CRC-32: `crc32:0a1b2c3d 12`. A person
who writes it, for a table that another engine rolled back, may write the id alone.
"""

import re
import zlib
from typing import Final

from lakehouse_core.errors import CorruptTable

# Stored in tables. Never change.
_CONTENT: Final = re.compile(rb"(?:crc32:([0-9a-f]{8}) )?([1-9]\d{0,18})")


def serialize_boundary(first_kept_id: int) -> bytes:
    text = b"%d" % first_kept_id
    # The checksum comes first, so that the rest of a truncated object is never an id.
    return b"crc32:%08x %s" % (zlib.crc32(text), text)


def parse_boundary(data: bytes, where: str) -> int:
    """Return the id in `data`; `where` names the object in errors. Raises CorruptTable."""
    found = _CONTENT.fullmatch(data)
    if found is None or (found[1] is not None and int(found[1], 16) != zlib.crc32(found[2])):
        raise CorruptTable(
            f"{where}: found {data[:40]!r}, expected a snapshot id with its checksum. "
            "Write the id of the earliest snapshot into it, without a line break."
        )
    return int(found[2])
