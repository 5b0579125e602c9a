"""What Amazon S3 asks of a request before it carries it out: lengths, digests, and the form of documents."""

import base64
import hashlib
import zlib
from collections.abc import Callable
from typing import Final
from xml.etree import ElementTree

from tests.storage.s3_errors import error
from tests.storage.s3_protocol import Answer, Message

MOST_KEY_BYTES: Final = 1_024
MOST_DELETED: Final = 1_000
_DIGESTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "content-md5": lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
    "x-amz-checksum-sha256": lambda data: hashlib.sha256(data).digest(),
    "x-amz-checksum-sha1": lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
    "x-amz-checksum-crc32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
}


def form_fault(verb: str, message: Message, *, is_locked: bool) -> Answer | None:
    """Return what a request of a wrong form is answered. `is_locked`: the bucket retains objects by Object Lock."""
    if len(message.bucket_and_key[1].encode()) > MOST_KEY_BYTES:
        return error("KeyTooLongError")
    if message.method == "PUT" and "content-length" not in message.headers:
        return error("MissingContentLength")
    for name, digest in _DIGESTS.items():
        given = message.headers.get(name)
        if given is not None and given != base64.b64encode(digest(message.body)).decode():
            return error("BadDigest")
    has_digest = any(name == "content-md5" or name.startswith("x-amz-checksum-") for name in message.headers)
    if not has_digest and (verb == "delete all" or (is_locked and verb in ("put", "part"))):
        return error("InvalidRequest", "This request needs the header Content-MD5 or a checksum (Object Lock)")
    if verb == "delete all" and not 0 < len(keys_of(message)) <= MOST_DELETED:
        return error("MalformedXML")
    return None


def found(message: Message, name: str) -> list[str]:
    """Return the texts of the elements of that name in the document that was sent; none if it is not well formed."""
    try:
        root = ElementTree.fromstring(message.body)
    except ElementTree.ParseError:
        return []
    return [element.text or "" for element in root.iter() if element.tag.rpartition("}")[2] == name]


def keys_of(message: Message) -> list[str]:
    return found(message, "Key")
