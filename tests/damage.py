"""Ways in which stored bytes go wrong, for tests that every decoder must survive."""

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import product

from lakehouse_core.errors import CorruptTable, UnsupportedFeature


def damaged(data: bytes, *, seed: int, count: int) -> Iterator[bytes]:
    """Yield `count` spoiled copies of `data`: flipped bits, other bytes, cuts, repeats, zeroed runs, length fields set
    to extreme values, one to three edits each. The same seed gives the same copies."""
    chance = random.Random(seed)
    made = 0
    while made < count:
        copy = bytearray(data)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            chance.choice(_EDITS)(copy, chance)
        if bytes(copy) != data:
            made += 1
            yield bytes(copy)


def flipped(data: bytes, flips: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """Yield a copy of `data` for each (position, bit), with that bit flipped."""
    for position, bit in flips:
        copy = bytearray(data)
        copy[position] ^= 1 << bit
        yield bytes(copy)


def some_flips(data: bytes, *, seed: int, count: int) -> list[tuple[int, int]]:
    """Return `count` bits of `data` by chance, the same for the same seed."""
    chance = random.Random(seed)
    return [(chance.randrange(len(data)), chance.randrange(8)) for _ in range(count)]


def every_flipped_bit(data: bytes) -> Iterator[bytes]:
    return flipped(data, product(range(len(data)), range(8)))


def survivors(read: Callable[[bytes], object], spoiled: Iterator[bytes], expected: object) -> list[bytes]:
    """Return the copies that `read` takes for something other than `expected` without saying so.

    Any exception but CorruptTable and UnsupportedFeature passes through and fails the test.
    """
    wrong = []
    for copy in spoiled:
        try:
            found = read(copy)
        except (CorruptTable, UnsupportedFeature):
            continue
        if found != expected:
            wrong.append(copy)
    return wrong


def _flip(copy: bytearray, chance: random.Random) -> None:
    if copy:
        copy[chance.randrange(len(copy))] ^= 1 << chance.randrange(8)


def _replace(copy: bytearray, chance: random.Random) -> None:
    if copy:
        copy[chance.randrange(len(copy))] = chance.randrange(256)


def _cut(copy: bytearray, chance: random.Random) -> None:
    del copy[chance.randrange(len(copy) + 1) :]


def _drop(copy: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(copy) + 1)
    del copy[start : start + chance.randrange(1, 9)]


def _repeat(copy: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(copy) + 1)
    copy[start:start] = copy[start : start + chance.randrange(1, 40)]


def _zero(copy: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(copy) + 1)
    run = min(chance.randrange(1, 20), len(copy) - start)
    copy[start : start + run] = bytes(run)


def _extreme_number(copy: bytearray, chance: random.Random) -> None:
    number = chance.choice((-1, 0, 2**31 - 1, -(2**31), 2**63 - 1))
    size = 8 if abs(number) > 2**31 else 4
    start = chance.randrange(len(copy) + 1)
    copy[start : start + size] = number.to_bytes(size, chance.choice(("little", "big")), signed=True)


_EDITS = (_flip, _flip, _flip, _replace, _cut, _drop, _repeat, _zero, _extreme_number)
