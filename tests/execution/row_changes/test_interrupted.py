"""A MERGE whose source ends early, or whose table is dropped meanwhile, is done or leaves nothing: all bucket modes."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.storage.faulty import Call
from tests.execution.row_changes.layouts import VECTORS, catalog_over
from tests.pairs import in_turn

COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT"}
# By name: the primary key and the options.
MODES: Mapping[str, tuple[list[str], Mapping[str, str]]] = {
    "append": ([], {}),
    "vectors": ([], VECTORS),
    "fixed": (["p", "k"], {"bucket": "2"}),
    "dynamic": (["p", "k"], {"bucket": "-1"}),
    "moving": (["k"], {"bucket": "-1"}),
    "postponed": (["p", "k"], {"bucket": "-2"}),
    "waiting": (["p", "k"], {"bucket": "-2", "postpone.merge-on-read": "true"}),
}
SOURCE = [{"p": "a", "k": 1, "v": 50}, {"p": "b", "k": 9, "v": 9}]


def table_of(mode: str) -> tuple[MemoryStore, lc.Table]:
    key, options = MODES[mode]
    store = MemoryStore(clock=VirtualClock())
    catalog = catalog_over(store)
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, primary_keys=key, partition_keys=["p"], options=options)
    table.write([{"p": "a", "k": 1, "v": 1}, {"p": "a", "k": 2, "v": 2}, {"p": "b", "k": 3, "v": 3}])
    if mode == "postponed":
        table.compact()
    return store, table


def merge(table: lc.Table, source: object) -> lc.RowChangeReport:
    on = "t.k = s.k" if table.schema.primary_keys == ("k",) else "t.p = s.p AND t.k = s.k"
    return table.merge(source, on, lc.WhenMatched(update={"v": "s.v"}), lc.WhenNotMatched(insert="*"))


@pytest.mark.parametrize("mode", MODES)
def test_a_source_that_ends_early_changes_nothing(mode: str) -> None:
    store, table = table_of(mode)
    schema = pa.schema([("p", pa.string()), ("k", pa.int32()), ("v", pa.int32())])
    before = {info.key for info in store.list("")}

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(SOURCE, schema=schema)
        raise RuntimeError("the source ended early")

    with pytest.raises(RuntimeError, match="ended early"):
        merge(table, pa.RecordBatchReader.from_batches(schema, batches()))
    assert {info.key for info in store.list("")} == before


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", in_turn(3, MODES))
def test_a_table_that_is_dropped_before_the_commit_keeps_no_file(mode: str) -> None:
    refused = 0
    for moment in range(6, 100, 4):
        store, _ = table_of(mode)
        acted: list[int] = []

        def drop(call: Call, at: int = moment, store: MemoryStore = store, acted: list[int] = acted) -> None:
            if call.number == at and not acted:
                acted.append(at)
                catalog_over(store, 1).drop_table("db.t")

        table = catalog_over(FaultyStore(store, on_call=drop), 2).table("db.t")
        try:
            merge(table, SOURCE)
        except lc.NotFound:
            refused += 1
            assert [info.key for info in store.list("db.db/t")] == []
        if not acted:
            break
    assert refused > 2
