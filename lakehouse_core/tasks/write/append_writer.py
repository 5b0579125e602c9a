"""Append writer: write rows to the files of their bucket in the order of arrival.

Source: docs/semantics/writing.md#write-path.
"""

from collections.abc import Mapping

import pyarrow as pa

from lakehouse_core.data_files.writer import FileOutput, FileSettings
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.write.router import Router
from lakehouse_core.tasks.write.rows import InputRows
from lakehouse_core.tasks.write.written_files import OpenFiles


class AppendWriter(OpenFiles):
    """Writes rows of a table without a key.

    `next_numbers`: the next sequence number of each (serialized partition, bucket) that has files. Without buckets
    every writer numbers from 0. With buckets numbers continue, because they keep the order of rows.
    """

    def __init__(
        self, schema: TableSchema, output: FileOutput, *, next_numbers: Mapping[tuple[bytes, int], int]
    ) -> None:
        options = schema.table_options
        kind = FileSettings(
            prefix=options.data_file_prefix,
            target_bytes=options.target_file_size_bytes(has_key=False),
            target_rows=options.target_file_row_num,
        )
        super().__init__(schema, output, kind, next_numbers=next_numbers)
        self._router = Router(schema)

    def write(self, rows: InputRows) -> None:
        values = rows.values
        split = self._router.split(values.column, values.num_rows)
        self.put((place, values if taken is None else values.take(pa.array(taken))) for place, taken in split)
