"""Store over a network: objects below a prefix of one bucket of a service, by the package obstore.

Rule: a conditional request is sent once; an answer that does not say what became of it is an unknown outcome, which
callers resolve by reading. NotFound is raised only if the store reported a missing key; a missing bucket is none.
Source: docs/reliability/store.md#object-stores, docs/decisions/0022-s3-stores.md.
"""

import builtins
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache, partial
from itertools import islice
from typing import IO, Any, Final, NoReturn, TypeVar, cast

import obstore
import pyarrow as pa
from obstore import exceptions

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
from lakehouse_core.storage.remote_files import RangeFile, Sink
from lakehouse_core.storage.remote_settings import Credentials, RemoteSettings, given_keys

T = TypeVar("T")
R = TypeVar("R")

# Where a machine with a role asks for its credentials, after all other places.
_ROLE_ADDRESS: Final = "169.254.169.254"
_CODE: Final = re.compile(r"<Code>(\w{1,60})</Code>")
_NO_ANSWER: Final = "error sending request"
# What the client says where the store gave no code, and what to do; "": no such store answers like this.
_CLIENT_ADVICE: Final = {
    _NO_ANSWER: "the store did not answer in time. Check the endpoint and the network, then try again.",
    "status code: 403": "the store refuses these credentials. Check keys, permissions and the clock of this machine.",
    "status code: 404": "",
    "non-2xx status code": "the store, or a proxy before it, has failed. Check the endpoint, or try again later.",
    "Unable to extract metadata": "",
    "Header missing from response": "",
    "invalid list response": "",
    "Got invalid": "",
    "non-partial response": "",
}

# Up to this size an object is read whole; a larger one in ranges.
_WHOLE_BYTES: Final = 32 << 20
# A larger object is uploaded in parts while it is written.
_ONE_PART_BYTES: Final = 64 << 20
_PART_BYTES: Final = 16 << 20
_DELETED_AT_ONCE: Final = 1_000
_READ_RETRIES: Final = 5
_DELETE_REPEATS: Final = 2
# The processes that were forked from one that had loaded this module.
_FORKED: Final[set[int]] = set()
_FOUND_BUCKETS: Final[set[RemoteSettings]] = set()
_PROBED: Final[dict[RemoteSettings, bool]] = {}
_PROBING: Final = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What differs between services.

    `client`: obstore's. `opened`: makes a store of this service. `missing_object`, `missing_bucket`, and the keys of
    `advice`: the codes of error answers. `client_advice`: by a part of what the client says where there is no code.
    `quotes_versions`: conditions take a version with its quotes. `stale_version`: one that no object has.
    `page_keys`: the most keys of one page of a list. `how_to_give_keys`: what to do where there are no credentials.
    """

    settings: type[RemoteSettings]
    client: Callable[..., Any]
    opened: Callable[[StoreSpec], "RemoteStore"]
    missing_object: str
    missing_bucket: str
    advice: Mapping[str, str]
    client_advice: dict[str, str]
    quotes_versions: bool
    stale_version: str
    page_keys: int
    how_to_give_keys: str


class RemoteStore:
    """An ObjectStore in a bucket of a service. It has no folders: keys are all there is."""

    def __init__(self, service: Service, spec: StoreSpec, *, clock: Clock | None = None) -> None:
        self.service = service
        self.settings = service.settings.parsed(spec)
        self._clock = clock or SystemClock()
        self._prefix = "/".join(key_parts(spec.root.partition("/")[2]))

    @property
    def spec(self) -> StoreSpec:
        return StoreSpec(self.settings.scheme, joined(self.settings.bucket, self._prefix), self.settings.named)

    @property
    def folders(self) -> None:
        return None

    @property
    def requests_at_once(self) -> int:
        return self.settings.connections

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address; another process opens the store with its own credentials."""
        return self.service.opened, (self.spec,)

    def at(self, prefix: str) -> "RemoteStore":
        spec = self.spec
        return RemoteStore(self.service, replace(spec, root=joined(spec.root, prefix)), clock=self._clock)

    def uri(self, key: str) -> str:
        return f"{self.settings.address}/{self._key(key)}"

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
            return pa.PythonFile(RangeFile(partial(self.read_range, key), size), mode="r")

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        asked = list(keys)
        found = zip(asked, self._each(_or_none(self._info), asked), strict=True)
        return {key: info for key, info in found if info is not None}

    def children(self, prefix: str) -> Children:
        folder = self._folder(prefix)
        with self._answering(prefix):
            found = obstore.list_with_delimiter(self._client(), prefix=folder or None)
        self._check_list(prefix, len(found["objects"]) + len(found["common_prefixes"]))
        # Other engines put an object at the folder itself.
        names = (meta["path"].removeprefix(folder) for meta in found["objects"] if meta["path"] != folder[:-1])
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
                infos = [_info(meta["path"].removeprefix(root), meta) for meta in page if meta["path"] != folder[:-1]]
                marks = self._marks([info.key for info in infos if not info.size])
                yield from (info for info in infos if info.key not in marks)
        self._check_list(prefix, count)

    def _marks(self, keys: Sequence[str]) -> frozenset[str]:
        """Return which of these empty objects are other engines' marks for folders: the client tells the key of a mark
        without its last slash, and there is no object of that key.
        """
        return frozenset(keys) - self.infos(keys).keys() if keys else frozenset()

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
            sink = Sink(lambda: stack.enter_context(self._parts(key)), most_bytes=_ONE_PART_BYTES)
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
        rest = iter([(key, self._key(key)) for key in keys])
        with self._writing(""):
            while some := list(islice(rest, _DELETED_AT_ONCE)):
                self._delete(dict(some))
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

    def _delete(self, paths: Mapping[str, str]) -> None:
        """Delete objects, by their keys. For a missing one, some services fail, and others of the call may be left."""
        repeats = min(_READ_RETRIES, _DELETE_REPEATS)
        while paths:
            try:
                obstore.delete(self._client(), list(paths.values()))
            except (FileNotFoundError, exceptions.NotFoundError):
                left = {key: paths[key] for key in self.infos(paths)}
                if len(left) == len(paths):
                    raise
                paths = left
            except exceptions.GenericError as error:
                # The client repeats no deletion whose connection broke, though deleting again does no harm.
                if _NO_ANSWER not in str(error) or not repeats:
                    raise
                repeats -= 1
            else:
                return

    def _put_if(self, key: str, data: bytes, mode: Any) -> bool:
        if not self.settings.has_conditions:
            raise UnsupportedFeature(
                f"{self.uri(key)}: the store has no conditional writes (storage: conditional-writes=false), so the "
                "database of a SQL catalog must decide. Connect with metastore=, and write there. Nothing was written."
            )
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

    def _client(self, *, retries: int | None = None) -> Any:
        """Return a client that repeats a request so often. None: as often as a request may be repeated."""
        if os.getpid() in _FORKED:
            raise StorageUnavailable(
                f"{self.uri('')}: this process was forked from one that may have used the store, where requests can "
                "wait for ever. Start processes by spawn, as in multiprocessing.get_context('spawn')."
            )
        keys = given_keys(self.settings)
        try:
            return _client(self.service.client, self.settings, _READ_RETRIES if retries is None else retries, keys)
        except (exceptions.BaseError, ValueError) as error:
            raise StorageUnavailable(self._told("", error)) from None

    def _each(self, function: Callable[[T], R], items: Sequence[T]) -> builtins.list[R]:
        """Return the result of `function` for each item, which run at once. Raises the first failure."""
        if len(items) < 2:
            return [function(item) for item in items]
        # In a forked child the threads are gone; this raises there.
        self._client()
        running = [_threads(self.requests_at_once).submit(function, item) for item in items]
        # A request that is still on its way when this returns could take effect after what the caller does next.
        wait(running)
        return [one.result() for one in running]

    def _info(self, key: str) -> ObjectInfo:
        try:
            with self._answering(key):
                meta = obstore.head(self._client(), self._key(key))
                self._version(key, meta)
                return _info(key, meta)
        except NotFound:
            if self.settings not in _FOUND_BUCKETS:
                # The answer to HEAD does not say whether the key or the bucket is missing; that to GET does.
                with self._answering(key):
                    obstore.get(self._client(), self._key(key), options={"range": (0, 1)})
            raise

    def _check_list(self, prefix: str, count: int) -> None:
        """Raise StorageUnavailable if a list with so many entries may be the page of a proxy: the client takes any
        well-formed document for a list, which ends there.
        """
        if 0 < count < self.service.page_keys:
            return
        key = joined(prefix, ".nothing")
        with suppress(NotFound), self._answering(key):
            obstore.get(self._client(), self._key(key), options={"range": (0, 1)})

    def _key(self, key: str) -> str:
        found = joined(self._prefix, key)
        if not found.isprintable():
            raise InvalidRequest(
                f"Key {key!r}: {self.settings.store} takes printable characters only. Choose another name."
            )
        return found

    def _folder(self, prefix: str) -> str:
        key = self._key(prefix)
        return f"{key}/" if key else ""

    def _version(self, key: str, meta: Any) -> str:
        """Return the object's version. An answer without one comes from a proxy, not from the store."""
        version: str = meta["e_tag"] or ""
        if not version.strip('"'):
            raise StorageUnavailable(f"{self.uri(key)}: the answer has no ETag: {self._not_such}")
        return version if self.service.quotes_versions else version.strip('"')

    @property
    def _not_such(self) -> str:
        return f"{self.settings.store} does not answer like this. Check the endpoint, and proxies before it."

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
        if self.service.missing_bucket in str(error):
            settings = self.settings
            raise StorageUnavailable(
                f"{settings.address}: there is no such {settings.place} at {settings.endpoint or settings.service}. "
                "Check its name and the endpoint, or create it."
            ) from None

    def _missing(self, key: str, error: Exception) -> NoReturn:
        self._check_bucket(error)
        text = str(error)
        if self.service.missing_object in text:
            _FOUND_BUCKETS.add(self.settings)
        elif _CODE.search(text) is not None or "performing HEAD" not in text:
            # An answer to HEAD has no code. Any other without one is a proxy's; other codes tell other faults.
            raise StorageUnavailable(self._told(key, error)) from None
        raise NotFound(f"{self.uri(key)}: the object does not exist. Check the name.") from None

    def _told(self, key: str, error: Exception) -> str:
        """Return what the store answered, and what to do."""
        text = str(error)
        if _ROLE_ADDRESS in text:
            return f"{self.uri(key)}: no credentials were found. {self.service.how_to_give_keys}"
        code = _CODE.search(text)
        if code is not None and code[1] in self.service.advice:
            return f"{self.uri(key)}: the store answers {code[1]}: {self.service.advice[code[1]]}"
        known = self.service.client_advice | _CLIENT_ADVICE
        advice = next((advice for part, advice in known.items() if part in text), "Try again later.")
        advice = advice or self._not_such
        # The further lines show the whole request.
        return f"{self.uri(key)}: {advice} ({text.splitlines()[0][:300]})"


class _Refused(Exception):
    """A conditional request was refused: the key is taken, or has another version."""


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


@lru_cache(maxsize=8)
def _threads(count: int) -> ThreadPoolExecutor:
    """Return the threads that send the requests of plural verbs. They wait for nothing but their request."""
    return ThreadPoolExecutor(count, thread_name_prefix="requests")


@lru_cache(maxsize=32)
def _client(new: Callable[..., Any], settings: RemoteSettings, retries: int, keys: Credentials | None) -> Any:
    """Return a client. It holds the credentials that were given: do not show or send it."""
    timeout = f"{settings.timeout_seconds}s"
    return new(
        settings.bucket,
        **settings.client_config(),
        **dict(() if keys is None else keys.config),
        client_options={"allow_http": settings.allow_http, "timeout": timeout, "connect_timeout": timeout},
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=3 * settings.timeout_seconds)},
    )


def check_conditions(store: RemoteStore) -> None:
    """Raise UnsupportedFeature if the store ignores the conditions of writes. Asks each store once in a process."""
    settings = store.settings
    if not settings.has_conditions:
        # A database decides.
        return
    with _PROBING:
        if settings not in _PROBED:
            _PROBED[settings] = _honours_conditions(store)
    if not _PROBED[settings]:
        raise UnsupportedFeature(
            f"{settings.address} at {settings.endpoint or settings.service}: the store ignores If-None-Match or "
            "If-Match, so two writers could overwrite each other's snapshots. Nothing was written. Use a store with "
            "conditional writes, or give storage={'conditional-writes': 'false'} and a SQL catalog in all writers."
        )


def _honours_conditions(store: RemoteStore) -> bool:
    key = store.temp_key("probe")
    try:
        if not store.put_if(key, b"1", "create") or store.put_if(key, b"2", "create"):
            return False
        found = store.read_versioned(key)
        if found is None or found[0] != b"1" or store.put_if(key, b"3", {"e_tag": store.service.stale_version}):
            return False
        return store.put_if(key, b"4", {"e_tag": found[1]}) and store.read(key) == b"4"
    finally:
        with suppress(StorageUnavailable):
            store.delete([key])


os.register_at_fork(after_in_child=lambda: _FORKED.add(os.getpid()))
