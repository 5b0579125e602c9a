"""Small files: many small Parquet files from one batch; the threads that store them encode them.

Rule: the files and their entries are those that `DataFileWriter` makes. Source: docs/format/data-files.md#parquet.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from lakehouse_core.data_files.parquet.writer import encoded_file
from lakehouse_core.data_files.part_facts import PartFacts, part_facts
from lakehouse_core.data_files.writer import ROW_GROUP_ROWS, FileOutput, FileSettings, file_style, row_group_bytes
from lakehouse_core.format.rows import Rows
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.data_file import DataFile

# A file is held whole while it is stored: a few large ones are written row group by row group.
_MOST_BYTES: Final = 16 << 20


class SmallFiles:
    """Makes files of key tables. Use in a `with` block: an exception that leaves the block deletes every file."""

    def __init__(self, output: FileOutput, kind: FileSettings) -> None:
        self._output = output
        self._kind = kind
        self._style = file_style(output.encoding.schema, kind)
        self._keys: list[str] = []
        # Of files whose sizes are known when they are stored.
        self._entries: list[DataFile] = []
        self._sizes: dict[str, int] = {}

    def takes(self, records: pa.RecordBatch) -> bool:
        """Return whether each part of a batch of records would be one file of one row group."""
        schema = self._output.encoding.schema
        has_index = self._kind.is_indexed and bool(schema.table_options.indexed_columns)
        return (
            self._style.format == "parquet"
            and self._kind.plain_style is None
            and not schema.is_append
            and not has_index
            and records.num_rows <= min(ROW_GROUP_ROWS, self._kind.target_rows)
            and records.nbytes <= min(_MOST_BYTES, row_group_bytes(self._kind))
        )

    def write(self, records: pa.RecordBatch, ends: Rows, folders: Sequence[str]) -> None:
        """Write each part of a batch, none of them empty, as a file in its folder. Raises StorageFull,
        StorageUnavailable, perhaps for an earlier file.

        REQUIRES: `takes`. Each part holds all rows of its bucket, in key order.
        """
        output, encoding = self._output, self._output.encoding
        output.check_stopped()
        facts = part_facts(records, ends, encoding.schema, self._style)
        now_millis = output.clock.local_now_millis()
        row_bytes = records.nbytes / records.num_rows
        stored = encoding.stored(pa.Table.from_batches([records]))
        encoding.decide(records.slice(0, int(ends[0])))
        for number, (start, folder) in enumerate(zip([0, *ends[:-1].tolist()], folders, strict=True)):
            name = output.names.next(self._kind.prefix, self._style.format)
            key = f"{folder}/{name}"
            rows = facts.row_counts[number]
            self._entries.append(self._entry(name, facts, number, now_millis))
            self._keys.append(key)
            make = partial(self._made, key, stored.slice(start, rows))
            output.store.put(key, make, size_bytes=int(rows * row_bytes))

    def close(self) -> list[DataFile]:
        """Wait until all files are stored, and return their entries, in their order. Raises as `write` does."""
        if self._keys:
            self._output.store.settle()
        pairs = zip(self._keys, self._entries, strict=True)
        return [replace(entry, file_size=self._sizes[key]) for key, entry in pairs]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            clear_away(self._output.store, self._keys)

    def _made(self, key: str, rows: pa.Table) -> bytes:
        data = encoded_file(self._output.encoding, key, rows, self._style.compression)
        self._sizes[key] = len(data)
        return data

    def _entry(self, name: str, facts: PartFacts, number: int, now_millis: int) -> DataFile:
        return DataFile(
            file_name=name,
            file_size=0,
            row_count=facts.row_counts[number],
            min_key=facts.min_keys[number],
            max_key=facts.max_keys[number],
            key_stats=facts.key_stats[number],
            value_stats=facts.value_stats[number],
            value_stats_cols=facts.value_stats_cols,
            min_sequence_number=facts.min_sequence_numbers[number],
            max_sequence_number=facts.max_sequence_numbers[number],
            schema_id=self._output.encoding.schema.id,
            level=self._kind.level,
            creation_time_millis=now_millis,
            delete_row_count=facts.delete_row_counts[number],
            file_source=self._kind.source,
        )
