"""Rows that another process adds while a statement runs: with "snapshot" they stay as they are, with "serializable" the
statement runs again and changes those that satisfy its condition.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import pytest

import lakehouse_core as lc
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.storage.faulty import Call
from tests.execution.row_changes.layouts import LAYOUTS, Row, catalog_over, in_order, made, rows_of
from tests.execution.row_changes.test_model import sound
from tests.oracle.row_changes import deleted, updated
from tests.pairs import each_with_one, in_turn

Isolation = Literal["snapshot", "serializable"]

# Its key is greater than those of all rows that the statements write: else key tables begin again anyway.
ADDED = {"k": 60, "p": 1, "s": 9, "v": "b", "n": 4}
BESIDE = {**ADDED, "p": 0, "v": "other", "k": 61}
GIVEN = {"k": 20, "p": 1, "s": 9, "v": "b", "n": 0}
SOURCE = [{"k": 4, "n": 100}, {"k": 60, "n": 100}]
MATCHED = lc.WhenMatched(update={"n": "s.n"})
NOT_MATCHED = lc.WhenNotMatched(insert={"k": "k", "p": 1, "s": 9, "v": "'b'", "n": "n"})


@dataclass(frozen=True)
class Verb:
    """What is done, and what it leaves of the rows of a table."""

    run: Callable[[lc.Table, Isolation], lc.RowChangeReport]
    leaves: Callable[[list[Row], lc.TableSchema], list[Row]]


def overwrite(table: lc.Table, where: str, isolation: Isolation) -> lc.RowChangeReport:
    report = table.overwrite([GIVEN], where=where, isolation=isolation)
    assert isinstance(report, lc.RowChangeReport)
    return report


def merged(rows: list[Row]) -> list[Row]:
    return [{**row, "n": 100} if row["k"] in (4, 60) else row for row in rows]


VERBS: Mapping[str, Verb] = {
    "delete": Verb(
        lambda table, isolation: table.delete("v = 'b'", isolation=isolation),
        lambda rows, schema: deleted(rows, "v = 'b'", schema),
    ),
    "update": Verb(
        lambda table, isolation: table.update({"n": 7}, "v = 'b'", isolation=isolation),
        lambda rows, schema: updated(rows, {"n": lambda row: 7}, "v = 'b'", schema),
    ),
    "merge": Verb(
        lambda table, isolation: table.merge(SOURCE, "t.k = s.k", MATCHED, isolation=isolation),
        lambda rows, schema: merged(rows),
    ),
    "replace": Verb(
        lambda table, isolation: overwrite(table, "v = 'b'", isolation),
        lambda rows, schema: [*deleted(rows, "v = 'b'", schema), GIVEN],
    ),
}
DROP = Verb(
    lambda table, isolation: table.delete("p = 1", isolation=isolation),
    lambda rows, schema: deleted(rows, "p = 1", schema),
)
RACED = (
    "append",
    "append, partitions",
    "append, vectors",
    "append, vectors, buckets",
    "deduplicate",
    "deduplicate, partitions",
    "deduplicate, dynamic",
)
PARTITIONED = ("append, partitions", "append, vectors, partitions", "deduplicate, partitions")
ISOLATIONS: tuple[Isolation, ...] = ("snapshot", "serializable")


def overtaken(
    name: str, *added: Row, times: int = 1
) -> tuple[MemoryStore, Callable[[Callable[[lc.Table], lc.RowChangeReport]], lc.RowChangeReport]]:
    """Return a store with a table, and what runs a statement while another process adds rows before each of its first
    commits.
    """
    store, _ = made(LAYOUTS[name])
    acted: list[Call] = []

    def act(call: Call) -> None:
        if "/snapshot/snapshot-" in call.key and call.writes and len(acted) < times:
            acted.append(call)
            rows = [{**row, "k": row["k"] + len(acted) - 1} for row in added]
            catalog_over(store, 1 + len(acted)).table("db.t").write(rows)

    def run(statement: Callable[[lc.Table], lc.RowChangeReport]) -> lc.RowChangeReport:
        report = statement(catalog_over(FaultyStore(store, on_call=act), 1).table("db.t"))
        assert len(acted) == times
        return report

    return store, run


def with_isolation(verb: Verb, isolation: Isolation) -> Callable[[lc.Table], lc.RowChangeReport]:
    return lambda table: verb.run(table, isolation)


def table_in(store: MemoryStore) -> lc.Table:
    return catalog_over(store, 9).table("db.t")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "verb"), each_with_one(RACED, VERBS))
def test_rows_that_a_write_adds_meanwhile_stay_and_with_serializable_are_changed_too(name: str, verb: str) -> None:
    statement = VERBS[verb]
    for isolation, runs in zip(ISOLATIONS, (1, 2), strict=True):
        store, run = overtaken(name, ADDED, BESIDE)
        before, schema = rows_of(table_in(store)), table_in(store).schema
        new: list[Row] = [ADDED, BESIDE]

        report = run(with_isolation(statement, isolation))

        in_turn = [statement.leaves([*before, *new], schema), [*statement.leaves(before, schema), *new]]
        assert rows_of(table_in(store)) == in_order(in_turn[runs == 1]), isolation
        assert report.runs == runs, isolation
        assert sound(table_in(store))


@pytest.mark.parametrize(("name", "verb"), each_with_one(RACED, VERBS, step=3))
def test_rows_that_cannot_satisfy_the_condition_make_no_statement_begin_again(name: str, verb: str) -> None:
    store, run = overtaken(name, BESIDE)
    before, schema = rows_of(table_in(store)), table_in(store).schema

    report = run(with_isolation(VERBS[verb], "serializable"))

    assert report.runs == 1
    assert rows_of(table_in(store)) == in_order([*VERBS[verb].leaves(before, schema), BESIDE])


@pytest.mark.parametrize(("name", "isolation"), each_with_one(RACED, ISOLATIONS, step=4))
def test_a_merge_inserts_no_key_that_a_write_adds_meanwhile(name: str, isolation: Isolation) -> None:
    store, run = overtaken(name, ADDED)
    before = rows_of(table_in(store))

    report = run(lambda table: table.merge(SOURCE, "t.k = s.k", MATCHED, NOT_MATCHED, isolation=isolation))

    assert (report.runs, report.rows_updated, report.rows_inserted) == (2, 2, 0)
    assert rows_of(table_in(store)) == in_order(merged([*before, ADDED]))
    assert sound(table_in(store))


@pytest.mark.parametrize("name", in_turn(3, PARTITIONED))
def test_a_partition_that_goes_takes_the_rows_of_a_write_along_only_if_serializable(name: str) -> None:
    for isolation, runs in zip(ISOLATIONS, (1, 2), strict=True):
        store, run = overtaken(name, ADDED, BESIDE)
        kept = DROP.leaves(rows_of(table_in(store)), table_in(store).schema)

        report = run(with_isolation(DROP, isolation))

        assert (report.method, report.runs) == ("partitions", runs)
        assert rows_of(table_in(store)) == in_order([*kept, BESIDE, *[ADDED][: runs == 1]]), isolation


@pytest.mark.parametrize(("name", "isolation"), each_with_one(PARTITIONED, ISOLATIONS, step=2))
def test_a_partition_that_is_replaced_keeps_no_row_of_a_write(name: str, isolation: Isolation) -> None:
    store, run = overtaken(name, ADDED, BESIDE)
    kept = deleted(rows_of(table_in(store)), "p = 1", table_in(store).schema)

    report = run(lambda table: overwrite(table, "p = 1", isolation))

    assert (report.method, report.runs) == ("partitions", 2)
    assert rows_of(table_in(store)) == in_order([*kept, BESIDE, GIVEN])


@pytest.mark.parametrize(
    ("name", "verb"),
    each_with_one(["append", "append, vectors", "deduplicate"], ["update", "delete", "replace"], step=3),
)
def test_a_serializable_statement_is_refused_where_each_of_its_runs_is_overtaken(name: str, verb: str) -> None:
    store, run = overtaken(name, ADDED, times=4)
    before = rows_of(table_in(store))

    with pytest.raises(lc.CommitConflict, match="may hold rows that satisfy the condition"):
        run(with_isolation(VERBS[verb], "serializable"))

    assert [row for row in rows_of(table_in(store)) if row["k"] < 60] == before
