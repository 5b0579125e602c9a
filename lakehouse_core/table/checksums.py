"""Checksums of metadata files, stored in the file that names them: a reader detects a changed byte before decoding.

A snapshot's properties hold those of manifest lists, a list's header those of manifests, an index manifest's header
those of deletion vectors. Our Avro files have a checksum of their own content, too; this one also detects a file in
another one's place. Other engines ignore checksums; a file without one is accepted.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

from lakehouse_core.errors import CorruptTable

# Stored in snapshots. Never rename.
CHECKSUMS_PROPERTY = "lakehouse.checksums"
# Stored in the headers of manifest lists: one for each manifest, in their order. Never rename.
LISTED_CHECKSUMS_KEY = "lakehouse.manifest.checksums"
# Stored in the headers of index manifests: one for each deletion vector, in their order. Never rename.
VECTOR_CHECKSUMS_KEY = "lakehouse.vector.checksums"
# Stored beside every checksum.
_ALGORITHM = "blake2b-64"
_VECTOR_ALGORITHM = "crc32"


def checksum(data: bytes) -> str:
    """Return the BLAKE2b hash of 64 bits, in hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def checksums_to_text(by_name: Mapping[str, str]) -> str:
    """Return the value of the property with the checksums by file name and the name of their algorithm."""
    return json.dumps({_ALGORITHM: dict(by_name)}, ensure_ascii=False, separators=(",", ":"))


def checksums_from_text(text: str | None, key: str) -> Mapping[str, str]:
    """Return the checksums by file name; empty if the text is None or names an unknown algorithm.

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


def listed_checksums_to_header(checksums: Sequence[str | None]) -> dict[str, bytes]:
    """Return the header entries with the checksums of a list's manifests, in their order; empty if none is known."""
    if not any(checksums):
        return {}
    return {LISTED_CHECKSUMS_KEY: f"{_ALGORITHM}:{','.join(one or '' for one in checksums)}".encode()}


def listed_checksums_from_header(header: Mapping[str, bytes], count: int, key: str) -> Sequence[str | None]:
    """Return the checksums of `count` manifests from the header of their list, `key`; None for an unknown one.

    Raises CorruptTable if the header has another number of checksums.
    """
    return _listed(header.get(LISTED_CHECKSUMS_KEY, b""), _ALGORITHM, count, key)


def vector_checksums_to_header(checksums: Sequence[int | None]) -> dict[str, bytes]:
    """Return the header entries of an index manifest with the CRC-32 of its deletion vectors, in their order."""
    if all(one is None for one in checksums):
        return {}
    text = ",".join("" if one is None else f"{one:08x}" for one in checksums)
    return {VECTOR_CHECKSUMS_KEY: f"{_VECTOR_ALGORITHM}:{text}".encode()}


def vector_checksums_from_header(header: Mapping[str, bytes], count: int, key: str) -> Sequence[int | None]:
    """Return the checksums of `count` deletion vectors from the header of `key`; None for an unknown one.

    Raises CorruptTable if the header has another number of checksums, or a value that is not a checksum.
    """
    texts = _listed(header.get(VECTOR_CHECKSUMS_KEY, b""), _VECTOR_ALGORITHM, count, key)
    try:
        return [None if text is None else int(text, 16) for text in texts]
    except ValueError as error:
        raise CorruptTable(f"{key}: {VECTOR_CHECKSUMS_KEY} in its header does not hold checksums ({error}).") from error


def _listed(value: bytes, algorithm: str, count: int, key: str) -> Sequence[str | None]:
    found, _, text = value.decode("utf-8", "replace").partition(":")
    if found != algorithm:
        return [None] * count
    listed = [one or None for one in text.split(",")]
    if len(listed) != count:
        raise CorruptTable(
            f"{key}: its header has {len(listed)} checksums, it names {count} objects. Keep the file as evidence; "
            "restore it from a copy of the table, or read a snapshot that does not name it."
        )
    return listed


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
