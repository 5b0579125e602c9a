"""Statements one after the other: each MERGE, DELETE and UPDATE leaves what the row-wise model leaves, in every layout.

Writes, compactions and expiries come between. One table and few texts serve many rows: to make a table and to translate
a text takes longer than to carry it out.
"""

from collections import Counter
from random import Random

import pytest

import lakehouse_core as lc
from tests.execution.row_changes import test_merge
from tests.execution.row_changes.layouts import BATCHES, LAYOUTS, Row, in_order, made, rows_of
from tests.execution.row_changes.test_model import CONDITIONS, UPDATES, sound
from tests.oracle.row_changes import deleted, is_hit, updated

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


class Statements:
    """One table with its model."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.random = Random(f"{name} {seed}")
        self.texts = [self.random.randrange(1 << 30) for _ in range(TEXTS)]
        _, self.table = made(LAYOUTS[name])
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
        if isinstance(expected, type):
            self.seen["refused"] += 1
            with pytest.raises(expected):
                self.table.merge(data, on, *clauses)
            return
        counts = self.table.merge(data, on, *clauses, dry_run=True) if self.random.random() < 0.1 else None
        report = self.table.merge(data, on, *clauses)
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
        report = self.table.delete(where)
        self.counted(report, expected)
        assert report.rows_deleted in (len(self.rows) - len(expected), None), self.told
        self.rows = expected

    def update(self) -> None:
        where = self.random.choice(CONDITIONS)
        assignments, values = self.random.choice(UPDATES[:-1])
        self.told.append(f"update {assignments} {where}")
        expected = updated(self.rows, values, where, self.table.schema)
        report = self.table.update(assignments, where)
        self.seen["changed" if report.snapshot_id else "unchanged"] += 1
        assert report.rows_updated == sum(is_hit(row, where, self.table.schema) for row in self.rows), self.told
        self.rows = expected

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


def check_statements(name: str, seed: int, count: int) -> Counter[str]:
    statements = Statements(name, seed)
    for number in range(count):
        statements.carry_out()
        if number % 20 == 19:
            assert sound(statements.table), statements.told
    assert sound(statements.table), statements.told
    return statements.seen


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", LAYOUTS)
def test_each_of_some_statements_leaves_what_the_model_leaves(name: str) -> None:
    check_statements(name, 0, 10)


@pytest.mark.long
@pytest.mark.parametrize("name", LAYOUTS)
def test_each_of_many_statements_leaves_what_the_model_leaves(name: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(1, 15):
        seen += check_statements(name, seed, 20)

    assert seen["changed"] > seen["unchanged"], seen
