"""Lost rows: compare the rows of two files of a bucket key by key, reading their keys and sequence numbers alone.

Rule: where two files have the same key, the row with the higher number wins in every merge.
Source: docs/semantics/merge-engines.md#order-of-versions.
"""

from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.errors import CorruptTable
from lakehouse_core.merge.chunk import MergeRule, order_of
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.merge.record_columns import RecordColumns
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sorted_run import KeyedFile, SortedRun
from lakehouse_core.tasks.merge_scan import CHUNK_ROWS, BucketFiles, RunScan, chunks_of, key_range

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LostRow:
    """The sequence numbers of two rows of one key: that of the `earlier` commit is not the lower one."""

    earlier: int
    later: int


def first_lost_row(source: BucketFiles, earlier: KeyedFile, later: KeyedFile, schema: TableSchema) -> LostRow | None:
    """Return the first row of `later`, in the order of keys, that loses to a row of `earlier`; None if there is none.

    Of both files only the row groups are read that may have keys of both. Rows that a deletion vector marks do not
    count. REQUIRES: the table has no sequence field. Raises CorruptTable, also for a number that is not in the range
    that is recorded for its file; UnsupportedFeature.
    """
    files = (earlier, later)
    spec = merge_spec(schema)
    rule = MergeRule(spec=spec, kind_column=VALUE_KIND)
    scan = RunScan(
        source=source,
        fields=tuple(schema.key_fields),
        system=(SEQUENCE_NUMBER, VALUE_KIND),
        row_filter=key_range(max(file.min_key for file in files), min(file.max_key for file in files), schema),
    )
    with closing(chunks_of([(scan, SortedRun((file,))) for file in files], spec)) as chunks:
        for parts in chunks:
            read = [(batch, files[part.run].file) for part in parts for batch in part.batches]
            numbers = np.concatenate([_numbers(batch, file) for batch, file in read])
            if len(parts) < len(files):
                continue
            records = RecordColumns([batch for batch, _ in read], VALUE_KIND)
            order = order_of(records, rule)
            shared = order.starts < order.ends
            before, after = (numbers[order.rows[ends[shared]]] for ends in (order.starts, order.ends))
            for place in np.flatnonzero(before >= after)[:1].tolist():
                return LostRow(earlier=int(before[place]), later=int(after[place]))
    return None


def read_numbers(source: BucketFiles, file: DataFile, schema: TableSchema) -> None:
    """Read all keys and sequence numbers of a file. Raises as `first_lost_row`."""
    with closing(source.open(file)) as reader:
        for batch in reader.batches(schema.key_fields, system=(SEQUENCE_NUMBER,), batch_rows=CHUNK_ROWS):
            _numbers(batch, file)


def _numbers(batch: pa.RecordBatch, file: DataFile) -> _Numbers:
    """Return the sequence numbers of rows of a file. Raises CorruptTable."""
    numbers: _Numbers = fixed_values(batch.column(SEQUENCE_NUMBER), np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if low < file.min_sequence_number or high > file.max_sequence_number:
        raise CorruptTable(
            f"{file.file_name}: it has sequence numbers {low} to {high}, and its manifest entry records "
            f"{file.min_sequence_number} to {file.max_sequence_number}: merges may take its rows in another order. "
            "Restore its manifest from a copy of the table."
        )
    return numbers
