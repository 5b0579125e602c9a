"""Indexes are written with their files, go with them, and spare reads what they deny."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lakehouse_core.data_files.row_selection import chosen_rows
from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.file_index import BITMAP, body_of, head_length, parse_directory
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.table.file_index import index_file_name
from lakehouse_core.table.predicate import Predicate, col
from lakehouse_core.tasks.merge_scan import BucketFiles
from tests.tasks.loose_files import LooseFiles, append_table, key_table, rows


def indexed(make: Any = append_table, *, embedded: bool = False, **options: str) -> LooseFiles:
    limit = "1 mb" if embedded else "1 b"
    named = {
        "file-index.bitmap.columns": "k",
        "file-index.bloom-filter.columns": "v",
        "file-index.bloom-filter.v.items": "100",
        "file-index.in-manifest-threshold": limit,
    }
    return make(**named, **options)


@pytest.fixture
def store() -> FaultyStore:
    """A store that counts what reads ask of it."""
    return FaultyStore(MemoryStore())


def files_opened(store: FaultyStore, table: LooseFiles, predicate: Predicate) -> tuple[list[int], int, int]:
    """Return the keys read, and how many data files and index files were opened for them."""
    before = len(store.calls)
    found = table.read(predicate=predicate).column("k").to_pylist()
    opened = [call.key for call in store.calls[before:] if call.method == "open_read"]
    return found, sum(key.endswith(".parquet") for key in opened), sum(key.endswith(".index") for key in opened)


def test_a_small_index_lies_in_the_entry_and_a_large_one_beside_the_file():
    small, large = indexed(embedded=True), indexed()
    for table in (small, large):
        table.write(rows((1, "a"), (2, "b")))

    (inside,), (beside,) = small.all_files(), large.all_files()
    assert inside.extra_files == ()
    assert beside.embedded_index is None
    assert beside.extra_files == (f"{beside.file_name}.index",)
    assert small.names_on_disk() == {inside.file_name}
    assert large.names_on_disk() == {beside.file_name, f"{beside.file_name}.index"}
    stored = large.store.read(f"bucket-0/{index_file_name(beside)}")
    assert inside.embedded_index is not None
    inner, outer = (
        {
            name: {kind: place and body_of(data, place, "case") for kind, place in kinds.items()}
            for name, kinds in parse_directory(data, "case", beside.file_name).items()
        }
        for data in (inside.embedded_index, stored)
    )
    assert inner == outer
    assert {name: list(kinds) for name, kinds in outer.items()} == {"v": ["bloom-filter"], "k": ["bitmap"]}


@pytest.mark.parametrize("embedded", [False, True])
def test_files_that_the_index_denies_are_not_opened(store: FaultyStore, embedded: bool):
    table = indexed(embedded=embedded, store=store)
    for start in (0, 2, 4):
        table.write(rows((start, f"v{start}"), (start + 10, f"v{start + 10}")))

    sides = 0 if embedded else 3
    assert files_opened(store, table, col("k") == 2) == ([2], 1, sides)
    assert files_opened(store, table, col("k") == 3) == ([], 0, sides)
    assert files_opened(store, table, col("v") == "v14") == ([14], 1, sides)
    assert files_opened(store, table, col("k") > 9) == ([10, 12, 14], 3, sides)


def test_what_an_index_says_is_ignored_where_the_option_says_so(store: FaultyStore):
    table = indexed(store=store, **{"file-index.read.enabled": "false"})
    table.write(rows((0, "a"), (10, "b")))

    assert files_opened(store, table, col("k") == 5) == ([], 1, 0)
    assert table.read().num_rows == 2


def test_of_a_key_table_only_files_that_need_no_merge_are_asked(store: FaultyStore):
    table = indexed(key_table, store=store)
    table.write(rows((1, "a"), (2, "b")))
    table.write(rows((1, "c"), (3, "d")))

    # The older version of key 1 would match; the newer does not.
    assert files_opened(store, table, col("v") == "a") == ([], 2, 0)

    table.compact()
    (files,) = table.files.values()
    assert table.read(predicate=col("v") == "c", raw=True).to_pydict() == {"k": [1], "v": ["c"]}
    assert all(file.extra_files == (f"{file.file_name}.index",) for file in files)


def test_the_index_of_a_compacted_file_speaks_of_its_own_rows(store: FaultyStore):
    table = indexed(store=store)
    for start in range(0, 60, 10):
        table.write(rows((start, "a"), (start + 5, "b")))
    table.compact()

    (file,) = table.all_files()
    assert file.row_count == 12
    assert files_opened(store, table, col("k") == 25) == ([25], 1, 1)


def test_a_changelog_has_no_index():
    table = indexed(key_table, **{"changelog-producer": "input"})
    table.write(rows((1, "a")))

    ((file,),) = table.changelog.values()
    assert (file.extra_files, file.embedded_index) == ((), None)


def test_rows_of_many_row_groups_are_found_at_their_places(store: FaultyStore):
    table = append_table(
        store=store, **{"file-index.bitmap.columns": "v", "target-file-size": "64 kb", "file.compression": "none"}
    )
    count = 30_000
    table.write(pa.table({"k": range(count), "v": [str(number % 100) for number in range(count)]}))

    found = table.read(predicate=col("v").isin(["7", "42"])).column("k").to_pylist()

    assert found == [number for number in range(count) if number % 100 in (7, 42)]


def test_a_missing_or_damaged_index_file_is_named(store: FaultyStore):
    table = indexed(store=store)
    table.write(rows((1, "a")))
    (file,) = table.all_files()
    key = f"bucket-0/{index_file_name(file)}"
    data = store.read(key)

    for damaged, says in (
        (data[:10], "10 bytes are too few"),
        (b"?" + data[1:], "a file index with 1493475289347502"),
        (data[:60], "inside its head|60 bytes, but its head"),
        (data[:-1], "an index ends at byte"),
    ):
        store.write({key: damaged})
        with pytest.raises(CorruptTable, match=says) as caught:
            table.read(predicate=(col("k") == 1) & (col("v") == "a"))
        assert key in str(caught.value)
    store.delete([key])
    with pytest.raises(CorruptTable, match=r"\.index"):
        table.read(predicate=col("k") == 1)
    assert table.read().num_rows == 1


def test_a_directory_longer_than_the_first_read_is_read_to_its_end(store: FaultyStore):
    names = [f"a_rather_long_name_of_a_column_{number}" for number in range(200)]
    table = append_table(
        dict.fromkeys(names, "INT"),
        store=store,
        **{"file-index.bitmap.columns": ",".join(names), "file-index.in-manifest-threshold": "1 b"},
    )
    table.write([dict.fromkeys(names, 1)])
    (file,) = table.all_files()
    stored = store.read(f"bucket-0/{index_file_name(file)}")
    assert head_length(stored, "case") > 8 << 10
    assert BITMAP in parse_directory(stored, "case", file.file_name)[names[-1]]

    assert table.read(predicate=col(names[-1]) == 2).num_rows == 0
    assert table.read(predicate=col(names[-1]) == 1).num_rows == 1


def batches_of(*sizes: int) -> Iterator[pa.RecordBatch]:
    first = 0
    for size in sizes:
        yield pa.record_batch({"n": list(range(first, first + size))})
        first += size


CHOSEN = [
    ([(0, 10)], {3, 7}, [[3], [7]]),
    ([(0, 10)], set(range(10)), [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]),
    ([(0, 3), (100, 107)], {1, 100, 101, 106}, [[1], [3], [4, 9]]),
    ([(50, 60)], {1, 2, 49, 60}, []),
]


@pytest.mark.parametrize(("spans", "chosen", "expected"), CHOSEN)
def test_positions_count_the_rows_of_the_file_and_not_of_what_is_read_of_it(spans, chosen, expected):
    found = [batch.column("n").to_pylist() for batch in chosen_rows(batches_of(4, 6), spans, BitMap(chosen))]

    assert found == expected


@pytest.mark.parametrize("deleted", [None, [7, 107, 1500]])
def test_rows_that_an_index_leaves_and_a_vector_deletes_stay_away(deleted):
    table = append_table(**{"target-file-size": "64 kb", "file.compression": "none"})
    table.write(pa.table({"k": range(2000), "v": ["x" * 100] * 2000}))
    (file,) = table.all_files()
    files = BucketFiles(store=table.store, folder="bucket-0", schemas=table.schemas)
    reader = files.open(file)

    without = None if deleted is None else np.array(deleted, np.int64)
    batches = reader.batches(table.schema.fields, batch_rows=64, only=BitMap([7, 8, 107, 1999]), without=without)
    found = [key for batch in batches for key in batch.column("k").to_pylist()]

    assert found == [key for key in (7, 8, 107, 1999) if key not in (deleted or [])]
