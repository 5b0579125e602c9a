"""Branch base: the snapshot that a branch continues, in an object of the branch that only this package reads.

A branch may expire its first snapshots. This mark still says which snapshot of another history the branch continues.
Its text follows its CRC-32: `crc32:0a1b2c3d 12 manifest-list-9f…`.
"""

import re
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import CorruptTable
from lakehouse_core.table.checksummed_text import checked_text, with_checksum
from lakehouse_core.table.snapshot import Snapshot

# Stored in tables. Never change.
_TEXT: Final = re.compile(rb"(0|[1-9]\d{0,18}) ([^/]{1,255})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotIdentity:
    """What tells a snapshot from every other one: its id, and the name of its delta, which no other snapshot has."""

    snapshot_id: int
    delta_manifest_list: str


def identity_of(snapshot: Snapshot) -> SnapshotIdentity:
    return SnapshotIdentity(snapshot_id=snapshot.id, delta_manifest_list=snapshot.delta_manifest_list)


def serialize_base(base: SnapshotIdentity) -> bytes:
    return with_checksum(f"{base.snapshot_id} {base.delta_manifest_list}".encode())


def parse_base(data: bytes, where: str) -> SnapshotIdentity:
    """Return the mark in `data`; `where` names the object in errors. Raises CorruptTable."""
    text = checked_text(data)
    found = None if text is None else _TEXT.fullmatch(text)
    if found is None:
        raise CorruptTable(
            f"{where}: found {data[:40]!r}, expected the id and the delta of a snapshot with their checksum. Restore "
            "it from a copy of the table, or remove it: then the snapshots of the branch alone tell what it continues."
        )
    return SnapshotIdentity(snapshot_id=int(found[1]), delta_manifest_list=found[2].decode())
