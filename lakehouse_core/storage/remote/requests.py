"""Requests for the objects below a prefix of one bucket: each call is one, or one for each page.

Rule: a conditional request is sent once; the client repeats the others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final, TypeVar

import obstore
from obstore import exceptions

from lakehouse_core.errors import InvalidRequest, NotFound, StorageUnavailable, shown
from lakehouse_core.storage.keys import joined
from lakehouse_core.storage.object_store import ObjectInfo
from lakehouse_core.storage.remote import clients
from lakehouse_core.storage.remote.answers import ConditionRefused, ServiceAnswers, has_no_answer
from lakehouse_core.storage.remote.service import Service
from lakehouse_core.storage.remote.settings import RemoteSettings
from lakehouse_core.threads import Threads

T = TypeVar("T")
R = TypeVar("R")

_DELETE_REPEATS: Final = 2
# Services over a network take no longer key; without its prefix it may be much shorter.
_MOST_KEY_BYTES: Final = 1_024
_BARE_REFUSAL: Final = "status code: 4"


class Requests:
    """Requests to a service, by key below the prefix, with the core's errors."""

    def __init__(self, service: Service, settings: RemoteSettings, prefix: str) -> None:
        self.service = service
        self.settings = settings
        self.answers = ServiceAnswers(service, settings, prefix)
        self._prefix = prefix

    def uri(self, key: str) -> str:
        return f"{self.settings.address}/{self.path(key)}"

    def path(self, key: str) -> str:
        """Return the key within the bucket. Raises InvalidRequest."""
        found = joined(self._prefix, key)
        if not found.isprintable():
            raise InvalidRequest(
                f"Key {key!r}: {self.settings.store} takes printable characters only. Choose another name."
            )
        if len(found) > _MOST_KEY_BYTES // 4 and len(found.encode()) > _MOST_KEY_BYTES:
            raise InvalidRequest(
                f"Key {shown(key)}: it has {len(found.encode())} bytes with the prefix of the warehouse, and "
                f"{self.settings.store} takes {_MOST_KEY_BYTES}. Choose shorter names."
            )
        return found

    def get(self, key: str) -> tuple[bytes, str]:
        """Return the object and its version."""
        with self.answers.reading(key):
            found = obstore.get(self._client(), self.path(key))
            version = self.answers.version(key, found.meta)
            data = bytes(found.bytes())
        self.answers.check_length(key, len(data), found.meta["size"])
        return data, version

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        """Return `length` bytes from `start` on, as they came."""
        with self.answers.reading(key):
            found = memoryview(obstore.get_range(self._client(), self.path(key), start=start, length=length))
        self.answers.check_length(key, found.nbytes, length)
        return found

    def head(self, key: str) -> ObjectInfo:
        """Return the size and the age of the object."""
        try:
            with self.answers.reading(key):
                meta = obstore.head(self._client(), self.path(key))
                self.answers.version(key, meta)
                return _info(key, meta)
        except NotFound:
            if not self.answers.has_found_bucket:
                # The answer to HEAD does not say whether the key or the bucket is missing; that to GET does.
                self._get_start(key)
            raise
        except StorageUnavailable as error:
            if _BARE_REFUSAL in str(error):
                # The answer to HEAD has no code; that to GET has.
                self._get_start(key)
            raise

    def heads(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo]:
        """Return the sizes and ages of those objects that exist."""
        found = zip(keys, self.at_once(or_none(self.head), keys), strict=True)
        return {key: info for key, info in found if info is not None}

    def level(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the names of the objects and of the folders right below a prefix."""
        folder = self._folder(prefix)
        with self.answers.reading(prefix):
            found = obstore.list_with_delimiter(self._client(), prefix=folder or None)
        self._check_list(prefix, len(found["objects"]) + len(found["common_prefixes"]))
        # Other engines put an object at the folder itself.
        objects = [meta["path"].removeprefix(folder) for meta in found["objects"] if meta["path"] != folder[:-1]]
        return objects, [path.removeprefix(folder).rstrip("/") for path in found["common_prefixes"]]

    def pages(self, prefix: str) -> Iterator[list[ObjectInfo]]:
        """Yield the objects below a prefix, a page at a time."""
        folder = self._folder(prefix)
        root = self._folder("")
        count = 0
        with self.answers.reading(prefix):
            for page in obstore.list(self._client(), prefix=folder or None):
                count += len(page)
                yield [_info(meta["path"].removeprefix(root), meta) for meta in page if meta["path"] != folder[:-1]]
        self._check_list(prefix, count)

    def put(self, key: str, data: bytes, *, in_parts: bool) -> None:
        with self.answers.writing(key):
            obstore.put(self._client(), self.path(key), data, use_multipart=in_parts)

    def put_if(self, key: str, data: bytes, mode: Any) -> bool:
        """Send one conditional request; return False if the store refused it. Raises WriteOutcomeUnknown."""
        try:
            with self.answers.writing(key, is_conditional=True):
                obstore.put(self._client(is_repeated=False), self.path(key), data, mode=mode, use_multipart=False)
        except ConditionRefused:
            return False
        return True

    @contextmanager
    def upload(self, key: str, *, part_bytes: int) -> Iterator["Upload"]:
        """Begin an upload in parts. It is completed at the end of the block, and given up if an exception leaves it,
        which stays the one that is raised. Raises WriteOutcomeUnknown.
        """
        writer: Any = obstore.open_writer(self._client(), self.path(key), buffer_size=part_bytes)
        try:
            yield Upload(self.answers, key, writer)
        except BaseException as error:
            with suppress(exceptions.BaseError, OSError):
                writer.__exit__(type(error), error, error.__traceback__)
            raise
        with self.answers.writing(key):
            writer.close()

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, ignoring missing ones. Some services fail at a missing object and keep others of the call;
        these are deleted by another request.
        """
        with self.answers.writing(keys[0] if len(keys) == 1 else ""):
            self._delete({key: self.path(key) for key in keys})

    def at_once(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the result of `function` for each item, which run at once. Raises the first failure, after which no
        further item is begun.
        """
        if len(items) < 2:
            return [function(item) for item in items]
        # In a forked child the threads are gone; this raises there.
        self._client()
        failures: list[BaseException] = []

        def unless_failed(item: T) -> R:
            # A store that is away would be asked for all of them, each with its repetitions.
            if failures:
                raise failures[0]
            try:
                return function(item)
            except BaseException as error:
                failures.append(error)
                raise

        running = [_threads(self.settings.connections).submit(unless_failed, item) for item in items]
        # A request that is still on its way when this returns could take effect after what the caller does next.
        wait(running)
        return [one.result() for one in running]

    def _client(self, *, is_repeated: bool = True) -> Any:
        try:
            return clients.client(self.service, self.settings, uri=self.uri(""), is_repeated=is_repeated)
        except (exceptions.BaseError, ValueError) as error:
            raise self.answers.failure(StorageUnavailable, "", error) from None

    def _delete(self, paths: Mapping[str, str]) -> None:
        repeats = min(clients.READ_RETRIES, _DELETE_REPEATS)
        while paths:
            try:
                obstore.delete(self._client(), list(paths.values()))
            except (FileNotFoundError, exceptions.NotFoundError):
                left = {key: paths[key] for key in self.heads(list(paths))}
                if len(left) == len(paths):
                    raise
                paths = left
            except exceptions.GenericError as error:
                # The client repeats no deletion whose connection broke, though deleting again does no harm.
                if not has_no_answer(error) or not repeats:
                    raise
                repeats -= 1
            else:
                return

    def _folder(self, prefix: str) -> str:
        path = self.path(prefix)
        return f"{path}/" if path else ""

    def _check_list(self, prefix: str, count: int) -> None:
        """Raise StorageUnavailable if a list with so many entries may be the page of a proxy: the client takes any
        well-formed document for a list, which ends there.
        """
        if 0 < count < self.service.page_keys:
            return
        with suppress(NotFound):
            self._get_start(joined(prefix, ".nothing"))

    def _get_start(self, key: str) -> None:
        with self.answers.reading(key):
            obstore.get(self._client(), self.path(key), options={"range": (0, 1)})


class Upload:
    """An upload in parts that has begun. `writer`: the client's."""

    def __init__(self, answers: ServiceAnswers, key: str, writer: Any) -> None:
        self._answers = answers
        self._key = key
        self._writer = writer

    def write(self, data: bytes) -> None:
        with self._answers.writing(self._key):
            self._writer.write(data)


def or_none(read: Callable[[str], R]) -> Callable[[str], R | None]:
    """Return a function that returns None for a missing object."""

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
def _threads(count: int) -> Threads:
    """Return the threads that send the requests of plural verbs. They wait for nothing but their request."""
    return Threads(count, thread_name_prefix="requests")
