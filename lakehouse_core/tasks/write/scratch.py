"""Scratch files: what a task keeps on the local disk for a while.

Rule: a file has no name. It is unlinked before a byte is written, so that the system frees it when the process ends,
however it ends.
"""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

from lakehouse_core.errors import StorageFull, StorageUnavailable

_FILE_BUFFER_BYTES: Final = 16 << 10
_SPILL_LESS: Final = "make a full write buffer write table files at once: write-buffer-spillable = false"
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def nameless_file(folder: str | None) -> IO[bytes]:
    """Open a file without a name in `folder`; None: the system's folder of temporary files."""
    return tempfile.TemporaryFile(prefix="lakehouse-spill-", dir=folder, buffering=_FILE_BUFFER_BYTES)


def closed(file: IO[bytes]) -> None:
    """Close the file, whose bytes are not needed any more."""
    # Bytes that a full disk refused are still in the file's buffer, and a close would write them again.
    with suppress(OSError):
        file.close()


@contextmanager
def on_disk(folder: str | None, *, remedy: str = _SPILL_LESS) -> Iterator[None]:
    """Translate the errors of the disk. `remedy`: what needs less of it. Raises StorageFull, StorageUnavailable."""
    try:
        yield
    except OSError as error:
        where = folder or tempfile.tempdir or "the folder for temporary files"
        reason = error.strerror or str(error)
        hint = f"let TMPDIR (on Spark spark.local.dir) name a folder of a larger disk, or {remedy}"
        if error.errno in _FULL:
            raise StorageFull(
                f"{where}: no space left for rows that wait to be merged ({reason}). Make room, {hint}."
            ) from error
        raise StorageUnavailable(
            f"{where}: the disk refused rows that wait to be merged ({reason}). Repair it, {hint}."
        ) from error
