"""BinaryRow vectors: hash rows of Arrow columns without making BinaryRows, or make all BinaryRows at once.

A row is a sequence of eight-byte words, and word k of all rows is one array. The slow twin is `encoding` and
`hash_row`, row by row.
Source: docs/format/binary-row.md#row-layout.
"""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.binary_row.encoding import encode_row
from lakehouse_core.format.binary_row.hashing import BLOCK_ROWS, Hashes, RowWords, hash_words, in_blocks
from lakehouse_core.format.binary_row.layout import LONGEST_INLINE, is_compact, null_bits_size
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
    arrow_type,
    to_internal,
    type_to_sql,
)

_Words: TypeAlias = npt.NDArray[np.uint64]
_Longs: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]
_U = np.uint64


def hash_rows(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> Hashes:
    """Return the signed hash of each row, as `hash_row` gives for its BinaryRow. Columns have equal length.

    Raises InvalidRequest for a column of a nested type.
    """
    for data_type in types:
        if not _is_vectorised(data_type):
            raise InvalidRequest(
                f"a column of type {type_to_sql(data_type)} cannot be hashed: use a column of a plain type"
            )
    prepared = prepare_columns(columns, types)
    count = len(prepared[0]) if prepared else 0

    def hash_block(start: int, length: int) -> Hashes:
        fields = [_field(column.slice(start, length), t) for column, t in zip(prepared, types, strict=True)]
        sizes, words = _row_words(fields, length)
        return hash_words(length, sizes, words)

    return in_blocks(count, hash_block)


def encode_rows(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> pa.Array:
    """Return each row's BinaryRow, without arity, as an Arrow array of binary. There is at least one column."""
    return _encoded(columns, types, b"")


def serialize_rows(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> pa.Array:
    """Return each row in its stored form, with arity, as an Arrow array of binary. There is at least one column."""
    return _encoded(columns, types, len(types).to_bytes(4, "big"))


def prepare_columns(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> list[pa.Array]:
    """Return each column as one Arrow array of its type's layout; strings and binaries may be large."""
    return [_prepared(column, data_type) for column, data_type in zip(columns, types, strict=True)]


def is_valid(column: pa.Array) -> _Flags | None:
    """Return a mask of the values that are not null; None if all are not null."""
    if column.null_count == 0:
        return None
    flags: _Flags = column.is_valid().to_numpy(zero_copy_only=False)
    return flags


def fixed_values(column: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """Return the values buffer of a fixed-width column as numbers; values of null rows are arbitrary."""
    width = np.dtype(dtype).itemsize
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * width)


def text_bounds(column: pa.Array) -> tuple[_Longs, npt.NDArray[np.uint8]]:
    """Return the start of each value of a string or binary column, the end of the last one, and all their bytes."""
    _, offsets, data = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    if offsets is None or offsets.size == 0:
        return np.zeros(len(column) + 1, np.int64), np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, dtype, len(column) + 1, column.offset * dtype.itemsize)
    return bounds.astype(np.int64), np.frombuffer(data if data is not None else b"", np.uint8)


@dataclass(frozen=True, slots=True)
class _Field:
    """One column of a block. Slots are without the offset; sizes are bytes in the variable part, padded."""

    valid: _Flags | None
    slots: _Words
    # None: nothing in the variable part. An int: the same for each row, null or not.
    sizes: _Longs | int | None = None
    # Only for values whose slot holds an offset (None: all of them).
    has_offset: _Flags | None = None
    # The variable part when its size is fixed, word by word.
    fixed_words: tuple[_Words, ...] = ()
    # The variable part of text: starts, lengths, bytes.
    text: "_Text | None" = None


class _Text:
    """Bytes of text values, eight at a time."""

    __slots__ = ("_last", "_words", "lengths", "starts")

    def __init__(self, starts: _Longs, lengths: _Longs, data: npt.NDArray[np.uint8]) -> None:
        if len(data) < 8:
            data = np.concatenate([data, np.zeros(8, np.uint8)])
        self.starts = starts
        self.lengths = lengths
        self._words: _Words = np.ndarray((len(data) - 7,), "<u8", data.data, strides=(1,))
        self._last = len(data) - 8

    def words(self, starts: _Longs, lengths: _Longs) -> _Words:
        """Return up to eight bytes from each start, and zeros where `lengths` is less."""
        if len(starts) and starts.max() > self._last:
            # Near the end a whole word would leave the buffer: read an earlier one and shift it.
            safe = np.minimum(starts, self._last)
            found = self._words[safe] >> ((starts - safe) * 8).astype(np.uint64)
        else:
            found = self._words[starts]
        if len(lengths) and lengths.min() < 8:
            # Shifting by 64 bits is undefined, so words of full length use a mask.
            bits = (np.minimum(lengths, 7) * 8).astype(np.uint64)
            mask = (_U(1) << bits) - _U(1)
            found &= np.where(lengths >= 8, _U(0xFFFFFFFFFFFFFFFF), mask)
        return found


def _is_vectorised(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is not TypeRoot.VARIANT


def _prepared(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    expected = arrow_type(data_type)
    is_text = (pa.types.is_string(expected) and pa.types.is_large_string(column.type)) or (
        pa.types.is_binary(expected)
        and any(test(column.type) for test in (pa.types.is_large_binary, pa.types.is_string, pa.types.is_large_string))
    )
    return column if is_text or column.type == expected else column.cast(expected)


def _rows_one_by_one(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Iterator[bytes]:
    for row in zip(*columns, strict=True):
        yield encode_row([to_internal(value, t) for value, t in zip(row, types, strict=True)], types)


def _encoded(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType], prefix: bytes) -> pa.Array:
    prepared = prepare_columns(columns, types)
    count = len(prepared[0])
    if not all(_is_vectorised(data_type) for data_type in types):
        return pa.array([prefix + row for row in _rows_one_by_one(prepared, types)], pa.large_binary())
    blocks = []
    for start in range(0, count, BLOCK_ROWS):
        length = min(BLOCK_ROWS, count - start)
        fields = [_field(column.slice(start, length), t) for column, t in zip(prepared, types, strict=True)]
        blocks.append(_encoded_block(fields, length, prefix))
    return pa.concat_arrays(blocks) if blocks else pa.array([], pa.large_binary())


def _encoded_block(fields: Sequence[_Field], count: int, prefix: bytes) -> pa.Array:
    sizes, words = _row_words(fields, count)
    lengths = np.full(count, sizes, np.int64) if isinstance(sizes, int) else sizes
    ends = np.cumsum(lengths // 8)
    cursor = ends - lengths // 8
    flat = np.empty(int(ends[-1]) if count else 0, np.uint64)
    for rows, eight_bytes in words:
        at = cursor if rows is None else cursor[rows]
        flat[at] = eight_bytes
        if rows is None:
            cursor = cursor + 1
        else:
            cursor[rows] += 1
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths + len(prefix), out=offsets[1:])
    data = flat.view(np.uint8)
    if prefix:
        with_prefix = np.empty(int(offsets[-1]), np.uint8)
        is_prefix = np.zeros(len(with_prefix), np.bool_)
        for index, byte in enumerate(prefix):
            with_prefix[offsets[:-1] + index] = byte
            is_prefix[offsets[:-1] + index] = True
        with_prefix[~is_prefix] = data
        data = with_prefix
    return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _row_words(fields: Sequence[_Field], count: int) -> tuple[_Longs | int, Iterator[RowWords]]:
    """Return the sizes of rows in bytes and their words in order."""
    fixed_size = null_bits_size(len(fields)) + 8 * len(fields)
    starts: list[_Longs | int] = []
    end: _Longs | int = fixed_size
    for field in fields:
        starts.append(end)
        if field.sizes is not None:
            end = end + field.sizes
    return end, _words_in_order(fields, starts, count)


def _words_in_order(fields: Sequence[_Field], starts: Sequence[_Longs | int], count: int) -> Iterator[RowWords]:
    for word in range(null_bits_size(len(fields)) // 8):
        yield None, _null_bits(fields, word, count)
    for field, start in zip(fields, starts, strict=True):
        if field.sizes is None:
            yield None, field.slots
        else:
            offsets = _U(start << 32) if isinstance(start, int) else start.astype(np.uint64) << _U(32)
            slots = field.slots | offsets
            yield None, slots if field.has_offset is None else np.where(field.has_offset, slots, field.slots)
    for field in fields:
        for words in field.fixed_words:
            yield None, words
        if field.text is not None:
            yield from _text_words(field.text, field.sizes)


def _null_bits(fields: Sequence[_Field], word: int, count: int) -> _Words | int:
    bits = [
        np.where(field.valid, _U(0), _U(1 << (index + 8) % 64))
        for index, field in enumerate(fields)
        if (index + 8) // 64 == word and field.valid is not None
    ]
    return reduce(operator.or_, bits) if bits else 0


def _text_words(text: _Text, sizes: _Longs | int | None) -> Iterator[RowWords]:
    assert isinstance(sizes, np.ndarray)
    counts = sizes // 8
    for index in range(int(counts.max(initial=0))):
        active = counts > index
        if active.all():
            yield None, text.words(text.starts + 8 * index, text.lengths - 8 * index)
        else:
            rows = np.flatnonzero(active)
            yield rows, text.words(text.starts[rows] + 8 * index, text.lengths[rows] - 8 * index)


def _field(column: pa.Array, data_type: DataType) -> _Field:
    assert isinstance(data_type, AtomicType)
    root = data_type.root
    valid = is_valid(column)
    if root in STRING_ROOTS or root in BINARY_ROOTS:
        return _text_field(column, valid)
    if root in TIMESTAMP_ROOTS:
        return _timestamp_field(column, valid, data_type)
    if root is TypeRoot.DECIMAL:
        return _decimal_field(column, valid, data_type)
    if root is TypeRoot.BOOLEAN:
        flags = column.fill_null(False).to_numpy(zero_copy_only=False)
        return _Field(valid, flags.astype(np.uint64))
    # The bits of a number are not sign-extended: the rest of the slot is zero.
    values = fixed_values(column, _BIT_TYPES[root]).astype(np.uint64, copy=False)
    return _Field(valid, _zero_where_null(values, valid))


def _zero_where_null(values: _Words, valid: _Flags | None) -> _Words:
    return values if valid is None else np.where(valid, values, _U(0))


def _text_field(column: pa.Array, valid: _Flags | None) -> _Field:
    bounds, data = text_bounds(column)
    starts, lengths = bounds[:-1], np.diff(bounds)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    text = _Text(starts, lengths, data)
    inline = lengths <= LONGEST_INLINE
    if inline.all():
        return _Field(valid, _zero_where_null(_inline_slots(text, starts, lengths), valid))
    sizes = np.where(inline, 0, (lengths + 7) // 8 * 8)
    slots = lengths.astype(np.uint64)
    rows = np.flatnonzero(inline)
    slots[rows] = _inline_slots(text, starts[rows], lengths[rows])
    return _Field(valid, _zero_where_null(slots, valid), sizes, ~inline, text=text)


def _inline_slots(text: _Text, starts: _Longs, lengths: _Longs) -> _Words:
    return text.words(starts, lengths) | ((lengths.astype(np.uint64) | _U(0x80)) << _U(56))


def _timestamp_field(column: pa.Array, valid: _Flags | None, data_type: AtomicType) -> _Field:
    values = fixed_values(column, np.int64).astype(np.int64, copy=False)
    per_milli = {"ms": 1, "us": 1_000, "ns": 1_000_000}[column.type.unit]
    millis = values // per_milli
    words = _zero_where_null(millis.view(np.uint64), valid)
    if is_compact(data_type):
        return _Field(valid, words)
    nanos = (values - millis * per_milli) * (1_000_000 // per_milli)
    return _Field(valid, _zero_where_null(nanos.view(np.uint64), valid), 8, fixed_words=(words,))


def _decimal_field(column: pa.Array, valid: _Flags | None, data_type: AtomicType) -> _Field:
    halves = np.frombuffer(column.buffers()[1], np.uint64, 2 * len(column), 16 * column.offset).reshape(-1, 2)
    if valid is not None:
        halves = np.where(valid[:, None], halves, _U(0))
    if is_compact(data_type):
        return _Field(valid, np.ascontiguousarray(halves[:, 0]))
    # Big-endian bytes, without leading bytes that only repeat the sign.
    digits = np.ascontiguousarray(halves[:, ::-1]).byteswap().view(np.uint8).reshape(-1, 16)
    sign = np.where(digits[:, 0] >= 0x80, np.uint8(0xFF), np.uint8(0))
    same = np.concatenate([digits == sign[:, None], np.zeros((len(digits), 1), np.bool_)], axis=1)
    leading = np.minimum(same.argmin(axis=1), 15)
    first = np.take_along_axis(digits, leading[:, None], axis=1)[:, 0]
    leading -= ((first ^ sign) >= 0x80) & (leading > 0)
    padded = np.concatenate([digits, np.zeros_like(digits)], axis=1)
    aligned = np.take_along_axis(padded, leading[:, None] + np.arange(16), axis=1)
    sizes = (16 - leading).astype(np.uint64)
    words = np.ascontiguousarray(aligned).view(np.uint64)
    return _Field(
        valid,
        _zero_where_null(sizes, valid),
        16,
        fixed_words=(np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])),
    )


_BIT_TYPES = {
    TypeRoot.TINYINT: np.uint8,
    TypeRoot.SMALLINT: np.uint16,
    TypeRoot.INT: np.uint32,
    TypeRoot.DATE: np.uint32,
    TypeRoot.TIME: np.uint32,
    TypeRoot.FLOAT: np.uint32,
    TypeRoot.BIGINT: np.uint64,
    TypeRoot.DOUBLE: np.uint64,
}
