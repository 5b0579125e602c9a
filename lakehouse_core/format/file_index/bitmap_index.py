"""Bitmap indexes: the rows of each value.

Read in both versions, written in the second, whose dictionary is cut into blocks so that a look-up parses one of them.
Source: docs/format/file-index.md#bitmap.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyroaring import BitMap

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.file_index.container import corrupt
from lakehouse_core.format.file_index.distinct import DistinctValues
from lakehouse_core.format.file_index.keys import Key, KeyForm, KeyRange, loaded_key, loaded_keys, stored_keys
from lakehouse_core.format.file_index.roaring import all_rows, parse_rows, rows_to_bytes

_V1: Final = 1
_V2: Final = 2
_INT: Final = struct.Struct(">i")
_PAIR: Final = struct.Struct(">ii")
_COUNTS: Final = struct.Struct(">Bii?")
_LONE_LENGTH: Final = -1


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where the bitmap of a value lies in the bitmaps' area; a negative `start` is the one row -1 - start."""

    start: int
    length: int


class BitmapIndex:
    """An index read back. Raises CorruptTable, naming `what`, where the bytes are none."""

    def __init__(self, body: bytes, form: KeyForm, what: str) -> None:
        self._body = body
        self._form = form
        self._what = what
        if len(body) < _COUNTS.size:
            raise corrupt(what, f"{len(body)} bytes are not a bitmap index")
        version, self.row_count, self._value_count, self._has_null = _COUNTS.unpack_from(body)
        if min(self.row_count, self._value_count) < 0:
            raise corrupt(what, f"it counts {self.row_count} rows and {self._value_count} values")
        try:
            if version == _V2:
                self._open_v2()
            elif version == _V1:
                self._open_v1()
            else:
                raise UnsupportedFeature(
                    f"{what}: a bitmap index of version {version}; 1 and 2 are known. Set file-index.read.enabled to "
                    "false to read without it."
                )
        except (struct.error, ValueError) as error:
            raise self._broken(error) from error

    def non_null(self) -> BitMap:
        """Return the rows that have a value."""
        everything = all_rows(self.row_count)
        return everything if self._nulls is None else everything - self._rows(self._nulls)

    def rows_in(self, ranges: Sequence[KeyRange]) -> BitMap:
        """Return the rows whose key lies in one of the ranges."""
        found = [self._rows(place) for low, high in ranges for place in self._places(low, high)]
        return BitMap.union(*found) if found else BitMap()

    def _places(self, low: Key | None, high: Key | None) -> Iterator[_Rows]:
        first = 0 if low is None else max(0, bisect_right(self._first_keys, low) - 1)
        last = len(self._first_keys) if high is None else bisect_left(self._first_keys, high)
        for block in range(first, last):
            try:
                keys, places = self._block(block)
            except (struct.error, ValueError) as error:
                raise self._broken(error) from error
            start = 0 if low is None else bisect_left(keys, low)
            end = len(keys) if high is None else bisect_left(keys, high)
            yield from places[start:end]

    def _rows(self, place: _Rows) -> BitMap:
        if place.start < 0:
            row = -1 - place.start
            if row >= self.row_count:
                raise corrupt(self._what, f"it speaks of row {row}, the file has {self.row_count} rows")
            return BitMap([row])
        return parse_rows(self._body, self._bitmaps + place.start, place.length, self.row_count, self._what)

    def _open_v2(self) -> None:
        position = _COUNTS.size
        self._nulls: _Rows | None = None
        if self._has_null:
            self._nulls = _Rows(*_PAIR.unpack_from(self._body, position))
            position += _PAIR.size
        (block_count,) = _INT.unpack_from(self._body, position)
        position += _INT.size
        if block_count < 0:
            raise ValueError(f"{block_count} blocks")
        self._first_keys: list[Key] = []
        self._offsets: list[int] = []
        for _ in range(block_count):
            key, position = loaded_key(self._body, position, self._form)
            (offset,) = _INT.unpack_from(self._body, position)
            position += _INT.size
            self._first_keys.append(key)
            self._offsets.append(offset)
        (blocks_bytes,) = _INT.unpack_from(self._body, position)
        self._blocks = position + _INT.size
        self._bitmaps = self._blocks + blocks_bytes
        self._loaded: dict[int, tuple[list[Key], list[_Rows]]] = {}

    def _block(self, block: int) -> tuple[list[Key], list[_Rows]]:
        """Return the keys of a block, sorted, and where their bitmaps are."""
        if block not in self._loaded:
            position = self._blocks + self._offsets[block]
            if not self._blocks <= position <= len(self._body):
                raise ValueError(f"block {block} at byte {position} of {len(self._body)}")
            (count,) = _INT.unpack_from(self._body, position)
            if count < 1:
                raise ValueError(f"block {block} of {count} values")
            self._loaded[block] = self._entries(position + _INT.size, count)
        return self._loaded[block]

    def _entries(self, position: int, count: int) -> tuple[list[Key], list[_Rows]]:
        if not self._form.is_text:
            layout = np.dtype([("key", f">i{self._form.width}"), ("start", ">i4"), ("length", ">i4")])
            entries = np.frombuffer(self._body, layout, count, position)
            pairs = zip(entries["start"].tolist(), entries["length"].tolist(), strict=True)
            return loaded_keys(entries["key"], self._form).tolist(), [_Rows(*pair) for pair in pairs]
        keys, places = [], []
        for _ in range(count):
            key, position = loaded_key(self._body, position, self._form)
            keys.append(key)
            places.append(_Rows(*_PAIR.unpack_from(self._body, position)))
            position += _PAIR.size
        return keys, places

    def _open_v1(self) -> None:
        """One list of values, unsorted, as one block; a bitmap ends where the next begins."""
        position = _COUNTS.size
        starts: list[int] = []
        if self._has_null:
            starts.append(_INT.unpack_from(self._body, position)[0])
            position += _INT.size
        keys: list[Key] = []
        for _ in range(self._value_count):
            key, position = loaded_key(self._body, position, self._form)
            keys.append(key)
            starts.append(_INT.unpack_from(self._body, position)[0])
            position += _INT.size
        self._bitmaps = position
        area_bytes = len(self._body) - position
        ends = sorted({start for start in starts if start >= 0} | {area_bytes})
        places = [
            _Rows(start, ends[bisect_right(ends, start)] - start if 0 <= start < area_bytes else _LONE_LENGTH)
            for start in starts
        ]
        self._nulls = places.pop(0) if self._has_null else None
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self._first_keys = [keys[order[0]]] if keys else []
        self._loaded = {0: ([keys[at] for at in order], [places[at] for at in order])}

    def _broken(self, error: Exception) -> Exception:
        return corrupt(self._what, f"the bitmap index cannot be decoded ({error})")


def bitmap_index_bytes(values: DistinctValues, form: KeyForm, *, block_bytes: int) -> bytes:
    """Return the body of an index, version 2, of a file with these values."""
    bitmaps = bytearray()
    nulls = b""
    null_rows = values.null_rows()
    if null_rows:
        # Of one row alone, too, Java says how long its bitmap would be.
        nulls = _PAIR.pack(_added(bitmaps, null_rows)[0], len(rows_to_bytes(null_rows)))
    stored = stored_keys(values.keys, form)
    entries = [key + _PAIR.pack(*_added(bitmaps, rows)) for key, rows in zip(stored, values.rows(), strict=True)]
    heads, blocks = bytearray(), bytearray()
    block_count = 0
    for first, after in _cut(entries, block_bytes):
        heads += stored[first] + _INT.pack(len(blocks))
        blocks += _INT.pack(after - first) + b"".join(entries[first:after])
        block_count += 1
    counts = _COUNTS.pack(_V2, values.row_count, len(stored), bool(null_rows))
    return b"".join([counts, nulls, _INT.pack(block_count), heads, _INT.pack(len(blocks)), blocks, bitmaps])


def _added(bitmaps: bytearray, rows: BitMap) -> tuple[int, int]:
    """Append the rows; return where, or, for one row alone, the number that stands for it."""
    if len(rows) == 1:
        return -1 - rows[0], _LONE_LENGTH
    start = len(bitmaps)
    bitmaps += rows_to_bytes(rows)
    return start, len(bitmaps) - start


def _cut(entries: Sequence[bytes], block_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of blocks of at most `block_bytes`, with their count; a larger entry has one of its own."""
    first, size = 0, _INT.size
    for at, entry in enumerate(entries):
        if at > first and size + len(entry) > block_bytes:
            yield first, at
            first, size = at, _INT.size
        size += len(entry)
    if entries:
        yield first, len(entries)
