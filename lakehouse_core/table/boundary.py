"""Boundary: the smallest snapshot id that has not expired, in an object that only this package reads.

A wrong boundary would hide snapshots or show expired ones, so the id follows its CRC-32: `crc32:0a1b2c3d 12`. A person
who writes it, for a table that another engine rolled back, may write the id alone. While a verb works on a whole
branch, its name and a token follow the id: `crc32:0a1b2c3d 12 deleting 9f…`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakehouse_core.errors import CorruptTable
from lakehouse_core.table.checksummed_text import checked_text, with_checksum

# Stored in tables. Never change.
_TEXT: Final = re.compile(rb"(0|[1-9]\d{0,18})(?: (creating|deleting|renaming|forwarding) ([0-9a-f-]{1,64}))?")


class BranchWork(StrEnum):
    """What a verb does to a whole branch. Stored in boundaries. Never rename."""

    CREATING = "creating"
    DELETING = "deleting"
    RENAMING = "renaming"
    FORWARDING = "forwarding"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryMark:
    """What a boundary says: the smallest id that has not expired, and the `work` that goes on, with its `token`.

    While work goes on no expiry raises the boundary. The branch is read and written only while it is FORWARDING.
    """

    first_kept_id: int = 0
    work: BranchWork | None = None
    token: str = ""

    @property
    def is_closed(self) -> bool:
        """Whether the branch may be neither read nor written."""
        return self.work not in (None, BranchWork.FORWARDING)

    @property
    def advice(self) -> str:
        """What to do about a branch whose verb was interrupted. One that is renamed or forwarded has all its rows."""
        if self.work is BranchWork.RENAMING:
            return "call rename_branch again, with another new name"
        if self.work is BranchWork.FORWARDING:
            return "call fast_forward again"
        return "call delete_branch, which removes the rest"


NO_MARK: Final = BoundaryMark()


def serialize_boundary(first_kept_id: int) -> bytes:
    return serialize_mark(BoundaryMark(first_kept_id=first_kept_id))


def serialize_mark(mark: BoundaryMark) -> bytes:
    text = b"%d" % mark.first_kept_id
    if mark.work is not None:
        text += f" {mark.work} {mark.token}".encode()
    return with_checksum(text)


def parse_mark(data: bytes, where: str) -> BoundaryMark:
    """Return what the boundary in `data` says; `where` names the object in errors. Raises CorruptTable."""
    text = checked_text(data)
    found = _TEXT.fullmatch(data if text is None else text)
    # A person never writes 0: a branch without snapshots has it, after its checksum.
    if found is None or (text is None and found[1] == b"0"):
        raise CorruptTable(
            f"{where}: found {data[:40]!r}, expected a snapshot id with its checksum. "
            "Write the id of the earliest snapshot into it, without a line break."
        )
    work = None if found[2] is None else BranchWork(found[2].decode())
    return BoundaryMark(first_kept_id=int(found[1]), work=work, token=(found[3] or b"").decode())
