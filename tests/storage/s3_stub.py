"""A strict S3 server of the standard library, for tests: each key atomic, signatures checked, faults as told.

In a test: `with S3Stub() as stub`. For other processes: `python -m tests.storage.s3_stub --delay 0.02`, which prints
its address and ends with its standard input. The bucket is `lake`. It keeps everything in memory.
"""

import argparse
import hashlib
import os
import re
import socket
import sys
import threading
import time
import uuid
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from enum import StrEnum
from random import Random
from types import TracebackType
from typing import IO
from urllib.parse import unquote
from xml.etree import ElementTree

from tests.storage.s3_protocol import Answer, Message, document, received, signature_fault, tag

ACCESS, SECRET, REGION = "stub-access", "stub-secret-key", "us-east-1"
# A request may be a quarter of an hour old, or early.
_MOST_SKEW_SECONDS = 900
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class Fault(StrEnum):
    """What goes wrong with one request."""

    BEFORE = "500 before the effect"
    AFTER = "500 after the effect"
    LOST = "carried out, the answer lost"
    DROPPED = "not carried out, the answer lost"
    THROTTLED = "503 SlowDown"
    STUCK = "no answer, the connection stays"


@dataclass(frozen=True)
class Request:
    """`count`: how many requests with this verb and key came before, and this one. `key`: of a list its prefix, of
    several deletions the first.
    """

    verb: str
    key: str
    count: int


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


class S3Stub:
    """What tests tell it: `plan` says what goes wrong with a request; `delay_seconds` is how long each answer takes;
    `denied` are verbs without permission; `ignored` headers that have no effect; `expired` session tokens;
    `secrets` secret keys by access keys; `skew_seconds` how far its clock is ahead; `listed` what lists show instead of
    the present state; `page` the most keys of one answer.
    """

    def __init__(self, *, port: int = 0, delay_seconds: float = 0) -> None:
        self.delay_seconds = delay_seconds
        self.plan: Callable[[Request], Fault | Answer | None] = lambda request: None
        self.denied: frozenset[str] = frozenset()
        self.ignored: frozenset[str] = frozenset()
        self.expired: frozenset[str] = frozenset()
        self.skew_seconds = 0.0
        self.listed: Bucket | None = None
        self.page = 1_000
        self.region = REGION
        self.secrets: Mapping[str, str] = {ACCESS: SECRET}
        self.now_millis: Callable[[], int] = lambda: int(time.time() * 1000)
        self.buckets = {"lake": Bucket()}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[Request] = []
        # Told of each request when it is answered, with the times at which it came and left.
        self.answered: Callable[[Request, float, float], object] = lambda request, came, left: None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self._connections: set[socket.socket] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def storage(self) -> dict[str, str]:
        """The settings by which `lc.connect` reaches it."""
        return {"endpoint": self.endpoint, "access-key": ACCESS, "secret-key": SECRET}

    @property
    def lake(self) -> Bucket:
        return self.buckets["lake"]

    def restart(self, objects: Mapping[str, bytes]) -> None:
        """Have these objects only, no faults, and count requests from the beginning."""
        with self._lock:
            self.plan, self.listed, self.uploads = lambda request: None, None, {}
            self.requests, self._counts = [], Counter()
            self.buckets["lake"] = Bucket()
            for key, data in objects.items():
                self.lake.put(key, self._stored(data))

    def __enter__(self) -> "S3Stub":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream, connection.makefile("wb") as reply:
                while (message := received(stream, reply)) is not None:
                    answer = self._answer(message)
                    if answer is None:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
                    reply.write(answer.sent(to_head=message.method == "HEAD"))
                    reply.flush()
        except OSError:
            pass  # the other side has gone
        finally:
            self._connections.discard(connection)

    def _answer(self, message: Message) -> Answer | None:
        """Carry out the request; None: the answer is lost."""
        came, verb = time.time(), _verb(message)
        request = self._counted(verb, message)
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
        try:
            return self._carried_out(verb, message, request)
        finally:
            self.answered(request, came, time.time())

    def _carried_out(self, verb: str, message: Message, request: Request) -> Answer | None:
        told = self.plan(request)
        match told:
            case Answer():
                return told
            case Fault.BEFORE:
                return Answer(500, code="InternalError")
            case Fault.THROTTLED:
                return Answer(503, code="SlowDown")
            case Fault.DROPPED:
                return None
            case Fault.STUCK:
                self._ended.wait()
                return None
        answer = self._refused(verb, message) or self._done(verb, message)
        if told is Fault.AFTER:
            return Answer(500, code="InternalError")
        return None if told is Fault.LOST else answer

    def _counted(self, verb: str, message: Message) -> Request:
        _, key = message.bucket_and_key
        if verb == "list":
            key = message.arguments.get("prefix", "")
        if verb == "delete all":
            key = _keys(message)[0]
        with self._lock:
            self._counts[verb, key] += 1
            request = Request(verb, key, self._counts[verb, key])
            self.requests.append(request)
        return request

    def _refused(self, verb: str, message: Message) -> Answer | None:
        if message.headers.get("x-amz-security-token") in self.expired:
            return Answer(400, code="ExpiredToken")
        sent = message.headers.get("x-amz-date")
        if sent is not None:
            at = datetime.strptime(sent, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
            if abs(time.time() + self.skew_seconds - at) > _MOST_SKEW_SECONDS:
                return Answer(403, code="RequestTimeTooSkewed")
        wrong = signature_fault(message, self.secrets, self.region)
        if wrong is None and verb in self.denied:
            wrong = _each_denied(message) if verb == "delete all" else Answer(403, code="AccessDenied")
        if wrong is None and message.bucket_and_key[0] not in self.buckets:
            wrong = Answer(404, code="NoSuchBucket")
        return wrong

    def _done(self, verb: str, message: Message) -> Answer:
        name, key = message.bucket_and_key
        with self._lock:
            bucket = self.buckets[name]
            match verb:
                case "head" if not key:
                    return Answer(200)  # of the bucket
                case "get" | "head":
                    return _content(bucket.objects.get(key), message)
                case "put":
                    return self._put(bucket, key, message)
                case "copy":
                    return self._copy(bucket, key, message)
                case "delete":
                    bucket.drop(key)
                    return Answer(204)
                case "delete all":
                    for each in _keys(message):
                        bucket.drop(each)
                    return document(
                        "DeleteResult", *(f"<Deleted>{tag('Key', each)}</Deleted>" for each in _keys(message))
                    )
                case "list":
                    return _page(self.listed or bucket, message.arguments, self.page)
                case "begin parts":
                    upload = uuid.uuid4().hex
                    self.uploads[upload] = {}
                    parts = (tag("Bucket", name), tag("Key", key), tag("UploadId", upload))
                    return document("InitiateMultipartUploadResult", *parts)
                case "part" | "complete" | "abort":
                    return self._part(verb, bucket, key, message)
        return Answer(501, code="NotImplemented")

    def _stored(self, data: bytes) -> Stored:
        return Stored(data, hashlib.md5(data, usedforsecurity=False).hexdigest(), self.now_millis())

    def _put(self, bucket: Bucket, key: str, message: Message) -> Answer:
        held = bucket.objects.get(key)
        if "if-none-match" in message.headers and "if-none-match" not in self.ignored and held is not None:
            return Answer(412, code="PreconditionFailed")
        wanted = message.headers.get("if-match")
        if wanted is not None and "if-match" not in self.ignored:
            if held is None:
                return Answer(404, code="NoSuchKey")
            if wanted.strip('"') != held.etag:
                return Answer(412, code="PreconditionFailed")
        stored = self._stored(message.body)
        bucket.put(key, stored)
        return Answer(200, headers={"ETag": f'"{stored.etag}"'})

    def _copy(self, bucket: Bucket, key: str, message: Message) -> Answer:
        """Copy within a bucket. Real servers ignore conditions here."""
        _, _, source = unquote(message.headers["x-amz-copy-source"]).lstrip("/").partition("/")
        if source not in bucket.objects:
            return Answer(404, code="NoSuchKey")
        stored = self._stored(bucket.objects[source].data)
        bucket.put(key, stored)
        at = datetime.fromtimestamp(stored.modified_millis // 1000, UTC)
        facts = (tag("LastModified", f"{at:%Y-%m-%dT%H:%M:%S}.000Z"), tag("ETag", f'"{stored.etag}"'))
        return document("CopyObjectResult", *facts)

    def _part(self, verb: str, bucket: Bucket, key: str, message: Message) -> Answer:
        upload = message.arguments["uploadId"]
        if upload not in self.uploads:
            return Answer(404, code="NoSuchUpload")
        if verb == "part":
            self.uploads[upload][int(message.arguments["partNumber"])] = message.body
            return Answer(200, headers={"ETag": f'"{self._stored(message.body).etag}"'})
        parts = self.uploads.pop(upload)
        if verb == "abort":
            return Answer(204)
        named = [int(number.text or "") for number in _found(message, "PartNumber")]
        if named != sorted(parts):
            return Answer(400, code="InvalidPart")
        stored = self._stored(b"".join(parts[number] for number in named))
        bucket.put(key, stored)
        return document("CompleteMultipartUploadResult", tag("Key", key), tag("ETag", f'"{stored.etag}"'))


def _verb(message: Message) -> str:
    named = message.arguments
    match message.method, "uploadId" in named, message.bucket_and_key[1]:
        case "GET", _, "":
            return "list"
        case "POST", _, "":
            return "delete all"
        case "POST", has_upload, _:
            return "complete" if has_upload else "begin parts"
        case "PUT", True, _:
            return "part"
        case "DELETE", True, _:
            return "abort"
        case "PUT", _, _ if "x-amz-copy-source" in message.headers:
            return "copy"
        case method, _, _:
            return method.lower()


def _found(message: Message, name: str) -> list[ElementTree.Element]:
    return [element for element in ElementTree.fromstring(message.body).iter() if element.tag.endswith(name)]


def _keys(message: Message) -> list[str]:
    return [element.text or "" for element in _found(message, "Key")]


def _each_denied(message: Message) -> Answer:
    """Return what Amazon answers to a deletion of several objects without permission: a success, with errors in it."""
    denied = tag("Code", "AccessDenied") + tag("Message", "Access Denied")
    return document("DeleteResult", *(f"<Error>{tag('Key', each)}{denied}</Error>" for each in _keys(message)))


def _content(stored: Stored | None, message: Message) -> Answer:
    if stored is None:
        return Answer(404, code="NoSuchKey")
    headers = {
        "ETag": f'"{stored.etag}"',
        "Last-Modified": formatdate(stored.modified_millis // 1000, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    wanted = _RANGE.fullmatch(message.headers.get("range", ""))
    size = len(stored.data)
    if wanted is None:
        return Answer(200, stored.data, headers=headers)
    first = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
    end = min(size, int(wanted[2]) + 1) if wanted[1] and wanted[2] else size
    if first >= size:
        return Answer(416, code="InvalidRange")
    return Answer(206, stored.data[first:end], headers={**headers, "Content-Range": f"bytes {first}-{end - 1}/{size}"})


def _page(bucket: Bucket, asked: Mapping[str, str], most: int) -> Answer:
    """Return one page of a list: keys, and what keys have in common up to the delimiter."""
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    after = asked.get("continuation-token") or asked.get("start-after", "")
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
    end = [tag("NextContinuationToken", last)] if is_cut else []
    truncated = tag("IsTruncated", "true" if is_cut else "false")
    return document("ListBucketResult", tag("Prefix", prefix), tag("KeyCount", len(entries)), truncated, *entries, *end)


def main(stdin: IO[str] = sys.stdin) -> None:
    options = argparse.ArgumentParser(description="A strict S3 server for tests, on 127.0.0.1, in memory.")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--delay", type=float, default=0, help="seconds that each answer takes")
    options.add_argument("--log", help="a file that gets a line for each request: its times, verb and key")
    options.add_argument("--lose", type=float, default=0, help="the share of writes whose answer is lost, 0 to 1")
    given = options.parse_args()
    random = Random(0)
    with (
        open(given.log or os.devnull, "a", buffering=1) as log,
        S3Stub(port=given.port, delay_seconds=given.delay) as stub,
    ):
        stub.answered = lambda request, came, left: print(came, left, request.verb, request.key, sep="\t", file=log)
        stub.plan = lambda request: Fault.LOST if request.verb == "put" and random.random() < given.lose else None
        print(stub.endpoint, flush=True)
        stdin.read()


if __name__ == "__main__":
    main()
