"""Small buckets are written, read and compacted together. The law: as if each were by itself, byte by byte."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse_core.errors import CorruptTable
from lakehouse_core.planning.compaction.bucket import plan_bucket
from lakehouse_core.table.predicate import col
from lakehouse_core.table.record_expiry import record_expiry
from lakehouse_core.tasks import small_buckets
from lakehouse_core.tasks.compact import rewrite_buckets
from lakehouse_core.tasks.merge_scan import split_files
from lakehouse_core.tasks.read import read_schema, splits_rows
from lakehouse_core.tasks.write import key_writer
from tests.pairs import in_turn
from tests.tasks.loose_files import LooseFiles, key_table

FIELDS = {"p": "STRING", "f": "FLOAT", "k": "BIGINT", "n": "INT", "s": "STRING", "g": "INT"}
KINDS = ("+I", "-U", "+U", "-D")
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "by a sequence": {"sequence__field": "n"},
    "newest first": {"sequence__field": "n,s", "sequence__field__sort_order": "descending"},
    "deletes ignored": {"ignore_delete": "true"},
    "first row": {"merge_engine": "first-row", "ignore_delete": "true"},
    "first row, inserts only": {"merge_engine": "first-row"},
    "partial update by groups": {
        "merge_engine": "partial-update",
        "fields__g__sequence_group": "s",
        "partial_update__remove_record_on_delete": "false",
        "ignore_delete": "true",
    },
    "aggregation": {"merge_engine": "aggregation", "fields__n__aggregate_function": "sum", "ignore_delete": "true"},
    "listed text": {"merge_engine": "aggregation", "fields__s__aggregate_function": "listagg", "ignore_delete": "true"},
    "lookups": {"merge_engine": "aggregation", "force_lookup": "true", "ignore_delete": "true"},
}
ONLY_INSERTS = ("first row, inserts only", "listed text")


def data(seed: int, *, deletes: bool) -> pa.Table:
    """Rows of some buckets, of which those of one partition are not small; many values are null."""
    draw = np.random.default_rng(seed)
    count = 160
    optional = {
        name: [None if draw.random() < 0.3 else made(draw) for _ in range(count)]
        for name, made in {
            "n": lambda d: int(d.integers(0, 5)),
            "s": lambda d: f"text {d.integers(0, 5)}",
            "g": lambda d: int(d.integers(0, 3)),
        }.items()
    }
    return pa.table(
        {
            "p": [f"part {part}" for part in np.minimum(draw.integers(0, 5, count), 2)],
            "f": pa.array(draw.choice([0.0, -0.0], count), pa.float32()),
            "k": draw.integers(0, 40, count) - 20,
            "n": pa.array(optional["n"], pa.int32()),
            "s": pa.array(optional["s"], pa.string()),
            "g": pa.array(optional["g"], pa.int32()),
            "kind": draw.choice(KINDS if deletes else KINDS[:1], count, p=(0.7, 0.05, 0.1, 0.15) if deletes else None),
        }
    )


def written(engine: str) -> LooseFiles:
    """Three writes, of which the last one did not know the numbers of the others."""
    table = key_table(FIELDS, primary_keys=("p", "f", "k"), partition_keys=("p", "f"), bucket="2", **ENGINES[engine])
    for seed in range(3):
        table.write(data(seed, deletes=engine not in ONLY_INSERTS), rowkind_column="kind", restore=seed < 2)
    return table


def objects(table: LooseFiles) -> dict[str, bytes]:
    return {info.key: bytes(table.store.read(info.key)) for info in table.store.list("")}


def everything(table: LooseFiles, *, with_row_kinds: bool) -> Iterator[pa.Table]:
    """All rows in order, and those of a condition in few columns."""
    for columns, condition in (
        (tuple(FIELDS), None),
        (("s", "p"), (col("k") > 0) & (col("p") == "part 3") & (col("n") > 1)),
    ):
        tasks = table.read_tasks(columns, condition, with_row_kinds=with_row_kinds)
        yield pa.Table.from_batches(splits_rows(tasks, table.store), read_schema(tasks[0]))


def compacted(table: LooseFiles, *, now_millis: int = 0) -> None:
    plans = [(place, plan_bucket(files, table.schema, full=True)) for place, files in table.files.items()]
    expiry = record_expiry(table.schema, now_millis=now_millis)
    tasks = [replace(table.rewrite_task(place, plan), expiry=expiry) for place, plan in plans if plan is not None]
    for message in rewrite_buckets(tasks, table.runtime):
        table.files[message.partition, message.bucket] = list(message.compact_after)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("engine", in_turn(3, ENGINES))
def test_buckets_that_are_merged_together_hold_what_each_would_hold_by_itself(monkeypatch, engine):
    def history() -> list[object]:
        table = written(engine)
        found: list[object] = [objects(table), dict(table.files)]
        found += everything(table, with_row_kinds=False)
        compacted(table)
        return [*found, objects(table), dict(table.files), *everything(table, with_row_kinds=True)]

    merges = []
    merge = small_buckets.merge_apart
    monkeypatch.setattr(small_buckets, "merge_apart", lambda *given: merges.append(given) or merge(*given))
    monkeypatch.setattr(small_buckets, "_MOST_ROWS", 60)
    monkeypatch.setattr(key_writer, "_FEW_ROWS", 25)
    monkeypatch.setattr(key_writer, "_TOGETHER_ROWS", 100)
    monkeypatch.setattr(small_buckets, "_TOGETHER_ROWS", 100)
    together = history()
    assert len(merges) > 0
    merges.clear()
    monkeypatch.setattr(small_buckets, "_MOST_ROWS", -1)
    monkeypatch.setattr(key_writer, "_FEW_ROWS", -1)
    alone = history()

    assert not merges
    assert together == alone


def numbered(count: int, **options: str) -> LooseFiles:
    """Two writes to each of `count` partitions 0, 1, ..., of a row with the partition's number as key and value."""
    fields = {"p": "INT", "k": "BIGINT", "v": "INT"}
    table = key_table(fields, primary_keys=("p", "k"), partition_keys=("p",), **options)
    numbers = pa.array(range(count), pa.int32())
    for _ in range(2):
        table.write(pa.table({"p": numbers, "k": numbers.cast(pa.int64()), "v": numbers}))
    return table


def test_rows_expire_by_the_partition_column_too():
    table = numbered(6, record_level__expire_time="10 s", record_level__time_field="p")

    compacted(table, now_millis=13_000)

    assert table.read(["p"]).column("p").to_pylist() == [3, 4, 5]


def test_a_partition_column_that_is_no_key_is_merged_by_its_function():
    """In tables whose keys move between partitions, where the column is a value."""
    table = numbered(3, merge_engine="aggregation", fields__default_aggregate_function="sum")
    table.schema = replace(table.schema, primary_keys=("k",))

    assert table.read(["p", "v"]).to_pylist() == [{"p": 2 * number, "v": 2 * number} for number in range(3)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("most_rows", [60, -1])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_are_kept_by_their_keys_are_merged_as_among_all_others(monkeypatch, engine, most_rows):
    monkeypatch.setattr(small_buckets, "_MOST_ROWS", most_rows)
    table = written(engine)
    tasks = table.read_tasks(tuple(FIELDS), None, with_row_kinds=True)

    def read(keeps: Callable[[pa.RecordBatch], Any] | None) -> pa.Table:
        kept = [replace(task, keeps=keeps) for task in tasks]
        return pa.Table.from_batches(splits_rows(kept, table.store), read_schema(tasks[0]))

    everything = read(None)
    wanted = everything.filter(pc.is_in(everything.column("k"), pa.array([-7, 0, 3, 12])))

    assert 0 < wanted.num_rows < everything.num_rows
    assert read(lambda batch: np.isin(batch.column("k").to_numpy(), [-7, 0, 3, 12])).equals(wanted)
    assert not read(lambda batch: np.zeros(batch.num_rows, np.bool_)).num_rows


@pytest.mark.one_in(2)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_a_few_keys_are_merged_as_among_all_others(monkeypatch, engine, file_format):
    monkeypatch.setattr(small_buckets, "_MOST_ROWS", -1)
    monkeypatch.setitem(ENGINES, engine, {**ENGINES[engine], "file__format": file_format})
    table = written(engine)
    everything = table.read(list(FIELDS))
    found = 0
    for condition, keys in (
        (col("k") == 3, [3]),
        (col("k").isin([-7, 0, 12, 999]), [-7, 0, 12]),
        ((col("k") == 5) & (col("n") > 1), [5]),
        (col("k") == 999, []),
    ):
        wanted = everything.filter(pc.is_in(everything.column("k"), pa.array(keys, pa.int64())))
        if keys == [5]:
            wanted = wanted.filter(pc.field("n") > 1)
        found += wanted.num_rows
        assert table.read(list(FIELDS), condition).equals(wanted), condition
    assert found > 0


def test_few_buckets_wait_for_others_also_when_a_condition_leaves_no_rows_of_them(monkeypatch):
    table = numbered(10)
    monkeypatch.setattr(small_buckets, "_TOGETHER_BATCHES", 6)
    waited: list[int] = []
    merged = small_buckets._SmallReading.merged
    monkeypatch.setattr(
        small_buckets._SmallReading,
        "merged",
        lambda reading, first, buckets, batches: (
            waited.append(len(buckets)) or merged(reading, first, buckets, batches)
        ),
    )

    tasks = table.read_tasks(("v",), col("k") > 100)

    assert not list(splits_rows(tasks, table.store))
    assert sum(waited) == 10
    assert max(waited) <= 6


def test_a_bucket_whose_files_are_large_together_is_not_small(monkeypatch):
    table = numbered(1)
    ((file, _),) = table.files.values()
    (task,) = table.read_tasks(("v",))
    reader = split_files(task.split, table.schema, table.schemas, table.store).open(file)
    monkeypatch.setattr(small_buckets, "_MOST_DECODED_BYTES", 1.5 * reader.row_bytes(table.schema.fields))
    reader.close()
    merges: list[object] = []
    merge = small_buckets.merge_apart
    monkeypatch.setattr(small_buckets, "merge_apart", lambda *given: merges.append(given) or merge(*given))

    assert table.read(["v"]).to_pylist() == [{"v": 0}]
    assert not merges


def test_a_damaged_file_among_small_buckets_is_named_and_a_compaction_leaves_no_new_file():
    table = numbered(5)
    place, files = list(table.files.items())[3]
    key = f"{table.folder(place)}/{files[0].file_name}"
    table.store.delete([key])
    table.store.write({key: b"X" * files[0].file_size})
    before = table.names_on_disk()

    with pytest.raises(CorruptTable, match=files[0].file_name):
        compacted(table)
    with pytest.raises(CorruptTable, match=files[0].file_name):
        list(splits_rows(table.read_tasks(("v",)), table.store))
    assert table.names_on_disk() == before
