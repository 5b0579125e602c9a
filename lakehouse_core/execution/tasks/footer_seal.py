"""A checksum of the Parquet footer, in the bytes before it, where other readers never look.

Page checksums cover the data but not the footer: one changed bit there renames a column, or moves a bound so that rows
are skipped. Files of other engines have no seal and are read as they are.
"""

import hashlib
from typing import IO, Any, Final

# Stored in every Parquet file. Never change.
_MARK: Final = b"lh-seal1"
_DIGEST_BYTES: Final = 8
SEAL_BYTES: Final = len(_MARK) + _DIGEST_BYTES
_TAIL_BYTES: Final = 8  # The footer's length and the magic number.


class SealingSink:
    """A sink for Parquet's writer that puts the seal before the footer. Call `hold` before the writer is closed."""

    closed = False

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._position = sink.tell()
        self._held: bytearray | None = None

    def write(self, data: Any) -> int:
        size = len(data)
        if self._held is None:
            self._sink.write(data)
        else:
            self._held += data
        self._position += size
        return size

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is buffered here."""

    def hold(self) -> None:
        """Keep what follows, which ends with the footer, until `release`."""
        self._held = bytearray()

    def release(self) -> int:
        """Write what was held, sealed, and return the size of the file."""
        held = bytes(self._held or b"")
        self._held = None
        footer_at = len(held) - _TAIL_BYTES - int.from_bytes(held[-8:-4], "little")
        footer = held[footer_at:-_TAIL_BYTES]
        self._sink.write(held[:footer_at] + _seal(footer) + held[footer_at:])
        return self._position + SEAL_BYTES

    def close(self) -> None:
        """The file belongs to whoever opened it."""


def broken_seal(tail: bytes, footer_bytes: int) -> bool:
    """Say whether the end of a file, seal, footer and all, holds a footer that its seal does not fit."""
    seal = tail[: len(tail) - _TAIL_BYTES - footer_bytes][-SEAL_BYTES:]
    footer = tail[len(tail) - _TAIL_BYTES - footer_bytes : -_TAIL_BYTES]
    return seal.startswith(_MARK) and seal != _seal(footer)


def _seal(footer: bytes) -> bytes:
    return _MARK + hashlib.blake2b(footer, digest_size=_DIGEST_BYTES).digest()
