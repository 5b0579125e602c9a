"""Written files: the files of a write task so far, by bucket, deleted if the task fails.

Source: docs/semantics/writing.md#write-path.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakehouse_core.data_files.writer import DataFileWriter, FileOutput, FileSettings
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.storage.overlap import Sinks
from lakehouse_core.table.bucketing import total_buckets
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.write.router import BucketPath

_MOST_OPEN_FILES: Final = 256


class OpenFiles:
    """Keeps one file writer for each bucket; its memory holds the rows of unfinished row groups.

    `next_numbers`: the next sequence number by serialized partition and bucket; 0 for others.
    """

    def __init__(
        self,
        schema: TableSchema,
        output: FileOutput,
        kind: FileSettings,
        *,
        next_numbers: Mapping[tuple[bytes, int], int] | None = None,
    ) -> None:
        self._output = output
        self._kind = kind
        self._next_numbers = next_numbers or {}
        self._limit_bytes = schema.table_options.write_buffer_bytes
        self._results = WrittenFiles(schema)
        self._writers: dict[BucketPath, DataFileWriter] = {}

    def put(self, parts: Iterable[tuple[BucketPath, pa.RecordBatch]]) -> None:
        """Write rows of some buckets."""
        for place, rows in parts:
            self._writer(place).write(rows)
        self._relieve()

    def finish(self) -> None:
        for place, writer in self._writers.items():
            self._results.add(place, writer.close())

    def abort(self, error: BaseException) -> None:
        for writer in self._writers.values():
            writer.__exit__(type(error), error, error.__traceback__)

    def messages(self) -> list[CommitMessage]:
        return self._results.messages()

    def _writer(self, place: BucketPath) -> DataFileWriter:
        if place not in self._writers:
            first = self._next_numbers.get((place.partition, place.bucket), 0)
            self._writers[place] = DataFileWriter(self._output, place.folder, self._kind, first_sequence_number=first)
        return self._writers[place]

    def _relieve(self) -> None:
        """Finish the largest files until memory and the number of open files are within their bounds."""
        by_size = sorted(self._writers.values(), key=lambda writer: writer.pending_bytes)
        while sum(writer.pending_bytes for writer in by_size) > self._limit_bytes:
            by_size.pop().flush()
        is_open = [writer for writer in self._writers.values() if writer.is_open]
        for writer in is_open[_MOST_OPEN_FILES:]:
            writer.finish_file()


class WrittenFiles:
    """The files written so far, by bucket, and the commit messages that name them."""

    def __init__(self, schema: TableSchema) -> None:
        self._total_buckets = total_buckets(schema.bucketing)
        self._files: dict[BucketPath, list[DataFile]] = {}
        self._changelog: dict[BucketPath, list[DataFile]] = {}
        # By bucket, the index files that were read, and those that replace them.
        self._indexes: dict[BucketPath, tuple[Sequence[IndexFile], Sequence[IndexFile]]] = {}

    @property
    def places(self) -> tuple[BucketPath, ...]:
        """The buckets that got files."""
        return tuple(place for place, files in self._files.items() if files or self._changelog[place])

    def add_index(self, place: BucketPath, old: Sequence[IndexFile], new: Sequence[IndexFile]) -> None:
        self._indexes[place] = old, new

    def add(self, place: BucketPath, files: Iterable[DataFile], changelog: Iterable[DataFile] = ()) -> None:
        self._files.setdefault(place, []).extend(files)
        self._changelog.setdefault(place, []).extend(changelog)

    def delete(self, store: Sinks) -> None:
        made = [*self._files.items(), *self._changelog.items()]
        names = ((place, name) for place, files in made for file in files for name in file.all_names)
        clear_away(store, [f"{place.folder}/{name}" for place, name in names])

    def messages(self) -> list[CommitMessage]:
        return [self._message(place) for place in self.places]

    def _message(self, place: BucketPath) -> CommitMessage:
        old, new = self._indexes.get(place, ((), ()))
        return CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=self._total_buckets,
            new_files=tuple(self._files[place]),
            changelog_files=tuple(self._changelog[place]),
            new_index_files=tuple(new),
            deleted_index_files=tuple(old) if new else (),
            read_index_files=() if new else tuple(old),
        )
