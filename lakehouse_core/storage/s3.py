"""S3 store: objects of an S3-compatible store below a prefix of one bucket, by the package obstore.

Rule: a conditional request is sent once; an answer that does not say what became of it is an unknown outcome, which
callers resolve by reading. NotFound is raised only if the store reported a missing key; a missing bucket is none.
Source: docs/reliability/store.md#s3-compatible-stores, docs/decisions/0022-s3-stores.md.
"""

import builtins
import io
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import cached_property, lru_cache
from itertools import islice
from typing import IO, Any, Final, NoReturn, TypeVar, cast

import obstore
import pyarrow as pa
from obstore import exceptions
from obstore.store import S3Store as Client

from lakehouse_core.clock import Clock, SystemClock
from lakehouse_core.errors import (
    InvalidRequest,
    NotFound,
    StorageUnavailable,
    UnsupportedFeature,
    WriteOutcomeUnknown,
)
from lakehouse_core.storage.keys import is_hidden, joined, key_parts, temp_name
from lakehouse_core.storage.object_store import Children, ObjectInfo, StoreSpec
from lakehouse_core.storage.s3_settings import S3Credentials, S3Settings, client_config, given_keys, parse_s3

T = TypeVar("T")

# Where a machine with a role asks for its credentials, after all other places.
_ROLE_ADDRESS: Final = "169.254.169.254"
_CODE: Final = re.compile(r"<Code>(\w{1,60})</Code>")
_ADVICE: Final = {
    "AccessDenied": "these credentials may not do that, are wrong, or have expired. Grant them reading, writing, "
    "listing and deleting here, or get others.",
    "AllAccessDisabled": "the account is disabled. Ask its owner.",
    "ExpiredToken": "the session token has expired. Get a new one, then connect again.",
    "InvalidAccessKeyId": "the access key is unknown there. Check the key and the endpoint.",
    "SignatureDoesNotMatch": "the secret key does not belong to the access key. Check both.",
    "RequestTimeTooSkewed": "the clock of this machine differs from the store's. Set it, then try again.",
    "PermanentRedirect": "the bucket is in another region. Give storage={'region': …}.",
    "AuthorizationHeaderMalformed": "the bucket is in another region. Give storage={'region': …}.",
    "SlowDown": "it is asked too often. Try again later, or give fewer connections.",
    "ServiceUnavailable": "it is overloaded. Try again later.",
    "InternalError": "it has failed. Try again later.",
}
_NO_S3: Final = "an S3 store does not answer like this. Check the endpoint, and proxies before it."
# What the client says where the store gave no code, and what to do.
_CLIENT_ADVICE: Final = {
    "Received redirect": "the bucket is in another region or at another address. Give storage={'region': …}.",
    "error sending request": "the store did not answer in time. Check the endpoint and the network, then try again.",
    "status code: 400": "the store refuses the request. Check region and session token.",
    "status code: 403": "the store refuses these credentials. Check keys, permissions and the clock of this machine.",
    "status code: 404": _NO_S3,
    "non-2xx status code": "the store, or a proxy before it, has failed. Check the endpoint, or try again later.",
    "Unable to extract metadata": _NO_S3,
    "invalid list response": _NO_S3,
    "Got invalid": _NO_S3,
    "non-partial response": _NO_S3,
}
R = TypeVar("R")

# Up to this size an object is read whole; a larger one in ranges.
_WHOLE_BYTES: Final = 32 << 20
# A larger object is uploaded in parts while it is written.
_ONE_PART_BYTES: Final = 64 << 20
# Of a larger object that is read on and on: what one request asks for, how much is asked for before it is read, how
# many requests run at once, and the bytes that may be left out between two reads.
_PIECE_BYTES: Final = 2 << 20
_MOST_AHEAD_BYTES: Final = 8 << 20
_PIECES_AT_ONCE: Final = 4
_GAP_BYTES: Final = 1 << 20
# The end of a larger object, where formats keep what readers ask for first, is read at once.
_TAIL_BYTES: Final = 256 << 10
_PART_BYTES: Final = 16 << 20
_DELETED_AT_ONCE: Final = 1_000
# The most keys of one page of a list.
_PAGE_KEYS: Final = 1_000
_READ_RETRIES: Final = 5
# The processes that were forked from one that had loaded this module.
_FORKED: Final[set[int]] = set()
_FOUND_BUCKETS: Final[set[S3Settings]] = set()
_PROBED: Final[dict[S3Settings, bool]] = {}
_PROBING: Final = threading.Lock()


class S3Store:
    """An ObjectStore in a bucket. It has no folders: keys are all there is."""

    def __init__(self, spec: StoreSpec, *, clock: Clock | None = None) -> None:
        self._settings = parse_s3(spec)
        self._clock = clock or SystemClock()
        self._prefix = "/".join(key_parts(spec.root.partition("/")[2]))

    @property
    def spec(self) -> StoreSpec:
        return StoreSpec("s3", joined(self._settings.bucket, self._prefix), self._settings.named)

    @property
    def folders(self) -> None:
        return None

    @property
    def requests_at_once(self) -> int:
        return self._settings.connections

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address; another process opens the store with its own credentials."""
        return S3Store, (self.spec,)

    def at(self, prefix: str) -> "S3Store":
        root = joined(joined(self._settings.bucket, self._prefix), prefix)
        return S3Store(StoreSpec("s3", root, self.spec.settings), clock=self._clock)

    def uri(self, key: str) -> str:
        return f"s3://{self._settings.bucket}/{self._key(key)}"

    def read(self, key: str) -> bytes:
        with self._answering(key):
            found = obstore.get(self._client(), self._key(key))
            self._version(key, found.meta)
            return bytes(found.bytes())

    def read_all(self, keys: Iterable[str]) -> Iterator[bytes]:
        rest = iter(keys)
        while some := list(islice(rest, self.requests_at_once)):
            yield from self._each(self.read, some)

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        asked = list(keys)
        found = zip(asked, self._each(_or_none(self.read), asked), strict=True)
        return {key: data for key, data in found if data is not None}

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        try:
            with self._answering(key):
                found = obstore.get(self._client(), self._key(key))
                return bytes(found.bytes()), self._version(key, found.meta)
        except NotFound:
            return None

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        if size is None:
            size = self._info(key).size
        if size <= _WHOLE_BYTES:
            return pa.BufferReader(self.read(key))
        with self._answering(key):
            return pa.PythonFile(_Ranges(self, key, size), mode="r")

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        asked = list(keys)
        found = zip(asked, self._each(_or_none(self._info), asked), strict=True)
        return {key: info for key, info in found if info is not None}

    def children(self, prefix: str) -> Children:
        folder = self._folder(prefix)
        with self._answering(prefix):
            found = obstore.list_with_delimiter(self._client(), prefix=folder or None)
        self._check_list(prefix, len(found["objects"]) + len(found["common_prefixes"]))
        names = (meta["path"].removeprefix(folder) for meta in found["objects"])
        folders = (path.removeprefix(folder).rstrip("/") for path in found["common_prefixes"])
        return Children(
            files=tuple(sorted(name for name in names if name and not is_hidden(name))),
            folders=tuple(sorted(name for name in folders if not is_hidden(name))),
        )

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        folder = self._folder(prefix)
        root = self._folder("")
        count = 0
        with self._answering(prefix):
            for page in obstore.list(self._client(), prefix=folder or None):
                count += len(page)
                for meta in page:
                    yield _info(meta["path"].removeprefix(root), meta)
        self._check_list(prefix, count)

    def create_new(self, key: str, data: bytes) -> bool:
        return self._put_if(key, data, "create")

    def write(self, key: str, data: bytes, *, durable: bool = True) -> None:
        self._key(key)
        check_conditions(self)
        with self._writing(key):
            obstore.put(self._client(), self._key(key), data, use_multipart=len(data) > _ONE_PART_BYTES)

    def write_all(self, objects: Mapping[str, bytes]) -> None:
        for key in objects:
            key_parts(key)
        self._each(lambda item: self.write(*item), list(objects.items()))

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        self._key(key)
        check_conditions(self)
        with ExitStack() as stack:
            sink = _Sink(lambda: stack.enter_context(self._parts(key)))
            yield cast(IO[bytes], sink)
            if sink.is_small:
                self.write(key, sink.content())
            else:
                with self._writing(key):
                    stack.close()

    def _parts(self, key: str) -> AbstractContextManager[Any]:
        """Begin an upload in parts. It is completed at the end of the block, and given up if an exception leaves it."""
        return obstore.open_writer(self._client(), self._key(key), buffer_size=_PART_BYTES)

    def make_last(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._key(key)

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        return self._put_if(key, data, "create" if if_version is None else {"e_tag": if_version})

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        rest = iter([self._key(key) for key in keys])
        with self._writing(""):
            while some := list(islice(rest, _DELETED_AT_ONCE)):
                obstore.delete(self._client(), some)
        return ()

    def delete_folder(self, prefix: str) -> Sequence[str]:
        return self.delete([info.key for info in self.list(prefix)])

    def now_millis(self) -> int:
        key = self.temp_key("now")
        try:
            self.write(key, b"")
            return self._info(key).modified_millis
        finally:
            # The object may be there whatever the answer was.
            with suppress(StorageUnavailable):
                self.delete([key])

    def temp_key(self, name: str) -> str:
        """Return a fresh hidden key."""
        return temp_name(name, self._clock.uuid())

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return `length` bytes from `start` on."""
        with self._answering(key):
            return bytes(obstore.get_range(self._client(), self._key(key), start=start, length=length))

    def _put_if(self, key: str, data: bytes, mode: Any) -> bool:
        check_conditions(self)
        return self.put_if(key, data, mode)

    def put_if(self, key: str, data: bytes, mode: Any) -> bool:
        """Send one conditional request; return False if the store refused it. Raises WriteOutcomeUnknown."""
        try:
            with self._writing(key):
                obstore.put(self._client(retries=0), self._key(key), data, mode=mode, use_multipart=False)
        except _Refused:
            return False
        return True

    def _client(self, *, retries: int | None = None) -> Client:
        """Return a client that repeats a request so often. None: as often as a request may be repeated."""
        if os.getpid() in _FORKED:
            raise StorageUnavailable(
                f"{self.uri('')}: this process was forked from one that may have used the store, where requests can "
                "wait for ever. Start processes by spawn, as in multiprocessing.get_context('spawn')."
            )
        return _client(self._settings, _READ_RETRIES if retries is None else retries, given_keys(self._settings))

    def _each(self, function: Callable[[T], R], items: Sequence[T]) -> builtins.list[R]:
        """Return the result of `function` for each item, which run at once. Raises the first failure."""
        if len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(len(items), self.requests_at_once), thread_name_prefix="s3") as pool:
            return list(pool.map(function, items))

    def _info(self, key: str) -> ObjectInfo:
        try:
            with self._answering(key):
                meta = obstore.head(self._client(), self._key(key))
                self._version(key, meta)
                return _info(key, meta)
        except NotFound:
            if self._settings not in _FOUND_BUCKETS:
                # The answer to HEAD does not say whether the key or the bucket is missing; that to GET does.
                with self._answering(key):
                    obstore.get(self._client(), self._key(key), options={"range": (0, 1)})
            raise

    def _check_list(self, prefix: str, count: int) -> None:
        """Raise StorageUnavailable if a list with so many entries may be the page of a proxy: the client takes any
        well-formed document for a list, which ends there.
        """
        if 0 < count < _PAGE_KEYS:
            return
        key = joined(prefix, ".nothing")
        with suppress(NotFound), self._answering(key):
            obstore.get(self._client(), self._key(key), options={"range": (0, 1)})

    def _key(self, key: str) -> str:
        found = joined(self._prefix, key)
        if not found.isprintable():
            raise InvalidRequest(f"Key {key!r}: an S3 store takes printable characters only. Choose another name.")
        return found

    def _folder(self, prefix: str) -> str:
        key = self._key(prefix)
        return f"{key}/" if key else ""

    def _version(self, key: str, meta: Any) -> str:
        """Return the object's version. An answer without one comes from a proxy, not from the store."""
        # Ceph refuses a version in quotes, others take both.
        version = (meta["e_tag"] or "").strip('"')
        if not version:
            raise StorageUnavailable(f"{self.uri(key)}: the answer has no ETag: {_NO_S3}")
        return version

    @contextmanager
    def _answering(self, key: str) -> Iterator[None]:
        """Raise the core's errors for those of a reading request."""
        try:
            yield
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            self._missing(key, error)
        except (exceptions.BaseError, OSError, ValueError) as error:
            self._check_bucket(error)
            raise StorageUnavailable(self._told(key, error)) from None

    @contextmanager
    def _writing(self, key: str) -> Iterator[None]:
        """Raise the core's errors for those of a writing request."""
        try:
            yield
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            raise _Refused from None
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            self._missing(key, error)
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, exceptions.NotSupportedError) as no:
            raise StorageUnavailable(self._told(key, no)) from None
        except (exceptions.BaseError, OSError) as error:
            raise WriteOutcomeUnknown(self._told(key, error)) from None

    def _check_bucket(self, error: Exception) -> None:
        if "NoSuchBucket" in str(error):
            raise StorageUnavailable(
                f"s3://{self._settings.bucket}: there is no such bucket at {self._settings.endpoint or 'AWS'}. Check "
                "its name and the endpoint, or create it."
            ) from None

    def _missing(self, key: str, error: Exception) -> NoReturn:
        self._check_bucket(error)
        text = str(error)
        if "NoSuchKey" in text:
            _FOUND_BUCKETS.add(self._settings)
        elif _CODE.search(text) is None and "performing HEAD" not in text:
            # An answer to HEAD has no code. Any other without one is a proxy's.
            raise StorageUnavailable(self._told(key, error)) from None
        raise NotFound(f"{self.uri(key)}: the object does not exist. Check the name.") from None

    def _told(self, key: str, error: Exception) -> str:
        """Return what the store answered, and what to do."""
        text = str(error)
        if _ROLE_ADDRESS in text:
            return (
                f"{self.uri(key)}: no credentials were found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
                "environment, or give access-key and secret-key in storage=."
            )
        code = _CODE.search(text)
        if code is not None and code[1] in _ADVICE:
            return f"{self.uri(key)}: the store answers {code[1]}: {_ADVICE[code[1]]}"
        advice = next((advice for part, advice in _CLIENT_ADVICE.items() if part in text), "Try again later.")
        # The further lines show the whole request.
        return f"{self.uri(key)}: {advice} ({text.splitlines()[0][:300]})"


class _Refused(Exception):
    """A conditional request was refused: the key is taken, or has another version."""


class _Sink(io.RawIOBase):
    """Holds written bytes until their block ends; more than `_ONE_PART_BYTES` of them go to the store meanwhile.

    Writers may close it early, as Parquet writers do. `begin` begins the upload in parts.
    """

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._held: io.BytesIO | None = io.BytesIO()
        self._parts: Any = None
        self._written = 0

    @property
    def is_small(self) -> bool:
        return self._held is not None

    def content(self) -> bytes:
        """REQUIRES: `is_small`."""
        assert self._held is not None
        return self._held.getvalue()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._held is not None:
            self._held.write(data)
            if self._written + size > _ONE_PART_BYTES:
                self._parts = self._begin()
                self._parts.write(self._held.getvalue())
                self._held = None
        else:
            self._parts.write(bytes(data))
        self._written += size
        return size

    def close(self) -> None:
        """Do nothing: the block that opened the sink stores or drops the bytes."""


class _Ranges(io.RawIOBase):
    """A large object, read in ranges. What follows a read is asked for before it is read, the more the further reads go
    on, until one begins elsewhere.
    """

    def __init__(self, store: S3Store, key: str, size: int) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._position = 0
        # Where the last read ended, None before the first, and the bytes that are asked for beyond a read.
        self._read_end: int | None = None
        self._ahead_bytes = 0
        # The pieces that are asked for, by their starts, without gaps, and where the last of them ends.
        self._pieces: dict[int, Future[bytes]] = {}
        self._asked_end = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._position)
        length = left if size < 0 else min(size, left)
        if not length:
            return b""
        data = self._range(self._position, self._position + length)
        self._position += len(data)
        return data

    def close(self) -> None:
        """Ask for nothing more."""
        if not self.closed:
            self._pieces = {}
            if "_pool" in vars(self):
                self._pool.shutdown(wait=False, cancel_futures=True)
        super().close()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_PIECES_AT_ONCE, thread_name_prefix="s3-ahead")

    @cached_property
    def _tail(self) -> bytes:
        length = min(self._size, _TAIL_BYTES)
        return self._store.read_range(self._key, self._size - length, length)

    def _range(self, start: int, end: int) -> bytes:
        if start >= self._size - _TAIL_BYTES and not self._pieces:
            first = self._size - len(self._tail)
            return self._tail[start - first : end - first]
        follows = self._read_end is None or 0 <= start - self._read_end <= _GAP_BYTES
        self._read_end = end
        self._ahead_bytes = min(max(2 * self._ahead_bytes, _PIECE_BYTES), _MOST_AHEAD_BYTES) if follows else 0
        if not follows:
            self._pieces = {}
            return self._store.read_range(self._key, start, end - start)
        self._ask(start, end)
        pieces = [(first, piece.result()) for first, piece in self._pieces.items() if first < end]
        last = pieces[-1][0]
        self._pieces = {first: piece for first, piece in self._pieces.items() if first >= last}
        parts = [memoryview(data)[max(0, start - first) : end - first] for first, data in pieces]
        return b"".join(parts)

    def _ask(self, start: int, end: int) -> None:
        """Ask for what is not asked for yet of the range and of the bytes beyond it; forget what lies before it."""
        if not self._pieces:
            self._asked_end = start
        self._pieces = {
            first: piece for first, piece in self._pieces.items() if min(first + _PIECE_BYTES, self._asked_end) > start
        }
        self._asked_end = max(self._asked_end, start)
        last = min(self._size, end + self._ahead_bytes)
        while self._asked_end < last:
            length = min(_PIECE_BYTES, self._size - self._asked_end)
            if self._asked_end >= end and self._asked_end + length > last and last < self._size:
                # Of what is beyond, whole pieces.
                break
            self._pieces[self._asked_end] = self._pool.submit(
                self._store.read_range, self._key, self._asked_end, length
            )
            self._asked_end += length


def _or_none(read: Callable[[str], R]) -> Callable[[str], R | None]:
    def found(key: str) -> R | None:
        try:
            return read(key)
        except NotFound:
            return None

    return found


def _info(key: str, meta: Any) -> ObjectInfo:
    # In whole seconds: the answer to HEAD has no more, and some lists have.
    return ObjectInfo(key=key, size=meta["size"], modified_millis=int(meta["last_modified"].timestamp()) * 1000)


@lru_cache(maxsize=32)
def _client(settings: S3Settings, retries: int, keys: S3Credentials | None) -> Client:
    timeout = f"{settings.timeout_seconds}s"
    return Client(
        settings.bucket,
        **client_config(settings, keys),
        client_options={"allow_http": settings.allow_http, "timeout": timeout, "connect_timeout": timeout},
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=3 * settings.timeout_seconds)},
    )


def check_conditions(store: S3Store) -> None:
    """Raise UnsupportedFeature if the store ignores the conditions of writes. Asks each store once in a process."""
    settings = parse_s3(store.spec)
    with _PROBING:
        if settings not in _PROBED:
            _PROBED[settings] = _honours_conditions(store)
    if not _PROBED[settings]:
        raise UnsupportedFeature(
            f"s3://{settings.bucket} at {settings.endpoint or 'AWS'}: the store ignores If-None-Match or If-Match, so "
            "two writers could overwrite each other's snapshots. Nothing was written. Use a store with conditional "
            "writes."
        )


def _honours_conditions(store: S3Store) -> bool:
    key = store.temp_key("probe")
    try:
        if not store.put_if(key, b"1", "create") or store.put_if(key, b"2", "create"):
            return False
        found = store.read_versioned(key)
        if found is None or found[0] != b"1" or store.put_if(key, b"3", {"e_tag": "0" * 32}):
            return False
        return store.put_if(key, b"4", {"e_tag": found[1]}) and store.read(key) == b"4"
    finally:
        with suppress(StorageUnavailable):
            store.delete([key])


os.register_at_fork(after_in_child=lambda: _FORKED.add(os.getpid()))
