"""Search: find many sorted keys in sorted rows by a bisection of whole arrays, one key column after the other.

Fixed-width columns are compared by their words. A text column has words after the prefix that all rows share; if the
words of two values are equal, the values themselves are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.rows import Rows, take
from lakehouse_core.merge.key_words import Words, key_words, word_at

Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SearchColumn:
    """One column of keys. `text`: the values as binary, None if `words` hold the whole values.

    Words of text begin after `prefix`, which all values of the column share.
    """

    words: tuple[Words, ...]
    text: pa.Array | None = None
    prefix: bytes = b""

    def slice(self, start: int, stop: int) -> "SearchColumn":
        text = None if self.text is None else self.text.slice(start, stop - start)
        return SearchColumn(tuple(word[start:stop] for word in self.words), text, self.prefix)

    def taken(self, rows: Rows) -> "SearchColumn":
        text = None if self.text is None else take(self.text, rows)
        return SearchColumn(tuple(word[rows] for word in self.words), text, self.prefix)


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """Distinct keys in key order: those of a file's rows, or looked-up keys."""

    columns: tuple[SearchColumn, ...]
    row_count: int

    def slice(self, start: int, stop: int) -> "SortedKeys":
        return SortedKeys(tuple(column.slice(start, stop) for column in self.columns), stop - start)

    def taken(self, rows: Rows) -> "SortedKeys":
        """Return the keys of these rows, which are in rising order."""
        return SortedKeys(tuple(column.taken(rows) for column in self.columns), len(rows))


def sorted_keys(columns: Sequence[pa.Array], words: Sequence[Words] | None = None) -> SortedKeys:
    """Return the keys that `columns`, the first one first, hold in order.

    `words`: the result of `search_words` for the same rows. Raises InvalidRequest when a key is null.
    """
    found = list(search_words(columns) if words is None else words)
    made = []
    for number, column in enumerate(columns):
        count = _word_count(column.type, number)
        own, found = tuple(found[:count]), found[count:]
        if _is_text(column.type):
            text = _binary(column)
            made.append(SearchColumn(own, text, _common_prefix(text) if count else b""))
        else:
            made.append(SearchColumn(own))
    return SortedKeys(tuple(made), len(columns[0]))


def search_words(columns: Sequence[pa.Array]) -> list[Words]:
    """Return the words by which sorted rows are searched, to be stored with the rows. Words of text depend on the first
    and the last row of `columns`; other words do not depend on other rows.
    """
    words: list[Words] = []
    for number, column in enumerate(columns):
        if not _is_text(column.type):
            words += key_words([column])
        elif number == 0:
            text = _binary(column)
            words.append(word_at(text, len(_common_prefix(text))))
    return words


def is_rising(columns: Sequence[pa.Array]) -> bool:
    """Return whether each row's key is greater than that of the previous row."""
    same = np.ones(max(0, len(columns[0]) - 1), dtype=np.bool_)
    for column in columns:
        if _is_text(column.type):
            text = _binary(column)
            before, after = text[:-1], text[1:]
            falls, equal = _flags(pc.greater(before, after)), _flags(pc.equal(before, after))
            if (falls & same).any():
                return False
            same &= equal
            continue
        for word in key_words([column]):
            if ((word[:-1] > word[1:]) & same).any():
                return False
            same &= word[:-1] == word[1:]
    return not same.any()


def search(rows: SortedKeys, keys: SortedKeys) -> tuple[Rows, Flags]:
    """Return for each of `keys` the number of rows below it, and whether the row at this position has the key."""
    low = np.zeros(keys.row_count, dtype=np.int64)
    high = np.full(keys.row_count, rows.row_count, dtype=np.int64)
    last = len(rows.columns) - 1
    for number, (column, sought) in enumerate(zip(rows.columns, keys.columns, strict=True)):
        is_last = number == last
        if column.text is None:
            for part, (word, value) in enumerate(zip(column.words, sought.words, strict=True)):
                decides = is_last and part == len(column.words) - 1
                low, high = _narrowed_by_word(word, value, low, high, decides=decides)
        else:
            low, high = _narrowed_by_text(column, sought, low, high, decides=is_last)
    return low, low < high


def _narrowed_by_word(word: Words, values: Words, low: Rows, high: Rows, *, decides: bool) -> tuple[Rows, Rows]:
    """Return the ranges narrowed to the rows with the value as their word; an empty range is at the position of such a
    row.

    `decides`: this is the last word of the key, so at most one row has it.
    """
    if len(low) and not low.any() and (high == len(word)).all():
        # NumPy's own search, for sorted values mostly in the cache.
        first = np.searchsorted(word, values, "left").astype(np.int64, copy=False)
        if not decides:
            return first, np.searchsorted(word, values, "right").astype(np.int64, copy=False)
    else:
        first = _bisected(low, high, lambda rows, at: word[rows] < values[at])
        if not decides:
            return first, _bisected(first, high, lambda rows, at: word[rows] <= values[at])
    inside = np.flatnonzero(first < high)
    after = first.copy()
    after[inside] += word[first[inside]] == values[inside]
    return first, after


def _narrowed_by_text(
    column: SearchColumn, sought: SearchColumn, low: Rows, high: Rows, *, decides: bool
) -> tuple[Rows, Rows]:
    rows, values = column.text, sought.text
    assert rows is not None
    assert values is not None
    if column.words and len(values):
        prefix = pa.scalar(column.prefix, values.type)
        head = pc.binary_slice(values, 0, len(column.prefix))
        high = np.where(_flags(pc.less(head, prefix)), low, high)
        low = np.where(_flags(pc.greater(head, prefix)), high, low)
        possible = np.flatnonzero(low < high)
        values_word = word_at(take(values, possible), len(column.prefix))
        first, after = _narrowed_by_word(column.words[0], values_word, low[possible], high[possible], decides=False)
        low[possible], high[possible] = first, after
    if not decides:
        return _narrowed_at_ends(rows, values, low, high)
    first = _bisected(low, high, lambda at_rows, at: _flags(pc.less(take(rows, at_rows), take(values, at))))
    inside = np.flatnonzero(first < high)
    after = first.copy()
    after[inside] += _flags(pc.equal(take(rows, first[inside]), take(values, inside)))
    return first, after


def _narrowed_at_ends(rows: pa.Array, values: pa.Array, low: Rows, high: Rows) -> tuple[Rows, Rows]:
    """Return the ranges as `_narrowed_by_text` does, but compare the ends first: most ranges hold one value."""
    first, after = low.copy(), high.copy()
    inside = np.flatnonzero(low < high)
    sought, lowest, highest = take(values, inside), take(rows, low[inside]), take(rows, high[inside] - 1)
    below, above = _flags(pc.less(sought, lowest)), _flags(pc.greater(sought, highest))
    after[inside[below]] = low[inside[below]]
    first[inside[above]] = high[inside[above]]
    is_open = ~(below | above | (_flags(pc.equal(sought, lowest)) & _flags(pc.equal(sought, highest))))
    left, values = inside[is_open], take(sought, np.flatnonzero(is_open))
    first[left] = _bisected(
        low[left], high[left], lambda at_rows, at: _flags(pc.less(take(rows, at_rows), take(values, at)))
    )
    after[left] = _bisected(
        first[left], high[left], lambda at_rows, at: _flags(pc.less_equal(take(rows, at_rows), take(values, at)))
    )
    return first, after


def _bisected(low: Rows, high: Rows, is_before: Callable[[Rows, Rows], Flags]) -> Rows:
    """Return, for each range [low, high), the end of the rows that are before its key.

    `is_before` takes rows, and the position of the key with which each is compared.
    """
    low, high = low.copy(), high.copy()
    active = np.flatnonzero(low < high)
    while len(active):
        middle = (low[active] + high[active]) >> 1
        before = is_before(middle, active)
        low[active[before]] = middle[before] + 1
        high[active[~before]] = middle[~before]
        active = active[low[active] < high[active]]
    return low


def _word_count(kind: pa.DataType, number: int) -> int:
    if _is_text(kind):
        return 1 if number == 0 else 0
    return 2 if pa.types.is_decimal(kind) and kind.precision > 18 else 1


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in _TEXTS)


_TEXTS: Final = (
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_large_string,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)


def _binary(column: pa.Array) -> pa.Array:
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    return column.cast(pa.large_binary() if is_large else pa.binary())


def _common_prefix(text: pa.Array) -> bytes:
    """Return the common prefix of the first and the last value, and so of all values between them."""
    if not len(text):
        return b""
    first: bytes = text[0].as_py()
    last: bytes = text[-1].as_py()
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return first[: sum(1 for _ in same)]


def _flags(answers: Any) -> Flags:
    flags: Flags = answers.to_numpy(zero_copy_only=False)
    return flags
