"""Append writer: write rows to the files of their bucket in the order of arrival.

Source: docs/semantics/writing.md#write-path.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from lakehouse_core.data_files.writer import DataFileWriter, FileOutput, FileSettings
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.write.router import BucketPath, Router
from lakehouse_core.tasks.write.rows import InputRows
from lakehouse_core.tasks.write.written_files import WrittenFiles

_MOST_OPEN_FILES: Final = 256


class AppendWriter:
    """Keeps one file writer for each bucket; its memory holds the rows of unfinished row groups.

    `next_numbers`: the next sequence number of each (serialized partition, bucket) that has files.
    """

    def __init__(
        self, schema: TableSchema, output: FileOutput, *, next_numbers: Mapping[tuple[bytes, int], int]
    ) -> None:
        self._next_numbers = next_numbers
        self._output = output
        self._router = Router(schema)
        self._results = WrittenFiles(schema)
        self._writers: dict[BucketPath, DataFileWriter] = {}
        options = schema.table_options
        self._limit_bytes = options.write_buffer_bytes
        self._kind = FileSettings(
            prefix=options.data_file_prefix,
            target_bytes=options.target_file_size_bytes(has_key=False),
            target_rows=options.target_file_row_num,
        )

    def write(self, rows: InputRows) -> None:
        values = rows.values
        for place, taken in self._router.split(values.column, values.num_rows):
            part = values if taken is None else values.take(pa.array(taken))
            self._writer(place).write(part)
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
            # Without buckets every writer numbers from 0. With buckets numbers continue, because they keep the order of
            # rows.
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
