"""Rows that a vector marks as deleted are never read, whatever else the read leaves out, and damage is not a vector."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.data_files.deletion_vectors import load_positions
from lakehouse_core.data_files.parquet.reader import ParquetFileReader
from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.deletion_vector import encode_index_file, encode_vector
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.predicate import Predicate, bind, col
from lakehouse_core.table.schema import new_schema
from lakehouse_core.tasks.read import read_split
from tests.tasks.loose_files import LooseFiles, append_table, key_table, rows

ROWS = 100
SCHEMA = new_schema({"k": "BIGINT", "v": "STRING"}, options={}, now_millis=0)


def reader(*, group_rows: int = ROWS) -> ParquetFileReader:
    """A file of rows k = 0 to 99, in row groups of this size."""
    table = pa.table({"k": range(ROWS), "v": [f"v{number}" for number in range(ROWS)]})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group_rows, write_page_checksum=True)
    store = MemoryStore()
    store.write({"f.parquet": sink.getvalue()})
    entry = DataFile(
        file_name="f.parquet",
        file_size=len(sink.getvalue()),
        row_count=ROWS,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
    )
    return ParquetFileReader(store, "f.parquet", entry, SCHEMA, verify=False)


POSITIONS = st.sets(st.integers(0, ROWS - 1)).map(lambda found: np.array(sorted(found), np.int64))


@given(POSITIONS, st.integers(1, ROWS), st.integers(1, 40), st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_a_reader_leaves_out_positions_of_the_file_also_where_it_leaves_out_row_groups(
    positions, group_rows, batch_rows, bounds
):
    low, high = sorted(bounds)
    opened = reader(group_rows=group_rows)
    row_filter = bind((col("k") >= low) & (col("k") <= high), SCHEMA.fields)

    def numbers(**how: Any) -> list[int]:
        batches = opened.batches(SCHEMA.fields, batch_rows=batch_rows, **how)
        return [number for batch in batches for number in batch.column("k").to_pylist()]

    gone = set(positions.tolist())

    assert numbers(without=positions) == [number for number in range(ROWS) if number not in gone]
    everything = numbers(row_filter=row_filter)
    assert numbers(row_filter=row_filter, without=positions) == [n for n in everything if n not in gone]
    assert set(range(low, high + 1)) <= set(everything)
    opened.close()


def test_without_columns_the_remaining_rows_are_counted():
    opened = reader(group_rows=30)

    assert sum(batch.num_rows for batch in opened.batches([], batch_rows=7, without=np.array([0, 31, 99]))) == 97


def test_a_position_beyond_the_file_is_corruption():
    with pytest.raises(CorruptTable, match=r"f\.parquet: row 100 is marked as deleted, but the file has 100 rows"):
        list(reader().batches(SCHEMA.fields, batch_rows=10, without=np.array([1, 100])))


def marked(table: LooseFiles, *marks: tuple[int, list[int]], bits64: bool = False) -> dict[str, DeletionFile]:
    """Mark rows of the files with these numbers as deleted, in one index file."""
    files = table.all_files()
    data, spans = encode_index_file(encode_vector(rows, bits64=bits64) for _, rows in marks)
    table.store.write({"index/index-1": data})
    return {
        files[number].file_name: DeletionFile(
            key="index/index-1", offset=span.offset, length=span.length, cardinality=len(rows)
        )
        for (number, rows), span in zip(marks, spans, strict=True)
    }


def read(
    table: LooseFiles, deletions: dict[str, DeletionFile], *, raw: bool = True, where: Predicate | None = None
) -> list[tuple[int, str]]:
    found = []
    for task in table.read_tasks(("k", "v"), where, raw=raw):
        for batch in read_split(replace(task, split=replace(task.split, deletions=deletions)), table.runtime):
            found += [(row["k"], row["v"]) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize("bits64", [False, True])
def test_a_split_is_read_without_the_rows_that_its_vectors_mark(bits64):
    table = append_table()
    table.write(rows((0, "a"), (1, "b"), (2, "c")))
    table.write(rows((3, "d"), (4, "e")))
    table.write(rows((5, "f")))
    deletions = marked(table, (0, [0, 2]), (2, [0]), bits64=bits64)

    assert read(table, deletions) == [(1, "b"), (3, "d"), (4, "e")]
    assert read(table, deletions, where=col("k") > 3) == [(4, "e")]


def test_a_merge_sees_no_row_that_a_vector_marks():
    table = key_table()
    table.write(rows((1, "old"), (2, "old"), (3, "old")))
    table.write(rows((2, "new"), (3, "new")))
    deletions = marked(table, (0, [0]), (1, [1]))

    assert read(table, deletions, raw=False) == [(2, "new"), (3, "old")]


@pytest.mark.parametrize(
    ("deletion", "found"),
    [
        (DeletionFile(key="index/index-9", offset=1, length=22), "index-9: it is missing"),
        (DeletionFile(key="index/index-1", offset=1, length=23), "it says that it is 22 bytes long"),
        (DeletionFile(key="index/index-1", offset=2, length=22), "its magic number is"),
        (DeletionFile(key="index/index-1", offset=31, length=22), "its magic number is missing"),
        (DeletionFile(key="index/index-1", offset=1, length=22, cardinality=2), "it has 1 positions"),
        (DeletionFile(key="index/index-2", offset=1, length=22), "it begins with 02"),
    ],
)
def test_a_vector_that_is_not_what_the_index_manifest_says_is_corruption(deletion, found):
    store = MemoryStore()
    data, _ = encode_index_file([encode_vector([7], bits64=False)])
    store.write({"index/index-1": data})
    store.write({"index/index-2": b"\2" + data[1:]})

    with pytest.raises(CorruptTable, match=found):
        load_positions(store, deletion, "data-1.parquet")
