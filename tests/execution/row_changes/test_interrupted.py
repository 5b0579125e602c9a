"""A statement whose source ends early, whose table is dropped meanwhile, or whose snapshot expires, is done or leaves
nothing: all bucket modes.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.expiry.orphans import remove_orphans
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.storage.faulty import Call
from tests.execution.row_changes.layouts import VECTORS, catalog_over, rows_of
from tests.pairs import each_with_one

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
SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int32()), ("v", pa.int32())])
# Each batch of rows becomes files at once.
AT_ONCE = {"write-buffer-size": "1 b", "write-buffer-spillable": "false"}


def table_of(mode: str, **more: str) -> tuple[MemoryStore, lc.Table]:
    key, options = MODES[mode]
    store = MemoryStore(clock=VirtualClock())
    catalog = catalog_over(store)
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, primary_keys=key, partition_keys=["p"], options={**options, **more})
    table.write([{"p": "a", "k": 1, "v": 1}, {"p": "a", "k": 2, "v": 2}, {"p": "b", "k": 3, "v": 3}])
    if mode == "postponed":
        table.compact()
    return store, table


def merge(table: lc.Table, source: object) -> lc.RowChangeReport:
    on = "t.k = s.k" if table.schema.primary_keys == ("k",) else "t.p = s.p AND t.k = s.k"
    return table.merge(source, on, lc.WhenMatched(update={"v": "s.v"}), lc.WhenNotMatched(insert="*"))


def ended_early() -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            rows = [{"p": p, "k": 10 * number + k, "v": 50} for p in "ab" for k in range(2)]
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        raise RuntimeError("the source ended early")

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


Statement = Callable[[lc.Table], object]
READING: Mapping[str, Statement] = {
    "merge": lambda table: merge(table, ended_early()),
    "replace": lambda table: table.overwrite(ended_early(), where="v > 1"),
    "replace all": lambda table: table.overwrite(ended_early(), where="p IN ('a', 'b')"),
    "overwrite": lambda table: table.overwrite(ended_early(), dynamic=False),
    "overwrite partitions": lambda table: table.overwrite(ended_early()),
}
STATEMENTS: Mapping[str, Statement] = {
    "merge": lambda table: merge(table, SOURCE),
    "delete": lambda table: table.delete("v < 3"),
    "update": lambda table: table.update({"v": "v + 10"}, "v < 3"),
    "replace": lambda table: table.overwrite(SOURCE, where="v = 1 OR v > 8"),
    "replace all": lambda table: table.overwrite(SOURCE, where="p IN ('a', 'b')"),
}
TEXTS = (
    "INSERT INTO db.t SELECT p, k, v FROM s",
    "INSERT OVERWRITE db.t SELECT p, k, v FROM s",
    "INSERT OVERWRITE db.t PARTITION (p = 'a') SELECT k, v FROM s",
    "INSERT OVERWRITE db.t SELECT p, k, v FROM s UNION ALL SELECT p, k + 100, v FROM db.t",
    "INSERT INTO db.t REPLACE WHERE v > 1 SELECT p, k, v FROM s",
    "MERGE INTO db.t t USING s ON t.p = s.p AND t.k = s.k WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM db.t WHERE k IN (SELECT k FROM s)",
    "UPDATE db.t SET v = (SELECT max(v) FROM s)",
)


@pytest.mark.parametrize(("mode", "verb"), each_with_one(MODES, READING))
def test_a_source_that_ends_early_changes_nothing(mode: str, verb: str) -> None:
    store, table = table_of(mode, **AT_ONCE)
    before = {info.key for info in store.list("")}

    with pytest.raises(RuntimeError, match="ended early"):
        READING[verb](table)

    assert {info.key for info in store.list("")} == before


@pytest.mark.parametrize(("text", "mode"), each_with_one(TEXTS, ["append", "fixed", "moving", "postponed"], step=2))
def test_a_stream_of_a_statement_that_ends_early_changes_nothing(text: str, mode: str) -> None:
    store, _ = table_of(mode, **AT_ONCE)
    before = {info.key for info in store.list("")}

    with pytest.raises(RuntimeError, match="ended early"):
        catalog_over(store, 1).sql(text, tables={"s": ended_early()})

    assert {info.key for info in store.list("")} == before


@pytest.mark.parametrize(
    ("text", "mode"), each_with_one(TEXTS, ["append", "fixed", "moving", "postponed"], step=2, first=1)
)
def test_a_table_of_a_statement_that_cannot_be_read_to_its_end_changes_nothing(text: str, mode: str) -> None:
    store, _ = table_of(mode, **AT_ONCE)
    source = catalog_over(store, 1).create_table("db.s", COLUMNS)
    for rows in ([{"p": "a", "k": 1, "v": 50}], [{"p": "b", "k": 2, "v": 50}]):
        source.write(rows)
    newest = max(source.files(), key=lambda file: file.max_sequence_number or 0)
    store.delete([info.key for info in store.list("db.db/s") if info.key.endswith(newest.path.rpartition("/")[2])])
    before = {info.key for info in store.list("")}

    with pytest.raises(lc.CorruptTable, match=r"data-.* is missing, but a snapshot names it"):
        catalog_over(store, 2).sql(text.replace("FROM s", "FROM db.s").replace("USING s", "USING db.s s"))

    assert {info.key for info in store.list("")} == before


def acting(mode: str, verb: str, act: Callable[[MemoryStore], object], *, at: int) -> tuple[MemoryStore, str, bool]:
    """Carry out a statement, while another process acts before the call `at`. Return the store, why the statement was
    refused, and whether the other acted.
    """
    store, _ = table_of(mode, **{"lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"})
    acted: list[int] = []

    def interrupt(call: Call) -> None:
        if call.number == at and not acted:
            acted.append(at)
            act(store)

    table = catalog_over(FaultyStore(store, on_call=interrupt), 2).table("db.t")
    try:
        STATEMENTS[verb](table)
    except (lc.NotFound, lc.CommitConflict) as error:
        return store, f"{type(error).__name__}: {error}", bool(acted)
    return store, "", bool(acted)


@pytest.mark.parametrize(("mode", "verb"), each_with_one(MODES, STATEMENTS, step=4))
def test_a_table_that_is_dropped_before_the_commit_keeps_no_file(mode: str, verb: str, every: int) -> None:
    refused = set()
    for moment in range(6, 200, every):
        store, error, has_acted = acting(mode, verb, lambda store: catalog_over(store, 1).drop_table("db.t"), at=moment)
        if not has_acted:
            break
        assert {info.key for info in store.list("db.db/t")} <= {"db.db/t/snapshot/LATEST"}, moment
        assert catalog_over(store, 3).create_table("db.t", COLUMNS).snapshots() == []
        refused.add(error.partition(":")[0])
        assert not error or "dropped or renamed" in error or "there is no schema" in error, moment
    assert refused - {""} <= {"NotFound", "TableDropped"}
    assert refused - {""}


def rewrite_and_expire(store: MemoryStore) -> None:
    table = catalog_over(store, 1).table("db.t")
    table.write([{"p": "b", "k": 30, "v": 30}])
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, older_than=timedelta(0))


@pytest.mark.parametrize(("mode", "verb"), each_with_one(MODES, STATEMENTS, step=7))
def test_a_statement_whose_snapshot_expires_is_done_as_in_one_of_the_orders(mode: str, verb: str, every: int) -> None:
    serial = []
    for at in (1, 1_000):
        store, error, has_acted = acting(mode, verb, rewrite_and_expire, at=at)
        assert not error
        if not has_acted:
            rewrite_and_expire(store)
        serial.append(rows_of(catalog_over(store, 3).table("db.t")))
    for moment in range(6, 200, every):
        store, error, has_acted = acting(mode, verb, rewrite_and_expire, at=moment)
        assert not error, moment
        if not has_acted:
            return
        table = catalog_over(store, 3).table("db.t")
        assert rows_of(table) in serial, moment
        assert table.verify(data=True).findings == (), moment
        keys = {info.key for info in store.list("")}
        remove_orphans(table._context, min_age_millis=0)
        assert {info.key for info in store.list("")} == keys, moment
    raise AssertionError("the statement took more calls than were tried")
