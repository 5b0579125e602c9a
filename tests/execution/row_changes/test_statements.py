"""Statements one after the other: each MERGE, DELETE and UPDATE, by a verb or by SQL, leaves what the row-wise model
leaves, in every layout, in this process and on Spark, on a disk and in an object store.

Writes, compactions and expiries come between. One table and few texts serve many rows: to make a table and to translate
a text takes longer than to carry it out.
"""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lakehouse_core as lc
from tests.execution.row_changes import test_merge
from tests.execution.row_changes.layouts import BATCHES, LAYOUTS, Row, catalog_over, fill, in_order, made, rows_of
from tests.execution.row_changes.test_model import CONDITIONS, UPDATES, sound
from tests.oracle.row_changes import deleted, is_hit, updated
from tests.storage.s3_stub import S3Stub

# Texts of MERGE for each table.
TEXTS = 3
KEYS = (*range(1, 13), 50, 51)


def source_of(random: Random) -> list[Row]:
    """Return rows of a source; in one of ten cases a key may come twice."""
    count = random.randint(1, 6)
    keys = random.choices(KEYS, k=count) if random.random() < 0.1 else random.sample(KEYS, count)
    return [
        {
            "k": k,
            "p": random.choice((k % 3, k % 3, 0)),
            # A lower one would be older than a deleted row of the key.
            "s": 9,
            "v": random.choice((None, "a", "b", "z", "new")),
            "n": random.choice((None, -1, 4, 15, 40)),
        }
        for k in keys
    ]


def merge_text(on: str, clauses: list[Any]) -> str:
    """Return the MERGE of SQL with these clauses, from the table `source`."""
    return " ".join([f"MERGE INTO db.t AS t USING source AS s ON {on}", *map(_clause_text, clauses)])


def _clause_text(clause: Any) -> str:
    condition = "" if clause.where is None else f" AND {clause.where}"
    match clause:
        case lc.WhenNotMatched(insert="*"):
            return f"WHEN NOT MATCHED{condition} THEN INSERT *"
        case lc.WhenNotMatched(insert=values):
            return (
                f"WHEN NOT MATCHED{condition} THEN INSERT ({', '.join(values)}) "
                f"VALUES ({', '.join(map(str, values.values()))})"
            )
    kind = "WHEN MATCHED" if isinstance(clause, lc.WhenMatched) else "WHEN NOT MATCHED BY SOURCE"
    return f"{kind}{condition} THEN {'DELETE' if clause.delete else f'UPDATE SET {_assigned(clause.update)}'}"


def _assigned(values: dict[str, Any]) -> str:
    return ", ".join(f"{column} = {value}" for column, value in values.items())


class Statements:
    """One table with its model. `catalog`: an empty one; None: one in memory. `by_sql`: the share of the
    statements that are said in SQL.
    """

    def __init__(self, name: str, seed: int, catalog: lc.Catalog | None = None, *, by_sql: float = 0.3) -> None:
        self.name = name
        self.random = Random(f"{name} {seed}")
        self.texts = [self.random.randrange(1 << 30) for _ in range(TEXTS)]
        self.by_sql = by_sql
        if catalog is None:
            store, self.table = made(LAYOUTS[name])
            catalog = catalog_over(store, 1)
        else:
            self.table = fill(catalog, LAYOUTS[name])
        self.catalog = catalog
        self.rows = rows_of(self.table)
        self.told: list[str] = []
        self.seen: Counter[str] = Counter()

    def carry_out(self) -> None:
        """Carry out one statement, and what comes between two."""
        random = self.random
        verbs = [self.merge] * 3 + [self.delete] + [self.update] * (LAYOUTS[self.name].updates is not None)
        random.choice(verbs)()
        if "removes" in self.name or random.random() < 0.25:
            # A deleted row gives its values to a new one with NULL, until a compaction drops it.
            self.table.compact(full=True)
        if random.random() < 0.1:
            self.table.expire_snapshots(retain_max=1)
        self.check()
        self.fill()

    def merge(self) -> None:
        seed, source = self.random.choice(self.texts), source_of(self.random)
        data, on, clauses = test_merge.said(seed, source)
        expected = test_merge.left(self.name, self.rows, seed, source)
        self.told.append(f"merge {on} {clauses} {source}")
        by_sql = self.random.random() < self.by_sql

        def merge() -> lc.RowChangeReport:
            return self.sql(merge_text(on, clauses), source=data) if by_sql else self.table.merge(data, on, *clauses)

        if isinstance(expected, type):
            self.seen["refused"] += 1
            with pytest.raises(expected):
                merge()
            return
        counts = self.table.merge(data, on, *clauses, dry_run=True) if self.random.random() < 0.1 else None
        report = merge()
        self.counted(report, expected)
        assert len(expected) == len(self.rows) + report.rows_inserted - (report.rows_deleted or 0), self.told
        if counts is not None:
            assert (counts.rows_updated, counts.rows_deleted, counts.rows_inserted) == (
                report.rows_updated,
                report.rows_deleted,
                report.rows_inserted,
            ), self.told
        self.rows = expected

    def delete(self) -> None:
        where = self.random.choice(CONDITIONS[:-1])
        self.told.append(f"delete {where}")
        expected = deleted(self.rows, where, self.table.schema)
        by_sql = self.random.random() < self.by_sql
        report = self.sql(f"DELETE FROM db.t WHERE {where}") if by_sql else self.table.delete(where)
        self.counted(report, expected)
        assert report.rows_deleted in (len(self.rows) - len(expected), None), self.told
        self.rows = expected

    def update(self) -> None:
        where = self.random.choice(CONDITIONS)
        assignments, values = self.random.choice(UPDATES[:-1])
        self.told.append(f"update {assignments} {where}")
        expected = updated(self.rows, values, where, self.table.schema)
        by_sql = self.random.random() < self.by_sql
        text = f"UPDATE db.t SET {_assigned(assignments)} WHERE {where}"
        report = self.sql(text) if by_sql else self.table.update(assignments, where)
        self.seen["changed" if report.snapshot_id else "unchanged"] += 1
        assert report.rows_updated == sum(is_hit(row, where, self.table.schema) for row in self.rows), self.told
        self.rows = expected

    def sql(self, text: str, **tables: Any) -> lc.RowChangeReport:
        self.told.append(text)
        report = self.catalog.sql(text, tables=tables).report
        assert isinstance(report, lc.RowChangeReport)
        return report

    def counted(self, report: lc.RowChangeReport, expected: list[Row]) -> None:
        self.seen["changed" if report.snapshot_id else "unchanged"] += 1
        assert (report.snapshot_id is None) == (report.noop_reason is not None), self.told
        assert report.snapshot_id is not None or in_order(expected) == in_order(self.rows), self.told

    def check(self) -> None:
        assert rows_of(self.table) == in_order(self.rows), self.told

    def fill(self) -> None:
        """Bring rows back where few are left, and take some where there are many."""
        if len(self.rows) > 30:
            self.table.delete("k IN (1, 2, 5, 50)")
            self.rows = deleted(self.rows, "k IN (1, 2, 5, 50)", self.table.schema)
        if len(self.rows) < 6:
            there = {row["k"] for row in self.rows}
            new = [{**row, "s": 9} for row in BATCHES[0] if row["k"] not in there]
            self.table.write(new)
            self.rows = [*self.rows, *new]


def check_statements(statements: Statements, count: int) -> Counter[str]:
    for number in range(count):
        statements.carry_out()
        if number % 20 == 19:
            assert sound(statements.table), statements.told
    assert sound(statements.table), statements.told
    return statements.seen


def check_tables(name: str, seeds: range) -> None:
    """Carry out 20 statements for each seed."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        seen += check_statements(Statements(name, seed), 20)
    assert seen["changed"] > seen["unchanged"], seen


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", LAYOUTS)
def test_each_of_some_statements_leaves_what_the_model_leaves(name: str) -> None:
    check_statements(Statements(name, 0), 10)


@pytest.mark.model
@pytest.mark.parametrize("name", LAYOUTS)
def test_each_of_many_statements_leaves_what_the_model_leaves(name: str) -> None:
    check_tables(name, range(1, 5))


@pytest.mark.model
@pytest.mark.spark
@pytest.mark.parametrize("name", LAYOUTS)
def test_each_statement_on_spark_leaves_what_the_model_leaves(name: str, spark: Any, tmp_path: Path) -> None:
    check_statements(Statements(name, 0, lc.connect(tmp_path, spark=spark), by_sql=0.5), 2)


@pytest.mark.model
@pytest.mark.parametrize("name", LAYOUTS)
def test_each_statement_in_an_object_store_leaves_what_the_model_leaves(name: str) -> None:
    with S3Stub() as stub:
        check_statements(Statements(name, 1, lc.connect("s3://lake/wh", storage=stub.storage)), 10)


@pytest.mark.long
@pytest.mark.parametrize("name", LAYOUTS)
def test_each_of_more_statements_leaves_what_the_model_leaves(name: str) -> None:
    check_tables(name, range(5, 15))
