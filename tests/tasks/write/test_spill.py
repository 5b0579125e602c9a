"""A write buffer that is full goes to local disk; in the end come the files that a large buffer would have given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import InvalidRequest, StorageFull, StorageUnavailable
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.tasks.runtime import local_runtime
from lakehouse_core.tasks.write import key_writer, scratch
from lakehouse_core.tasks.write import spill as spill_module
from lakehouse_core.tasks.write.input import input_batches
from lakehouse_core.tasks.write.task import WriteTask, write_batches
from tests.data_files.full_disk import files_end_at
from tests.tasks.loose_files import LooseFiles, key_table

TINY = {"write_buffer_size": "1 b"}
FIELDS = {"k": "INT", "s": "STRING", "g": "INT", "a": "INT", "b": "STRING", "c": "INT"}
FUNCTIONS = {"fields__a__aggregate_function": "sum", "fields__b__aggregate_function": "listagg"}
AGGREGATION = {
    "merge_engine": "aggregation",
    "fields__g__aggregate_function": "max",
    **FUNCTIONS,
}
ENGINES = {
    "deduplicate": {},
    "first-row": {"merge_engine": "first-row"},
    "partial-update": {
        "merge_engine": "partial-update",
        "partial_update__remove_record_on_delete": "true",
    },
    "groups": {"merge_engine": "partial-update", "fields__g__sequence_group": "a,b", **FUNCTIONS},
    "aggregation": AGGREGATION,
    "removing aggregation": {**AGGREGATION, "aggregation__remove_record_on_delete": "true"},
}
RETRACTING = ("deduplicate", "partial-update", "groups", "removing aggregation")


@contextmanager
def spilling_to(folder: Any) -> Iterator[list[int]]:
    """Let the task of `LooseFiles.write` spill to `folder`; the list gets the batches of each run as it is written."""
    runs: list[int] = []
    written = spill_module.Spills._written

    def counted(self: Any, parts: Any, *, generation: int) -> Any:
        run = written(self, parts, generation=generation)
        runs.append(generation)
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill_module.Spills, "_written", counted)
        patch.setattr(scratch.tempfile, "tempdir", None if folder is None else str(folder))
        yield runs


def contents(table: LooseFiles, files: list[DataFile]) -> list[list[dict[str, Any]]]:
    """The rows of each file, by what is in it: names are chance."""
    keys = {info.key.rpartition("/")[2]: info.key for info in table.store.list("")}
    return [pq.read_table(pa.BufferReader(table.store.read(keys[file.file_name]))).to_pylist() for file in files]


def made(table: LooseFiles) -> dict[Any, Any]:
    """All that the table's files hold, by bucket."""
    return {
        place: (contents(table, files), contents(table, table.changelog[place])) for place, files in table.files.items()
    }


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, str], list[list[dict[str, Any]]]]:
    engine = draw(st.sampled_from(sorted(ENGINES)))
    options = {
        **ENGINES[engine],
        "bucket": draw(st.sampled_from(["1", "3"])),
        "local_sort__max_num_file_handles": draw(st.sampled_from(["3", "4", "128"])),
        "spill_compression": draw(st.sampled_from(["zstd", "lz4", "none"])),
        "target_file_row_num": draw(st.sampled_from(["3", "1000"])),
        "changelog_producer": draw(st.sampled_from(["none", "input"])) if engine != "first-row" else "none",
    }
    if engine != "first-row" and draw(st.booleans()):
        options["sequence__field"] = draw(st.sampled_from(["c", "c,s"]))
        options["sequence__field__sort_order"] = draw(st.sampled_from(["ascending", "descending"]))
    if engine == "deduplicate" and draw(st.booleans()):
        options["ignore_delete"] = "true"
    small = st.none() | st.integers(0, 3)
    kinds = ["+I", "-U", "+U", "-D"] if engine in RETRACTING else ["+I", "+U"]
    row = st.fixed_dictionaries(
        {
            "k": st.integers(0, 5),
            "s": st.sampled_from(["", "x", "y\0", "zz"]),
            "g": small,
            "a": small,
            "b": st.none() | st.sampled_from("pqr"),
            "c": small,
            "op": st.sampled_from(kinds),
        }
    )
    return options, draw(st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=9))


def attempt(batches: list[list[dict[str, Any]]], options: dict[str, str]) -> dict[Any, Any] | str:
    """What is written, or why not."""
    table = key_table(FIELDS, primary_keys=["k", "s"], **options)
    arrow = [b for rows in batches for b in input_batches(rows, table.schema.fields, rowkind_column="op")]
    try:
        table.write(pa.RecordBatchReader.from_batches(arrow[0].schema, arrow), rowkind_column="op")
    except InvalidRequest as error:
        assert table.names_on_disk() == set()
        return str(error)
    return made(table)


@given(histories())
def test_a_tiny_buffer_makes_the_files_of_a_large_one(drawn):
    options, batches = drawn

    with spilling_to(None) as runs:
        found = attempt(batches, {**options, **TINY})

    assert found == attempt(batches, options)
    # Only rows that are all ignored, or refused as they come, go nowhere.
    assert runs or found == {} or isinstance(found, str)


def test_values_of_every_type_come_back_from_the_disk_as_they_went():
    fields = {
        "k": "DECIMAL(20, 2)",
        "b": "BYTES",
        "d": "DATE",
        "l": "ARRAY<STRING NOT NULL>",
        "m": "MAP<STRING, ARRAY<DOUBLE>>",
        "n": "MULTISET<STRING>",
        "r": "ROW<x INT NOT NULL, y ROW<z BOOLEAN>>",
        "t": "TIMESTAMP(6)",
        "z": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    }
    full = {
        "b": b"\0\xff",
        "d": "2013-01-01",
        "l": ["", "é"],
        "m": {"a": [1.5, None], "b": None},
        "n": {"x": 2},
        "r": {"x": 1, "y": {"z": True}},
        "t": "2013-01-01 10:00:00.123456",
        "z": "2013-01-01 10:00:00.123",
    }
    data = [{"k": "1.50", **full}, {"k": "-3.25"}, {"k": "0.00", **full}, {"k": "1.50"}]
    found = []
    for options in ({}, TINY):
        table = key_table(fields, changelog_producer="input", **options)
        batches = [b for row in data for b in input_batches([row], table.schema.fields)]
        table.write(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
        found.append(made(table))

    assert found[0] == found[1]
    assert [len(files) for each in found for files in each.values()] == [2, 2]


def input_of(rows: int, *, keys: int, step: int) -> pa.RecordBatchReader:
    values = range(rows)
    table = pa.table({"k": [i * 7919 % keys for i in values], "v": [f"{i * 2654435761 % 2**32:x}" for i in values]})
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=step))


@pytest.mark.parametrize("options", [{}, {"changelog_producer": "input"}], ids=["one version", "all versions"])
def test_files_roll_as_with_a_large_buffer_and_the_chunks_of_the_merge_are_bounded(options, monkeypatch):
    monkeypatch.setattr(spill_module, "CHUNK_ROWS", 1000)
    monkeypatch.setattr(spill_module, "_LEAST_BATCH_BYTES", 1000)
    monkeypatch.setattr(spill_module, "_LEAST_COLUMN_BYTES", 1)
    options = {**options, "target_file_size": "64 kb"}
    large, small = key_table(**options), key_table(**options, write_buffer_size="64 kb")

    large.write(input_of(40_000, keys=30_000, step=1000))
    with spilling_to(None) as runs:
        small.write(input_of(40_000, keys=30_000, step=1000))

    assert len(runs) > 5
    assert len(small.all_files()) == len(large.all_files()) > 2
    assert small.read() == large.read()
    for place, files in large.changelog.items():
        assert list(chain(*contents(small, small.changelog[place]))) == list(chain(*contents(large, files)))
        assert len(small.changelog[place]) == len(files)


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_runs_that_hardly_overlap_are_merged_where_they_do_and_passed_on_where_not(engine, monkeypatch):
    monkeypatch.setattr(spill_module, "CHUNK_ROWS", 100)
    monkeypatch.setattr(spill_module, "_LEAST_BATCH_BYTES", 1000)
    monkeypatch.setattr(spill_module, "_LEAST_COLUMN_BYTES", 1)
    keys = [*range(2000), *range(1990, 4000), *range(3990, 6000)]
    data = pa.table({"k": keys, "v": [str(number) for number in range(len(keys))]})
    batches = data.to_batches(max_chunksize=1000)
    tables = [key_table(merge_engine=engine, **buffer) for buffer in ({}, {"write_buffer_size": "16 kb"})]
    for table in tables:
        table.write(pa.RecordBatchReader.from_batches(data.schema, batches))

    assert made(tables[1]) == made(tables[0])


# Of a tiny buffer sixteen files, for their batches together would take more memory than it has.
@pytest.mark.parametrize(("handles", "most"), [("4", 3), ("128", 15)])
def test_never_more_files_are_open_than_allowed_and_rows_are_merged_a_few_times_only(handles, most, tmp_path):
    table = key_table(**TINY, local_sort__max_num_file_handles=handles, changelog_producer="input")
    most_open = 0
    batches = input_batches(input_of(640, keys=100, step=10), table.schema.fields)

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal most_open
        for batch in batches:
            yield batch
            most_open = max(most_open, open_spills(tmp_path))

    with spilling_to(tmp_path) as generations:
        task = WriteTask(store=table.store.spec, schema=table.schema)
        (message,) = write_batches(task, watched(), table.runtime)

    assert most_open == most
    assert generations.count(0) == 64
    assert max(generations) <= 10
    assert [file.row_count for file in message.changelog_files] == [640]
    assert open_spills(tmp_path) == 0


def open_spills(folder: Any) -> int:
    """How many files below `folder` this process has open, with a name or without."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sum(os.readlink(link).startswith(str(folder)) for link in links if os.path.islink(link))


def test_nothing_has_a_name_on_the_disk_while_a_task_spills_so_nothing_is_left_when_it_dies(tmp_path):
    table = key_table(**TINY)
    seen = []
    batches = input_batches(input_of(100, keys=100, step=10), table.schema.fields)

    def watched() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.append((list(tmp_path.iterdir()), open_spills(tmp_path)))
            yield batch

    write_batches(
        WriteTask(store=table.store.spec, schema=table.schema),
        watched(),
        local_runtime(table.store, VirtualClock(), spill_folder=str(tmp_path)),
    )

    assert seen == [([], count) for count in range(10)]


def test_a_failed_task_frees_the_disk(tmp_path):
    table = key_table(**TINY)
    good = list(input_batches(input_of(100, keys=100, step=10), table.schema.fields))

    def failing() -> Iterator[pa.RecordBatch]:
        yield from good
        assert open_spills(tmp_path) == 10
        raise InvalidRequest("the source broke")

    with pytest.raises(InvalidRequest, match="the source broke"):
        write_batches(
            WriteTask(store=table.store.spec, schema=table.schema),
            failing(),
            local_runtime(table.store, VirtualClock(), spill_folder=str(tmp_path)),
        )

    assert open_spills(tmp_path) == 0
    assert table.names_on_disk() == set()


@pytest.mark.parametrize("limit_bytes", [0, 100, 8000], ids=["at once", "in the head", "in the second run"])
def test_a_full_disk_says_where_and_what_to_do_and_nothing_stays(limit_bytes, tmp_path):
    table = key_table(write_buffer_size="64 kb", spill_compression="none", changelog_producer="input")
    first = pa.table({"k": range(50), "v": ["x"] * 50})
    large = pa.table({"k": range(3000), "v": ["x" * 90] * 3000})
    batches = input_batches(pa.concat_tables([first, large]), table.schema.fields)

    with pytest.raises(StorageFull) as caught, files_end_at(limit_bytes):
        write_batches(
            WriteTask(store=table.store.spec, schema=table.schema),
            batches,
            local_runtime(table.store, VirtualClock(), spill_folder=str(tmp_path)),
        )

    assert str(caught.value) == (
        f"{tmp_path}: no space left for rows that wait to be merged (File too large). Make room, let TMPDIR (on Spark "
        "spark.local.dir) name a folder of a larger disk, or make a full write buffer write table files at once: "
        "write-buffer-spillable = false."
    )
    assert table.names_on_disk() == set()
    assert open_spills(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    table = key_table(**TINY)
    batches = input_batches(input_of(10, keys=10, step=10), table.schema.fields)

    with pytest.raises(StorageUnavailable, match=r"gone: the disk refused .*No such file or directory.* Repair it"):
        write_batches(
            WriteTask(store=table.store.spec, schema=table.schema),
            batches,
            local_runtime(table.store, VirtualClock(), spill_folder=str(tmp_path / "gone")),
        )


@pytest.mark.parametrize("handles", ["128", "3"])
def test_beyond_the_disk_that_it_may_take_a_task_makes_files_of_what_waits(handles, monkeypatch):
    table = key_table(
        write_buffer_size="64 kb",
        write_buffer_spill__max_disk_size="400 kb",
        spill_compression="none",
        local_sort__max_num_file_handles=handles,
    )
    used = []
    written = spill_module.Spills._written

    def measured(self: Any, parts: Any, *, generation: int) -> Any:
        run = written(self, parts, generation=generation)
        used.append(run.size_bytes + sum(other.size_bytes for other in self._runs))
        return run

    monkeypatch.setattr(spill_module.Spills, "_written", measured)

    (message,) = table.write(input_of(60_000, keys=60_000, step=1000))

    ranges = [(file.min_sequence_number, file.max_sequence_number) for file in message.new_files]
    assert len(ranges) > 2
    assert all(earlier[1] < later[0] for earlier, later in pairwise(ranges))
    assert 200 << 10 < max(used) < 440 << 10
    assert table.read().num_rows == 60_000


def test_without_disk_each_full_buffer_makes_files_of_its_own():
    table = key_table(**TINY, write_buffer_spill__max_disk_size="0 b")

    with spilling_to(None) as runs:
        table.write(input_of(40, keys=40, step=10))

    assert runs == []
    assert [file.row_count for file in table.all_files()] == [10, 10, 10, 10]


def test_versions_of_one_key_that_would_not_fit_into_memory_become_files_in_between(monkeypatch):
    monkeypatch.setattr(key_writer, "CHUNK_BYTES", 2000)
    table = key_table(
        {"k": "INT", "n": "BIGINT"}, **TINY, merge_engine="aggregation", fields__n__aggregate_function="sum"
    )
    ones = pa.table({"k": pa.array([1] * 1000, pa.int32()), "n": [1] * 1000})

    (message,) = table.write(pa.RecordBatchReader.from_batches(ones.schema, ones.to_batches(max_chunksize=50)))

    assert 3 <= len(message.new_files) <= 10
    assert table.read().to_pylist() == [{"k": 1, "n": 1000}]


def test_older_versions_of_a_key_take_no_disk_where_nobody_asks_for_them(monkeypatch):
    sizes = []
    written = spill_module.Spills._written

    def measured(self: Any, parts: Any, *, generation: int) -> Any:
        run = written(self, parts, generation=generation)
        sizes.append(run.size_bytes)
        return run

    monkeypatch.setattr(spill_module.Spills, "_written", measured)
    again = pa.concat_tables([pa.table({"k": range(10), "v": ["x" * 50] * 10})] * 1000).combine_chunks()
    for producer in ("none", "input"):
        table = key_table(**TINY, changelog_producer=producer, spill_compression="none")
        table.write(again)

    kept_one, kept_all = sizes
    assert kept_one < 5_000
    assert kept_all > 500_000
