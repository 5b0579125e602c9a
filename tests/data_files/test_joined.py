"""Columns of many small Parquet files decoded at once. The law: as each file's by itself, also where one is damaged."""

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_core.data_files.parquet.joined import decode_joined
from lakehouse_core.errors import CorruptTable
from lakehouse_core.format import parquet_footer
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.predicate import bind, col
from lakehouse_core.tasks.merge_scan import BucketFiles
from lakehouse_core.tasks.small_files import DecodingThread, FileRead, StoredFile, decoded
from tests.damage import damaged, flipped, some_flips, survivors
from tests.tasks.loose_files import LooseFiles, key_table

FIELDS = {
    "k": "BIGINT",
    "i": "INT",
    "b": "SMALLINT",
    "f": "FLOAT",
    "x": "DOUBLE",
    "s": "STRING",
    "y": "BYTES",
    "d": "DECIMAL(30, 4)",
    "c": "DECIMAL(9, 2)",
    "t": "TIMESTAMP(6)",
    "z": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "h": "TIME(3)",
    "at": "DATE",
    "ok": "BOOLEAN",
}
COMPRESSIONS = ["zstd", "snappy", "gzip", "none"]
PLAIN = {"parquet__enable__dictionary": "false"}
SYSTEM = (SEQUENCE_NUMBER, VALUE_KIND)


def sample(seed: int, count: int) -> pa.Table:
    """Rows of rising keys; of the other columns a third is null, but for the last file nothing is."""
    draw = np.random.default_rng(seed)
    numbers = draw.integers(0, 2**31, count)
    values: dict[str, pa.Array] = {
        "k": pa.array(np.arange(count) * 7 + seed),
        "i": pa.array(numbers).cast(pa.int32()),
        "b": pa.array(numbers % 30).cast(pa.int16()),
        "f": pa.array(draw.random(count), pa.float32()),
        "x": pa.array(draw.random(count)),
        "s": pa.array([f"text {number}" for number in numbers]),
        "y": pa.array([b"\0" * int(number % 9) for number in numbers]),
        "d": pa.array([Decimal(int(number)) for number in numbers], pa.decimal128(30, 4)),
        "c": pa.array([Decimal(int(number) % 10**6) for number in numbers], pa.decimal128(9, 2)),
        "t": pa.array(numbers).cast(pa.timestamp("us")),
        "z": pa.array(numbers).cast(pa.timestamp("ms", "UTC")),
        "h": pa.array(numbers % 86_400_000).cast(pa.int32()).cast(pa.time32("ms")),
        "at": pa.array(numbers % 40_000).cast(pa.int32()).cast(pa.date32()),
        "ok": pa.array(numbers % 2 == 0),
    }
    absent = pa.array(draw.random(count) < (1 / 3 if seed else 0))
    keys = values.pop("k")
    return pa.table({"k": keys} | {name: pa.compute.if_else(absent, None, each) for name, each in values.items()})


def written(**options: str) -> LooseFiles:
    table = key_table(FIELDS, write_only="true", **options)
    for seed, count in enumerate((200, 1, 40)):
        table.write(sample(seed, count))
    return table


def files_of(table: LooseFiles) -> tuple[BucketFiles, Sequence[DataFile]]:
    ((place, files),) = table.files.items()
    return BucketFiles(store=table.store, folder=table.folder(place), schemas=table.schemas), files


def read(table: LooseFiles, names: Sequence[str], *, where: Any = None) -> list[FileRead]:
    source, files = files_of(table)
    fields = [table.schema.field(name) for name in names]
    condition = None if where is None else bind(where, table.schema.fields)
    return [FileRead(source, file, fields, SYSTEM, condition) for file in files]


def stored(reads: Sequence[FileRead]) -> list[Any]:
    rows: list[Any] = []
    for each in reads:
        with closing(each.source.open(each.file)) as reader:
            rows += each.rows(reader)
    return rows


def apart(reads: Sequence[FileRead]) -> pa.Table:
    return pa.Table.from_batches([batch for each in reads for batch in each.batches()]).combine_chunks()


@pytest.mark.parametrize("options", [PLAIN, PLAIN | {"parquet__page__row__count__limit": "17"}, {}])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_files_give_together_what_each_gives_by_itself(compression, options):
    table = written(file__compression=compression, **options)

    for names in (list(FIELDS), ["x", "k"], ["s"]):
        reads = read(table, names)
        rows = stored(reads)
        (batch,) = decode_joined([each.columns for each in rows])

        assert pa.Table.from_batches([batch]).equals(apart(reads))
        assert sum(each.num_rows for each in rows) == batch.num_rows == 241
        assert any(each.columns.has_dictionary for each in rows) == ("b" in names and "false" not in options.values())


def test_a_column_with_a_long_dictionary_is_decoded_by_itself_in_its_place():
    table = key_table({"k": "INT", "v": "STRING", "n": "INT"}, write_only="true")
    for texts in ("ab", "aaaaaa", ["long" * 5_000] * 6, "cc" * 3, "ef"):
        # The first rows of a write decide which columns get a dictionary.
        table.write([{"k": k, "v": text, "n": 7} for k, text in enumerate(texts)])

    rows = stored(read(table, ["v", "n", "k"]))

    assert [isinstance(each, StoredFile) for each in rows] == [True, True, False, True, True]
    assert [each.columns.has_dictionary for each in rows if isinstance(each, StoredFile)] == [False, True, True, False]
    assert pa.Table.from_batches(decoded(rows)).combine_chunks().equals(apart(read(table, ["v", "n", "k"])))


def test_files_with_nested_columns_are_decoded_by_themselves():
    table = key_table({"k": "INT", "a": "ARRAY<INT>"}, write_only="true")
    table.write([{"k": 1, "a": [1, 2]}])

    assert not isinstance(stored(read(table, ["k"]))[0], StoredFile)


def test_row_groups_that_a_condition_leaves_out_are_not_decoded():
    table = key_table({"k": "INT", "v": "INT"}, write_only="true")
    for first in (0, 10, 20):
        table.write([{"k": first, "v": 1}, {"k": first + 1, "v": 2}])

    rows = stored(read(table, ["k"], where=col("k") > 15))

    assert decoded(rows)[0].column("k").to_pylist() == [20, 21]


def test_columns_of_other_types_or_compressions_are_not_decoded_together():
    table = written(**PLAIN)
    for changed in (written(file__compression="snappy", **PLAIN), key_table(FIELDS | {"i": "BIGINT"})):
        if not changed.files:
            changed.write(sample(0, 3).set_column(1, "i", pa.array([1, 2, 3])))
        (one, *_), (other, *_) = (stored(read(each, ["k", "i"])) for each in (table, changed))

        assert one.columns.joins(one.columns)
        assert not one.columns.joins(other.columns)


@pytest.fixture(scope="module")
def small() -> LooseFiles:
    table = key_table({"k": "INT", "v": "STRING", "x": "DOUBLE"}, write_only="true")
    for seed in range(3):
        table.write([{"k": k, "v": f"v{k * 7919 % 100}", "x": k / (seed + 3)} for k in range(seed, 60)])
    return table


def spoiled(table: LooseFiles, data: bytes) -> LooseFiles:
    """The table with these bytes in the second of its files."""
    source, files = files_of(table)
    copy = LooseFiles(table.schema)
    for number, file in enumerate(files):
        key = f"{source.folder}/{file.file_name}"
        copy.store.write({key: data if number == 1 else table.store.read(key)})
    copy.files = table.files
    return copy


def test_no_damage_of_one_file_changes_an_answer(small):
    source, files = files_of(small)
    data = bytes(small.store.read(f"{source.folder}/{files[1].file_name}"))
    spoils = [*flipped(data, some_flips(data, seed=5, count=700)), *damaged(data, seed=5, count=100)]
    expected = apart(read(small, ["v", "k", "x"]))

    def found(copy: bytes) -> pa.Table:
        rows = stored(read(spoiled(small, copy), ["v", "k", "x"]))
        return pa.Table.from_batches(decoded(rows)).combine_chunks()

    assert not survivors(found, iter(spoils), expected)


def pages_start(table: LooseFiles, number: int, name: str) -> int:
    source, files = files_of(table)
    with closing(source.open(files[number])) as reader:
        start: int = reader._footer.row_group(0).column(reader._layout.places[name]).data_page_offset
        return start


def test_the_damaged_file_is_named_and_no_other(small):
    source, files = files_of(small)
    data = bytearray(small.store.read(f"{source.folder}/{files[1].file_name}"))
    data[pages_start(small, 1, "x") + 100] ^= 1
    table = spoiled(small, bytes(data))

    with pytest.raises(CorruptTable, match="and 2 further files"):
        decode_joined([each.columns for each in stored(read(table, ["v", "k", "x"]))])
    with pytest.raises(CorruptTable) as error:
        decoded(stored(read(table, ["v", "k", "x"])))
    assert [file.file_name in str(error.value) for file in files] == [False, True, False]


def test_a_page_that_says_another_count_of_values_moves_no_rows_of_the_files_behind_it():
    table = key_table(FIELDS, write_only="true", **PLAIN)
    # Levels of nulls are packed by eight, so that a few values more than were written can be decoded.
    for seed, count in ((3, 9), (1, 43), (2, 38)):
        table.write(sample(seed, count))
    source, files = files_of(table)
    data = bytes(table.store.read(f"{source.folder}/{files[1].file_name}"))
    expected = apart(read(table, ["i", "k"]))

    def found(copy: bytes) -> pa.Table:
        return pa.Table.from_batches(decoded(stored(read(spoiled(table, copy), ["i", "k"])))).combine_chunks()

    start = pages_start(table, 1, "i")
    assert not survivors(found, flipped(data, product(range(start, start + 25), range(8))), expected)


# What a file of another writer may hold, and whether it is decoded with others.
FOREIGN = [
    ({"data_page_version": "2.0", "use_dictionary": False}, True),
    ({"data_page_version": "2.0"}, True),
    ({"data_page_version": "2.0", "compression": "none", "write_page_checksum": True}, True),
    ({"use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY", "x": "BYTE_STREAM_SPLIT"}}, True),
    ({"use_dictionary": False, "column_encoding": {"v": "DELTA_LENGTH_BYTE_ARRAY", "n": "DELTA_BINARY_PACKED"}}, True),
    ({"write_page_index": True, "data_page_size": 64, "write_batch_size": 8}, True),
    ({"write_page_index": True, "data_page_size": 64, "write_batch_size": 8, "use_dictionary": False}, True),
    ({"created_by": b"parquet-cpp version 1.5.1-SNAPSHOT"}, False),
    ({"compression": "lz4"}, False),
    ({"store_schema": True}, False),
    ({"row_group_size": 20}, False),
]


@pytest.mark.parametrize(("options", "together"), FOREIGN)
def test_files_of_other_writers_give_together_what_each_gives_by_itself(options, together, monkeypatch):
    table = key_table({"k": "INT", "v": "STRING", "x": "DOUBLE", "n": "BIGINT"}, write_only="true")
    for seed in range(3):
        rows = range(seed, 60)
        texts = [None if k % 3 == 1 else f"v{k * 7919 % 100}" for k in rows]
        table.write([{"k": k, "v": text, "x": k / (seed + 3), "n": k} for k, text in zip(rows, texts, strict=True)])
    ((place, files),) = table.files.items()
    settings = {"store_schema": False} | options
    created_by = settings.pop("created_by", None)
    for number, file in enumerate(files):
        key = f"{table.folder(place)}/{file.file_name}"
        rewritten = pa.BufferOutputStream()
        held = pq.read_table(pa.BufferReader(table.store.read(key))).replace_schema_metadata(None)
        pq.write_table(held, rewritten, **settings)
        data = rewritten.getvalue().to_pybytes()
        if created_by is not None:
            own = pq.read_metadata(pa.BufferReader(data)).created_by.encode()
            data = data.replace(own, created_by[: len(own)].ljust(len(own)))
        table.store.delete([key])
        table.store.write({key: data})
        files[number] = replace(file, file_size=len(data))

    reads = read(table, ["v", "k", "x", "n"])
    rows = stored(reads)

    assert {isinstance(each, StoredFile) for each in rows} == {together}
    # Unusual headers of pages are read in another way.
    monkeypatch.setattr(parquet_footer, "_USUAL_HEADER", re.compile(rb"\b\B"))
    assert {isinstance(each, StoredFile) for each in stored(reads)} == {together}
    assert pa.Table.from_batches(decoded(rows)).combine_chunks().equals(apart(reads))


def test_a_thread_decodes_the_same_and_a_forked_process_decodes_by_itself(small):
    rows = stored(read(small, ["v", "k"]))
    thread = DecodingThread()
    with closing(thread):
        decoding = thread.decoding(rows)
        expected = decoded(rows)

        assert decoding.batches() == expected
        decoding._process._id += 1
        decoding._begun = object()
        assert decoding.batches() == expected
        thread._process._id += 1
        assert thread.decoding(rows)._begun is None
        assert thread.decoding(rows).batches() == expected


def test_columns_of_a_footer_are_looked_at_once_for_many_files(small, monkeypatch):
    looked: list[object] = []
    schema = pq.ParquetFile.schema_arrow
    monkeypatch.setattr(pq.ParquetFile, "schema_arrow", property(lambda file: looked.append(file) or schema.fget(file)))
    with closing(DecodingThread()):
        rows = stored(read(small, ["v"]))

    assert len(rows) == 3
    assert len(looked) <= 1
