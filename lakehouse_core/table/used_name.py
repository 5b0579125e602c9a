"""Used name: the record that a table has, or had, a branch of a name, in an object that only this package reads.

Its text follows its CRC-32: `crc32:0a1b2c3d 9f…`, and ` ended` when all objects of the branch are deleted.
"""

import re
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import CorruptTable
from lakehouse_core.table.checksummed_text import checked_text, with_checksum

# Stored in tables. Never change.
_TEXT: Final = re.compile(rb"([0-9a-f-]{1,64})( ended)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedName:
    """The `token` of the verb that made the branch, and whether the branch `has_ended`, which is for ever."""

    token: str
    has_ended: bool = False


def serialize_used_name(used: UsedName) -> bytes:
    return with_checksum(f"{used.token}{' ended' if used.has_ended else ''}".encode())


def parse_used_name(data: bytes, where: str) -> UsedName:
    """Return the record in `data`; `where` names the object in errors. Raises CorruptTable."""
    text = checked_text(data)
    found = None if text is None else _TEXT.fullmatch(text)
    if found is None:
        raise CorruptTable(
            f"{where}: found {data[:40]!r}, expected a token with its checksum. Restore it from a copy of the table, "
            "or remove it if no process works on a branch of this name."
        )
    return UsedName(token=found[1].decode(), has_ended=found[2] is not None)
