"""What a compaction task makes of a bucket's files: merged, lifted or packed, with numbers and kinds kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable, InvalidRequest, StorageUnavailable
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.planning.compaction.append import AppendCompactionPlan
from lakehouse_core.planning.compaction.bucket import plan_bucket
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, LocalStore, MemoryStore
from lakehouse_core.table.data_file import FileSource
from lakehouse_core.tasks.compact import (
    RewriteTask,
    planned_files,
    rewrite_answer,
    rewrite_bucket,
    rewrite_buckets,
    run_rewrite,
)
from lakehouse_core.tasks.runtime import local_runtime
from tests.tasks.loose_files import LooseFiles, append_table, key_table, rows


def stored(table: LooseFiles, name: str) -> pa.Table:
    key = next(info.key for info in table.store.list("") if info.key.endswith(name))
    return pq.read_table(pa.BufferReader(table.store.read(key)))


def test_overlapping_files_become_one_of_the_top_level_with_numbers_kept_and_deletes_gone():
    table = key_table()
    table.write(rows((1, "a"), (2, "b"), (3, "c")))
    table.write([{"k": 2, "v": "", "op": "-D"}, {"k": 3, "v": "d", "op": "+U"}], rowkind_column="op")

    (message,) = table.compact()

    (after,) = message.compact_after
    assert sorted(file.level for file in message.compact_before) == [0, 0]
    assert (after.level, after.file_source, after.delete_row_count) == (5, FileSource.COMPACT, 0)
    assert (after.min_sequence_number, after.max_sequence_number) == (0, 4)
    assert stored(table, after.file_name).to_pydict() == {
        "_KEY_k": [1, 3],
        "_SEQUENCE_NUMBER": [0, 4],
        "_VALUE_KIND": [0, 2],
        "k": [1, 3],
        "v": ["a", "d"],
    }
    assert message.new_files == ()


def test_a_file_that_shares_no_key_changes_its_level_and_keeps_its_name():
    table = key_table(target_file_size="1 kb")
    table.write(pa.table({"k": range(1000), "v": ["x"] * 1000}))
    table.write(pa.table({"k": range(1000, 2000), "v": ["y"] * 1000}))
    before = {file.file_name for file in table.all_files()}
    on_disk = table.names_on_disk()

    (message,) = table.compact()

    assert {file.file_name for file in message.compact_after} == before
    assert {file.level for file in message.compact_before} == {0}
    assert {file.level for file in message.compact_after} == {5}
    assert table.names_on_disk() == on_disk
    assert table.compact() == []


def test_a_compaction_that_leaves_no_row_leaves_no_file():
    table = key_table()
    table.write(rows((1, "a")))
    table.write([{"k": 1, "v": "", "op": "-D"}], rowkind_column="op")

    (message,) = table.compact()

    assert message.compact_after == ()
    assert table.all_files() == []


def test_deletes_stay_below_the_top_level_when_something_older_lies_there():
    table = key_table()
    table.write([{"k": 1, "v": "", "op": "-D"}], rowkind_column="op")
    table.write(rows((2, "b")))
    ((place, files),) = table.files.items()
    plan = plan_bucket(files, table.schema)
    task = table.rewrite_task(place, replace(plan, drops_deletes=False, output_level=1))

    message = rewrite_bucket(task, table.runtime)

    (after,) = message.compact_after
    assert (after.level, after.row_count, after.delete_row_count) == (1, 2, 1)
    assert stored(table, after.file_name)["_VALUE_KIND"].to_pylist() == [3, 0]


def test_output_rolls_at_the_target_size_without_a_limit_of_rows():
    table = key_table(target_file_size="64 kb", target_file_row_num="1000")
    values = [f"{i * 2654435761 % 2**32:x}" for i in range(30_000)]
    table.write(pa.table({"k": range(30_000), "v": values}))
    table.write(pa.table({"k": range(30_000), "v": values}))

    (message,) = table.compact()

    assert len(message.compact_after) > 2
    assert sum(file.row_count for file in message.compact_after) == 30_000
    assert all(file.row_count > 1000 for file in message.compact_after)
    assert table.read(["k"])["k"].to_pylist() == list(range(30_000))


def test_small_append_files_are_packed_in_order_and_numbered_from_the_first():
    table = append_table(bucket="1", bucket_key="k")
    for start in (5, 3, 9):
        table.write(rows(*((start - i, str(start)) for i in range(3))))
    first = table.read()

    (message,) = table.compact()

    (after,) = message.compact_after
    assert (after.min_sequence_number, after.max_sequence_number, after.level) == (0, 8, 0)
    assert after.file_source is FileSource.COMPACT
    assert table.read().equals(first.combine_chunks())
    assert table.compact() == []


@pytest.mark.parametrize("make", [key_table, append_table])
def test_nulls_from_before_a_column_forbade_them_are_told_by_its_name_and_stay(make):
    table = make()
    table.write(rows((1, None)))
    table.write(rows((1, None), (2, "b")))
    key, value = table.schema.fields
    table.schema = replace(table.schema, id=1, fields=(key, replace(value, type=parse_type("STRING NOT NULL"))))
    table.schemas[1] = table.schema
    before = table.names_on_disk()

    with pytest.raises(InvalidRequest, match="Column 'v' is STRING NOT NULL, but older rows hold null in it"):
        table.compact()

    assert table.names_on_disk() == before
    assert None in table.read()["v"].to_pylist()


def test_a_task_answers_an_engine_with_the_text_of_its_message(tmp_path):
    table = key_table(store=LocalStore(str(tmp_path)))
    table.write(rows((1, "a")))
    table.write(rows((1, "b")))
    ((place, files),) = table.files.items()
    task = table.rewrite_task(place, plan_bucket(files, table.schema))

    (message,) = rewrite_answer(run_rewrite([task], table.runtime), planned_files([task]))

    assert message.compact_before == task.plan.files
    assert {file.file_name for file in message.compact_before} == {file.file_name for file in files}
    assert message.compact_after[0].row_count == 1


TOLD = {"changelog_producer": "full-compaction"}


def several_buckets(make, store) -> LooseFiles:
    """A table of four partitions, each with files to compact."""
    table = make({"p": "INT", "k": "BIGINT", "v": "STRING"}, partition_keys=["p"], store=store)
    for version in range(3):
        table.write([{"p": k % 4, "k": k, "v": f"{version}-{k}"} for k in range(version, 60)])
    return table


def tasks_of(table: LooseFiles) -> list[RewriteTask]:
    plans = [(place, files, plan_bucket(files, table.schema)) for place, files in table.files.items()]
    packed = [(place, plan or AppendCompactionPlan((tuple(files),), "small files")) for place, files, plan in plans]
    return [table.rewrite_task(place, plan) for place, plan in packed]


@pytest.mark.parametrize(
    "make",
    [partial(key_table, primary_keys=("p", "k")), partial(key_table, primary_keys=("p", "k"), **TOLD), append_table],
)
def test_buckets_that_are_compacted_in_one_task_get_what_they_get_one_by_one(make, tmp_path):
    def content(message):
        files = [*message.compact_after, *message.compact_changelog_files]
        return (
            message.partition,
            message.bucket,
            message.compact_before,
            [replace(file, file_name="", file_size=0, creation_time_millis=0) for file in files],
            [stored(table, file.file_name).to_pylist() for file in files],
        )

    table = several_buckets(make, LocalStore(str(tmp_path)))
    tasks = tasks_of(table)
    alone = [content(rewrite_bucket(task, table.runtime)) for task in tasks]
    together = [content(message) for message in rewrite_buckets(tasks, table.runtime)]

    assert len(tasks) == 4
    assert together == alone


@pytest.mark.parametrize("make", [partial(key_table, primary_keys=("p", "k"), **TOLD), append_table])
def test_if_one_bucket_of_a_task_fails_no_new_file_of_the_others_is_left(make):
    inner = MemoryStore()
    table = several_buckets(make, inner)
    before = table.names_on_disk()
    tasks = tasks_of(table)

    def attempt(store: FaultyStore) -> FaultyStore:
        rewrite_buckets(tasks, local_runtime(store, VirtualClock(seed=5)))
        return store

    calls = attempt(FaultyStore(inner)).calls
    inner.delete([info.key for info in inner.list("") if info.key.rpartition("/")[2] not in before])
    for number in range(1, len(calls) + 1):
        with pytest.raises(StorageUnavailable):
            attempt(FaultyStore(inner, [Fault(at=number, kind=FaultKind.FAIL_BEFORE)]))

        assert table.names_on_disk() == before


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", [key_table, append_table, partial(key_table, **{"file-index.bitmap.columns": "k"})])
def test_a_task_that_fails_at_any_call_leaves_the_inputs_and_nothing_else(make):
    inner = MemoryStore()
    table = make(target_file_size="64 kb", store=inner)
    values = [f"{i * 2654435761 % 2**32:x}" for i in range(20_000)]
    for _ in range(2):
        table.write(pa.table({"k": range(20_000), "v": values}))
    ((place, files),) = table.files.items()
    before = table.names_on_disk()
    packing = AppendCompactionPlan(groups=(tuple(files),), reason="small files")
    task = table.rewrite_task(place, plan_bucket(files, table.schema) or packing)

    def attempt(store: FaultyStore) -> int:
        # Another seed than the table's, whose names would come again.
        rewrite_bucket(task, local_runtime(store, VirtualClock(seed=5)))
        return len(store.calls)

    calls = attempt(FaultyStore(inner))
    inner.delete([info.key for info in inner.list("") if info.key.rpartition("/")[2] not in before])
    assert calls >= 4
    for number in range(1, calls + 1):
        with pytest.raises(StorageUnavailable):
            attempt(FaultyStore(inner, [Fault(at=number, kind=FaultKind.FAIL_BEFORE)]))

        assert table.names_on_disk() == before


def test_a_damaged_input_stops_the_task():
    table = key_table()
    table.write(rows((1, "a")))
    table.write(rows((1, "b")))
    victim = table.all_files()[0]
    data = table.store.read(f"bucket-0/{victim.file_name}")
    table.store.write({f"bucket-0/{victim.file_name}": data[:-9] + b"\0" * 9})

    with pytest.raises(CorruptTable, match=victim.file_name):
        table.compact()
    assert len(table.names_on_disk()) == 2
