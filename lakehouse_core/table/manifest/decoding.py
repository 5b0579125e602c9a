"""Manifest decoding: read manifest files into columns or objects, vectorised if the file allows it, else record by
record.

Rule: both ways accept and refuse the same files. The fast way leaves every unusual file to the slow one, which names
the fault and its place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.format.avro_columns import (
    PADDING_BYTES,
    Column,
    Flags,
    LongColumn,
    Longs,
    SpanColumn,
    decode_columns,
    gather,
)
from lakehouse_core.format.avro_container import AvroBlock, AvroContainer, open_container
from lakehouse_core.format.avro_file import value_decoder
from lakehouse_core.format.stored import LONGEST_NAME_BYTES, is_file_name
from lakehouse_core.table.data_file import EMPTY_ROW, SimpleStats
from lakehouse_core.table.manifest.avro_schemas import MANIFEST_VERSION
from lakehouse_core.table.manifest.columns import (
    ABSENT,
    NOTHING_RARE,
    EntryColumns,
    RareFields,
    columns_of,
    concatenate,
    one_value,
)
from lakehouse_core.table.manifest.entry import ManifestEntry
from lakehouse_core.table.manifest.record_decoding import Keep, decode_entries
from lakehouse_core.table.manifest.usual_schema import USUAL_TYPES, is_usual

# Below this size, in bytes, decoding record by record takes less time than setting up the vectors (measured: 3 ms
# each).
FEW_ENTRIES = 48
# Shorter names are "", "." and "..", which are not file names.
_SHORTEST_NAME = 3
# Decoded bytes that are processed at a time: the working arrays take three times this memory.
GROUP_BYTES = 8 * 1024 * 1024


def decode_manifest(
    data: bytes, name: str, *, keep: Keep | None = None, with_stats: bool = False
) -> list[ManifestEntry]:
    """Return the entries of a manifest in order; `name` stands for the file in errors.

    `keep(partition, bucket, level)` is called at least once for each combination; entries for which it is false are
    skipped. Without `with_stats` both statistics are UNREAD_STATS and `value_stats_cols` is None: enough to plan, and
    to write DELETEs. Raises CorruptTable, UnsupportedFeature.
    """
    container = open_container(data, name)
    columns = _vectorised(container, keep, with_stats)
    if columns is None:
        return decode_entries(container, keep=keep, with_stats=with_stats)
    return list(columns.entries())


def decode_manifest_columns(
    data: bytes, name: str, *, keep: Keep | None = None, with_stats: bool = False
) -> EntryColumns:
    """Return the entries of a manifest as columns; everything else as in `decode_manifest`."""
    container = open_container(data, name)
    columns = _vectorised(container, keep, with_stats)
    if columns is None:
        return columns_of(decode_entries(container, keep=keep, with_stats=with_stats))
    return columns


def _vectorised(container: AvroContainer, keep: Keep | None, with_stats: bool) -> EntryColumns | None:
    if container.count < FEW_ENTRIES or not is_usual(container.schema):
        return None
    parts = []
    for blocks in _groups(container.blocks):
        part = _decode_group(blocks, container.schema, keep, with_stats)
        if part is None:
            return None
        parts.append(part)
    return concatenate(parts)


def _groups(blocks: Sequence[AvroBlock]) -> Iterator[list[AvroBlock]]:
    group: list[AvroBlock] = []
    size = 0
    for block in blocks:
        group.append(block)
        size += len(block.data)
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _decode_group(
    blocks: Sequence[AvroBlock], schema: Mapping[str, Any], keep: Keep | None, with_stats: bool
) -> EntryColumns | None:
    buffer = np.frombuffer(b"".join([*(block.data for block in blocks), bytes(PADDING_BYTES)]), np.uint8)
    size = len(buffer) - PADDING_BYTES
    ends = np.cumsum([len(block.data) for block in blocks]).tolist()
    starts = _proposed_starts(buffer, size)
    if starts is None:
        return None
    columns = decode_columns(
        buffer,
        size,
        counts=[(end - len(block.data), block.count) for end, block in zip(ends, blocks, strict=True)],
        schema=schema,
        wanted=_WANTED | _STATS if with_stats else _WANTED,
        proposed_starts=starts,
    )
    if columns is None:
        return None
    try:
        return _Group(buffer, columns).entries(keep, with_stats)
    except _Unusual:
        return None


def _proposed_starts(buffer: npt.NDArray[np.uint8], size: int) -> Longs | None:
    """Return the positions that look like the start of an entry: version 2, a kind, and a partition whose length
    fits a row of as many fields as the first entry's has."""
    if size < 16:
        return None
    long_words = np.ndarray((len(buffer) - 3,), ">u4", buffer.data, strides=(1,))
    # Zigzag doubles: 4 is the version 2, a row's length of 12, 20, … bytes is a multiple of 16 and 8.
    first_length_bytes = 1 if buffer[2] < 0x80 else 2
    arity = long_words[2 + first_length_bytes]
    found = np.flatnonzero(buffer[: size - 8] == 2 * MANIFEST_VERSION)
    found = found[(buffer[found + 1] & 0xFD) == 0]
    length = buffer[found + 2]
    found, length = found[(length & 0xF) == 8], length[(length & 0xF) == 8]
    likely: Longs = found[long_words[np.where(length < 0x80, found + 3, found + 4)] == arity]
    return likely


class _Unusual(Exception):
    """The vectorised decoder cannot decode the file; the record-wise decoder must."""


class _Group:
    """The columns of some blocks, checked and turned into entries."""

    def __init__(self, buffer: npt.NDArray[np.uint8], columns: Mapping[str, Column]) -> None:
        self._buffer = buffer
        self._columns = columns
        self._rows: Longs = np.arange(0)

    def entries(self, keep: Keep | None, with_stats: bool) -> EntryColumns:
        version = self._column("_VERSION", LongColumn)
        assert version is not None
        self._rows = np.arange(len(version.values))
        if (version.values != MANIFEST_VERSION).any():
            raise _Unusual
        encoded = self._binary("_PARTITION", pa.binary()).dictionary_encode()
        partitions = tuple(encoded.dictionary.to_pylist())
        codes = encoded.indices.to_numpy().astype(np.int32)
        buckets, levels = self._longs("_BUCKET", -2), self._longs("_FILE._LEVEL", 0)
        if keep is not None:
            self._rows = np.flatnonzero(_kept(partitions, codes, buckets, levels, keep))
            codes, buckets, levels = codes[self._rows], buckets[self._rows], levels[self._rows]
        rares, rare_codes = self._rares(with_stats)
        min_keys, max_keys = self._keys()
        return EntryColumns(
            kinds=one_value(self._longs("_KIND", 0, 1).astype(np.int8)),
            partitions=partitions,
            partition_codes=codes,
            buckets=buckets.astype(np.int32),
            total_buckets=one_value(self._longs("_TOTAL_BUCKETS", -2).astype(np.int32)),
            levels=levels.astype(np.int32),
            file_names=self._file_names(),
            file_sizes=self._longs("_FILE._FILE_SIZE", 0),
            row_counts=self._longs("_FILE._ROW_COUNT", 0),
            min_keys=min_keys,
            max_keys=max_keys,
            min_sequence_numbers=self._longs("_FILE._MIN_SEQUENCE_NUMBER"),
            max_sequence_numbers=self._longs("_FILE._MAX_SEQUENCE_NUMBER"),
            schema_ids=one_value(self._longs("_FILE._SCHEMA_ID", 0)),
            creation_times=self._optional_longs("_FILE._CREATION_TIME"),
            delete_row_counts=one_value(self._optional_longs("_FILE._DELETE_ROW_COUNT", 0)),
            file_sources=one_value(self._file_sources()),
            first_row_ids=one_value(self._optional_longs("_FILE._FIRST_ROW_ID")),
            rares=rares,
            rare_codes=one_value(rare_codes),
            key_stats=self._stats("_FILE._KEY_STATS") if with_stats else None,
            value_stats=self._stats("_FILE._VALUE_STATS") if with_stats else None,
        )

    def _column(self, path: str, kind: type[Any]) -> Any:
        column = self._columns.get(path)
        if column is None:
            return None
        if not isinstance(column, kind):
            # An optional field that no record has comes as a column of nulls, whatever its type.
            if isinstance(column, LongColumn) and column.valid is not None and not column.valid.any():
                return None
            raise _Unusual
        return column if len(self._rows) == 0 and path == "_VERSION" else column.take(self._rows)

    def _longs(self, path: str, low: int = ABSENT, high: int = 2**63 - 1) -> Longs:
        column = self._column(path, LongColumn)
        if column is None or (column.valid is not None and not column.valid.all()):
            raise _Unusual
        values: Longs = column.values
        if len(values) and (values.min() < low or values.max() > high):
            raise _Unusual
        return values

    def _optional_longs(self, path: str, low: int = ABSENT + 1) -> Longs:
        column = self._column(path, LongColumn)
        if column is None:
            return np.full(len(self._rows), ABSENT, np.int64)
        valid: Flags = np.ones(len(self._rows), np.bool_) if column.valid is None else column.valid
        if (column.values[valid] < low).any():
            raise _Unusual
        return np.where(valid, column.values, ABSENT)

    def _file_sources(self) -> npt.NDArray[np.int8]:
        values = self._optional_longs("_FILE._FILE_SOURCE", 0)
        if len(values) and values.max() > 1:
            raise _Unusual
        return np.where(values == ABSENT, -1, values).astype(np.int8)

    def _binary(self, path: str, type_: pa.DataType) -> pa.Array:
        column = self._column(path, SpanColumn)
        if column is None or (column.valid is not None and not column.valid.all()):
            raise _Unusual
        return gather(self._buffer, SpanColumn(column.starts, column.ends, None), type_)

    def _text(self, path: str) -> pa.ChunkedArray:
        text = self._binary(path, pa.string())
        try:
            text.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _Unusual from error
        return pa.chunked_array([text])

    def _file_names(self) -> pa.ChunkedArray:
        names = self._text("_FILE._FILE_NAME")
        for chunk in names.chunks:
            _, offsets, data = chunk.buffers()
            sizes = np.diff(np.frombuffer(offsets, np.int32, len(chunk) + 1))
            characters = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
            # The record-wise decoder then names the wrong file name and the reason.
            if (
                any((characters == character).any() for character in b"/\\\0")
                or sizes.max(initial=0) > LONGEST_NAME_BYTES
            ):
                raise _Unusual
            if not all(is_file_name(chunk[row].as_py()) for row in np.flatnonzero(sizes < _SHORTEST_NAME).tolist()):
                raise _Unusual
        return names

    def _keys(self) -> tuple[pa.ChunkedArray | None, pa.ChunkedArray | None]:
        both = [self._binary(path, pa.binary()) for path in ("_FILE._MIN_KEY", "_FILE._MAX_KEY")]
        if all(_is_all_empty_rows(keys) for keys in both):
            return None, None
        return pa.chunked_array([both[0]]), pa.chunked_array([both[1]])

    def _rares(self, with_stats: bool) -> tuple[tuple[RareFields, ...], npt.NDArray[np.int32]]:
        codes = np.zeros(len(self._rows), np.int32)
        found: dict[RareFields, int] = {NOTHING_RARE: 0}
        spans = {path: self._column(path, SpanColumn) for path in (_RARE if with_stats else _RARE - _STATS)}
        extra = spans[_EXTRA_FILES]
        if extra is None or extra.valid is not None:
            raise _Unusual
        # An empty array is one zero byte.
        concerned = (extra.ends - extra.starts) != 1
        for path, span in spans.items():
            if span is not None and path != _EXTRA_FILES:
                concerned |= True if span.valid is None else span.valid
        known: dict[tuple[bytes | None, ...], int] = {}
        for row in np.flatnonzero(concerned).tolist():
            raw = tuple(_raw(self._buffer, span, row) for span in spans.values())
            code = known.get(raw)
            if code is None:
                rare = _rare(dict(zip(spans, raw, strict=True)))
                code = known[raw] = found.setdefault(rare, len(found))
            codes[row] = code
        return tuple(found), codes

    def _stats(self, path: str) -> tuple[SimpleStats, ...]:
        column = self._column(path, SpanColumn)
        if column is None:
            raise _Unusual
        shared: dict[bytes, SimpleStats] = {}
        return tuple(
            _shared_stats(self._buffer[start:end].tobytes(), shared)
            for start, end in zip(column.starts.tolist(), column.ends.tolist(), strict=True)
        )


def _kept(
    partitions: Sequence[bytes], codes: npt.NDArray[np.int32], buckets: Longs, levels: Longs, keep: Keep
) -> Flags:
    """Return which rows `keep` accepts, asking it once for each combination."""
    places = codes.astype(np.int64) << 32 | (buckets & 0xFFFFFFFF)
    # Each combination becomes one number first: sorting rows of numbers is many times slower than sorting numbers.
    _, place_of_row = np.unique(places, return_inverse=True)
    level_count = int(levels.max(initial=0)) + 1
    _, rows, inverse = np.unique(place_of_row * level_count + levels, return_index=True, return_inverse=True)
    answers = [keep(partitions[codes[row]], int(buckets[row]), int(levels[row])) for row in rows.tolist()]
    return np.array(answers, np.bool_)[inverse]


def _is_all_empty_rows(keys: pa.Array) -> bool:
    if not len(keys):
        return True
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(keys) + 1)
    return bool((np.diff(bounds) == len(EMPTY_ROW)).all()) and not np.frombuffer(data, np.uint8).any()


def _raw(buffer: npt.NDArray[np.uint8], span: SpanColumn | None, row: int) -> bytes | None:
    if span is None or (span.valid is not None and not span.valid[row]):
        return None
    return buffer[span.starts[row] : span.ends[row]].tobytes()


def _rare(raw: Mapping[str, bytes | None]) -> RareFields:
    def listed(path: str, decode: Callable[[bytes], Any]) -> Any:
        found = raw.get(path)
        return None if found is None else tuple(decode(found))

    external_path = raw.get("_FILE._EXTERNAL_PATH")
    try:
        if not all(map(is_file_name, listed(_EXTRA_FILES, _DECODE_NAMES) or ())):
            raise _Unusual
        return RareFields(
            extra_files=listed(_EXTRA_FILES, _DECODE_NAMES) or (),
            embedded_index=raw.get("_FILE._EMBEDDED_FILE_INDEX"),
            external_path=None if external_path is None else external_path.decode("utf-8"),
            value_stats_cols=listed("_FILE._VALUE_STATS_COLS", _DECODE_NAMES),
            write_cols=listed("_FILE._WRITE_COLS", _DECODE_NAMES),
            write_cols_sequences=listed("_FILE._WRITE_COLS_SEQUENCES", _DECODE_NUMBERS),
        )
    except ValueError as error:
        raise _Unusual from error


def _shared_stats(encoded: bytes, shared: dict[bytes, SimpleStats]) -> SimpleStats:
    known = shared.get(encoded)
    if known is None:
        try:
            record = _DECODE_STATS(encoded)
        except ValueError as error:
            raise _Unusual from error
        counts = record["_NULL_COUNTS"]
        known = SimpleStats(
            min_values=record["_MIN_VALUES"],
            max_values=record["_MAX_VALUES"],
            null_counts=None if counts is None else tuple(counts),
        )
        shared[encoded] = known
    return known


_EXTRA_FILES = "_FILE._EXTRA_FILES"
_RARE = frozenset(
    {
        _EXTRA_FILES,
        "_FILE._EMBEDDED_FILE_INDEX",
        "_FILE._EXTERNAL_PATH",
        "_FILE._VALUE_STATS_COLS",
        "_FILE._WRITE_COLS",
        "_FILE._WRITE_COLS_SEQUENCES",
    }
)
_STATS = frozenset({"_FILE._KEY_STATS", "_FILE._VALUE_STATS", "_FILE._VALUE_STATS_COLS"})
_WANTED = frozenset(USUAL_TYPES) - _STATS - {"_FILE"}
_DECODE_NAMES = value_decoder({"type": "array", "items": "string"})
_DECODE_NUMBERS = value_decoder({"type": "array", "items": "long"})
_DECODE_STATS = value_decoder(
    {
        "type": "record",
        "name": "stats",
        "fields": [
            {"name": "_MIN_VALUES", "type": "bytes"},
            {"name": "_MAX_VALUES", "type": "bytes"},
            {"name": "_NULL_COUNTS", "type": ["null", {"type": "array", "items": ["null", "long"]}]},
        ],
    }
)
