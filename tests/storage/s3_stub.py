"""A strict S3 server of the standard library, for tests: each key atomic, signatures checked, faults as told.

In a test: `with S3Stub() as stub`. For other processes: `python -m tests.storage.s3_stub --delay 0.02`, which prints
its address and ends with its standard input. The bucket is `lake`. It keeps everything in memory.
"""

import argparse
import hashlib
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from random import Random
from types import TracebackType
from typing import IO
from urllib.parse import unquote

from tests.storage.s3_errors import error
from tests.storage.s3_objects import Bucket, Stored, content, page
from tests.storage.s3_protocol import Answer, Message, document, received, signature_fault, tag
from tests.storage.s3_rules import form_fault, found, keys_of
from tests.storage.s3_uploads import Upload, begun, continued

ACCESS, SECRET, REGION = "stub-access", "stub-secret-key", "us-east-1"
# A request may be a quarter of an hour old, or early.
_MOST_SKEW_SECONDS = 900


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


class S3Stub:
    """What tests tell it: `plan` says what goes wrong with a request; `delay_seconds` is how long each answer takes;
    `denied` are verbs without permission; `archived` keys whose objects must be restored before they are read;
    `is_locked`: the bucket retains objects; `ignored` headers that have no effect; `expired` session tokens;
    `secrets` secret keys by access keys; `skew_seconds` how far its clock is ahead; `listed` what lists show instead of
    the present state; `page` the most keys of one answer.
    """

    def __init__(self, *, port: int = 0, delay_seconds: float = 0) -> None:
        self.delay_seconds = delay_seconds
        self.plan: Callable[[Request], Fault | Answer | None] = lambda request: None
        self.denied: frozenset[str] = frozenset()
        self.archived: frozenset[str] = frozenset()
        self.is_locked = False
        self.ignored: frozenset[str] = frozenset()
        self.expired: frozenset[str] = frozenset()
        self.skew_seconds = 0.0
        self.listed: Bucket | None = None
        self.page = 1_000
        self.region = REGION
        self.secrets: Mapping[str, str] = {ACCESS: SECRET}
        self.now_millis: Callable[[], int] = lambda: int(time.time() * 1000)
        self.buckets = {"lake": Bucket()}
        self.uploads: dict[str, Upload] = {}
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
    def environ(self) -> dict[str, str]:
        """The environment in which processes reach it without settings."""
        keys = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
        return {**keys, "AWS_ENDPOINT_URL": self.endpoint}

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
                    if answer.cut is not None:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
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
                return error("InternalError")
            case Fault.THROTTLED:
                return error("SlowDown")
            case Fault.DROPPED:
                return None
            case Fault.STUCK:
                self._ended.wait()
                return None
        answer = self._refused(verb, message) or self._done(verb, message)
        if told is Fault.AFTER:
            return error("InternalError")
        return None if told is Fault.LOST else answer

    def _counted(self, verb: str, message: Message) -> Request:
        _, key = message.bucket_and_key
        if verb == "list":
            key = message.arguments.get("prefix", "")
        if verb == "delete all":
            key = next(iter(keys_of(message)), "")
        with self._lock:
            self._counts[verb, key] += 1
            request = Request(verb, key, self._counts[verb, key])
            self.requests.append(request)
        return request

    def _refused(self, verb: str, message: Message) -> Answer | None:
        if message.headers.get("x-amz-security-token") in self.expired:
            return error("ExpiredToken")
        sent = message.headers.get("x-amz-date")
        if sent is not None:
            at = datetime.strptime(sent, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
            if abs(time.time() + self.skew_seconds - at) > _MOST_SKEW_SECONDS:
                return error("RequestTimeTooSkewed")
        wrong = signature_fault(message, self.secrets, self.region)
        if wrong is None and verb in self.denied:
            wrong = _each_denied(message) if verb == "delete all" else _DENIED
        if wrong is None and message.bucket_and_key[0] not in self.buckets:
            wrong = error("NoSuchBucket")
        return wrong or form_fault(verb, message, is_locked=self.is_locked)

    def _done(self, verb: str, message: Message) -> Answer:
        name, key = message.bucket_and_key
        with self._lock:
            bucket = self.buckets[name]
            match verb:
                case "head" if not key:
                    return Answer(200)  # of the bucket
                case "get" | "head":
                    return self._read(verb, bucket, key, message)
                case "put":
                    return self._put(bucket, key, message)
                case "copy":
                    return self._copy(bucket, key, message)
                case "delete":
                    bucket.drop(key)
                    return Answer(204)
                case "delete all":
                    for each in keys_of(message):
                        bucket.drop(each)
                    told = [] if found(message, "Quiet") == ["true"] else keys_of(message)
                    return document("DeleteResult", *(f"<Deleted>{tag('Key', each)}</Deleted>" for each in told))
                case "list":
                    return page(self.listed or bucket, message.arguments, self.page)
                case "begin parts":
                    return begun(self.uploads, name, key)
                case "part" | "complete" | "abort":
                    return self._part(verb, bucket, key, message)
        return error("NotImplemented")

    def _read(self, verb: str, bucket: Bucket, key: str, message: Message) -> Answer:
        if key not in bucket.objects:
            # Who may not list is not told that there is no such object.
            return _DENIED if "list" in self.denied else error("NoSuchKey", Key=key)
        if key in self.archived and verb == "get":
            return error("InvalidObjectState", StorageClass="GLACIER")
        return content(bucket.objects[key], message)

    def _stored(self, data: bytes) -> Stored:
        return Stored(data, hashlib.md5(data, usedforsecurity=False).hexdigest(), self.now_millis())

    def _put(self, bucket: Bucket, key: str, message: Message) -> Answer:
        refused = self._unmet(bucket.objects.get(key), message)
        if refused is not None:
            return refused
        stored = self._stored(message.body)
        bucket.put(key, stored)
        return Answer(200, headers={"ETag": f'"{stored.etag}"'})

    def _unmet(self, held: Stored | None, message: Message) -> Answer | None:
        """Return what is answered to a write whose condition is not met."""
        free, wanted = (
            None if name in self.ignored else message.headers.get(name) for name in ("if-none-match", "if-match")
        )
        if free not in (None, "*"):
            return error("NotImplemented")
        if free is not None and held is not None:
            return error("PreconditionFailed", Condition="If-None-Match")
        if wanted is not None and held is None:
            return error("NoSuchKey")
        if wanted is not None and held is not None and wanted.strip('"') != held.etag:
            return error("PreconditionFailed", Condition="If-Match")
        return None

    def _copy(self, bucket: Bucket, key: str, message: Message) -> Answer:
        """Copy within a bucket. Real servers ignore conditions here."""
        _, _, source = unquote(message.headers["x-amz-copy-source"]).lstrip("/").partition("/")
        if source not in bucket.objects:
            return error("NoSuchKey")
        stored = self._stored(bucket.objects[source].data)
        bucket.put(key, stored)
        at = datetime.fromtimestamp(stored.modified_millis // 1000, UTC)
        facts = (tag("LastModified", f"{at:%Y-%m-%dT%H:%M:%S}.000Z"), tag("ETag", f'"{stored.etag}"'))
        return document("CopyObjectResult", *facts)

    def _part(self, verb: str, bucket: Bucket, key: str, message: Message) -> Answer:
        whole = continued(verb, self.uploads, key, message)
        if isinstance(whole, Answer):
            return whole
        etag, data = whole
        bucket.put(key, Stored(data, etag, self.now_millis()))
        done = document("CompleteMultipartUploadResult", tag("Key", key), tag("ETag", f'"{etag}"'))
        return replace(done, is_chunked=True)


_DENIED = error("AccessDenied", "Access Denied")


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


def _each_denied(message: Message) -> Answer:
    """Return what Amazon answers to a deletion of several objects without permission: a success, with errors in it."""
    denied = tag("Code", "AccessDenied") + tag("Message", "Access Denied")
    return document("DeleteResult", *(f"<Error>{tag('Key', each)}{denied}</Error>" for each in keys_of(message)))


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
