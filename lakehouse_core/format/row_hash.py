"""The hash of many rows at once: Murmur3 over BinaryRows that are never built.

The words of a row are computed column by column and mixed in their order; a block of rows stays in the processor's
cache. `hash_row(encode_row(...))` is the same for one row, and the oracle of the tests.
Source: Paimon format, "BinaryRow and relatives" and "Hash".
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import AtomicType, DataType, Root, type_to_sql

Hashes: TypeAlias = npt.NDArray[np.int32]
_Array: TypeAlias = npt.NDArray[np.uint32]
# One number for every row where all rows agree: constants are mixed once, not once a row.
_Word: TypeAlias = "_Array | int"

_BLOCK_ROWS = 32 * 1024
_SEED = 42
_MASK = 0xFFFFFFFF
_C1, _C2, _C3, _C4, _C5 = 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35
_WIDTHS: dict[Root, type[np.generic]] = {
    Root.BOOLEAN: np.uint8,
    Root.TINYINT: np.uint8,
    Root.SMALLINT: np.uint16,
    Root.INT: np.uint32,
    Root.DATE: np.uint32,
    Root.TIME: np.uint32,
    Root.FLOAT: np.uint32,
    Root.BIGINT: np.uint64,
    Root.DOUBLE: np.uint64,
}
_TEXTS = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


@dataclass(frozen=True, slots=True)
class _Item:
    """The variable part of a column: `lengths` in bytes before padding, `words[k]` the k-th word where there is one.

    `low` is the slot's lower word (a length, or nanoseconds); `inline` rows have their bytes in the slot instead.
    """

    low: _Array
    word_counts: npt.NDArray[np.int64]
    words: "_Texts | npt.NDArray[np.uint32]"
    inline: "tuple[npt.NDArray[np.bool_], _Array, _Array] | None" = None


@dataclass(frozen=True, slots=True)
class _Slot:
    low: _Word
    high: _Word


def hash_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Hashes:
    """Return the signed 32-bit hash of every row; `columns` are of equal length, in the order of the row's fields."""
    row_count = len(columns[0]) if columns else 0
    hashes = np.empty(row_count, dtype=np.int32)
    for begin in range(0, row_count, _BLOCK_ROWS):
        block = [column.slice(begin, _BLOCK_ROWS) for column in columns]
        hashes[begin : begin + _BLOCK_ROWS] = _hash_block(block, types)
    return hashes


def hash_row(row: bytes) -> int:
    """Return the signed 32-bit hash of one row's bytes, as `encode_row` gives them."""
    state = _SEED
    for (word,) in struct.iter_unpack("<I", row):
        mixed = _rotated(word * _C1 & _MASK, 15) * _C2 & _MASK
        state = (_rotated(state ^ mixed, 13) * 5 + _C3) & _MASK
    state ^= len(row)
    state = (state ^ state >> 16) * _C4 & _MASK
    state = (state ^ state >> 13) * _C5 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >= 1 << 31 else state


def _hash_block(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Hashes:
    row_count = len(columns[0])
    parts = [_part(column, type_) for column, type_ in zip(columns, types, strict=True)]
    state: _Word = _SEED
    for word in _bit_words(columns):
        state = _mixed(state, word)
    fixed_bytes = (len(columns) + 63 + 8) // 64 * 8 + 8 * len(columns)
    lengths: npt.NDArray[np.int64] | None = None
    for part in parts:
        if isinstance(part, _Slot):
            slot = part
        else:
            lengths = np.full(row_count, fixed_bytes, dtype=np.int64) if lengths is None else lengths
            slot = _item_slot(part, lengths)
            lengths = lengths + part.word_counts * 4
        state = _mixed(_mixed(state, slot.low), slot.high)
    rows = state if isinstance(state, np.ndarray) else np.full(row_count, state, dtype=np.uint32)
    for part in parts:
        if isinstance(part, _Item):
            _mix_item(rows, part)
    rows ^= np.uint32(fixed_bytes) if lengths is None else lengths.astype(np.uint32)
    return _finished(rows)


def _bit_words(columns: Sequence[pa.Array]) -> Iterator[_Word]:
    """Yield the words of the header and the null bits."""
    word_count = (len(columns) + 63 + 8) // 64 * 2
    words: list[_Word] = [0] * word_count
    for index, column in enumerate(columns):
        if column.null_count:
            bit = index + 8
            nulls = np.asarray(column.is_null()).astype(np.uint32) << np.uint32(bit % 32)
            words[bit // 32] = np.bitwise_or(nulls, words[bit // 32], dtype=np.uint32)
    yield from words


def _part(column: pa.Array, type_: DataType) -> "_Slot | _Item":
    if not isinstance(type_, AtomicType):
        raise InvalidRequest(f"a column of type {type_to_sql(type_)} cannot be hashed: use a column of a plain type")
    if type_.root in _TEXTS:
        return _text_item(column)
    if type_.root is Root.DECIMAL:
        return _decimal_part(column, type_)
    if type_.root in _TIMESTAMPS:
        return _timestamp_part(column, type_)
    if type_.root in _WIDTHS:
        return _number_slot(column, _WIDTHS[type_.root])
    raise InvalidRequest(f"a column of type {type_to_sql(type_)} cannot be hashed: use a column of a plain type")


def _number_slot(column: pa.Array, width: type[np.generic]) -> _Slot:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    values = _numbers(column).view(width)
    if width is np.uint64:
        return _wide_slot(values)
    return _Slot(values.astype(np.uint32), 0)


def _wide_slot(values: npt.NDArray[Any]) -> _Slot:
    words = np.ascontiguousarray(values).view(np.uint32).reshape(-1, 2)
    return _Slot(words[:, 0], words[:, 1])


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return the raw values, nulls as zero."""
    bits = column.type.bit_width
    unsigned = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
    data = column.buffers()[1]
    values: npt.NDArray[Any]
    if data is None:
        return np.zeros(len(column), dtype=unsigned)
    values = np.frombuffer(data, dtype=unsigned)[column.offset : column.offset + len(column)]
    return np.where(np.asarray(column.is_valid()), values, np.zeros_like(values)) if column.null_count else values


def _timestamp_part(column: pa.Array, type_: AtomicType) -> "_Slot | _Item":
    precision = 6 if type_.precision is None else type_.precision
    ticks = _numbers(column).view(np.int64)
    per_milli = {"s": 0, "ms": 1, "us": 1_000, "ns": 1_000_000}[column.type.unit]
    millis = ticks * 1000 if not per_milli else ticks // per_milli
    if precision <= 3:
        return _wide_slot(millis)
    nanos = (ticks - millis * per_milli) * (1_000_000 // per_milli) if per_milli else np.zeros_like(ticks)
    # A null reserves its eight bytes like any other value (spec, "Nulls: the hashing trap").
    return _Item(
        nanos.astype(np.uint32),
        np.full(len(column), 2, dtype=np.int64),
        np.ascontiguousarray(millis).view(np.uint32).reshape(-1, 2),
    )


def _decimal_part(column: pa.Array, type_: AtomicType) -> "_Slot | _Item":
    data = np.frombuffer(column.buffers()[1], dtype=np.uint8).reshape(-1, 16)
    digits = data[column.offset : column.offset + len(column)]
    if column.null_count:
        digits = np.where(np.asarray(column.is_valid())[:, None], digits, np.uint8(0))
    if (type_.precision or 10) <= 18:
        return _wide_slot(np.ascontiguousarray(digits[:, :8]).view(np.uint64)[:, 0])
    big_endian = digits[:, ::-1]
    sign = big_endian[:, :1] >> 7
    # A leading byte is redundant when it only repeats the sign of the byte behind it.
    redundant = (big_endian[:, :-1] == sign * np.uint8(255)) & (big_endian[:, 1:] >> 7 == sign)
    lead = np.where(redundant.all(axis=1), 15, np.argmin(redundant, axis=1))
    places = lead[:, None] + np.arange(16)
    shifted = np.take_along_axis(big_endian, np.minimum(places, 15), axis=1)
    shifted = np.where(places < 16, shifted, np.uint8(0))
    lengths = (16 - lead).astype(np.uint32)
    if column.null_count:
        lengths = np.where(np.asarray(column.is_valid()), lengths, np.uint32(0))
    return _Item(
        lengths, np.full(len(column), 4, dtype=np.int64), np.ascontiguousarray(shifted).view(np.uint32).reshape(-1, 4)
    )


@dataclass(frozen=True, slots=True)
class _Texts:
    """Bytes of a column, read four at a time from any place; zero beyond a value's end."""

    view: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def word(self, rows: npt.NDArray[np.int64] | slice, number: int) -> _Array:
        """Return word `number` of the given rows."""
        left = np.clip(self.lengths[rows] - 4 * number, 0, 4)
        places = np.where(left > 0, self.starts[rows] + 4 * number, 0)
        kept = (np.uint64(1) << (left * 8).astype(np.uint64)) - np.uint64(1)
        return self.view[places] & kept.astype(np.uint32)


def _text_item(column: pa.Array) -> _Item:
    texts = _texts(column)
    is_inline = texts.lengths <= 7
    everything = slice(None)
    low, high = texts.word(everything, 0), texts.word(everything, 1)
    high = (high & np.uint32(0xFFFFFF)) | ((texts.lengths.astype(np.uint32) | np.uint32(0x80)) << np.uint32(24))
    if column.null_count:
        valid = np.asarray(column.is_valid())
        low, high = np.where(valid, low, np.uint32(0)), np.where(valid, high, np.uint32(0))
    word_counts = np.where(is_inline, 0, (texts.lengths + 7) // 8 * 2)
    return _Item(texts.lengths.astype(np.uint32), word_counts, texts, (is_inline, low, high))


def _texts(column: pa.Array) -> _Texts:
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        offset_type: type[np.generic] = np.int64
    else:
        offset_type = np.int32
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=offset_type)[column.offset : column.offset + len(column) + 1]
    offsets = offsets.astype(np.int64)
    begin, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    padded = np.zeros(end - begin + 8, dtype=np.uint8)
    if end > begin:
        padded[: end - begin] = np.frombuffer(data, dtype=np.uint8)[begin:end]
    view = np.lib.stride_tricks.as_strided(padded[:4].view("<u4"), shape=(len(padded) - 3,), strides=(1,))
    lengths = offsets[1:] - offsets[:-1]
    if column.null_count:
        lengths = np.where(np.asarray(column.is_valid()), lengths, 0)
    return _Texts(view, offsets[:-1] - begin, lengths)


def _item_slot(item: _Item, offsets: npt.NDArray[np.int64]) -> _Slot:
    high = offsets.astype(np.uint32)
    if item.inline is None:
        return _Slot(item.low, high)
    is_inline, low_inline, high_inline = item.inline
    return _Slot(np.where(is_inline, low_inline, item.low), np.where(is_inline, high_inline, high))


def _mix_item(state: _Array, item: _Item) -> None:
    """Mix the variable words of one column into `state`, each row as many as it has."""
    active = np.flatnonzero(item.word_counts)
    number = 0
    while len(active):
        words = item.words.word(active, number) if isinstance(item.words, _Texts) else item.words[active, number]
        state[active] = _mix_arrays(state[active], words)
        number += 1
        active = active[item.word_counts[active] > number]


def _mixed(state: _Word, word: _Word) -> _Word:
    if isinstance(state, int) and isinstance(word, int):
        mixed = _rotated(word * _C1 & _MASK, 15) * _C2 & _MASK
        return (_rotated(state ^ mixed, 13) * 5 + _C3) & _MASK
    if isinstance(word, int):
        assert isinstance(state, np.ndarray)
        return _absorbed(state.copy(), np.uint32(_rotated(word * _C1 & _MASK, 15) * _C2 & _MASK))
    return _mix_arrays(np.uint32(state) if isinstance(state, int) else state, word)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK


def _mix_arrays(state: "_Array | np.uint32", words: _Array) -> _Array:
    mixed = words * np.uint32(_C1)
    _rotate(mixed, 15)
    mixed *= np.uint32(_C2)
    mixed ^= state
    return _stirred(mixed)


def _absorbed(state: _Array, word: np.uint32) -> _Array:
    state ^= word
    return _stirred(state)


def _stirred(state: _Array) -> _Array:
    _rotate(state, 13)
    state *= np.uint32(5)
    state += np.uint32(_C3)
    return state


def _rotate(words: _Array, bits: int) -> None:
    low = words >> np.uint32(32 - bits)
    words <<= np.uint32(bits)
    words |= low


def _finished(state: _Array) -> Hashes:
    for shift, factor in ((16, _C4), (13, _C5)):
        state ^= state >> np.uint32(shift)
        state *= np.uint32(factor)
    state ^= state >> np.uint32(16)
    return state.view(np.int32)
