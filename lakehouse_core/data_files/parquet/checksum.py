"""Parquet checksum: a checksum of the footer, in the bytes before it, which other readers ignore.

Page checksums cover the data but not the footer, where one changed bit renames a column or moves a bound. The footer
holds the file's name, so that an exchanged file is detected too. Files of other engines have no such checksum.
"""

import hashlib
from typing import Any, Final

# Stored in every Parquet file. Never change.
_MARK: Final = b"lh-seal1"
_DIGEST_BYTES: Final = 8
CHECKSUM_BYTES: Final = len(_MARK) + _DIGEST_BYTES
_TAIL_BYTES: Final = 8  # The footer's length and the magic number.


class FooterChecksum:
    """The checksum of one file that is being written, before its footer."""

    def observe(self, data: Any) -> None:
        """Do nothing: the bytes before the footer have page checksums."""

    def with_checksum(self, held: bytes) -> bytes:
        footer_at = len(held) - _TAIL_BYTES - int.from_bytes(held[-8:-4], "little")
        return held[:footer_at] + _checksum(held[footer_at:-_TAIL_BYTES]) + held[footer_at:]


def fits_checksum(tail: bytes, footer_bytes: int) -> bool | None:
    """Return whether the footer at the end of a file fits its checksum; None when the file has no checksum."""
    checksum = tail[: len(tail) - _TAIL_BYTES - footer_bytes][-CHECKSUM_BYTES:]
    footer = tail[len(tail) - _TAIL_BYTES - footer_bytes : -_TAIL_BYTES]
    return checksum == _checksum(footer) if checksum.startswith(_MARK) else None


def _checksum(footer: bytes) -> bytes:
    return _MARK + hashlib.blake2b(footer, digest_size=_DIGEST_BYTES).digest()
