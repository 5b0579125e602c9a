"""Objects of a bucket of the stub, and what is answered of them: one of them, a range, a page of a list."""

import base64
import re
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate

from tests.storage.s3_errors import error
from tests.storage.s3_protocol import Answer, Message, document, tag

# Its base64 has the characters that must be escaped in an address.
_TOKEN_END = "\x00~~>>??"
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class Stored:
    data: bytes
    etag: str
    modified_millis: int


class Bucket:
    """Objects by key, and their keys in the order of lists."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.keys: list[str] = []

    def put(self, key: str, stored: Stored) -> None:
        if key not in self.objects:
            insort(self.keys, key)
        self.objects[key] = stored

    def drop(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def copy(self) -> "Bucket":
        copy = Bucket()
        copy.objects, copy.keys = dict(self.objects), list(self.keys)
        return copy


def content(stored: Stored, message: Message) -> Answer:
    wanted = message.headers.get("if-match")
    if wanted is not None and wanted.strip('"') != stored.etag:
        return error("PreconditionFailed", Condition="If-Match")
    headers = {
        "ETag": f'"{stored.etag}"',
        "Last-Modified": formatdate(stored.modified_millis // 1000, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    asked = _RANGE.fullmatch(message.headers.get("range", ""))
    size = len(stored.data)
    if asked is None or (asked[1] and asked[2] and int(asked[2]) < int(asked[1])):
        return Answer(200, stored.data, headers=headers)
    first = int(asked[1]) if asked[1] else max(0, size - int(asked[2]))
    end = min(size, int(asked[2]) + 1) if asked[1] and asked[2] else size
    if first >= size:
        return error("InvalidRange", ActualObjectSize=size)
    return Answer(206, stored.data[first:end], headers={**headers, "Content-Range": f"bytes {first}-{end - 1}/{size}"})


def page(bucket: Bucket, asked: Mapping[str, str], most: int) -> Answer:
    """Return one page of a list: keys, and what keys have in common up to the delimiter."""
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    try:
        # A token says nothing to clients, and is not whole without its escaped characters.
        token = base64.b64decode(asked.get("continuation-token", ""), validate=True).decode()
    except ValueError:
        return error("InvalidArgument")
    after = token.removesuffix(_TOKEN_END) or asked.get("start-after", "")
    most = min(most, int(asked.get("max-keys", most)))
    entries: list[str] = []
    place, last = bisect_left(bucket.keys, max(prefix, after)), after
    while place < len(bucket.keys) and bucket.keys[place].startswith(prefix) and len(entries) < most:
        key = bucket.keys[place]
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        if found:
            last = prefix + head + delimiter + "\U0010ffff"
            entries.append(f"<CommonPrefixes>{tag('Prefix', prefix + head + delimiter)}</CommonPrefixes>")
            place = bisect_left(bucket.keys, last)
            continue
        if key > after:
            stored = bucket.objects[key]
            at = datetime.fromtimestamp(stored.modified_millis // 1000, UTC)
            facts = (tag("Key", key), tag("LastModified", f"{at:%Y-%m-%dT%H:%M:%S}.000Z"))
            more = (tag("ETag", f'"{stored.etag}"'), tag("Size", len(stored.data)))
            entries.append(f"<Contents>{''.join(facts + more)}</Contents>")
            last = key
        place += 1
    is_cut = place < len(bucket.keys) and bucket.keys[place].startswith(prefix)
    token = base64.b64encode((last + _TOKEN_END).encode()).decode()
    end = [tag("NextContinuationToken", token)] if is_cut else []
    truncated = tag("IsTruncated", "true" if is_cut else "false")
    return document("ListBucketResult", tag("Prefix", prefix), tag("KeyCount", len(entries)), truncated, *entries, *end)
