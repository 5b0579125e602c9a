"""What a write task makes of rows: sorted, deduplicated files of each bucket, numbered and described."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.data_files import writer as data_file_writer
from lakehouse_core.errors import InvalidRequest, StorageUnavailable
from lakehouse_core.format.binary_row import deserialize_row, serialize_row
from lakehouse_core.format.bucket_hash import bucket_of
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore
from lakehouse_core.table.data_file import EMPTY_ROW, FileSource
from lakehouse_core.table.file_columns import ROW_KINDS
from lakehouse_core.table.stats import decode_stats
from lakehouse_core.tasks.runtime import local_runtime
from lakehouse_core.tasks.write import arrow_input, key_writer
from lakehouse_core.tasks.write.input import input_batches
from lakehouse_core.tasks.write.task import WriteTask, write_batches
from tests.tasks.loose_files import LooseFiles, append_table, key_table, rows

BIGINT, STRING = parse_type("BIGINT NOT NULL"), parse_type("STRING")


def physical(table: LooseFiles, file_name: str) -> pa.Table:
    key = next(info.key for info in table.store.list("") if info.key.endswith(file_name))
    return pq.read_table(pa.BufferReader(table.store.read(key)))


def test_a_flush_is_sorted_by_key_and_keeps_the_newest_row_of_each():
    table = key_table()

    (message,) = table.write(rows((3, "a"), (1, "b"), (3, "c"), (2, "d"), (1, "e")))

    (file,) = message.new_files
    assert physical(table, file.file_name).to_pydict() == {
        "_KEY_k": [1, 2, 3],
        "_SEQUENCE_NUMBER": [4, 3, 2],
        "_VALUE_KIND": [0, 0, 0],
        "k": [1, 2, 3],
        "v": ["e", "d", "c"],
    }


def test_the_entry_says_what_the_file_holds():
    table = key_table()

    (message,) = table.write([{"k": 7, "v": "x", "op": "+I"}, {"k": 5, "v": None, "op": "-D"}], rowkind_column="op")

    (file,) = message.new_files
    assert (message.partition, message.bucket, message.total_buckets) == (EMPTY_ROW, 0, 1)
    assert deserialize_row(file.min_key, [BIGINT]) == (5,)
    assert deserialize_row(file.max_key, [BIGINT]) == (7,)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 1)
    assert (file.row_count, file.delete_row_count, file.level, file.schema_id) == (2, 1, 0, 0)
    assert file.file_source is FileSource.APPEND
    assert file.creation_time_millis == table.clock.local_now_millis()
    assert file.file_size == len(table.store.read(f"bucket-0/{file.file_name}"))
    assert decode_stats(file.key_stats, [BIGINT]) == ((5,), (7,), (0,))
    assert file.value_stats_cols is None
    assert decode_stats(file.value_stats, [BIGINT, STRING]) == ((5, "x"), (7, "x"), (0, 1))


def test_files_carry_field_ids_and_the_special_ones_of_system_columns():
    table = key_table({"v": "STRING", "k": "BIGINT", "l": "ARRAY<INT>"})

    (message,) = table.write([{"k": 1, "v": "a", "l": [1]}])

    data = table.store.read(f"bucket-0/{message.new_files[0].file_name}")
    footer = pq.ParquetFile(pa.BufferReader(data))
    ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in footer.schema_arrow}
    assert ids == {
        "_KEY_k": 1073741824,
        "_SEQUENCE_NUMBER": 2147483646,
        "_VALUE_KIND": 2147483645,
        "v": 0,
        "k": 1,
        "l": 2,
    }
    nullable = {field.name for field in footer.schema_arrow if field.nullable}
    assert nullable == {"v", "l"}
    element = footer.schema_arrow.field("l").type.value_field
    assert int(element.metadata[b"PARQUET:field_id"]) == 536870911 + 1024 * 2 + 1


def test_thin_files_leave_out_the_key_columns():
    table = key_table(data_file__thin_mode="true")

    (message,) = table.write(rows((1, "a")))

    assert physical(table, message.new_files[0].file_name).column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]


def test_sequence_numbers_go_on_from_what_the_bucket_holds_and_count_every_row_that_arrived():
    table = key_table()
    table.write(rows((1, "a"), (1, "b"), (2, "c")))

    (message,) = table.write(rows((9, "d"), (8, "e")))

    assert [(f.min_sequence_number, f.max_sequence_number) for f in table.all_files()] == [(1, 2), (3, 4)]
    assert physical(table, message.new_files[0].file_name)["_SEQUENCE_NUMBER"].to_pylist() == [4, 3]


def test_each_bucket_numbers_its_own_rows_and_gets_its_own_files():
    table = key_table(bucket="3")
    keys = list(range(50))

    messages = table.write(rows(*((key, str(key)) for key in keys)))

    assert sum(file.row_count for message in messages for file in message.new_files) == 50
    for message in messages:
        expected = [key for key in keys if bucket_of((key,), [BIGINT], 3, "default") == message.bucket]
        found = physical(table, message.new_files[0].file_name)
        assert found["k"].to_pylist() == expected
        assert found["_SEQUENCE_NUMBER"].to_pylist() == list(range(len(expected)))
        assert message.total_buckets == 3
    assert table.folder((EMPTY_ROW, messages[0].bucket)) == f"bucket-{messages[0].bucket}"


def test_partitions_get_folders_of_their_own_and_null_the_default_one():
    table = key_table(
        {"k": "BIGINT", "dt": "DATE", "h": "STRING"}, primary_keys=["k", "dt", "h"], partition_keys=["dt", "h"]
    )
    data = [
        {"k": 1, "dt": "2013-01-01", "h": "a b"},
        {"k": 2, "dt": "2013-01-02", "h": "a b"},
        {"k": 3, "dt": "2013-01-01", "h": "a b"},
        {"k": 4, "dt": "2013-01-01", "h": " "},
    ]

    messages = table.write(data)

    types = [parse_type("DATE"), parse_type("STRING")]
    found = {deserialize_row(m.partition, types): table.folder((m.partition, m.bucket)) for m in messages}
    assert found == {
        (15706, "a b"): "dt=15706/h=a b/bucket-0",
        (15707, "a b"): "dt=15707/h=a b/bucket-0",
        (15706, " "): "dt=15706/h=__DEFAULT_PARTITION__/bucket-0",
    }
    assert sorted(m.new_files[0].row_count for m in messages) == [1, 1, 2]


def test_null_and_blank_partitions_share_a_folder_and_are_two_partitions():
    table = append_table({"v": "INT", "p": "STRING"}, partition_keys=["p"])

    messages = table.write([{"v": 1, "p": None}, {"v": 2, "p": ""}, {"v": 3, "p": None}])

    assert [(m.partition, m.new_files[0].row_count) for m in messages] == [
        (serialize_row((None,), [STRING]), 2),
        (serialize_row(("",), [STRING]), 1),
    ]
    assert {info.key.rpartition("/")[0] for info in table.store.list("")} == {"p=__DEFAULT_PARTITION__/bucket-0"}


@pytest.mark.parametrize(
    ("descending", "winner"), [("ascending", "c"), ("descending", "b")], ids=["ascending", "descending"]
)
def test_the_sequence_field_decides_and_null_is_the_oldest(descending, winner):
    table = key_table(
        {"k": "BIGINT", "ts": "INT", "v": "STRING"},
        sequence__field="ts",
        sequence__field__sort_order=descending,
    )

    table.write(rows((1, 5, "a"), (1, 3, "b"), (1, 5, "c"), (1, None, "d"), names=("k", "ts", "v")))

    assert table.read(["v"]).to_pydict() == {"v": [winner]}


def test_an_input_changelog_holds_every_row_sorted_and_shares_the_counter_of_names():
    table = key_table(changelog_producer="input")
    data = [
        {"k": 2, "v": "a", "op": "+I"},
        {"k": 1, "v": "b", "op": "+I"},
        {"k": 2, "v": "a", "op": "-U"},
        {"k": 2, "v": "c", "op": "+U"},
    ]

    (message,) = table.write(data, rowkind_column="op")

    (changelog,), (file,) = message.changelog_files, message.new_files
    assert physical(table, changelog.file_name).select(["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]).to_pydict() == {
        "_SEQUENCE_NUMBER": [1, 0, 2, 3],
        "_VALUE_KIND": [0, 0, 1, 2],
        "k": [1, 2, 2, 2],
        "v": ["b", "a", "a", "c"],
    }
    assert physical(table, file.file_name)["v"].to_pylist() == ["b", "c"]
    assert changelog.file_name.startswith("changelog-")
    assert changelog.file_name.endswith("-0.parquet")
    assert file.file_name == changelog.file_name.replace("changelog-", "data-").replace("-0.parquet", "-1.parquet")


def test_the_row_kind_column_of_the_table_is_stored_like_any_other():
    table = key_table({"k": "BIGINT", "op": "STRING"}, rowkind__field="op")

    (message,) = table.write(rows((1, "+I"), (2, "-D"), names=("k", "op")))

    found = physical(table, message.new_files[0].file_name)
    assert found["op"].to_pylist() == ["+I", "-D"]
    assert found["_VALUE_KIND"].to_pylist() == [0, 3]
    assert table.read(["k"])["k"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, ["+I", "-U", "+U", "-D"]),
        ({"ignore_delete": "true"}, ["+I", "+U"]),
        ({"ignore_update_before": "true"}, ["+I", "+U", "-D"]),
    ],
)
def test_ignored_kinds_take_no_sequence_number(options, kept):
    table = key_table(**options)
    data = [{"k": i, "v": "", "op": op} for i, op in enumerate(["+I", "-U", "+U", "-D"])]

    (message,) = table.write(data, rowkind_column="op")

    found = physical(table, message.new_files[0].file_name)
    assert [ROW_KINDS[kind] for kind in found["_VALUE_KIND"].to_pylist()] == kept
    assert message.new_files[0].max_sequence_number == len(kept) - 1


def test_a_write_whose_rows_are_all_ignored_makes_nothing():
    table = key_table(ignore_delete="true")

    assert table.write([{"k": 1, "v": "a", "op": "-D"}], rowkind_column="op") == []
    assert table.names_on_disk() == set()


def test_a_full_buffer_that_may_not_be_spilled_is_flushed_and_the_flushes_follow_each_other():
    table = key_table(write_buffer_size="64 kb", write_buffer_spillable="false")
    data = pa.table({"k": list(range(1000)) * 20, "v": [f"{i:020}" for i in range(20_000)]})

    (message,) = table.write(pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=1000)))

    assert len(message.new_files) > 3
    ranges = [(file.min_sequence_number, file.max_sequence_number) for file in message.new_files]
    assert all(earlier[1] < later[0] for earlier, later in pairwise(ranges))
    assert table.read().num_rows == 1000
    assert table.read()["v"].to_pylist() == [f"{i:020}" for i in range(19_000, 20_000)]


def test_batches_are_not_joined_beyond_what_arrow_can_address(monkeypatch):
    table = key_table(write_buffer_spillable="false")
    batches = pa.table({"k": range(40), "v": ["x" * 100] * 40}).to_batches(max_chunksize=10)
    monkeypatch.setattr(key_writer, "_MOST_BUFFER_BYTES", batches[0].nbytes * 5 // 2)

    table.write(pa.Table.from_batches(batches))

    assert [file.row_count for file in table.all_files()] == [20, 20]


def test_a_batch_too_large_for_plain_text_is_cut_and_its_rows_are_counted_on(monkeypatch):
    table = key_table()
    monkeypatch.setattr(arrow_input, "_PIECE_BYTES", 300)
    values = pa.array([f"{number:0100}" for number in range(20)], pa.large_string())
    keys = pa.array([*range(19), 2**63], pa.uint64())

    pieces = list(input_batches(pa.table({"k": range(20), "v": values}), table.schema.fields))

    assert max(piece.num_rows for piece in pieces) <= 3
    assert pa.Table.from_batches(pieces)["v"].to_pylist() == values.to_pylist()
    with pytest.raises(InvalidRequest, match="Row 19, column 'k'"):
        list(input_batches(pa.table({"k": keys, "v": values}), table.schema.fields))


@pytest.mark.parametrize("nested", [False, True])
def test_a_slice_behind_more_text_than_arrow_can_address_is_written(nested):
    behind = 1 << 31
    # Nobody touches the bytes before the slice, so they take no memory.
    data = np.zeros(behind + 3, np.uint8)
    data[behind:] = np.frombuffer(b"abc", np.uint8)
    offsets = np.array([0, behind, behind + 1, behind + 3])
    text = pa.LargeStringArray.from_buffers(3, pa.py_buffer(offsets), pa.py_buffer(data))
    column = pa.LargeListArray.from_arrays([0, 1, 2, 3], text) if nested else text
    table = append_table({"v": "ARRAY<STRING>" if nested else "STRING"})

    table.write(pa.record_batch({"v": column}).slice(1))

    assert table.read()["v"].to_pylist() == ([["a"], ["bc"]] if nested else ["a", "bc"])


def test_files_roll_at_their_target_size_and_a_key_never_spans_two():
    table = key_table(target_file_size="64 kb")

    (message,) = table.write(
        pa.table({"k": range(30_000), "v": [f"{i * 2654435761 % 2**32:x}" for i in range(30_000)]})
    )

    sizes = [file.file_size for file in message.new_files]
    assert len(sizes) > 2
    assert all(65_536 <= size < 200_000 for size in sizes[:-1])
    keys = [deserialize_row(key, [BIGINT])[0] for f in message.new_files for key in (f.min_key, f.max_key)]
    assert keys == sorted(set(keys))
    assert sum(file.row_count for file in message.new_files) == 30_000


def test_files_roll_at_their_target_number_of_rows():
    table = append_table(target_file_row_num="300")

    (message,) = table.write(pa.table({"k": range(1000), "v": ["x"] * 1000}))

    assert [file.row_count for file in message.new_files] == [300, 300, 300, 100]
    assert [file.min_sequence_number for file in message.new_files] == [0, 300, 600, 900]
    assert table.read()["k"].to_pylist() == list(range(1000))


def test_an_append_table_without_buckets_counts_from_zero_in_bucket_0_and_says_minus_one():
    table = append_table()
    table.write(rows((1, "a"), (2, "b")))

    (message,) = table.write(rows((3, "c")), restore=False)

    (file,) = message.new_files
    assert (message.bucket, message.total_buckets) == (0, -1)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 0)
    assert (file.min_key, file.max_key, file.delete_row_count) == (EMPTY_ROW, EMPTY_ROW, 0)
    assert physical(table, file.file_name).column_names == ["k", "v"]


def test_a_bucketed_append_table_keeps_the_order_of_arrival_and_goes_on_counting():
    table = append_table(bucket="2", bucket_key="k")
    keys = [5, 1, 4, 1, 3, 2, 9, 8]
    table.write(rows(*((key, "") for key in keys)))

    table.write(rows(*((key, "") for key in keys)))

    for (_, bucket), files in table.files.items():
        expected = [key for key in keys if bucket_of((key,), [BIGINT], 2, "default") == bucket]
        assert [physical(table, f.file_name)["k"].to_pylist() for f in files] == [expected, expected]
        count = len(expected)
        assert [(f.min_sequence_number, f.max_sequence_number) for f in files] == [
            (0, count - 1),
            (count, 2 * count - 1),
        ]


@pytest.mark.parametrize(
    ("stats", "names", "minima"),
    [
        ({"metadata__stats_mode": "none"}, (), ()),
        ({"metadata__stats_mode": "none", "fields__v__stats_mode": "full"}, ("v",), ("aaaaaaaaaaaaaaaaaaaaaa",)),
        ({"metadata__stats_keep_first_n_columns": "1"}, ("k",), (1,)),
        ({"metadata__stats_mode": "counts"}, None, (None, None)),
        ({}, None, (1, "aaaaaaaaaaaaaaaa")),
        ({"metadata__stats_dense_store": "false", "metadata__stats_mode": "none"}, None, (None, None)),
    ],
)
def test_value_statistics_are_those_that_the_options_ask_for(stats, names, minima):
    table = key_table(**stats)

    (message,) = table.write(rows((1, "a" * 22)))

    (file,) = message.new_files
    kinds = {"k": BIGINT, "v": STRING}
    assert file.value_stats_cols == names
    assert decode_stats(file.value_stats, [kinds[n] for n in (("k", "v") if names is None else names)])[0] == minima
    assert decode_stats(file.key_stats, [BIGINT])[0] == (1,)


def test_values_are_packed_into_parquet_pages_as_the_options_say():
    def written(**options):
        table = key_table(**options)
        (message,) = table.write(rows(*((k, "ab"[k % 2] * 9) for k in range(1000))))
        data = table.store.read(f"bucket-0/{message.new_files[0].file_name}")
        values = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(4)
        return "RLE_DICTIONARY" in values.encodings, len(data)

    usual, plain = written(), written(parquet__enable__dictionary="false")
    short_pages = written(parquet__page__row__count__limit="9")

    assert (usual[0], plain[0]) == (True, False)
    assert short_pages[1] > 2 * usual[1]


def test_values_that_a_parquet_footer_leaves_out_are_in_the_statistics_all_the_same():
    table = append_table({"long": "STRING", "nan": "DOUBLE", "zero": "FLOAT"}, metadata__stats_mode="full")

    table.write(
        [
            {"long": "b" * 5000, "nan": float("nan"), "zero": -0.0},
            {"long": "a" * 5000, "nan": 1.0, "zero": 0.0},
            {"long": None, "nan": None, "zero": None},
        ]
    )

    (file,) = table.all_files()
    types = [STRING, parse_type("DOUBLE"), parse_type("FLOAT")]
    minima, maxima, nulls = decode_stats(file.value_stats, types)
    assert (minima[0], maxima[0]) == ("a" * 5000, "b" * 5000)
    assert (minima[1], maxima[1]) == (None, None)  # Nobody shall skip a file for what lies beyond its NaN.
    assert (minima[2], maxima[2]) == (0.0, 0.0)
    assert nulls == (1, 1, 1)


REFUSED = {
    "null in a key": (
        key_table,
        {},
        [{"k": 1, "v": "a"}, {"k": None, "v": "b"}],
        r"Column 'k' is the primary key and row 1 holds null",
    ),
    "null in a NOT NULL column": (
        key_table,
        {"fields": {"k": "BIGINT", "v": "STRING NOT NULL"}},
        [{"k": 1, "v": None}],
        r"Column 'v' is STRING NOT NULL and row 0 holds null",
    ),
    "null row kind": (
        key_table,
        {},
        [{"k": 1, "v": "a", "op": "+I"}, {"k": 1, "v": "a", "op": None}],
        r"Row 1, column 'op': null is not a row kind",
    ),
    "unknown row kind": (
        key_table,
        {},
        [{"k": 1, "v": "a", "op": "delete"}],
        r"Row 0, column 'op': 'delete' is not a row kind: use \+I, -U, \+U or -D",
    ),
    "retract on an append table": (
        append_table,
        {},
        [{"k": 1, "v": "a", "op": "+U"}, {"k": 1, "v": "a", "op": "-D"}],
        r"Row 1 has the row kind -D, and the table has no primary key",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_cannot_be_stored_are_refused_by_row_and_column_and_leave_no_file(case):
    make, arguments, data, message = REFUSED[case]
    table = make(**arguments)

    with pytest.raises(InvalidRequest, match=message):
        table.write(data, rowkind_column="op" if "op" in data[0] else None)

    assert table.names_on_disk() == set()


# Each value is the second row, behind one that is null as a whole, which is always allowed.
INNER_NULLS = {
    "element": ("ARRAY<INT NOT NULL>", [1, None], "v.element is INT NOT NULL"),
    "map value": ("MAP<STRING, INT NOT NULL>", {"a": None}, "v.value is INT NOT NULL"),
    "count": ("MULTISET<STRING>", {"a": None}, "v.count is INT NOT NULL"),
    "field": ("ROW<a INT NOT NULL, b INT>", {"b": 1}, "v.a is INT NOT NULL"),
    "row": ("ARRAY<ROW<a INT NOT NULL> NOT NULL>", [{"a": 1}, None], "v.element is ROW<.*> NOT NULL"),
    "deep": ("ROW<m MAP<INT, ARRAY<INT NOT NULL>>>", {"m": {1: [None]}}, "v.m.value.element is INT NOT NULL"),
}


@pytest.mark.parametrize("case", INNER_NULLS)
def test_a_null_inside_a_value_that_may_not_hold_one_is_refused(case):
    kind, value, message = INNER_NULLS[case]
    table = append_table({"v": kind})

    with pytest.raises(InvalidRequest, match=f"Column 'v': {message} and row 1 holds null there: give it a value"):
        table.write([{"v": None}, {"v": value}])

    assert table.names_on_disk() == set()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("ARRAY<ROW<a INT NOT NULL>>", [[{"a": 1}, None], None, []]),
        ("ROW<r ROW<a INT NOT NULL>>", [{"r": None}, None, {"r": {"a": 1}}]),
        ("MAP<STRING, ARRAY<INT NOT NULL>>", [[("a", [1]), ("b", None)], None, []]),
    ],
)
def test_a_value_that_is_null_as_a_whole_holds_no_null_inside(kind, values):
    table = append_table({"v": kind})

    table.write([{"v": value} for value in [None, *values]])

    assert table.read()["v"].to_pylist() == [None, *values]


def test_integers_are_decimals_where_they_fit():
    table = append_table({"d": "DECIMAL(5, 2)"})

    table.write(pa.table({"d": [1, None, -999]}))

    assert table.read()["d"].to_pylist() == [Decimal("1.00"), None, Decimal("-999.00")]
    with pytest.raises(InvalidRequest, match=r"Row 1, column 'd': 1000 does not fit DECIMAL\(5, 2\)"):
        table.write(pa.table({"d": [1, 1000]}))


def test_rows_are_counted_over_all_batches_of_the_input():
    table = key_table()
    batches = [pa.record_batch({"k": [1, 2], "v": ["a", "b"]}), pa.record_batch({"k": [3, None], "v": ["a", "b"]})]

    with pytest.raises(InvalidRequest, match="row 3 holds null"):
        table.write(pa.Table.from_batches(batches))


def test_defaults_stand_in_for_null_and_for_columns_left_out():
    plain = key_table().schema
    key, value = plain.fields
    table = LooseFiles(replace(plain, fields=(key, replace(value, default_value="n/a"))))

    table.write([{"k": 1}, {"k": 2, "v": None}, {"k": 3, "v": "x"}])

    assert table.read(["v"])["v"].to_pylist() == ["n/a", "n/a", "x"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [FaultKind.ENOSPC, FaultKind.FAIL_AFTER], ids=["disk full", "answer lost"])
@pytest.mark.parametrize(
    "make",
    [
        partial(key_table, changelog_producer="input", write_buffer_size="64 kb", write_buffer_spillable="false"),
        partial(key_table, changelog_producer="input", write_buffer_size="64 kb", target_file_size="64 kb"),
        partial(append_table, target_file_size="64 kb"),
        partial(append_table, target_file_size="64 kb", file_index__bitmap__columns="k"),
    ],
    ids=["key table", "spilling key table", "append table", "with indexes"],
)
def test_a_task_that_fails_at_any_file_takes_all_its_files_along(make, kind):
    data = pa.table({"k": range(40_000), "v": [f"{i * 2654435761 % 2**32:x}" for i in range(40_000)]})
    batches = data.to_batches(max_chunksize=2000)

    def attempt(store: FaultyStore) -> list[str]:
        task = WriteTask(store=store.spec, schema=make().schema)
        write_batches(task, batches, local_runtime(store, VirtualClock()))
        return [call.number for call in store.calls if call.method in ("close", "write")]

    closes = attempt(FaultyStore(MemoryStore()))
    assert len(closes) > 2
    for number in closes:
        inner = MemoryStore()

        with pytest.raises(StorageUnavailable):
            attempt(FaultyStore(inner, [Fault(at=number, kind=kind)]))

        assert list(inner.list("")) == []


def test_rows_that_come_a_few_at_a_time_wait_as_few_batches(monkeypatch):
    table = append_table(bucket="8", bucket_key="k")
    data = pa.table({"k": range(40_000), "v": ["x"] * 40_000})
    waiting = []
    write = data_file_writer.DataFileWriter.write

    def counted(self: Any, records: pa.RecordBatch) -> None:
        write(self, records)
        waiting.append(len(self._pending))

    monkeypatch.setattr(data_file_writer.DataFileWriter, "write", counted)
    table.write(pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=40)))

    assert len(waiting) > 5_000
    assert max(waiting) < 64
    assert sorted(table.read(["k"])["k"].to_pylist()) == list(range(40_000))
