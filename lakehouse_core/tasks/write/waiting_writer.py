"""Waiting writer: write rows of a table with postponed buckets as they came, without a merge and without a bucket.

Source: docs/semantics/tables.md#postponed-buckets.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.writer import FileOutput, FileSettings
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.order import KeyOrder
from lakehouse_core.merge.record_columns import RecordColumns
from lakehouse_core.merge.reduce import reduce
from lakehouse_core.table.file_columns import VALUE_KIND, record_schema
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import TableSchema, waiting_style
from lakehouse_core.table.waiting_files import WriterId
from lakehouse_core.tasks.write.router import Router
from lakehouse_core.tasks.write.rows import InputRows, Kinds
from lakehouse_core.tasks.write.written_files import OpenFiles

# Stored in files and manifests: rows get their numbers when they get their bucket. Never change.
_NO_NUMBER: Final = -1


class WaitingWriter(OpenFiles):
    """Writes rows of a table with postponed buckets: each partition has one place for them."""

    def __init__(self, schema: TableSchema, output: FileOutput, *, writer: WriterId) -> None:
        options = schema.table_options
        self._schema = schema
        self._records = record_schema(schema)
        self._router = Router(schema)
        self._takes_retracts = False
        kind = FileSettings(
            prefix=writer.prefix(options.data_file_prefix),
            target_bytes=options.target_file_size_bytes(has_key=True),
            target_rows=options.target_file_row_num,
            is_indexed=False,
            plain_style=waiting_style(schema),
        )
        super().__init__(schema, output, kind)

    def write(self, rows: InputRows) -> None:
        records = self._records_of(rows)
        self._check_retract(records, rows.kinds)
        split = self._router.split(rows.values.column, rows.values.num_rows)
        self.put((place, records if taken is None else records.take(pa.array(taken))) for place, taken in split)

    def _records_of(self, rows: InputRows) -> pa.RecordBatch:
        count = rows.values.num_rows
        kinds = np.zeros(count, np.int8) if rows.kinds is None else rows.kinds
        system = [pa.array(np.full(count, _NO_NUMBER, np.int64)), pa.array(kinds)]
        return pa.RecordBatch.from_arrays([*rows.values.columns, *system], schema=self._records)

    def _check_retract(self, records: pa.RecordBatch, kinds: Kinds | None) -> None:
        """Try the first retract on the merge engine, so that one that it refuses does not wait for a compaction that
        then fails. Raises InvalidRequest.
        """
        if self._takes_retracts or kinds is None or is_add(kinds).all():
            return
        row = int(np.flatnonzero(~is_add(kinds))[0])
        one = RecordColumns([records.slice(row, 1)], VALUE_KIND)
        order = KeyOrder(np.zeros(1, np.int64), np.zeros(1, np.int64))
        spec = merge_spec(self._schema)
        reduce(one, order, spec, self._schema.column_names, folded=np.ones(1, dtype=bool))
        self._takes_retracts = True
