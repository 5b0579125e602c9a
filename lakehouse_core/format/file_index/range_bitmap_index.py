"""Range bitmaps: a sorted dictionary of the values, and the code of each row cut into bits.

Source: docs/format/file-index.md#range-bitmap.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyroaring import BitMap

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.data_types import TypeRoot
from lakehouse_core.format.file_index.bit_slices import BitSlices
from lakehouse_core.format.file_index.container import corrupt
from lakehouse_core.format.file_index.distinct import DistinctValues
from lakehouse_core.format.file_index.keys import Key, KeyForm, KeyRange, loaded_key, loaded_keys, stored_keys
from lakehouse_core.format.file_index.roaring import parse_rows, rows_to_bytes, rows_where

_VERSION: Final = 1
_INT: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">iBii")
_DICTIONARY_HEAD: Final = struct.Struct(">iBiii")
_FIXED_CHUNK: Final = struct.Struct(">iiiii")
_TEXT_CHUNK: Final = struct.Struct(">iiiii")
_SLICES_HEAD: Final = struct.Struct(">iBBii")
_PLACE: Final = struct.Struct(">ii")
# The length itself does not count.
_DICTIONARY_HEAD_BYTES: Final = _DICTIONARY_HEAD.size - _INT.size

DEFAULT_CHUNK_BYTES: Final = 16 << 10
# Types of which each key has a chunk of its own unless told otherwise.
_UNCHUNKED: Final = frozenset({TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT})


def default_chunk_bytes(form: KeyForm) -> int:
    """Return the size of chunks where no option says it."""
    return 0 if form.type.root in _UNCHUNKED else DEFAULT_CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class _Chunk:
    """`size` keys follow `first`; they lie from `start` of the keys' area, `length` bytes after the texts' offsets."""

    first: Key
    first_code: int
    size: int
    start: int
    offsets_length: int
    length: int


class RangeBitmapIndex:
    """An index read back. Raises CorruptTable, naming `what`, where the bytes are none."""

    def __init__(self, body: bytes, form: KeyForm, what: str) -> None:
        self._body = body
        self._form = form
        self._what = what
        try:
            head_bytes, version, self.row_count, self._cardinality = _HEAD.unpack_from(body)
            self._check_version(version)
            start = _INT.size + head_bytes
            (dictionary_bytes,) = _INT.unpack_from(body, start - _INT.size)
            if head_bytes < _HEAD.size or dictionary_bytes < 0 or min(self.row_count, self._cardinality) < 0:
                raise ValueError(f"a head of {head_bytes} bytes, {self.row_count} rows, {self._cardinality} values")
            self._open_dictionary(start)
            self._slices = self._open_slices(start + dictionary_bytes)
        except (struct.error, ValueError) as error:
            raise self._broken(error) from error
        self._keys: dict[int, list[Key]] = {}

    def non_null(self) -> BitMap:
        """Return the rows that have a value."""
        return self._slices.existence

    def rows_in(self, ranges: Sequence[KeyRange]) -> BitMap:
        """Return the rows whose key lies in one of the ranges."""
        found = BitMap()
        for low, high in ranges:
            first = 0 if low is None else self._code(low)
            after = self._cardinality if high is None else self._code(high)
            if first < after:
                found |= self._slices.between(first, None if after == self._cardinality else after)
        return found

    def _code(self, key: Key) -> int:
        """Return how many keys are smaller."""
        chunk = bisect_right(self._firsts, key) - 1
        if chunk < 0:
            return 0
        try:
            keys = self._chunk_keys(chunk)
        except (struct.error, ValueError) as error:
            raise self._broken(error) from error
        return self._chunks[chunk].first_code + bisect_left(keys, key)

    def _open_dictionary(self, start: int) -> None:
        head_bytes, version, chunk_count, offsets_bytes, chunks_bytes = _DICTIONARY_HEAD.unpack_from(self._body, start)
        self._check_version(version)
        offsets = start + _INT.size + head_bytes
        if chunk_count < 0 or offsets_bytes != _INT.size * chunk_count or chunks_bytes < 0:
            raise ValueError(f"a dictionary of {chunk_count} chunks, {offsets_bytes} and {chunks_bytes} bytes")
        chunks = offsets + offsets_bytes
        self._keys_area = chunks + chunks_bytes
        places = np.frombuffer(self._body, ">i4", chunk_count, offsets).tolist() if chunk_count else []
        self._chunks = [self._chunk(chunks + place) for place in places]
        self._firsts = [chunk.first for chunk in self._chunks]

    def _chunk(self, position: int) -> _Chunk:
        if not 0 <= position < len(self._body):
            raise ValueError(f"a chunk at byte {position} of {len(self._body)}")
        self._check_version(self._body[position])
        first, position = loaded_key(self._body, position + 1, self._form)
        if self._form.is_text:
            code, start, size, offsets_length, length = _TEXT_CHUNK.unpack_from(self._body, position)
        else:
            code, start, size, length, _ = _FIXED_CHUNK.unpack_from(self._body, position)
            offsets_length = 0
        if min(code, start, size, offsets_length, length) < 0 or code + size >= self._cardinality:
            raise ValueError(f"a chunk of {size} keys from code {code}, of {self._cardinality} values in all")
        return _Chunk(first, code, size, start, offsets_length, length)

    def _chunk_keys(self, number: int) -> list[Key]:
        if number not in self._keys:
            chunk = self._chunks[number]
            start = self._keys_area + chunk.start
            keys: list[Key] = [chunk.first]
            if not self._form.is_text:
                raw = self._body[start : start + self._form.width * chunk.size]
                keys += loaded_keys(np.frombuffer(raw, f">i{self._form.width}", chunk.size), self._form).tolist()
            elif chunk.size:
                offsets = np.frombuffer(self._body, ">i4", chunk.size, start).tolist()
                area = start + chunk.offsets_length
                keys += [loaded_key(self._body, area + offset, self._form)[0] for offset in offsets]
            self._keys[number] = keys
        return self._keys[number]

    def _open_slices(self, start: int) -> BitSlices:
        head_bytes, version, slice_count, existence_bytes, slices_bytes = _SLICES_HEAD.unpack_from(self._body, start)
        self._check_version(version)
        places = [
            _PLACE.unpack_from(self._body, start + _SLICES_HEAD.size + _PLACE.size * bit) for bit in range(slice_count)
        ]
        if slices_bytes != _PLACE.size * slice_count:
            raise ValueError(f"{slice_count} slices, and {slices_bytes} bytes that say where they are")
        existence = start + _INT.size + head_bytes
        slices = existence + existence_bytes

        def slice_of(bit: int) -> BitMap:
            offset, length = places[bit]
            return parse_rows(self._body, slices + offset, length, self.row_count, self._what)

        rows = parse_rows(self._body, existence, existence_bytes, self.row_count, self._what)
        return BitSlices(rows, slice_count, slice_of)

    def _check_version(self, version: int) -> None:
        if version != _VERSION:
            raise UnsupportedFeature(
                f"{self._what}: a range-bitmap index of version {version}; {_VERSION} is known. Set "
                "file-index.read.enabled to false to read without it."
            )

    def _broken(self, error: Exception) -> Exception:
        return corrupt(self._what, f"the range-bitmap index cannot be decoded ({error})")


def range_bitmap_bytes(values: DistinctValues, form: KeyForm, *, chunk_bytes: int) -> bytes:
    """Return the body of an index of a file with these values."""
    stored = stored_keys(values.keys, form)
    bounds = stored[0] + stored[-1] if stored else b""
    dictionary = _dictionary_bytes(stored, form, chunk_bytes)
    head = _HEAD.pack(_HEAD.size + len(bounds), _VERSION, values.row_count, len(stored))
    return b"".join([head, bounds, _INT.pack(len(dictionary)), dictionary, _slices_bytes(values)])


def _dictionary_bytes(stored: Sequence[bytes], form: KeyForm, chunk_bytes: int) -> bytes:
    offsets, chunks, keys = bytearray(), bytearray(), bytearray()
    for first, after in _cut(stored, form, chunk_bytes):
        offsets += _INT.pack(len(chunks))
        rest = stored[first + 1 : after]
        area = b"".join(rest)
        chunks += bytes([_VERSION]) + stored[first]
        if form.is_text:
            starts = np.cumsum([0, *map(len, rest)])[:-1].astype(">i4").tobytes()
            chunks += _TEXT_CHUNK.pack(first, len(keys), len(rest), len(starts), len(area))
            keys += starts
        else:
            chunks += _FIXED_CHUNK.pack(first, len(keys), len(rest), len(area), form.width)
        keys += area
    head = _DICTIONARY_HEAD.pack(_DICTIONARY_HEAD_BYTES, _VERSION, len(offsets) // _INT.size, len(offsets), len(chunks))
    return b"".join([head, offsets, chunks, keys])


def _cut(stored: Sequence[bytes], form: KeyForm, chunk_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of chunks whose keys behind the first take at most `chunk_bytes`."""
    first, size = 0, 0
    extra = _INT.size if form.is_text else 0
    for at, key in enumerate(stored):
        if at == first:
            continue
        if size + len(key) + extra > chunk_bytes:
            yield first, at
            first, size = at, 0
        else:
            size += len(key) + extra
    if stored:
        yield first, len(stored)


def _slices_bytes(values: DistinctValues) -> bytes:
    # Java counts the bits of a 64-bit -1 when there is no value at all.
    slice_count = max(1, (len(values.keys) - 1).bit_length()) if values.keys else 64
    slices = [
        rows_to_bytes(rows_where((values.codes >= 0) & (values.codes >> bit & 1 > 0)) if values.keys else BitMap())
        for bit in range(slice_count)
    ]
    existence = rows_to_bytes(rows_where(values.codes >= 0))
    places = bytearray()
    start = 0
    for data in slices:
        places += _PLACE.pack(start, len(data))
        start += len(data)
    head_bytes = _SLICES_HEAD.size - _INT.size + len(places)
    head = _SLICES_HEAD.pack(head_bytes, _VERSION, slice_count, len(existence), len(places))
    return b"".join([head, places, existence, *slices])
