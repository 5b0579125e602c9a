"""Order-preserving words: every key column as unsigned 64-bit numbers, most significant first.

Rule: comparing the words of two rows, first to last, compares their keys; equal words mean equal keys. Floating point
as Java's generated comparator has it: -0.0 equals 0.0; unlike Java, NaN equals only NaN and comes last.
Source: docs/format/data-files.md#columns-and-order.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest

Words: TypeAlias = npt.NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)
_WORD_BYTES = 8
# Above this number of words per row, ranks of the distinct strings take less time and memory than words.
_MAX_STRING_WORDS = 4
# Mask n keeps the first n bytes of a big-endian word.
_FIRST_BYTES = np.array([(1 << 64) - (1 << (64 - 8 * n)) for n in range(9)], dtype=np.uint64)


def key_words(columns: Sequence[pa.Array]) -> list[Words]:
    """Return the words of a composite key, first column first. Raises InvalidRequest when a key is null."""
    words: list[Words] = []
    for position, column in enumerate(columns):
        if column.null_count:
            raise InvalidRequest(
                f"key column {position} ({column.type}) has {column.null_count} nulls in {len(column)} rows, "
                "expected none. Give every row its key."
            )
        words += _column_words(column)
    return words


def sequence_words(column: pa.Array, *, descending: bool = False) -> list[Words]:
    """Return words that order `column` as a sequence field: null is the oldest in both directions."""
    words = _column_words(column)
    if descending:
        words = [~word for word in words]
    if not column.null_count:
        return words
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return [valid.astype(np.uint64), *(np.where(valid, word, np.uint64(0)) for word in words)]


def integer_words(values: npt.NDArray[Any]) -> Words:
    """Return the words of signed integers of any width."""
    return values.astype(np.int64, copy=False).view(np.uint64) ^ _SIGN


def comparison_words(column: pa.Array) -> list[Words]:
    """Return words that order values as Java compares single ones: -0.0 before 0.0, NaN equal to itself and last."""
    if not pa.types.is_floating(column.type):
        return _column_words(column)
    doubles = fixed_values(column, np.dtype(f"f{column.type.bit_width // 8}")).astype(np.float64)
    doubles[np.isnan(doubles)] = np.nan
    return [_bit_order(doubles)]


def _column_words(column: pa.Array) -> list[Words]:
    """Return the words of one column; those of null rows are arbitrary."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        codes = fixed_values(column.indices.fill_null(0).cast(pa.int64()), np.int64)
        return [word[codes] for word in _column_words(column.dictionary)] if len(column.dictionary) else []
    if pa.types.is_boolean(kind):
        return [fixed_values(column.cast(pa.uint8()), np.uint8).astype(np.uint64)]
    if pa.types.is_signed_integer(kind) or pa.types.is_temporal(kind):
        return [integer_words(fixed_values(column, np.dtype(f"i{kind.bit_width // 8}")))]
    if pa.types.is_floating(kind):
        return [_float_words(fixed_values(column, np.dtype(f"f{kind.bit_width // 8}")))]
    if pa.types.is_decimal(kind):
        return _decimal_words(column)
    if pa.types.is_fixed_size_binary(kind):
        return _string_words(column.cast(pa.binary()))
    return _string_words(column)


def fixed_words(column: pa.Array) -> list[Words] | None:
    """Return the words of values of a fixed width, which do not depend on other rows; None for texts and bytes."""
    kind = column.type
    has_bytes = pa.types.is_string(kind) or pa.types.is_binary(kind)
    is_text = has_bytes or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return None if is_text else _column_words(column)


def value_lengths(column: pa.Array) -> Words:
    """Return the number of bytes of each text or binary value."""
    lengths: Words = np.diff(_offsets(column)).astype(np.uint64)
    return lengths


def word_at(column: pa.Array, position: int) -> Words:
    """Return the eight bytes from `position` on of each text or binary value, big-endian, zero behind its end."""
    if not len(column):
        return np.empty(0, dtype=np.uint64)
    offsets = _offsets(column)
    data = np.frombuffer(column.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    return _BytesReader(data, offsets[:-1] - offsets[0], np.diff(offsets), is_fixed=False).word(position)


def value_words(column: pa.Array) -> Iterator[tuple[npt.NDArray[np.int64], Words]]:
    """Yield the words of text or binary values without nulls, from the first word on, zero behind an end.

    Each step yields the rows that reach so far, rising, and their word. A word does not depend on other rows.
    """
    if not len(column):
        return
    offsets = _offsets(column)
    lengths = np.diff(offsets)
    data = np.frombuffer(column.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    reader = _BytesReader(data, offsets[:-1] - offsets[0], lengths, is_fixed=False)
    rows = np.arange(len(column))
    for position in range(0, int(lengths.max()), _WORD_BYTES):
        reaches = reader.reaches(position)
        if not reaches.all():
            rows = rows[reaches]
            reader.keep(reaches)
        yield rows, reader.word(position)


def fixed_values(column: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the values of a fixed-width column without a copy; values of null rows are arbitrary."""
    values = np.frombuffer(column.buffers()[1], dtype=dtype, count=column.offset + len(column))
    return values[column.offset :]


def _float_words(values: npt.NDArray[Any]) -> Words:
    doubles = values.astype(np.float64)  # Exact for float32, and a copy that may be changed.
    doubles[doubles == 0] = 0.0
    doubles[np.isnan(doubles)] = np.nan
    return _bit_order(doubles)


def _bit_order(doubles: npt.NDArray[np.float64]) -> Words:
    bits = doubles.view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits ^ _SIGN)


def _decimal_words(column: pa.Array) -> list[Words]:
    if column.type.bit_width != 128:
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    halves = fixed_values(column, np.dtype((np.uint64, 2)))
    low, high = halves[:, 0], halves[:, 1]
    if column.type.precision <= 18:
        return [low ^ _SIGN]
    return [high ^ _SIGN, low.copy()]


def _string_words(column: pa.Array) -> list[Words]:
    """Return big-endian words without the common prefix, padded with zeros; then the length if padding is ambiguous."""
    if not len(column):
        return []
    offsets = _offsets(column)
    lengths = np.diff(offsets)
    data = np.frombuffer(column.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    if column.null_count:  # A null may span bytes; they would spoil the common prefix.
        lengths = np.where(pc.is_valid(column).to_numpy(zero_copy_only=False), lengths, 0)
    shortest, longest = int(lengths.min()), int(lengths.max())
    reader = _BytesReader(data, starts, lengths, is_fixed=shortest == longest and not column.null_count)
    words: list[Words] = []
    for position in range(0, longest, _WORD_BYTES):
        word = reader.word(position)
        if (word == word[0]).all():  # The common prefix; ordering by it would be wasted work.
            continue
        if len(words) == _MAX_STRING_WORDS:
            return [_ranks(column)]
        words.append(word)
    if shortest != longest and not data.all():
        # Padding does not distinguish "a" from "a\0", which matters only if a value holds a zero byte.
        words.append(lengths.astype(np.uint64))
    return words


def _offsets(column: pa.Array) -> npt.NDArray[np.int64]:
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    width = np.dtype(np.int64 if is_large else np.int32)
    raw = np.frombuffer(column.buffers()[1], dtype=width, count=column.offset + len(column) + 1)
    return raw[column.offset :].astype(np.int64)


def _ranks(column: pa.Array) -> Words:
    """Return the rank of each value among the sorted distinct ones: one word for any length."""
    encoded = column.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), dtype=np.uint64)
    ranks[order] = np.arange(len(order), dtype=np.uint64)
    if not len(ranks):
        return np.zeros(len(column), dtype=np.uint64)
    words: Words = ranks[fixed_values(encoded.indices.fill_null(0), np.int32)]
    return words


class _BytesReader:
    """Reads eight bytes of every value at one position, as big-endian words, zero behind a value's end."""

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        *,
        is_fixed: bool,
    ) -> None:
        padded = np.zeros(len(data) + 2 * _WORD_BYTES, dtype=np.uint8)
        padded[: len(data)] = data
        self._padded = padded
        self._starts = starts
        self._lengths = lengths
        self._length = int(lengths[0]) if is_fixed else None
        # Every byte position as the start of an unaligned word.
        self._words_at = np.lib.stride_tricks.as_strided(
            padded[:8].view(">u8"), shape=(len(data) + _WORD_BYTES,), strides=(1,), writeable=False
        )

    def reaches(self, position: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the values that have a byte at `position`."""
        found: npt.NDArray[np.bool_] = self._lengths > position
        return found

    def keep(self, rows: npt.NDArray[np.bool_]) -> None:
        """Continue with the values of these rows only."""
        self._starts, self._lengths = self._starts[rows], self._lengths[rows]

    def word(self, position: int) -> Words:
        if self._length is not None:
            strided = np.lib.stride_tricks.as_strided(
                self._padded[position : position + 8].view(">u8"),
                shape=self._starts.shape,
                strides=(self._length,),
                writeable=False,
            )
            mask: np.uint64 = _FIRST_BYTES[min(self._length - position, _WORD_BYTES)]
            return strided.astype(np.uint64) & mask
        left = np.clip(self._lengths - position, 0, _WORD_BYTES)
        at = np.where(left > 0, self._starts + position, 0)
        words: Words = self._words_at[at].astype(np.uint64) & _FIRST_BYTES[left]
        return words
