"""What a read task makes of files: merged by the rules, evolved, filtered after the merge, checked for damage."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.data_files.parquet import reader as parquet_reader
from lakehouse_core.errors import CorruptTable, StorageUnavailable, UnsupportedFeature
from lakehouse_core.format.data_types import to_internal
from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.schema_change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from lakehouse_core.table.predicate import col
from lakehouse_core.tasks import small_buckets
from tests.damage import damaged, flipped, some_flips, survivors
from tests.oracle import merge as oracle
from tests.pairs import in_turn
from tests.tasks.loose_files import LooseFiles, append_table, key_table, rows

KINDS = ("+I", "-U", "+U", "-D")

RECORDS = st.lists(
    st.tuples(st.integers(0, 12), st.none() | st.integers(0, 3), st.sampled_from(KINDS)), min_size=0, max_size=25
)


@given(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from(["none", "ascending", "descending"]), st.booleans())
def test_reads_before_and_after_compaction_are_those_of_the_slow_twin(batches, order, compacts_between):
    options = {} if order == "none" else {"sequence__field": "ts", "sequence__field__sort_order": order}
    table = key_table({"k": "INT", "ts": "INT", "v": "STRING"}, **options)
    is_descending = order == "descending"
    versions: list[oracle.Version] = []
    arrivals = 0
    for number, batch in enumerate(batches):
        for key, ts, kind in batch:
            sequence = () if order == "none" else (ts,)
            versions.append(oracle.Version(key=(key,), sequence=sequence, number=arrivals, kind=kind, value=arrivals))
            arrivals += 1
        data = [
            {"k": version.key[0], "ts": ts, "v": str(version.value), "op": version.kind}
            for version, (_, ts, _) in zip(versions[len(versions) - len(batch) :], batch, strict=True)
        ]
        table.write(data, rowkind_column="op")
        if compacts_between and number == 1:
            table.compact()
            # The top level forgets deletes, so a row of an older sequence may come back after one.
            versions = oracle.deduplicate(versions, descending=is_descending, drop_delete=True)
    left = oracle.deduplicate(versions, descending=is_descending, drop_delete=True)
    expected = [(version.key[0], str(version.value)) for version in left]

    before = pairs(table)
    table.compact()

    assert before == expected
    assert pairs(table) == expected
    assert all(file.delete_row_count == 0 for file in table.all_files())


def pairs(table: LooseFiles) -> list[tuple[int, str]]:
    if not table.all_files():
        return []
    found = table.read(["k", "v"])
    return list(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def test_a_filter_on_a_value_sees_only_what_the_merge_left():
    table = key_table({"k": "INT", "v": "INT"})
    table.write(rows((1, 10), (2, 20), (3, 30)))
    table.write(rows((1, 99), (3, 31)))

    assert table.read(["k"], col("v") <= 30)["k"].to_pylist() == [2]


@pytest.mark.parametrize("key", [int, "{:04}".format], ids=["numbers", "text"])
def test_a_filter_on_the_key_leaves_out_row_groups_of_every_run(monkeypatch, key):
    monkeypatch.setattr("lakehouse_core.data_files.writer.ROW_GROUP_ROWS", 100)
    keys = [key(number) for number in range(1000)]
    table = key_table({"k": "INT" if key is int else "STRING", "v": "INT"})
    for run in range(3):
        table.write(pa.table({"k": keys, "v": [run] * 1000}))
    read_rows: list[int] = []
    merge = small_buckets.merge_apart
    monkeypatch.setattr(
        small_buckets,
        "merge_apart",
        lambda records, *others: (read_rows.append(records.row_count), merge(records, *others))[1],
    )

    found = table.read(["k", "v"], (col("k") >= keys[250]) & (col("k") < keys[260]) & (col("v") == 2))

    assert found["k"].to_pylist() == keys[250:260]
    assert sum(read_rows) == 300


def test_text_beyond_what_plain_offsets_address_comes_in_several_batches(monkeypatch):
    monkeypatch.setattr(parquet_reader, "_MOST_TEXT_BYTES", 1000)
    table = append_table({"k": "INT", "v": "STRING", "b": "BYTES"})
    written = pa.table(
        {"k": range(50), "v": ["x" * (n % 7 * 40) for n in range(50)], "b": [b"y" * n for n in range(50)]}
    )
    table.write(written)

    found = table.read()

    assert found.to_pydict() == written.to_pydict()
    assert (found.schema.field("v").type, found.schema.field("b").type) == (pa.string(), pa.binary())
    assert all(batch.nbytes <= 1000 for batch in found.to_batches())
    assert found["v"].num_chunks > 5


def test_columns_come_in_the_order_asked_for_and_none_gives_rows_without_columns():
    table = key_table({"k": "INT", "v": "STRING", "w": "DOUBLE"})
    table.write([{"k": 1, "v": "a", "w": 0.5}])
    table.write([{"k": 2, "v": "b", "w": 1.5}])

    assert table.read(["w", "k"]).to_pydict() == {"w": [0.5, 1.5], "k": [1, 2]}
    assert table.count() == 2


def test_rows_that_need_no_merge_are_read_as_stored_with_their_kinds():
    table = key_table({"k": "INT", "v": "STRING"})
    data = [{"k": i, "v": "x", "op": kind} for i, kind in enumerate(KINDS)]
    table.write(data, rowkind_column="op")

    stored = table.read(["k"], raw=True, with_row_kinds=True)
    merged = table.read(["k"], with_row_kinds=True)

    assert stored.to_pydict() == {"rowkind": list(KINDS), "k": [0, 1, 2, 3]}
    assert merged.to_pydict() == stored.to_pydict()
    # Some writers count no deletes in their entries, so the file itself is asked.
    assert table.read(["k"], raw=True)["k"].to_pylist() == [0, 2]


def test_append_rows_are_all_inserts():
    table = append_table()
    table.write(rows((1, "a")))

    assert table.read(["v"], with_row_kinds=True).to_pydict() == {"rowkind": ["+I"], "v": ["a"]}


def test_concurrent_writers_with_overlapping_numbers_are_told_apart_by_the_numbers_and_a_tie_by_the_kind():
    table = key_table({"k": "INT", "v": "STRING"})
    table.write(rows((1, "old"), (2, "old"), (3, "old")), restore=False)
    table.write(
        [
            {"k": 3, "v": "lower number loses", "op": "+I"},
            {"k": 2, "v": "tie: the delete comes first", "op": "-D"},
            {"k": 9, "v": "", "op": "+I"},
            {"k": 1, "v": "higher number wins", "op": "+I"},
        ],
        rowkind_column="op",
        restore=False,
    )

    assert table.read(["k", "v"]).to_pydict() == {"k": [1, 2, 3, 9], "v": ["higher number wins", "old", "old", ""]}


def test_files_of_older_schemas_are_read_by_field_id():
    table = key_table({"k": "INT", "a": "INT", "b": "STRING"})
    table.write([{"k": 1, "a": 10, "b": "x"}, {"k": 2, "a": 20, "b": "y"}])
    changes = [RenameColumn("a", "c"), UpdateColumnType("c", "BIGINT"), DropColumn("b"), AddColumn("b", "DOUBLE")]
    evolve(table, *changes)
    table.write([{"k": 2, "c": 2**40, "b": 0.5}])

    expected = {"k": [1, 2], "c": [10, 2**40], "b": [None, 0.5]}
    assert table.read(["k", "c", "b"]).to_pydict() == expected
    assert table.read(["k"], col("c") == 10)["k"].to_pylist() == [1]
    assert table.read(["k"], col("b").is_null())["k"].to_pylist() == [1]

    table.compact()

    assert table.read(["k", "c", "b"]).to_pydict() == expected
    assert {file.schema_id for file in table.all_files()} == {table.schema.id}


def evolve(table: LooseFiles, *changes: object) -> None:
    changed = apply_changes(table.schema, changes, has_snapshots=True, now_millis=1)
    table.schema = changed
    table.schemas[changed.id] = changed


@pytest.mark.parametrize("make", [key_table, append_table])
def test_every_type_survives_writing_reading_and_compacting(make):
    table = make({"k": "INT NOT NULL", **{f"c{i}": kind for i, kind in enumerate(EVERY_TYPE)}})
    written = {f"c{i}": values for i, values in enumerate(EVERY_TYPE.values())}
    data = [{"k": i, **{name: values[i % len(values)] for name, values in written.items()}} for i in range(4)]
    for start in (0, 2):
        table.write(data[start : start + 2])
    table.write([data[0]])
    expected = [data[0], data[1], data[2], data[3]] if make is key_table else [*data, data[0]]

    first = table.read()
    table.compact()

    assert from_arrow(first, table) == from_input(expected, table)
    assert table.read().equals(first)


EVERY_TYPE: dict[str, list[object]] = {
    "BOOLEAN": [True, None, False],
    "TINYINT": [-128, 127, None],
    "SMALLINT": [-(2**15), 2**15 - 1, None],
    "INT": [-(2**31), 2**31 - 1, None],
    "BIGINT": [-(2**63), 2**63 - 1, None],
    "FLOAT": [-1.5, None, float("inf")],
    "DOUBLE": [1e308, None, -0.0],
    "CHAR(3)": ["abc", "", None],
    "STRING": ["\0", "\U0001f600é" * 50, None],
    "BINARY(3)": [b"abc", b"\0\xff\0", None],
    "BYTES": [b"", b"\xff" * 300, None],
    "DATE": [-719162, 2932896, None],
    "TIME(3)": [0, 86_399_999, None],
    "TIMESTAMP(3)": [(-62_135_596_800_000, 0), (253_402_300_799_999, 0), None],
    "TIMESTAMP(6)": [(-62_135_596_800_000, 0), (253_402_300_799_999, 999_000), None],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [(-1, 1_000), (0, 0), None],
    "DECIMAL(9, 2)": ["-9999999.99", "0.01", None],
    "DECIMAL(18, 0)": ["-999999999999999999", "1", None],
    "DECIMAL(38, 10)": ["9999999999999999999999999999.0000000001", "-1", None],
    "ARRAY<INT>": [[1, None], [], None],
    "MAP<STRING, BIGINT>": [[("a", 1), ("b", None)], [], None],
    "MULTISET<STRING>": [[("a", 2)], [], None],
    "ROW<x INT, y ARRAY<STRING>>": [{"x": 1, "y": ["a", None]}, {"x": None, "y": None}, None],
}


def from_input(data: list[dict[str, object]], table: LooseFiles) -> list[tuple[object, ...]]:
    return [tuple(to_internal(row[field.name], field.type) for field in table.schema.fields) for row in data]


def from_arrow(found: pa.Table, table: LooseFiles) -> list[tuple[object, ...]]:
    columns = [[to_internal(value, field.type) for value in found[field.name]] for field in table.schema.fields]
    return list(zip(*columns, strict=True))


def test_nanoseconds_are_stored_as_java_reads_them():
    table = append_table({"a": "TIMESTAMP(9)", "b": "TIMESTAMP(7)"})

    table.write([{"a": (1_000, 1), "b": (-1, 999_900)}, {"a": None, "b": None}])

    (file,) = table.all_files()
    data = table.store.read(f"bucket-0/{file.file_name}")
    assert {c.physical_type for c in pq.ParquetFile(pa.BufferReader(data)).schema} == {"INT96"}
    assert from_arrow(table.read(), table) == [((1_000, 1), (-1, 999_900)), (None, None)]


@pytest.fixture(scope="module")
def sample() -> LooseFiles:
    table = key_table({"k": "INT", "v": "STRING", "x": "DOUBLE", "l": "ARRAY<INT>"})
    table.write([{"k": i, "v": f"v{i % 7}", "x": i / 3, "l": [i]} for i in range(300)])
    return table


@pytest.fixture
def flat_sample():
    """Without nested columns text takes another way."""
    table = key_table({"k": "INT", "v": "STRING", "b": "BYTES"})
    table.write([{"k": i, "v": f"v{i % 7}", "b": str(i * 7919).encode()} for i in range(300)])
    return table


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], r"it has \d+ bytes, its manifest entry says \d+"),
        (lambda data: data[: len(data) // 2], r"it has \d+ bytes"),
        (lambda data: b"", r"it has 0 bytes"),
        (lambda data: data[:-4] + b"PAR2", r"its footer"),
        (lambda data: bytes(len(data)), r"its footer"),
        (lambda data: data[:2500] + bytes([data[2500] ^ 1]) + data[2501:], r"rows from 0 cannot be decoded"),
        (lambda data: data[:-200] + bytes([data[-200] ^ 1]) + data[-199:], r"its footer does not fit its checksum"),
    ],
    ids=["cut by one", "cut in half", "empty", "wrong magic", "zeroes", "bit in a page", "bit in the footer"],
)
def test_a_damaged_file_is_corrupt_by_name_and_place(sample, damage, message):
    table = sample.spoiled(damage(sample.only_file()), is_known=False)

    with pytest.raises(CorruptTable, match=rf"^bucket-0/data-.*\.parquet: {message}"):
        table.read()


@pytest.mark.parametrize("kind", in_turn(2, ["sample", "flat_sample"]))
def test_no_flipped_bit_of_a_data_file_changes_an_answer(request, kind):
    sample = request.getfixturevalue(kind)
    data = sample.only_file()
    flips = some_flips(data, seed=7, count=1500)
    flips += [(position, position % 8) for position in range(len(data) - 1200, len(data))]

    assert survivors(lambda copy: sample.spoiled(copy).read(), flipped(data, flips), sample.read()) == []


def test_other_damage_is_corrupt_or_harmless_too(sample):
    data = sample.only_file()

    assert survivors(lambda copy: sample.spoiled(copy).read(), damaged(data, seed=3, count=300), sample.read()) == []


def test_a_file_with_another_number_of_rows_than_its_entry_says_is_corrupt(sample):
    table = sample.spoiled(sample.only_file())
    ((place, (file,)),) = table.files.items()
    table.files = {place: [replace(file, row_count=299)]}

    with pytest.raises(CorruptTable, match="its footer counts 300 rows, its manifest entry 299"):
        table.read()


def test_a_missing_file_is_corruption_and_a_foreign_one_not_supported(sample):
    table = LooseFiles(sample.schema)
    ((place, (file,)),) = sample.files.items()
    table._folders[place] = "bucket-0"

    table.files = {place: [file]}
    with pytest.raises(CorruptTable, match="it is missing, but a snapshot names it"):
        table.read()
    table.files = {place: [replace(file, file_name="data-1-0.csv")]}
    with pytest.raises(UnsupportedFeature, match=r"data-1-0\.csv: expected one of the formats parquet, orc, avro"):
        table.read()
    table.files = {place: [replace(file, external_path="s3://elsewhere/x.parquet")]}
    with pytest.raises(UnsupportedFeature, match="is outside the table"):
        table.read()
    table.files = {place: [replace(file, schema_id=4)]}
    with pytest.raises(CorruptTable, match="written with schema 4, which is missing"):
        table.read()


def test_files_without_key_columns_without_checksum_and_with_nulls_for_kinds_of_others_read_the_same(sample):
    """What another engine may have written: no `_KEY_` columns, no page checksums, large strings, other order."""
    original = pq.read_table(pa.BufferReader(sample.only_file()))
    columns = ["x", "l", "v", "k", "_VALUE_KIND", "_SEQUENCE_NUMBER"]
    foreign = original.select(columns).replace_schema_metadata(None)
    foreign = foreign.set_column(2, "v", foreign["v"].cast(pa.large_string()))
    sink = pa.BufferOutputStream()
    pq.write_table(foreign, sink, compression="snappy", row_group_size=77, version="1.0")

    assert sample.spoiled(sink.getvalue().to_pybytes()).read().equals(sample.read())


def test_a_disk_that_fails_while_reading_is_no_corruption(sample, monkeypatch):
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *a, **n: iter_failing())

    with pytest.raises(StorageUnavailable, match="rows from 0 could not be read"):
        sample.read()


def iter_failing():
    raise OSError(5, "Input/output error")
    yield
