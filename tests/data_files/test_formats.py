"""Files of ORC and Avro give back what was written, in every compression, and damage never changes an answer."""

import datetime
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakehouse_core.data_files import reader
from lakehouse_core.errors import CorruptTable, StorageFull, UnsupportedFeature
from lakehouse_core.storage import LocalStore, MemoryStore
from lakehouse_core.table.predicate import col
from lakehouse_core.table.projection import file_projection
from lakehouse_core.tasks.merge_scan import BucketFiles
from tests.damage import damaged, flipped, some_flips, survivors
from tests.data_files.full_disk import files_end_at
from tests.pairs import each_with_one
from tests.tasks.loose_files import append_table, key_table, rows

FORMATS = ["avro", "orc", "parquet"]
COMPRESSIONS = [
    *[("avro", name) for name in ("zstd", "snappy", "deflate", "null")],
    *[("orc", name) for name in ("zstd", "snappy", "zlib", "lz4", "none")],
]
TYPES = {
    "k": "INT",
    "c": "CHAR(4)",
    "d": "DECIMAL(30, 4)",
    "t": "TIMESTAMP(6)",
    "z": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "tm": "TIME(3)",
    "dt": "DATE",
    "b": "BYTES",
    "f": "FLOAT",
    "ok": "BOOLEAN",
    "s": "SMALLINT",
    "m": "MAP<STRING, INT>",
    "mi": "MAP<INT, TIME(3)>",
    "ms": "MULTISET<STRING>",
    "a": "ARRAY<ROW<x INT, y DECIMAL(5, 2), c CHAR(3)>>",
    "r": "ROW<at TIMESTAMP(3), days ARRAY<DATE>>",
}
FULL: dict[str, Any] = {
    "k": 1,
    "c": "ab",
    "d": Decimal("-12345678901234567890.0001"),
    "t": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    "z": datetime.datetime(2024, 2, 29, 1, 2, 3, 4000, datetime.UTC),
    "tm": datetime.time(23, 59, 59, 999000),
    "dt": datetime.date(1, 1, 1),
    "b": b"\0\xff",
    "f": -1.5,
    "ok": True,
    "s": -32768,
    "m": [("a", 1), ("b", None)],
    "mi": [(1, datetime.time(1, 2)), (-1, None)],
    "ms": [("q", 2)],
    "a": [{"x": 1, "y": Decimal("-1.50"), "c": "z"}, None, {"x": None, "y": None, "c": None}],
    "r": {"at": datetime.datetime(9999, 12, 31), "days": [datetime.date(1969, 12, 31), None]},
}


@pytest.mark.parametrize(("file_format", "compression"), COMPRESSIONS)
@pytest.mark.parametrize("make", [key_table, append_table])
def test_every_type_comes_back_as_it_was(make, file_format, compression):
    table = make(TYPES, file__format=file_format, file__compression=compression)
    written = [FULL, {"k": 2}, FULL | {"k": 3, "a": [], "m": [], "r": None}]
    table.write(written)

    found = table.read()

    expected = [{name: row.get(name) for name in TYPES} for row in written]
    assert found.to_pylist() == expected
    assert {file.format for file in table.all_files()} == {file_format}
    assert table.count() == 3


@pytest.mark.parametrize("file_format", FORMATS)
def test_versions_of_keys_are_merged_and_compacted_whatever_the_format(file_format):
    table = key_table({"k": "INT", "v": "STRING"}, file__format=file_format)
    table.write(rows((1, "a"), (2, "b"), (3, "c")))
    table.write(rows((2, "B"), (4, "d")))
    before = table.read().to_pylist()

    table.compact()

    assert before == rows((1, "a"), (2, "B"), (3, "c"), (4, "d"))
    assert table.read().to_pylist() == before
    assert {file.format for file in table.all_files()} == {file_format}


def test_levels_and_changelogs_have_formats_of_their_own():
    table = key_table(
        file__format__per__level="0:avro,5:orc", changelog_file__format="parquet", changelog_producer="input"
    )
    table.write(rows((1, "a"), (2, "b")))
    table.write(rows((2, "B")))
    formats = [{file.format for file in table.all_files()}]
    table.compact()
    formats.append({file.format for file in table.all_files()})

    assert formats == [{"avro"}, {"orc"}]
    assert {file.format for files in table.changelog.values() for file in files} == {"parquet"}
    assert table.read().to_pylist() == rows((1, "a"), (2, "B"))


def test_a_lone_file_that_reaches_a_level_of_another_format_is_written_anew():
    table = key_table(file__format__per__level="0:avro,5:orc")
    table.write(rows((1, "a"), (2, "b")))
    table.compact()

    assert [(file.level, file.format) for file in table.all_files()] == [(5, "orc")]
    assert table.read().to_pylist() == rows((1, "a"), (2, "b"))


@pytest.mark.parametrize("file_format", FORMATS)
def test_statistics_hold_the_bounds_of_every_format(file_format):
    table = append_table({"n": "INT", "s": "STRING", "d": "DECIMAL(9, 2)"}, file__format=file_format)
    table.write([{"n": 3, "s": "b", "d": "1.50"}, {"n": None, "s": "a", "d": "-2.25"}])

    (file,) = table.all_files()
    parquet = append_table({"n": "INT", "s": "STRING", "d": "DECIMAL(9, 2)"})
    parquet.write([{"n": 3, "s": "b", "d": "1.50"}, {"n": None, "s": "a", "d": "-2.25"}])

    assert file.value_stats == parquet.all_files()[0].value_stats


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_rows_at_positions_are_left_out(file_format):
    table = append_table({"k": "INT"}, file__format=file_format)
    table.write(pa.table({"k": pa.array(range(1000), pa.int32())}))
    ((place, (file,)),) = table.files.items()
    files = BucketFiles(store=table.store, folder=table.folder(place), schemas=table.schemas)
    reader: Any = files.open(file)

    batches = reader.batches(table.schema.fields, batch_rows=100, without=np.array([0, 99, 100, 555, 999]))
    found = [value for batch in batches for value in batch.column("k").to_pylist()]
    reader.close()

    assert found == [value for value in range(1000) if value not in (0, 99, 100, 555, 999)]


@pytest.fixture(params=[("avro", "zstd"), ("avro", "deflate"), ("avro", "null"), ("orc", "zstd")], ids="-".join)
def sample(request):
    """A table with one file of 300 rows."""
    file_format, compression = request.param
    columns = {"k": "INT", "v": "STRING", "t": "TIMESTAMP(6)"}
    table = key_table(columns, file__format=file_format, file__compression=compression)
    when = datetime.datetime(2024, 1, 1)
    table.write([{"k": i, "v": f"v{i * 7919 % 100}", "t": when + datetime.timedelta(hours=i)} for i in range(300)])
    return table


@pytest.mark.one_in(2)
def test_no_flipped_bit_of_a_data_file_changes_an_answer(sample):
    data = sample.only_file()
    flips = some_flips(data, seed=7, count=600)

    assert survivors(lambda copy: sample.spoiled(copy).read(), flipped(data, flips), sample.read()) == []


def test_other_damage_is_corrupt_or_harmless_too(sample):
    data = sample.only_file()

    assert survivors(lambda copy: sample.spoiled(copy).read(), damaged(data, seed=3, count=200), sample.read()) == []


def test_a_file_that_is_gone_cut_or_of_another_row_count_is_corrupt_by_name(sample):
    ((place, (file,)),) = sample.files.items()
    key = f"{sample.folder(place)}/{file.file_name}"
    data = sample.store.read(key)

    sample.files = {place: [replace(file, row_count=299)]}
    with pytest.raises(CorruptTable, match=rf"{file.file_name}: .*300 rows?, its manifest entry (says )?299"):
        sample.read()
    sample.files = {place: [file]}
    sample.store.write({key: data[:-1]})
    with pytest.raises(CorruptTable, match=rf"{file.file_name}: it has \d+ bytes, its manifest entry says"):
        sample.read()
    sample.store.delete([key])
    with pytest.raises(CorruptTable, match="it is missing, but a snapshot names it"):
        sample.read()


@pytest.mark.parametrize("shown", ["1969-12-31 23:59:59.5", "1600-01-01 00:00:00.001"])
def test_a_time_that_orc_would_change_is_refused_by_its_column_and_leaves_no_file(shown):
    table = append_table({"k": "INT", "r": "ARRAY<TIMESTAMP(3)>"}, file__format="orc")

    with pytest.raises(
        UnsupportedFeature, match=r"Column r holds .*: ORC files cannot store a time before 1970 with a fraction"
    ):
        table.write([{"k": 1, "r": [datetime.datetime.fromisoformat(shown)]}])
    assert table.names_on_disk() == set()


def test_whole_seconds_before_1970_survive_in_orc():
    table = append_table({"t": "TIMESTAMP(3)"}, file__format="orc")
    written = [{"t": datetime.datetime(1969, 12, 31, 23, 59, 59)}, {"t": datetime.datetime(1, 1, 1)}]
    table.write(written)

    assert table.read().to_pylist() == written


def test_blanks_at_the_end_of_a_char_are_dropped_by_orc_and_refused_in_a_key():
    table = append_table({"c": "CHAR(4)"}, file__format="orc", file_index__bloom_filter__columns="c")
    table.write([{"c": "a  "}])
    keyed = key_table({"k": "CHAR(4)", "v": "INT"}, file__format="orc")
    keyed.write([{"k": "a", "v": 1}])

    assert table.read().to_pylist() == [{"c": "a"}]
    assert table.read(predicate=col("c") == "a").num_rows == 1
    with pytest.raises(
        UnsupportedFeature, match="Column k decides on place or order of rows, and has a text that ends"
    ):
        keyed.write([{"k": "a ", "v": 1}])


def test_parquet_files_say_what_each_page_holds_unless_values_may_be_nan():
    table = key_table({"k": "BIGINT NOT NULL", "s": "STRING", "d": "DOUBLE", "f": "FLOAT", "l": "ARRAY<FLOAT>"})
    (message,) = table.write([{"k": k, "s": "text", "d": 1.5, "f": 1.5, "l": [1.5]} for k in range(100)])
    folder = table.folder((message.partition, message.bucket))

    with table.store.open_read(f"{folder}/{message.new_files[0].file_name}") as source:
        footer = pq.read_metadata(source)

    chunks = [footer.row_group(0).column(number) for number in range(footer.num_columns)]
    assert all(chunk.has_offset_index for chunk in chunks)
    assert {chunk.path_in_schema: (chunk.has_column_index, chunk.is_stats_set) for chunk in chunks} == {
        **dict.fromkeys(("_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "s"), (True, True)),
        **dict.fromkeys(("d", "f", "l.list.element"), (False, False)),
    }


def test_text_beyond_its_length_is_cut_by_orc_as_in_java_and_refused_in_a_key():
    fields = {"c": "CHAR(2)", "v": "VARCHAR(3)", "r": "ARRAY<ROW<t VARCHAR(1)>>", "s": "STRING"}
    table = append_table(fields, file__format="orc", file_index__bloom_filter__columns="v")
    table.write([{"c": "a b", "v": "äöüß", "r": [{"t": "xy"}, None], "s": "long enough"}])
    keyed = key_table({"k": "VARCHAR(3)", "v": "INT"}, file__format="orc")
    keyed.write([{"k": "abc", "v": 1}])

    assert table.read().to_pylist() == [{"c": "a", "v": "äöü", "r": [{"t": "x"}, None], "s": "long enough"}]
    assert table.read(predicate=col("v") == "äöü").num_rows == 1
    with pytest.raises(UnsupportedFeature, match=r"Column k .* is longer than VARCHAR\(3\) NOT NULL"):
        keyed.write([{"k": "abcd", "v": 1}])


def test_orc_files_carry_the_ids_of_their_fields():
    table = append_table({"k": "INT", "a": "ARRAY<INT>"}, file__format="orc")
    table.write([{"k": 1, "a": [2]}])

    schema = orc.ORCFile(pa.BufferReader(table.only_file())).schema

    assert schema.field("k").metadata[b"paimon.id"] == b"0"
    assert schema.field("a").type.value_field.metadata[b"paimon.id"] == str(536870911 + 1024 + 1).encode()


@pytest.mark.parametrize(
    ("options", "fields", "says"),
    [
        ({"file__format": "avro"}, {"t": "TIMESTAMP(9)"}, r"Column t: Avro files cannot hold TIMESTAMP\(9\)"),
        ({"file__format": "avro"}, {"m": "MULTISET<INT>"}, "Column m: Avro files cannot hold MULTISET<INT>"),
        ({"file__format": "avro"}, {"größe": "INT"}, "Avro files cannot name a field 'größe'"),
        ({"file__format": "orc"}, {"m": "MAP<CHAR(3), INT>"}, "Column m has CHAR as key type of a map"),
        ({"file__format": "orc", "file__compression__zstd_level": "7"}, {"k": "INT"}, "set 1 or 3, or another format"),
        ({"file__format": "orc", "file__compression": "gzip"}, {"k": "INT"}, "Set zstd, snappy, zlib, lz4 or none"),
        ({"file__format": "avro", "file__compression": "none"}, {"k": "INT"}, "set zstd, zstandard, snappy, deflate"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_when_the_table_is_made(options, fields, says):
    with pytest.raises(UnsupportedFeature, match=says):
        append_table(fields, **options)


@pytest.mark.parametrize(("file_format", "limit_bytes"), each_with_one(FORMATS, [0, 100, 5_000, 50_000]))
def test_a_disk_that_is_full_is_said_to_be_whatever_writes(file_format, limit_bytes, tmp_path):
    table = key_table(store=LocalStore(str(tmp_path)), file__format=file_format)
    data = pa.table({"k": range(40_000), "v": [f"{i * 2654435761 % 2**32:x}" for i in range(40_000)]})

    with pytest.raises(StorageFull, match=r"no space left .*Make room"), files_end_at(limit_bytes):
        table.write(data)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


class CountingStore(MemoryStore):
    """Counts the calls by which data files are read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = self.reads = 0

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        with super().open_write(key) as sink:
            yield CountedSink(self, sink)

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        return pa.PythonFile(CountedSource(self, super().open_read(key, size).read()), mode="r")


class CountedSink:
    def __init__(self, store: CountingStore, sink: IO[bytes]) -> None:
        self._store = store
        self._sink = sink

    def write(self, data: bytes) -> int:
        self._store.writes += 1
        return self._sink.write(data)


class CountedSource(io.BytesIO):
    def __init__(self, store: CountingStore, data: bytes) -> None:
        super().__init__(data)
        self._store = store

    def read(self, size: int | None = -1) -> bytes:
        self._store.reads += 1
        return super().read(size)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_small_file_is_written_by_few_calls_and_read_by_one(file_format):
    store = CountingStore()
    table = key_table({"k": "INT", "v": "STRING", "x": "DOUBLE"}, store=store, file__format=file_format)
    table.write([{"k": k, "v": f"{k:x}", "x": k / 7} for k in range(300)])

    assert table.read()["k"].to_pylist() == list(range(300))
    assert store.writes <= 4
    assert store.reads == 1


def test_a_small_parquet_file_is_opened_once_in_a_merge_of_many_runs(monkeypatch):
    table = key_table({"k": "INT", "v": "INT"}, write_only="true")
    for version in range(7):
        table.write([{"k": k, "v": version} for k in range(version, 20)])
    opened = []

    class Counted(pq.ParquetFile):
        def __init__(self, *args, **kwargs):
            opened.append(self)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(pq, "ParquetFile", Counted)

    assert table.read()["v"].to_pylist() == [*range(7), *[6] * 13]
    assert len(opened) == 7 + 1  # And the columns of all once.


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_of_one_schema_that_are_read_alike_are_projected_once(file_format, monkeypatch):
    table = key_table({"k": "INT", "v": "INT", "x": "DOUBLE"}, file__format=file_format, write_only="true")
    for version in range(5):
        table.write([{"k": version, "v": version, "x": None}, {"k": 9, "v": version, "x": 0.5}])
    projected = []

    def counted(schema, fields):
        projected.append([field.name for field in fields])
        return file_projection(schema, fields)

    monkeypatch.setattr(reader, "file_projection", counted)
    monkeypatch.setattr(reader, "_latest", [])

    assert table.read(["k", "v"])["v"].to_pylist() == [*range(5), 4]
    assert table.read(["x", "k"])["x"].to_pylist() == [*[None] * 5, 0.5]
    assert projected == [["k", "v"], ["x", "k"]]
