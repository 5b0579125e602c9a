"""Caches of the values used most recently, by key, and what all caches of a process may hold together.

Rule: where the sum is too large, the cache that was used longest ago gives up its oldest values first. A cache that is
collected gives back what it held.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from itertools import count
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary, finalize

V = TypeVar("V")


class CacheBudget:
    """About the bytes of values that caches hold together, in any thread. One lock serves all of them."""

    def __init__(self, most_bytes: int) -> None:
        self.lock = Lock()
        self.most_bytes = most_bytes
        self._held_bytes = 0
        self._caches: WeakValueDictionary[int, Recent[Any]] = WeakValueDictionary()
        # The bytes of each cache by its number, the one used longest ago first.
        self._sizes: OrderedDict[int, int] = OrderedDict()
        # Numbers of collected caches: an object is collected at any moment of a thread, so without the lock.
        self._gone: deque[int] = deque()
        self._numbers = count()

    @property
    def held_bytes(self) -> int:
        """About the bytes that are held now."""
        with self.lock:
            self._settle()
            return self._held_bytes

    def join(self, cache: "Recent[Any]") -> int:
        """Return the number of a cache that takes part from now on."""
        with self.lock:
            number = next(self._numbers)
            self._caches[number], self._sizes[number] = cache, 0
        finalize(cache, self._gone.append, number).atexit = False
        return number

    def use(self, number: int, more_bytes: int = 0) -> None:
        """Count a use of a cache, by which it holds so many bytes more. REQUIRES: the caller has the lock."""
        self._settle()
        self._sizes.move_to_end(number)
        self._add(number, more_bytes)
        if self._held_bytes > self.most_bytes:
            for each in [*self._sizes]:
                self._shrink(each)

    def _shrink(self, number: int) -> None:
        """Let a cache forget its oldest values until the sum fits, or it holds nothing."""
        cache = self._caches.get(number)
        while cache is not None and self._held_bytes > self.most_bytes and self._sizes[number]:
            self._add(number, -cache.drop_oldest())

    def _add(self, number: int, size_bytes: int) -> None:
        self._sizes[number] += size_bytes
        self._held_bytes += size_bytes

    def _settle(self) -> None:
        while self._gone:
            self._held_bytes -= self._sizes.pop(self._gone.popleft())


# A process that keeps handles of many large tables reads some manifests again.
OF_PROCESS: Final = CacheBudget(128 << 20)


class Recent(Generic[V]):
    """The values used most recently, up to a maximum count, and within a budget. Threads may share a cache."""

    def __init__(self, most: int, *, budget: CacheBudget = OF_PROCESS) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._budget = budget
        self._number = budget.join(self)

    def get(self, key: Hashable) -> V | None:
        with self._budget.lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            self._budget.use(self._number)
            return self._values[key][0]

    def put(self, key: Hashable, value: V, size_bytes: int = 0) -> None:
        """Remember a value, which takes about so many bytes; 0: it counts as one value only."""
        with self._budget.lock:
            more = size_bytes - (self._values.pop(key)[1] if key in self._values else 0)
            self._values[key] = value, size_bytes
            if len(self._values) > self._most:
                more -= self.drop_oldest()
            self._budget.use(self._number, more)

    def drop_oldest(self) -> int:
        """Forget the value used longest ago and return its bytes. REQUIRES: the caller has the budget's lock."""
        return self._values.popitem(last=False)[1][1]
