"""Small buckets are written, read and compacted together. The law: as if each were by itself, byte by byte."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_core.execution.tasks import small_buckets
from lakehouse_core.execution.tasks.compact import rewrite_buckets
from lakehouse_core.execution.tasks.read import read_schema, splits_rows
from lakehouse_core.execution.tasks.write import key_writer
from lakehouse_core.planning.compaction.bucket import plan_bucket
from lakehouse_core.table.predicate import col
from tests.execution.tasks.loose_files import LooseFiles, key_table

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


def compacted(table: LooseFiles) -> None:
    plans = [(place, plan_bucket(files, table.schema, full=True)) for place, files in table.files.items()]
    tasks = [table.rewrite_task(place, plan) for place, plan in plans if plan is not None]
    for message in rewrite_buckets(tasks, table.runtime):
        table.files[message.partition, message.bucket] = list(message.compact_after)


@pytest.mark.parametrize("engine", ENGINES)
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
