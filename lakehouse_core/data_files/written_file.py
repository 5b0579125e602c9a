"""Written file: the facts of a manifest entry about the rows of a file of any format, collected during the write.

Source: docs/format/manifest.md#manifest-record.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakehouse_core.format.data_types import to_internal
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sorted_run import Key
from lakehouse_core.table.stats import ColumnBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """The facts of a finished file. Keys and sequence numbers are None for append tables."""

    size_bytes: int
    row_count: int
    delete_row_count: int
    min_key: Key | None
    max_key: Key | None
    sequence_numbers: tuple[int, int] | None
    bounds: dict[str, ColumnBounds]


class FileWriter(Protocol):
    """One file that is being written. End it with `close` or `abort`; it appears when it is closed, or never."""

    @property
    def row_count(self) -> int:
        """Rows written so far."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        ...

    def write(self, records: pa.Table) -> pa.Table:
        """Write rows, at least one, that follow the earlier ones in key order; return them as a reader returns them."""
        ...

    def close(self) -> WrittenFile:
        """End the file and publish it."""
        ...

    def abort(self, error: BaseException) -> None:
        """Discard the file, which then never appears."""
        ...


class RowFacts:
    """Keys, sequence numbers and deletes of the records of one file."""

    def __init__(self, schema: TableSchema) -> None:
        self._key_fields = schema.key_fields
        self._min_key: Key | None = None
        self._max_key: Key | None = None
        self._sequence_numbers: tuple[int, int] | None = None
        self._delete_row_count = 0
        self.row_count = 0

    def observe(self, records: pa.Table) -> None:
        """Collect the facts of records, at least one, before they are written."""
        self.row_count += records.num_rows
        if not self._key_fields:
            return
        if self._min_key is None:
            self._min_key = self._key(records, 0)
        self._max_key = self._key(records, records.num_rows - 1)
        # For few rows NumPy is faster than a call of Arrow's.
        numbers = [chunk.to_numpy() for chunk in records.column(SEQUENCE_NUMBER).chunks if len(chunk)]
        low, high = min(int(each.min()) for each in numbers), max(int(each.max()) for each in numbers)
        if self._sequence_numbers is not None:
            low, high = min(low, self._sequence_numbers[0]), max(high, self._sequence_numbers[1])
        self._sequence_numbers = low, high
        kinds = (chunk.to_numpy() for chunk in records.column(VALUE_KIND).chunks)
        self._delete_row_count += sum(int(np.count_nonzero(chunk & 1)) for chunk in kinds)

    def written(self, size_bytes: int, bounds: dict[str, ColumnBounds]) -> WrittenFile:
        return WrittenFile(
            size_bytes=size_bytes,
            row_count=self.row_count,
            delete_row_count=self._delete_row_count,
            min_key=self._min_key,
            max_key=self._max_key,
            sequence_numbers=self._sequence_numbers,
            bounds=bounds,
        )

    def _key(self, records: pa.Table, row: int) -> Key:
        return tuple(to_internal(records.column(field.name)[row], field.type) for field in self._key_fields)
