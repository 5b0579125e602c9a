"""Spills: sorted runs that a full write buffer writes to local disk, each with rows of all buckets, merged into files
later.

Rule: the file of a run has no name. It is unlinked before a row is written, so that the system frees it when the
process ends, however it ends.
Source: docs/semantics/writing.md#write-buffer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Final

import pyarrow as pa
import pyarrow.ipc

from lakehouse_core.merge.chunk import MergeRule, merge_chunk, sort_chunk
from lakehouse_core.merge.frontier import RunSlice, frontier_chunks
from lakehouse_core.options import LEAST_SPILL_FILES, SpillOptions
from lakehouse_core.table.file_columns import record_schema
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.merge_scan import CHUNK_BYTES, CHUNK_ROWS, batch_rows
from lakehouse_core.tasks.write.router import BucketPath
from lakehouse_core.tasks.write.scratch import closed, nameless_file, on_disk

# A merge holds one or two batches of each run, and each column of a batch is compressed separately: with 20 columns
# zstd compresses 120 MB/s in batches of 64 KiB, 300 MB/s in 256 KiB, 580 MB/s in 1 MiB.
_LEAST_COLUMN_BYTES: Final = 16 << 10
_LEAST_BATCH_BYTES: Final = 128 << 10
_MOST_BATCH_BYTES: Final = 1 << 20
# The number of runs that may be open whatever their memory is: ten buffers are merged once.
_FEW_FILES: Final = 16


class Spills:
    """The sorted runs of one task, oldest first; always few enough to have them and one more open together.

    `keeps_versions`: a run holds every version of a key, in order of arrival, else one version. `folder`: the folder of
    the files, None for the system's folder of temporary files.
    """

    def __init__(
        self, schema: TableSchema, rule: MergeRule, *, keeps_versions: bool, folder: str | None = None
    ) -> None:
        self._options = schema.table_options.spill
        self._rule = rule
        self._keeps_versions = keeps_versions
        self._records = record_schema(schema)
        self._key_columns = [self._records.get_field_index(name) for name in rule.spec.key_columns]
        self._folder = folder
        most_files = max(LEAST_SPILL_FILES, self._options.most_files)
        buffer_bytes = schema.table_options.write_buffer_bytes
        least = max(_LEAST_BATCH_BYTES, len(self._records) * _LEAST_COLUMN_BYTES)
        self._batch_bytes = max(least, min(_MOST_BATCH_BYTES, buffer_bytes // most_files))
        # The batches of all runs together then take no more memory than the buffer, unless the buffer is tiny.
        self._most_files = min(most_files, max(_FEW_FILES, buffer_bytes // self._batch_bytes))
        self._runs: list[_Run] = []

    @property
    def places(self) -> tuple[BucketPath, ...]:
        """Return the buckets that have rows on disk."""
        return tuple(dict.fromkeys(place for run in self._runs for place in run.parts))

    def has_room(self, size_bytes: int) -> bool:
        """Return whether `size_bytes` more fit on disk, also if runs must be merged first."""
        options = self._options
        merged_bytes = sum(run.size_bytes for run in self._newest()) if self._is_full else 0
        used_bytes = sum(run.size_bytes for run in self._runs)
        return options.is_enabled and used_bytes + max(merged_bytes, size_bytes) <= options.most_disk_bytes

    def add(self, parts: Iterable[tuple[BucketPath, Iterable[pa.RecordBatch]]]) -> None:
        """Write a new newest run with the sorted rows of each bucket.

        Raises StorageFull, StorageUnavailable; then the run is deleted.
        """
        if self._is_full:
            self._merge_newest()
        self._runs.append(self._written(parts, generation=0))

    def chunks(self, place: BucketPath, newest: Iterable[pa.RecordBatch]) -> Iterator[tuple[RunSlice, ...]]:
        """Yield key-complete chunks of a bucket's runs and of `newest`, which is not on disk.

        Raises StorageUnavailable.
        """
        return self._chunks(self._runs, place, newest)

    def clear(self) -> None:
        """Delete all runs."""
        for run in self._runs:
            run.close()
        self._runs.clear()

    @property
    def _is_full(self) -> bool:
        return len(self._runs) >= self._most_files - 1

    def _newest(self) -> list["_Run"]:
        """Return the newest runs, at least two, that were merged equally often, so that not every merge rewrites all
        rows.
        """
        generation = self._runs[-2].generation
        return [run for run in self._runs if run.generation <= generation]

    def _merge_newest(self) -> None:
        old = self._newest()
        parts = (
            (place, self._merged(old, place)) for place in dict.fromkeys(place for run in old for place in run.parts)
        )
        merged = self._written(parts, generation=old[0].generation + 1)
        self._runs[-len(old) :] = [merged]
        for run in old:
            run.close()

    def _merged(self, runs: Sequence["_Run"], place: BucketPath) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks(runs, place, ()):
            if self._keeps_versions:
                yield sort_chunk(chunk, self._rule, self._records.names)
            else:
                yield from merge_chunk(chunk, self._rule, self._records.names)

    def _chunks(
        self, runs: Sequence["_Run"], place: BucketPath, newest: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[RunSlice, ...]]:
        return frontier_chunks(
            [*(self._read(run, place) for run in runs if place in run.parts), newest],
            self._key_columns,
            chunk_rows=CHUNK_ROWS,
            chunk_bytes=CHUNK_BYTES,
            max_chunk_bytes=CHUNK_BYTES,
            repeats_keys=self._keeps_versions,
        )

    def _read(self, run: "_Run", place: BucketPath) -> Iterator[pa.RecordBatch]:
        for number in run.parts[place]:
            with on_disk(self._folder):
                batch = run.reader.get_batch(number)
            yield batch

    def _written(self, parts: Iterable[tuple[BucketPath, Iterable[pa.RecordBatch]]], *, generation: int) -> "_Run":
        with on_disk(self._folder), ExitStack() as failed:
            file = nameless_file(self._folder)
            failed.callback(closed, file)
            places = {}
            count = 0
            with pa.ipc.new_file(file, self._records, options=_write_options(self._options)) as writer:
                for place, batches in parts:
                    first = count
                    for batch in batches:
                        for piece in self._pieces(batch):
                            writer.write_batch(piece)
                            count += 1
                    places[place] = range(first, count)
            file.flush()
            run = _Run(file, pa.ipc.open_file(file, options=_READ_OPTIONS), file.tell(), places, generation)
            failed.pop_all()
            return run

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield a batch in pieces so small that a merge can hold one of each run."""
        stored = pa.RecordBatch.from_arrays(batch.columns, schema=self._records)
        rows = batch_rows(batch.nbytes / max(1, batch.num_rows), CHUNK_ROWS, self._batch_bytes)
        for start in range(0, batch.num_rows, rows):
            yield stored.slice(start, rows)


@dataclass(frozen=True, slots=True)
class _Run:
    """One file. `parts`: the range of batches of each bucket. `generation`: how often the run was merged."""

    file: IO[bytes]
    reader: pa.ipc.RecordBatchFileReader
    size_bytes: int
    parts: Mapping[BucketPath, range]
    generation: int

    def close(self) -> None:
        closed(self.file)


_READ_OPTIONS: Final = pa.ipc.IpcReadOptions(use_threads=False)


def _write_options(options: SpillOptions) -> pa.ipc.IpcWriteOptions:
    match options.compression:
        case "none":
            codec = None
        case "zstd":
            codec = pa.Codec("zstd", compression_level=options.zstd_level)
        case name:
            codec = pa.Codec(name)
    return pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
