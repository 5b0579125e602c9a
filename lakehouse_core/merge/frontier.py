"""Frontier chunks: cut sorted runs into slices that hold every version of their keys, in bounded memory.

Rule: a chunk holds all rows of all runs with a key in (previous frontier, frontier]. A run holds a key once, unless the
caller passes `repeats_keys`: then the frontier's own key waits for the next chunk.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, isnan
from operator import le, lt
from typing import Any, TypeAlias

import pyarrow as pa

Key: TypeAlias = tuple[Any, ...]
# More bytes than this in one chunk could overflow the 2 GiB that an Arrow string array can address.
MAX_CHUNK_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class RunSlice:
    """The part of one run in a chunk: rows in key order. `run` counts from 0, the oldest run."""

    run: int
    batches: tuple[pa.RecordBatch, ...]

    @property
    def row_count(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    @property
    def size_bytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)


def frontier_chunks(
    runs: Sequence[Iterable[pa.RecordBatch]],
    key_columns: Sequence[int],
    *,
    chunk_rows: int,
    chunk_bytes: int = MAX_CHUNK_BYTES,
    max_chunk_bytes: int = MAX_CHUNK_BYTES,
    repeats_keys: bool = False,
    shares: Sequence[float] | None = None,
) -> Iterator[tuple[RunSlice, ...]]:
    """Yield chunks in key order, each as non-empty parts, oldest run first.

    `runs` are sorted by the columns `key_columns`, each key once unless `repeats_keys`: all rows of one key are then in
    memory at once. The next batch of a run is read when less than half its share of `chunk_rows` and `chunk_bytes` is
    buffered, so batches should have the size of a share. `shares` sum up to 1; None: equal shares. A chunk above
    `max_chunk_bytes` is divided, at the finest into single keys.
    """
    buffers = [_RunBuffer(index, iter(run), key_columns) for index, run in enumerate(runs)]
    shares = shares or [1 / max(1, len(runs))] * len(runs)
    while True:
        for buffer, share in zip(buffers, shares, strict=True):
            buffer.fill(max(1, int(chunk_rows / 2 * share)), max(1, int(chunk_bytes / 2 * share)))
        open_buffers = [buffer for buffer in buffers if not buffer.at_end]
        if open_buffers:
            frontier = min(buffer.last_key() for buffer in open_buffers)
            parts = [buffer.take_until(frontier, included=not repeats_keys) for buffer in buffers if buffer.rows]
        else:
            parts = [buffer.take_all() for buffer in buffers if buffer.rows]
        parts = [part for part in parts if part.batches]
        if parts:
            yield from _halved(parts, key_columns, max_chunk_bytes)
        if not open_buffers:
            return
        if not parts:
            # One key fills the whole buffer of some runs, and may continue in their next batches.
            for buffer in open_buffers:
                if buffer.last_key() == frontier:
                    buffer.read_on()


def key_reader(schema: pa.Schema, key_columns: Sequence[int]) -> Callable[[pa.RecordBatch, int], Key]:
    """Return a function that reads a row's key as a tuple with the order of the key words."""
    readers = [(index, _value_reader(schema.field(index).type)) for index in key_columns]
    return lambda batch, row: tuple(read(batch.column(index)[row]) for index, read in readers)


def _value_reader(kind: pa.DataType) -> Callable[[pa.Scalar], Any]:
    if pa.types.is_floating(kind):
        return lambda scalar: _comparable_float(scalar.as_py())
    if pa.types.is_temporal(kind):
        return lambda scalar: scalar.value
    return lambda scalar: scalar.as_py()


def _comparable_float(value: float) -> tuple[bool, float]:
    """Return a float as a tuple in which NaN equals itself and is last, and -0.0 equals 0.0."""
    return (True, 0.0) if isnan(value) else (False, value)


class _RunBuffer:
    """The buffered rows of one run: read, and not yet part of a chunk."""

    def __init__(self, index: int, batches: Iterator[pa.RecordBatch], key_columns: Sequence[int]) -> None:
        self._index = index
        self._source = batches
        self._key_columns = key_columns
        self._key_at: Callable[[pa.RecordBatch, int], Key] | None = None
        self._batches: deque[pa.RecordBatch] = deque()
        self._row_bytes = 0.0
        self.rows = 0
        self.at_end = False

    def fill(self, wanted_rows: int, wanted_bytes: float) -> None:
        while self.rows < wanted_rows and self.rows * self._row_bytes < wanted_bytes and not self.at_end:
            self.read_on()

    def read_on(self) -> None:
        """Read one more batch."""
        batch = next(self._source, None)
        if batch is None:
            self.at_end = True
        elif batch.num_rows:
            if self._key_at is None:
                self._key_at = key_reader(batch.schema, self._key_columns)
            self._batches.append(batch)
            self._row_bytes = batch.nbytes / batch.num_rows
            self.rows += batch.num_rows

    def last_key(self) -> Key:
        return self._key(self._batches[-1], -1)

    def take_all(self) -> RunSlice:
        part = RunSlice(self._index, tuple(self._batches))
        self._batches.clear()
        self.rows = 0
        return part

    def take_until(self, frontier: Key, *, included: bool = True) -> RunSlice:
        """Remove and return the rows with keys below `frontier`, and with `included` those of `frontier` itself."""
        taken: list[pa.RecordBatch] = []
        is_before, bisect = (le, bisect_right) if included else (lt, bisect_left)
        while self._batches and is_before(self._key(self._batches[0], -1), frontier):
            taken.append(self._batches.popleft())
        if self._batches:
            batch = self._batches[0]
            count = bisect(range(batch.num_rows), frontier, key=lambda row: self._key(batch, row))
            if count:
                taken.append(batch.slice(0, count))
                self._batches[0] = batch.slice(count)
        self.rows -= sum(batch.num_rows for batch in taken)
        return RunSlice(self._index, tuple(taken))

    def _key(self, batch: pa.RecordBatch, row: int) -> Key:
        assert self._key_at is not None
        return self._key_at(batch, row if row >= 0 else batch.num_rows + row)


def _halved(parts: Sequence[RunSlice], key_columns: Sequence[int], max_bytes: int) -> Iterator[tuple[RunSlice, ...]]:
    """Yield `parts` whole, or divided between keys into pieces of at most `max_bytes` if keys allow that."""
    if sum(part.size_bytes for part in parts) <= max_bytes:
        yield tuple(parts)
        return
    buffers = []
    for part in parts:
        buffer = _RunBuffer(part.run, iter(part.batches), key_columns)
        buffer.fill(part.row_count, inf)
        buffers.append(buffer)
    longest = max(parts, key=lambda part: part.row_count)
    frontier = _middle_key(longest, key_columns)
    lower = [taken for buffer in buffers if (taken := buffer.take_until(frontier)).batches]
    upper = [taken for buffer in buffers if (taken := buffer.take_all()).batches]
    if not upper:
        yield tuple(lower)
        return
    yield from _halved(lower, key_columns, max_bytes)
    yield from _halved(upper, key_columns, max_bytes)


def _middle_key(part: RunSlice, key_columns: Sequence[int]) -> Key:
    """Return the key of the last row of the first half."""
    row = (part.row_count - 1) // 2
    for batch in part.batches:
        if row < batch.num_rows:
            break
        row -= batch.num_rows
    return key_reader(batch.schema, key_columns)(batch, row)
