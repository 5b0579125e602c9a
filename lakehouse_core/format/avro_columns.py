"""Avro columns: decode many Avro records of one schema as columns, without a Python object per record or field.

Avro gives no hint where a record starts: one must decode all before it. Here a caller's pattern proposes starts, all
proposals are decoded at once, one vector operation per field, and then the chain from byte 0 is followed: a proposal
counts only if the record before it ends there. So the result equals that of decoding record by record; or it is None (a
missed start, or corrupt bytes), and `avro_file` decodes or names the fault.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.format.avro_file import MAX_STRING_BYTES

Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
# The number of zeros after the last byte, so that eight bytes can be read at each position.
PADDING_BYTES = 16

_Words: TypeAlias = npt.NDArray[np.uint64]
_U = np.uint64


@dataclass(frozen=True, slots=True)
class LongColumn:
    """One integer per record; `valid` is None when no record is null there. Null records hold 0."""

    values: Longs
    valid: Flags | None

    def take(self, rows: Longs) -> "LongColumn":
        return LongColumn(self.values[rows], None if self.valid is None else self.valid[rows])


@dataclass(frozen=True, slots=True)
class SpanColumn:
    """The byte range of a field in each record: text, binary, or the whole encoding of an array or a record."""

    starts: Longs
    ends: Longs
    valid: Flags | None

    def take(self, rows: Longs) -> "SpanColumn":
        return SpanColumn(self.starts[rows], self.ends[rows], None if self.valid is None else self.valid[rows])


Column: TypeAlias = LongColumn | SpanColumn


def decode_columns(
    buffer: npt.NDArray[np.uint8],
    size: int,
    *,
    counts: Sequence[tuple[int, int]],
    schema: Mapping[str, Any],
    wanted: Collection[str],
    proposed_starts: Longs,
) -> dict[str, Column] | None:
    """Return the wanted columns of all records in `buffer[:size]`, by dotted path, None if decoding fails.

    `counts` are (position, number of records) of each block in the buffer, which ends with PADDING_BYTES zeros.
    `wanted` names fields of the schema as "_FILE._LEVEL"; integers become LongColumn, all else SpanColumn.
    `proposed_starts` is ascending and holds every true start, or the answer is None.
    """
    walk = _Walk(buffer, size, proposed_starts)
    try:
        _record(schema, wanted, "")(walk)
    except _NotColumnar:
        return None
    rows = _chain(proposed_starts[walk.rows], walk.position, size, counts)
    if rows is None:
        return None
    return {path: column.take(rows) for path, column in walk.columns.items()}


def gather(buffer: npt.NDArray[np.uint8], column: SpanColumn, type_: pa.DataType) -> pa.Array:
    """Return the bytes of a column as an Arrow array of `type_`, one of the string or binary types, large or not.

    Whether strings are UTF-8 is not checked.
    """
    lengths = column.ends - column.starts
    if column.valid is not None:
        lengths = np.where(column.valid, lengths, 0)
    large = pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)
    offsets = np.zeros(len(lengths) + 1, np.int64 if large else np.int32)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    # In steps, so that the matrix as wide as the longest value stays small.
    step = max(1, _GATHER_BYTES // (int(lengths.max(initial=0)) + 8))
    for first in range(0, len(lengths), step):
        some = slice(first, first + step)
        data[offsets[some.start] : offsets[min(some.stop, len(lengths))]] = _rows_of_bytes(
            buffer, column.starts[some], lengths[some]
        )
    validity = None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    return pa.Array.from_buffers(type_, len(lengths), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


class _NotColumnar(Exception):
    """The schema has a type that this module does not decode."""


@dataclass(slots=True)
class _Walk:
    """The read position in each proposed record. Fields are read in order, and failing proposals are dropped."""

    buffer: npt.NDArray[np.uint8]
    size: int
    position: Longs
    columns: dict[str, Column] = field(default_factory=dict)
    rows: Longs = field(init=False)
    bad: Flags = field(init=False)

    def __post_init__(self) -> None:
        self.position = self.position.copy()
        self.rows = np.arange(len(self.position))
        self.bad = np.zeros(len(self.position), np.bool_)

    def longs(self) -> Longs:
        """Read a variable-length integer from each record."""
        first = self.buffer[self.position]
        if not len(first) or first.max() < 0x80:
            self.advance(1)
            small = first.astype(np.int64)
            return (small >> 1) ^ -(small & 1)
        numbers, lengths = _varints(_words(self.buffer)[self.position])
        long = np.flatnonzero(lengths == 0)
        if len(long):
            self._patch_long_varints(long, numbers, lengths)
        self.advance(lengths)
        return numbers

    def _patch_long_varints(self, long: Longs, numbers: Longs, lengths: Longs) -> None:
        """Read the few integers of nine or ten bytes, byte by byte."""
        value = np.zeros(len(long), np.uint64)
        length = np.zeros(len(long), np.int64)
        going = np.ones(len(long), np.bool_)
        at = self.position[long]
        for index in range(10):
            byte = self.buffer[np.minimum(at + index, self.size)].astype(np.uint64)
            # The tenth byte has one bit left.
            self.bad[long[going & (index == 9) & (byte > 1)]] = True
            value = np.where(going, value | ((byte & _U(0x7F)) << _U(7 * index)), value)
            length += going
            going &= byte >= 0x80
        numbers[long] = ((value >> _U(1)) ^ (_U(0) - (value & _U(1)))).astype(np.int64)
        lengths[long] = length

    def advance(self, lengths: Longs | int) -> None:
        """Advance the positions; a record that would leave the buffer is marked as bad."""
        after = self.position + lengths
        outside = after > self.size
        if outside.any():
            self.bad |= outside
            after = np.where(outside, self.size, after)
        self.position = after

    def mark(self, bad: Flags) -> None:
        self.bad |= bad

    def drop_bad(self) -> None:
        if self.bad.any():
            good = np.flatnonzero(~self.bad)
            self.position, self.rows, self.bad = self.position[good], self.rows[good], self.bad[good]
            self.columns = {path: column.take(good) for path, column in self.columns.items()}

    def part(self, rows: Longs) -> "_Walk":
        """Return a walk over some of the records, to pass to `merge` afterwards."""
        return _Walk(self.buffer, self.size, self.position[rows])

    def merge(self, part: "_Walk", rows: Longs) -> None:
        # Columns keep earlier positions, so they are replaced, not changed.
        self.position = self.position.copy()
        self.position[rows] = part.position
        self.bad[rows] |= part.bad


# A function that reads one value from each record of a walk, and returns its column if the field is wanted.
_Step: TypeAlias = Callable[[_Walk], Column | None]


def _record(schema: Mapping[str, Any], wanted: Collection[str], path: str) -> Callable[[_Walk], None]:
    steps: list[tuple[str, _Step | None, Callable[[_Walk], None] | None]] = []
    for declared in schema["fields"]:
        inner = f"{path}{declared['name']}"
        type_ = declared["type"]
        is_record = isinstance(type_, dict) and type_.get("type") == "record"
        if is_record and any(name.startswith(inner + ".") for name in wanted):
            steps.append((inner, None, _record(type_, wanted, inner + ".")))
        else:
            steps.append((inner, _step(type_), None))

    def read(walk: _Walk) -> None:
        for inner, step, nested in steps:
            if nested is not None:
                nested(walk)
            elif step is not None:
                starts = walk.position
                column = step(walk)
                if inner in wanted:
                    walk.columns[inner] = column if column is not None else SpanColumn(starts, walk.position, None)
            # The first fields exclude most wrong proposals, so later fields are not read for them.
            walk.drop_bad()

    return read


def _step(type_: Any) -> _Step:
    match type_:
        case "int" | {"type": "int"}:
            return _int
        case "long" | {"type": "long"}:
            return lambda walk: LongColumn(walk.longs(), None)
        case "string" | "bytes" | {"type": "string" | "bytes"}:
            return _bytes
        case ["null", other]:
            return _nullable(_step(other))
        case {"type": "array", "items": items}:
            return _array(_step(items))
        case {"type": "record", "fields": fields}:
            return _whole_record([_step(declared["type"]) for declared in fields])
    raise _NotColumnar


def _int(walk: _Walk) -> Column:
    values = walk.longs()
    walk.mark((values < -(2**31)) | (values >= 2**31))
    return LongColumn(values, None)


def _bytes(walk: _Walk) -> Column:
    lengths = walk.longs()
    wrong = (lengths < 0) | (lengths > MAX_STRING_BYTES)
    if wrong.any():
        walk.mark(wrong)
        lengths = np.where(wrong, 0, lengths)
    starts = walk.position
    walk.advance(lengths)
    return SpanColumn(starts, walk.position, None)


def _nullable(inner: _Step) -> _Step:
    def read(walk: _Walk) -> Column | None:
        branch = walk.longs()
        present = branch == 1
        walk.mark(~present & (branch != 0))
        count = len(present)
        if present.all() and count:
            starts = walk.position
            return inner(walk) or SpanColumn(starts, walk.position, None)
        rows = np.flatnonzero(present)
        part = walk.part(rows)
        column = (inner(part) or SpanColumn(walk.position[rows], part.position, None)) if len(rows) else None
        walk.merge(part, rows)
        if isinstance(column, LongColumn):
            return LongColumn(_spread(column.values, rows, count), present)
        if isinstance(column, SpanColumn):
            return SpanColumn(_spread(column.starts, rows, count), _spread(column.ends, rows, count), present)
        return LongColumn(np.zeros(count, np.int64), present)

    return read


def _spread(values: Longs, rows: Longs, count: int) -> Longs:
    all_rows = np.zeros(count, np.int64)
    all_rows[rows] = values
    return all_rows


def _array(item: _Step) -> _Step:
    def read(walk: _Walk) -> None:
        pending = np.arange(len(walk.position))
        total = np.zeros(len(walk.position), np.int64)
        while len(pending):
            part = walk.part(pending)
            counts = part.longs()
            announced = np.flatnonzero(counts < 0)
            if len(announced):
                sized = part.part(announced)
                sized.longs()
                part.merge(sized, announced)
            # The smallest int64 has no positive counterpart; as a count it is out of bounds anyway.
            counts = np.where(counts < 0, -counts, counts)
            # A wrong proposal may claim items up to the end of the buffer; each step for it would take as long as one
            # for all records.
            usual = max(_FEW_ITEMS, 4 * int(np.median(counts)))
            total[pending] += np.clip(counts, 0, usual + 1)
            part.mark((total[pending] > usual) | (counts < 0) | (counts > usual))
            _items(part, item, counts)
            walk.merge(part, pending)
            pending = pending[(counts != 0) & ~part.bad]

    return read


def _items(walk: _Walk, item: _Step, counts: Longs) -> None:
    done = 0
    while True:
        rows = np.flatnonzero((counts > done) & ~walk.bad)
        if not len(rows):
            return
        part = walk.part(rows)
        # Records are selected again only after one has no more items.
        for _ in range(int(counts[rows].min()) - done):
            item(part)
            done += 1
            if part.bad.any():
                break
        walk.merge(part, rows)


def _whole_record(steps: list[_Step]) -> _Step:
    def read(walk: _Walk) -> None:
        for step in steps:
            step(walk)

    return read


def _chain(starts: Longs, ends: Longs, size: int, counts: Sequence[tuple[int, int]]) -> Longs | None:
    """Return the indices of the records from byte 0 to `size`, each starting where the one before ends."""
    expected = sum(count for _, count in counts)
    if not len(starts) or not expected:
        return np.zeros(0, np.int64) if size == 0 and expected == 0 else None
    if len(starts) == expected and starts[0] == 0 and ends[-1] == size and bool((ends[:-1] == starts[1:]).all()):
        rows = np.arange(expected)
    else:
        following = np.searchsorted(starts, ends)
        following = np.where(
            (following < len(starts)) & (starts[np.minimum(following, len(starts) - 1)] == ends), following, -1
        )
        jumps = following.tolist()
        order: list[int] = []
        at = 0 if starts[0] == 0 else -1
        while at >= 0 and len(order) < expected:
            order.append(at)
            at = jumps[at]
        if len(order) != expected or ends[order[-1]] != size:
            return None
        rows = np.array(order, np.int64)
    first = 0
    for position, count in counts:
        if count and starts[rows[first]] != position:
            return None
        first += count
    return rows


def _words(buffer: npt.NDArray[np.uint8]) -> _Words:
    """Return eight bytes from each position of the buffer as a little-endian word."""
    return np.ndarray((len(buffer) - 7,), "<u8", buffer.data, strides=(1,))


def _varints(words: _Words) -> tuple[Longs, Longs]:
    """Return number and length of the zigzag varint at the start of each word; length 0: it is longer than a word."""
    stops = ~words & _U(0x8080808080808080)
    below = (stops & (_U(0) - stops)) - _U(1)
    lengths = ((np.bitwise_count(below).astype(np.int64) + 1) >> 3) * (stops != 0)
    # Join groups of seven bits, pair by pair.
    value = words & below & _U(0x7F7F7F7F7F7F7F7F)
    value = (value & _U(0x007F007F007F007F)) | ((value & _U(0x7F007F007F007F00)) >> _U(1))
    value = (value & _U(0x00003FFF00003FFF)) | ((value & _U(0x3FFF00003FFF0000)) >> _U(2))
    value = (value & _U(0x000000000FFFFFFF)) | ((value & _U(0x0FFFFFFF00000000)) >> _U(4))
    return ((value >> _U(1)) ^ (_U(0) - (value & _U(1)))).astype(np.int64), lengths


_GATHER_BYTES = 1 << 20
_FEW_ITEMS = 256


def _rows_of_bytes(buffer: npt.NDArray[np.uint8], starts: Longs, lengths: Longs) -> npt.NDArray[np.uint8]:
    """Return the bytes of all spans, one after the other. REQUIRES: spans lie before the padding."""
    longest = int(lengths.max(initial=0))
    if longest == 0:
        return np.zeros(0, np.uint8)
    words = _words(buffer)
    count = (longest + 7) // 8
    matrix = np.empty((len(starts), count), np.uint64)
    last = len(words) - 1
    for index in range(count):
        matrix[:, index] = words[np.minimum(starts + 8 * index, last)]
    cells = matrix.view(np.uint8).reshape(len(starts), count * 8)
    if lengths.min() == longest:
        return cells[:, :longest].reshape(-1)
    return cells[np.arange(count * 8) < lengths[:, None]]
