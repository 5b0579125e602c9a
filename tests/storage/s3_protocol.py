"""The S3 protocol as the stub speaks it: requests and answers over HTTP/1.1, and version 4 signatures.

A body may come in chunks, each with a signature of its own, as Java's client sends it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from typing import IO
from urllib.parse import unquote, unquote_plus
from xml.sax.saxutils import escape

# What such a body says in place of its hash.
_IN_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
_EMPTY = hashlib.sha256(b"").hexdigest()
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
_IDS = "<RequestId>0A1B2C3D4E5F6071</RequestId><HostId>told</HostId>"
_WITHOUT_BODY = {204, 304}
_REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 404: "Not Found", 412: "Precondition Failed"}


@dataclass(frozen=True)
class Message:
    """One request as it was sent. Names of headers are in lower case. `chunks`: those of the body, the last one empty,
    each after its signature.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    chunks: tuple[tuple[str, bytes], ...] = ()

    @property
    def arguments(self) -> dict[str, str]:
        pairs = (pair.partition("=") for pair in self.query.split("&") if pair)
        return {unquote(name): unquote_plus(value) for name, _, value in pairs}

    @property
    def bucket_and_key(self) -> tuple[str, str]:
        bucket, _, key = self.path[1:].partition("/")
        return bucket, unquote(key)


@dataclass(frozen=True)
class Answer:
    """What is answered. `code`: of an error, whose document is the body then, with `message` and `detail` in it.
    `is_chunked`: without its length, as S3 answers errors and what takes long. `cut`: the connection is closed after so
    many bytes of the body.
    """

    status: int
    body: bytes = b""
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""
    message: str = ""
    is_chunked: bool = False
    cut: int | None = None

    @property
    def document(self) -> bytes:
        """The document of an error."""
        parts = (tag("Code", self.code), tag("Message", self.message or f"{self.code}, as told"), self.detail)
        return f"{_DECLARATION}<Error>{''.join(parts)}{_IDS}</Error>".encode()

    def sent(self, *, to_head: bool = False) -> bytes:
        """The answer to HEAD has no body, be it an error or not."""
        body = self.document if self.code else self.body
        kind = {"Content-Type": "application/xml"} if self.code else {}
        is_chunked = self.is_chunked or bool(self.code)
        size = {"Transfer-Encoding": "chunked"} if is_chunked else {"Content-Length": f"{len(body)}"}
        headers = {"x-amz-request-id": "0A1B2C3D4E5F6071", **size, **kind, **self.headers}
        lines = [f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Told')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode()
        if to_head or self.status in _WITHOUT_BODY:
            return head
        if is_chunked:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        return head + body[: self.cut]


def received(stream: IO[bytes], reply: IO[bytes]) -> Message | None:
    """Return the next request of a connection, None at its end."""
    first = stream.readline().split()
    if len(first) < 2 or not first[-1].startswith(b"HTTP/"):
        return None
    headers = {}
    while (line := stream.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        headers[name.decode().lower()] = value.strip().decode()
    if headers.get("expect") == "100-continue":
        reply.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        reply.flush()
    length = int(headers.get("content-length", 0))
    body = stream.read(length) if length else b""
    if len(body) != length:
        return None
    path, _, query = first[1].decode().partition("?")
    message = Message(first[0].decode(), path, query, headers, body)
    if headers.get("x-amz-content-sha256") == _IN_CHUNKS:
        chunks = _chunks(body)
        return replace(message, body=b"".join(chunk for _, chunk in chunks), chunks=chunks)
    return message


def _chunks(body: bytes) -> tuple[tuple[str, bytes], ...]:
    stream, chunks = BytesIO(body), []
    while head := stream.readline().strip().decode():
        size, _, signature = head.partition(";chunk-signature=")
        chunks.append((signature, stream.read(int(size, 16))))
        stream.readline()
    return tuple(chunks)


def document(name: str, *parts: str) -> Answer:
    space = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
    text = f"{_DECLARATION}<{name}{space}>{''.join(parts)}</{name}>"
    return Answer(200, text.encode(), headers={"Content-Type": "application/xml"})


def tag(name: str, text: object) -> str:
    return f"<{name}>{escape(str(text))}</{name}>"


def signature_fault(message: Message, secrets: Mapping[str, str], region: str) -> Answer | None:
    """Return what is answered to a request whose signature is wrong. `secrets`: secret keys by access keys."""
    kind, _, rest = message.headers.get("authorization", "").partition(" ")
    if kind != "AWS4-HMAC-SHA256":
        return Answer(403, code="AccessDenied")
    given = {name.strip(): value for name, _, value in (part.partition("=") for part in rest.split(","))}
    access, day, its_region, service, _ = given["Credential"].split("/")
    if access not in secrets:
        return Answer(403, code="InvalidAccessKeyId")
    if its_region != region:
        return Answer(400, code="AuthorizationHeaderMalformed", detail=tag("Region", region))
    names = given["SignedHeaders"].split(";")
    if any(name not in names for name in message.headers if name == "host" or name.startswith("x-amz-")):
        return Answer(403, code="AccessDenied", message="There are headers that were not signed")
    content = message.headers.get("x-amz-content-sha256")
    if content is None:
        return Answer(400, code="InvalidRequest", message="The header x-amz-content-sha256 is missing")
    if not message.headers.get("x-amz-date", "").startswith(f"{day}T"):
        return Answer(403, code="SignatureDoesNotMatch")
    if content not in {"UNSIGNED-PAYLOAD", _IN_CHUNKS} and content != hashlib.sha256(message.body).hexdigest():
        return Answer(400, code="XAmzContentSHA256Mismatch")
    pairs = sorted(pair if "=" in pair else f"{pair}=" for pair in message.query.split("&") if pair)
    asked = [message.method, message.path, "&".join(pairs)]
    asked += [f"{name}:{' '.join(message.headers.get(name, '').split())}" for name in names]
    asked += ["", given["SignedHeaders"], content]
    digest = hashlib.sha256("\n".join(asked).encode()).hexdigest()
    scope = f"{day}/{its_region}/{service}/aws4_request"
    stamp = [message.headers.get("x-amz-date", ""), scope]

    def is_signed(signature: str, *signed: str) -> bool:
        text = "\n".join(signed)
        key = _key(secrets[access], day, its_region, service)
        return hmac.new(key, text.encode(), "sha256").hexdigest() == signature

    is_right = is_signed(given["Signature"], kind, *stamp, digest)
    before = given["Signature"]
    for signature, chunk in message.chunks:
        own = hashlib.sha256(chunk).hexdigest()
        is_right = is_right and is_signed(signature, f"{kind}-PAYLOAD", *stamp, before, _EMPTY, own)
        before = signature
    # The last one is empty: without it, a body that was cut off would be taken.
    is_whole = content != _IN_CHUNKS or (bool(message.chunks) and not message.chunks[-1][1])
    return None if is_right and is_whole else Answer(403, code="SignatureDoesNotMatch")


@lru_cache(maxsize=64)
def _key(secret: str, *scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    return key
