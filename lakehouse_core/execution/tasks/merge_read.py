"""Reads the sections of a bucket merged: one record for each key, in key order, in bounded memory.

Source: Paimon semantics, C.7 and "Merge read details" (G.4).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakehouse_core.errors import CorruptTable
from lakehouse_core.execution.tasks.freed_memory import keep_freed_memory
from lakehouse_core.execution.tasks.parquet_reader import ParquetFileReader, data_file_key
from lakehouse_core.format.data_types import DataField
from lakehouse_core.merge.chunk import MergeRule, merge_chunk
from lakehouse_core.merge.frontier import frontier_chunks
from lakehouse_core.planning.sections import Section, oldest_first
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.record_expiry import RecordExpiry, expired_rows
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sorted_run import SortedRun

# Larger chunks leave the processor's cache and cost memory, smaller ones pay the fixed price of a chunk more often.
CHUNK_ROWS: Final = 128 * 1024
CHUNK_BYTES: Final = 32 << 20
_LEAST_BATCH_ROWS: Final = 16
# Of all runs together: what their readers hold of the files as they are stored.
_HELD_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """Where the files of a bucket lie, and the schemas that they were written with, by id."""

    store: ObjectStore
    folder: str
    schemas: Mapping[int, TableSchema]
    verify: bool = True

    def open(self, file: DataFile) -> ParquetFileReader:
        """Open a file. Raises CorruptTable, UnsupportedFeature."""
        schema = self.schemas.get(file.schema_id)
        if schema is None:
            raise CorruptTable(
                f"{self.folder}/{file.file_name}: it was written with schema {file.schema_id}, which is not there. "
                "Restore schema files from a copy of the table."
            )
        key = data_file_key(self.folder, file)
        return ParquetFileReader(self.store, key, file, schema, verify=self.verify)


def merged_records(
    source: BucketFiles,
    sections: Sequence[Section],
    schema: TableSchema,
    fields: Sequence[DataField],
    *,
    with_sequence_number: bool,
    drops_deletes: bool,
    key_filter: Predicate | None = None,
    row_filter: Predicate | None = None,
    expiry: RecordExpiry | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield `fields` of the newest version of each key, the sequence number where asked for, and the kind.

    `key_filter` and `row_filter` only leave out row groups: the first, on key columns, everywhere; the second, on any
    column, where no version of a key lies in another file. `drops_deletes`: nor do deleted keys appear. `expiry`: rows
    that are over are no versions at all.
    """
    keep_freed_memory()
    read = _with_merge_columns(fields, schema)
    for section in sections:
        runs, is_decided = oldest_first(section)
        needs_number = with_sequence_number or (len(runs) > 1 and not is_decided)
        system = [SEQUENCE_NUMBER, VALUE_KIND] if needs_number else [VALUE_KIND]
        output = [field.name for field in fields] + ([SEQUENCE_NUMBER] if with_sequence_number else []) + [VALUE_KIND]
        rule = _rule(schema, is_decided=is_decided, drops_deletes=drops_deletes)
        scan = _RunScan(
            source=source,
            fields=tuple(read),
            system=tuple(system),
            row_filter=row_filter if len(runs) == 1 else key_filter,
            chunk_rows=CHUNK_ROWS // len(runs),
            chunk_bytes=CHUNK_BYTES // len(runs),
            held_bytes=_HELD_BYTES // len(runs),
            expiry=expiry,
        )
        chunks = frontier_chunks(
            [scan.batches(run) for run in runs],
            [[field.name for field in read].index(name) for name in rule.key_columns],
            chunk_rows=CHUNK_ROWS,
            chunk_bytes=CHUNK_BYTES,
        )
        for chunk in chunks:
            yield from merge_chunk(chunk, rule, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunScan:
    """How the files of one section's runs are read."""

    source: BucketFiles
    fields: tuple[DataField, ...]
    system: tuple[str, ...]
    row_filter: Predicate | None
    chunk_rows: int
    chunk_bytes: int
    held_bytes: int
    expiry: RecordExpiry | None

    def batches(self, run: SortedRun) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a run; a file is opened when the one before it is used up."""
        for file in run.data_files:
            reader = self.source.open(file)
            try:
                rows = batch_rows(reader.row_bytes(self.fields), self.chunk_rows, self.chunk_bytes)
                found = reader.batches(self.fields, system=self.system, batch_rows=rows, row_filter=self.row_filter)
                yield from found if self.expiry is None else _unexpired(found, self.expiry)
            finally:
                reader.close()


def _unexpired(batches: Iterable[pa.RecordBatch], expiry: RecordExpiry) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        over = expired_rows(batch, expiry)
        kept = batch.filter(pa.array(~over)) if over.any() else batch
        if kept.num_rows:
            yield kept


def batch_rows(row_bytes: float, most_rows: int, most_bytes: int) -> int:
    """Return how many rows a batch should have to keep within both limits."""
    return max(_LEAST_BATCH_ROWS, min(most_rows, int(most_bytes / max(1.0, row_bytes))))


def _with_merge_columns(fields: Sequence[DataField], schema: TableSchema) -> list[DataField]:
    """The fields asked for, then those that the merge needs besides."""
    needed = [*schema.key_fields, *map(schema.field, schema.table_options.sequence_fields)]
    return list({field.name: field for field in [*fields, *needed]}.values())


def _rule(schema: TableSchema, *, is_decided: bool, drops_deletes: bool) -> MergeRule:
    options = schema.table_options
    return MergeRule(
        key_columns=schema.trimmed_primary_keys,
        kind_column=VALUE_KIND,
        sequence_number=None if is_decided else SEQUENCE_NUMBER,
        sequence_fields=options.sequence_fields,
        sequence_descending=options.sequence_descending,
        ignore_delete=options.ignore_delete,
        drops_deletes=drops_deletes,
    )
