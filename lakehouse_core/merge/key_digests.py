"""Key digests: every key as 128 bits, by which keys of different files and batches are compared.

Rule: equal keys have equal digests, whatever rows are beside them. Keys of one or two words, which are columns
without texts of at most 8 bytes, or one text of at most 8 bytes, have a digest of their own each; of longer ones, two
of 100 million have the same with a probability of 10^-23.
Source: docs/semantics/tables.md#cross-partition-updates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.key_words import Words, fixed_words, value_lengths, value_words
from lakehouse_core.merge.positions import Flags

_ALL_BITS: Final = (1 << 64) - 1
# The finishing steps of SplitMix64: each input bit changes each output bit with a chance of about one half.
_STEPS: Final = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST_SHIFT: Final = np.uint64(31)
_ROUNDS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0x3C6EF372FE94F82A), np.uint64(0xDAA66D2C7DDF743F))


@dataclass(frozen=True, slots=True)
class Digests:
    """The digests of some keys: two words each. `high` is as good as random, so few keys share it."""

    high: Words
    low: Words

    def __len__(self) -> int:
        return len(self.high)

    def take(self, rows: Rows | Flags | slice) -> "Digests":
        return Digests(self.high[rows], self.low[rows])

    def distinct(self) -> "Digests":
        """Return each digest once, in order."""
        order = np.lexsort((self.low, self.high))
        keys = self.take(order)
        is_first: Flags = np.ones(len(order), dtype=bool)
        is_first[1:] = (keys.high[1:] != keys.high[:-1]) | (keys.low[1:] != keys.low[:-1])
        return keys.take(is_first)

    def with_number(self, numbers: Words) -> "Digests":
        """Return the digests of the pairs of a key and its number."""
        return Digests(*_mixed(self.high ^ numbers, self.low))


def joined_digests(parts: Sequence[Digests]) -> Digests:
    """Return all digests, one part after the other."""
    none: Words = np.empty(0, np.uint64)
    return Digests(
        np.concatenate([none, *(part.high for part in parts)]), np.concatenate([none, *(part.low for part in parts)])
    )


def key_digests(columns: Sequence[pa.Array], seed: int = 0) -> Digests:
    """Return the digest of each row. The columns have no nulls. Only digests of one `seed` are compared.

    With a seed that others cannot guess, they cannot choose keys that have equal digests.
    """
    columns = [_plain(column) for column in columns]
    words: list[Words] = []
    texts: list[Iterator[tuple[Rows, Words]]] = []
    for column in columns:
        fixed = fixed_words(column)
        if fixed is not None:
            words += fixed
            continue
        # The first eight bytes of a text go beside the other words, so that a short key has a digest of its own.
        first: Words = np.zeros(len(column), np.uint64)
        further = value_words(column)
        for rows, word in islice(further, 1):
            first[rows] = word
        words += [value_lengths(column), first]
        texts.append(further)
    count = len(columns[0])
    high, low = np.full(count, np.uint64(seed & _ALL_BITS)), np.zeros(count, np.uint64)
    for first, second in zip_longest(words[::2], words[1::2]):
        high, low = _mixed(high ^ first, low if second is None else low ^ second)
    for rows, word in chain.from_iterable(texts):
        high[rows], low[rows] = _mixed(high[rows] ^ word, low[rows])
    return Digests(high, low)


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column.cast(pa.binary()) if pa.types.is_fixed_size_binary(column.type) else column


def _mixed(high: Words, low: Words) -> tuple[Words, Words]:
    """Return two words that depend on all bits of both. No two pairs of words give the same."""
    low = low ^ _scattered(high + _ROUNDS[0])
    high = high ^ _scattered(low + _ROUNDS[1])
    return high, low ^ _scattered(high + _ROUNDS[2])


def _scattered(word: Words) -> Words:
    """Return words whose bits depend on all bits of those given. `word` is overwritten."""
    for shift, factor in _STEPS:
        word ^= word >> shift
        word *= factor
    word ^= word >> _LAST_SHIFT
    return word
