"""Checksums of metadata files, kept where whoever reads the file comes by: a changed byte is found before decoding.

Of manifest lists in the properties of the snapshot that names them; Avro files of ours carry one of their content,
this one also tells when a whole file is another. Other engines ignore it; a file without one is taken as it is.
"""

import hashlib
import json
from collections.abc import Mapping

from lakehouse_core.errors import CorruptTable

# Stored in snapshots and in the headers of manifest lists. Never rename.
CHECKSUMS_PROPERTY = "lakehouse.checksums"
# Stored beside every checksum.
_ALGORITHM = "blake2b-64"


def checksum(data: bytes) -> str:
    """Return the BLAKE2b hash of 64 bits, in hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def checksums_to_text(by_name: Mapping[str, str]) -> str:
    """Return the value of the property for files by their names; it says which algorithm made them."""
    return json.dumps({_ALGORITHM: dict(by_name)}, ensure_ascii=False, separators=(",", ":"))


def checksums_from_text(text: str | None, key: str) -> Mapping[str, str]:
    """Return the checksums by file name; none where the text is None or of an algorithm unknown here.

    Raises CorruptTable naming `key`, the file that holds the text.
    """
    if text is None:
        return {}
    try:
        found = json.loads(text).get(_ALGORITHM, {})
        return {str(name): str(digest) for name, digest in found.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise CorruptTable(
            f"{key}: {CHECKSUMS_PROPERTY} does not hold checksums ({error}). Keep the file as evidence; "
            "run `lakehouse verify`."
        ) from error


def verify_bytes(data: bytes, key: str, *, size: int | None, expected: str | None) -> None:
    """Raise CorruptTable unless `data` has the recorded size and checksum; None means that none was recorded."""
    if size is not None and len(data) != size:
        raise CorruptTable(
            f"{key}: it has {len(data)} bytes, expected {size}. Keep the file as evidence; "
            "restore it from a copy of the table."
        )
    if expected is not None and checksum(data) != expected:
        raise CorruptTable(
            f"{key}: its {_ALGORITHM} checksum is {checksum(data)}, expected {expected}. Keep the file as evidence; "
            "restore it from a copy of the table."
        )
