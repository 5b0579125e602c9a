"""Fault store: a store that numbers its calls and injects the planned fault at a given call.

For tests of crashes, lost answers and full disks. Stores made by `at` share the numbering of their origin.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import IO, TypeVar

import pyarrow as pa

from lakehouse_core.errors import StorageFull, StorageUnavailable, WriteOutcomeUnknown
from lakehouse_core.storage.keys import joined, key_parts
from lakehouse_core.storage.object_store import Children, Folders, ObjectInfo, ObjectStore, each_found

T = TypeVar("T")


class FaultKind(StrEnum):
    """The fault of one call: whether a write is applied, and whether the caller learns that."""

    FAIL_BEFORE = "fail before"  # not applied, and the caller knows
    LOST_BEFORE = "lost before"  # not applied, and the caller cannot know
    FAIL_AFTER = "fail after"  # applied, and the caller cannot know
    DIE_BEFORE = "die before"  # the process ends; every later call of it ends too
    DIE_AFTER = "die after"
    TORN = "torn"  # a broken store: the first bytes appear under the final name, then the process ends
    ENOSPC = "no space"  # writes only; others pass
    EACCES = "no access"
    FLIP_BIT = "flip a bit"  # reads only: the answer has one bit changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The fault of `count` calls from call number `at` (from 1).

    `position`: the number of bytes kept by TORN, the bit that FLIP_BIT changes.
    """

    at: int
    kind: FaultKind
    position: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class Call:
    """One numbered call; closing a sink is a separate call."""

    number: int
    method: str
    key: str
    writes: bool


class ProcessDied(BaseException):
    """Simulates the end of the process: no clean-up of the core has an effect after it."""


@dataclass(slots=True)
class _Progress:
    """The shared state of the stores of one origin: the calls so far, and whether their process is alive."""

    plan: tuple[Fault, ...]
    on_call: Callable[[Call], None] | None
    calls: list[Call] = field(default_factory=list)
    dead: bool = False


class FaultyStore:
    """Passes every call to `inner`, except those for which `plan` has a fault.

    `on_call` is called before each call, so that a test can let another actor run in between. An engine of this process
    passes the store to its tasks; another process, which opens `spec`, reaches `inner` without faults. `calls`: all so
    far, of this store and of all stores made from it.
    """

    # So calls have the same numbers each time.
    requests_at_once = 1
    sinks_at_once = 1

    def __init__(
        self, inner: ObjectStore, plan: Iterable[Fault] = (), *, on_call: Callable[[Call], None] | None = None
    ) -> None:
        self._progress = _Progress(tuple(plan), on_call)
        self.calls: Sequence[Call] = self._progress.calls
        self._set(inner, "")

    def _set(self, inner: ObjectStore, prefix: str) -> None:
        self._inner = inner
        self._prefix = prefix
        self.spec = inner.spec
        self.folders = None if inner.folders is None else FaultyFolders(self, inner.folders)

    def at(self, prefix: str, *, is_table: bool = False) -> "FaultyStore":
        deeper = copy(self)
        deeper._set(self._inner.at(prefix, is_table=is_table), joined(self._prefix, prefix))
        return deeper

    def uri(self, key: str) -> str:
        return self._inner.uri(key)

    def read(self, key: str) -> bytes:
        return self._read("read", key, lambda: self._inner.read(key))

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        # One object at a time, so that another actor can move in between.
        return each_found(self.read, keys)

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        fault = self._next("open_read", key, writes=False)
        if fault is None:
            return self._inner.open_read(key, size)
        self._before(fault, key, writes=False)
        file = self._inner.open_read(key, size)
        self._after(fault, key, writes=False)
        if fault.kind is not FaultKind.FLIP_BIT:
            return file
        with file:
            return pa.BufferReader(_with_flipped_bit(file.read(), fault.position))

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        found: dict[str, ObjectInfo] = {}
        for key in keys:
            found.update(self._call("infos", key, partial(self._inner.infos, [key])))
        return found

    def create_new(self, key: str, data: bytes) -> bool:
        return self._write("create_new", key, data, lambda content: self._inner.create_new(key, content))

    def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
        for key in objects:
            key_parts(key)
        for key, data in objects.items():
            # One object at a time, so that a process can die between two of them.
            self._write("write", key, data, partial(self._written, key, durable=durable))

    def _written(self, key: str, data: bytes, *, durable: bool) -> None:
        self._inner.write({key: data}, durable=durable)

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        self._call("open_write", key, lambda: None)
        with self._inner.open_write(key) as sink:
            yield sink
            fault = self._next("close", key, writes=True)
            if fault is not None:
                self._before(fault, key, writes=True)
        if fault is not None:
            if fault.kind is FaultKind.TORN:
                self._inner.write({key: self._inner.read(key)[: fault.position]})
            self._after(fault, key, writes=True)

    def make_last(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._call("make_last", key, partial(self._inner.make_last, [key]), writes=True)

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        return self._call("read_versioned", key, lambda: self._inner.read_versioned(key))

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        return self._write(
            "replace", key, data, lambda content: self._inner.replace(key, content, if_version=if_version)
        )

    def children(self, prefix: str) -> Children:
        return self._call("children", prefix, lambda: self._inner.children(prefix))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter(self._call("list", prefix, lambda: tuple(self._inner.list(prefix))))

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        left: list[str] = []
        for key in keys:
            # One object at a time, so that a process can die between two of them.
            left.extend(self._call("delete", key, partial(self._inner.delete, [key]), writes=True))
        return left

    def now_millis(self) -> int:
        return self._call("now_millis", "", self._inner.now_millis)

    def _call(self, method: str, key: str, action: Callable[[], T], *, writes: bool = False) -> T:
        fault = self._next(method, key, writes=writes)
        if fault is None:
            return action()
        self._before(fault, key, writes=writes)
        result = action()
        self._after(fault, key, writes=writes)
        return result

    def _read(self, method: str, key: str, action: Callable[[], bytes]) -> bytes:
        fault = self._next(method, key, writes=False)
        if fault is None:
            return action()
        self._before(fault, key, writes=False)
        data = action()
        self._after(fault, key, writes=False)
        return _with_flipped_bit(data, fault.position) if fault.kind is FaultKind.FLIP_BIT else data

    def _write(self, method: str, key: str, data: bytes, action: Callable[[bytes], T]) -> T:
        fault = self._next(method, key, writes=True)
        if fault is None:
            return action(data)
        self._before(fault, key, writes=True)
        result = action(data[: fault.position] if fault.kind is FaultKind.TORN else data)
        self._after(fault, key, writes=True)
        return result

    def _next(self, method: str, key: str, *, writes: bool) -> Fault | None:
        if self._progress.dead:
            raise ProcessDied(f"{method} {key}: the process died before")
        call = Call(len(self._progress.calls) + 1, method, joined(self._prefix, key), writes)
        self._progress.calls.append(call)
        if self._progress.on_call is not None:
            self._progress.on_call(call)
        return next((fault for fault in self._progress.plan if fault.at <= call.number < fault.at + fault.count), None)

    def _before(self, fault: Fault, key: str, *, writes: bool) -> None:
        match fault.kind:
            case FaultKind.DIE_BEFORE:
                self._die(fault, key)
            case FaultKind.FAIL_BEFORE:
                raise StorageUnavailable(f"{key}: injected failure at call {fault.at}, nothing was done.")
            case FaultKind.EACCES:
                raise StorageUnavailable(f"{key}: injected refusal of access at call {fault.at}.")
            case FaultKind.LOST_BEFORE:
                raise _lost(key, fault) if writes else StorageUnavailable(f"{key}: injected at call {fault.at}.")
            case FaultKind.ENOSPC if writes:
                raise StorageFull(f"{key}: injected full disk at call {fault.at}. Make room, then call again.")
            case _:
                return

    def _after(self, fault: Fault, key: str, *, writes: bool) -> None:
        match fault.kind:
            case FaultKind.DIE_AFTER | FaultKind.TORN:
                self._die(fault, key)
            case FaultKind.FAIL_AFTER:
                raise _lost(key, fault) if writes else StorageUnavailable(f"{key}: injected at call {fault.at}.")
            case _:
                return

    def _die(self, fault: Fault, key: str) -> None:
        self._progress.dead = True
        raise ProcessDied(f"{key}: the process died at call {fault.at}")


class FaultyFolders:
    """The folders of a FaultyStore."""

    def __init__(self, store: FaultyStore, inner: Folders) -> None:
        self._store = store
        self._inner = inner

    def delete(self, prefix: str) -> Sequence[str]:
        left = self._store.delete([info.key for info in self._store._inner.list(prefix)])
        return [*left, *self._call("delete_folder", prefix, lambda: self._inner.delete(prefix))]

    def delete_empty(self, prefix: str) -> None:
        self._call("delete_empty_folders", prefix, lambda: self._inner.delete_empty(prefix))

    def rename(self, source: str, target: str) -> bool:
        return self._call("rename_folder", source, lambda: self._inner.rename(source, target))

    def _call(self, method: str, key: str, action: Callable[[], T]) -> T:
        return self._store._call(method, key, action, writes=True)


def _lost(key: str, fault: Fault) -> WriteOutcomeUnknown:
    return WriteOutcomeUnknown(f"{key}: injected loss of the answer at call {fault.at}. Look before anything else.")


def _with_flipped_bit(data: bytes, bit: int) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    place = bit % (8 * len(data))
    changed[place // 8] ^= 1 << (place % 8)
    return bytes(changed)
