"""Read ahead: read many small files at once, with the results in order."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final, TypeVar

from lakehouse_core.threads import Threads

T = TypeVar("T")
R = TypeVar("R")

_READERS: Final = 8
FEW: Final = 8
# Of files of a few kilobytes, whose time is that of decoding them.
FEW_SMALL: Final = 64


def both(first: Callable[[], T], second: Callable[[], R], *, at_once: int) -> tuple[T, R]:
    """Return the results of both calls, which run at once unless `at_once`, as for `in_order`, is 1."""
    if at_once == 1:
        return first(), second()
    with Threads(1, thread_name_prefix="metadata") as pool:
        beside = pool.submit(second)
        return first(), beside.result()


def in_order(
    function: Callable[[T], R], items: Iterable[T], *, ahead: int = _READERS, at_once: int = 1, few: int = FEW
) -> Iterator[R]:
    """Yield the result of `function` for each item, in order; `ahead` calls run at once.

    `at_once`: the number of requests that the store answers in the time of one; then more calls run at once.
    `few`: up to so many calls run one by one on a disk, where starting threads would take longer.
    """
    few = few if at_once == 1 else 1
    ahead = max(ahead, at_once)
    rest = iter(items)
    first = list(islice(rest, few + 1))
    if len(first) <= few or ahead == 1:
        yield from map(function, chain(first, rest))
        return
    with Threads(ahead, thread_name_prefix="metadata") as pool:
        running = [pool.submit(function, item) for item in (*first, *islice(rest, max(0, ahead - few)))]
        try:
            while running:
                yield running.pop(0).result()
                running.extend(pool.submit(function, item) for item in islice(rest, 1))
        finally:
            for future in running:
                future.cancel()
