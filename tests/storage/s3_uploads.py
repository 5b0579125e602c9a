"""Uploads in parts, as Amazon S3 takes them: they stay until they are completed or given up."""

import hashlib
import uuid
from dataclasses import dataclass, field
from typing import Final

from tests.storage.s3_errors import error
from tests.storage.s3_protocol import Answer, Message, document, tag
from tests.storage.s3_rules import found

LEAST_PART_BYTES: Final = 5 << 20
_MOST_PARTS: Final = 10_000


@dataclass(frozen=True)
class Upload:
    """`parts`: by their numbers, each with its ETag."""

    key: str
    parts: dict[int, tuple[str, bytes]] = field(default_factory=dict)


def begun(uploads: dict[str, Upload], bucket: str, key: str) -> Answer:
    upload = uuid.uuid4().hex
    uploads[upload] = Upload(key)
    return document("InitiateMultipartUploadResult", tag("Bucket", bucket), tag("Key", key), tag("UploadId", upload))


def continued(verb: str, uploads: dict[str, Upload], key: str, message: Message) -> Answer | tuple[str, bytes]:
    """Take a part, give the upload up, or return the ETag and the bytes of the whole object."""
    name = message.arguments["uploadId"]
    upload = uploads.get(name)
    if upload is None or upload.key != key:
        return error("NoSuchUpload", UploadId=name)
    match verb:
        case "part":
            return _taken(upload, message)
        case "abort":
            del uploads[name]
            return Answer(204)
    named = [int(number) for number in found(message, "PartNumber")]
    tags = [each.strip('"') for each in found(message, "ETag")]
    if not named or len(tags) != len(named):
        return error("MalformedXML")
    if named != sorted(set(named)):
        return error("InvalidPartOrder")
    if any(upload.parts.get(number, ("",))[0] != each for number, each in zip(named, tags, strict=True)):
        return error("InvalidPart")
    if any(len(upload.parts[number][1]) < LEAST_PART_BYTES for number in named[:-1]):
        return error("EntityTooSmall")
    del uploads[name]
    digests = hashlib.md5(b"".join(map(bytes.fromhex, tags)), usedforsecurity=False)
    return f"{digests.hexdigest()}-{len(named)}", b"".join(upload.parts[number][1] for number in named)


def _taken(upload: Upload, message: Message) -> Answer:
    number = int(message.arguments["partNumber"])
    if not 1 <= number <= _MOST_PARTS:
        return error("InvalidArgument")
    etag = hashlib.md5(message.body, usedforsecurity=False).hexdigest()
    upload.parts[number] = etag, message.body
    return Answer(200, headers={"ETag": f'"{etag}"'})
