"""DELETE, UPDATE, TRUNCATE and DROP PARTITION by SQL: the rows that they leave. Spark has some of the cases."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc

Row = tuple[Any, ...]
ROWS = [
    {"id": number, "day": date(2013, 1, 1 + number % 2), "status": "abc"[number % 3], "amount": number * 10}
    for number in range(1, 7)
]
COLUMNS = {"id": "BIGINT NOT NULL", "day": "DATE NOT NULL", "status": "STRING", "amount": "INT"}
KEPT = {row["id"]: row for row in ROWS}
# The statement, its parameters, and the rows whose columns `changed` it leaves; the others are gone.
CASES: list[tuple[str, dict[str, Any], dict[int, dict[str, Any]]]] = [
    ("DELETE FROM s.t WHERE id > 4", {}, {1: {}, 2: {}, 3: {}, 4: {}}),
    ("delete from S.T as x where x.ID in (1, 2) or X.status = 'c'", {}, {3: {}, 4: {}, 6: {}}),
    ("DELETE FROM s.t -- all of one day\n WHERE day = :day", {"day": date(2013, 1, 2)}, {2: {}, 4: {}, 6: {}}),
    ("DELETE FROM t WHERE status <> 'a'", {}, {3: {}, 6: {}}),
    ("DELETE FROM s.t WHERE NULL", {}, {key: {} for key in KEPT}),
    ("DELETE FROM s.t WHERE TRUE", {}, {}),
    ("DELETE FROM s.t", {}, {}),
    ("TRUNCATE TABLE s.t", {}, {}),
    ("TRUNCATE TABLE s.t PARTITION (day = DATE '2013-01-01')", {}, {1: {}, 3: {}, 5: {}}),
    ("ALTER TABLE s.t DROP PARTITION (day = '2013-01-01')", {}, {1: {}, 3: {}, 5: {}}),
    ("ALTER TABLE s.t DROP PARTITION (day = '2013-01-01'), PARTITION (Day = :d)", {"d": "2013-01-02"}, {}),
    ("ALTER TABLE s.t DROP IF EXISTS PARTITION (day = '2014-01-01')", {}, {key: {} for key in KEPT}),
    (
        "UPDATE s.t SET status = 'it''s', amount = amount * 2 + 1 WHERE id = 2",
        {},
        {key: {"status": "its", "amount": 41} if key == 2 else {} for key in KEPT},
    ),
    (
        "UPDATE s.t AS x SET x.Amount = :n, status = COALESCE(x.status, '') || '!' WHERE x.status = :s",
        {"n": -5, "s": "a"},
        {key: {"status": "a!", "amount": -5} if key in (3, 6) else {} for key in KEPT},
    ),
    ("UPDATE s.t SET amount = DEFAULT, status = NULL", {}, {key: {"amount": 7, "status": None} for key in KEPT}),
]


@pytest.fixture(params=["key", "append", "vectors"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def filled(catalog: lc.Catalog, kind: str) -> lc.Table:
    catalog.create_database("s")
    table = catalog.create_table(
        "s.t",
        COLUMNS,
        partition_keys=["day"],
        primary_keys=["day", "id"] if kind == "key" else [],
        options={"bucket": "1"} if kind == "key" else {"deletion-vectors.enabled": str(kind == "vectors").lower()},
    )
    table.write(ROWS)
    table.alter(lc.UpdateColumnDefault("amount", "7"))
    return table


def rows_of(table: lc.Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.scan().to_arrow().to_pylist()}


def check(catalogs: Iterator[lc.Catalog], kind: str, cases: list[tuple[str, dict[str, Any], Any]]) -> None:
    for (text, parameters, changed), catalog in zip(cases, catalogs, strict=False):
        table = filled(catalog, kind)

        report = catalog.sql(text, parameters, database="s").report

        assert rows_of(table) == {key: KEPT[key] | values for key, values in changed.items()}, text
        assert isinstance(report, lc.RowChangeReport)
        assert (report.noop_reason is None) == (rows_of(table) != KEPT), text


def catalogs_in(folder: Path, **arguments: Any) -> Iterator[lc.Catalog]:
    number = 0
    while True:
        number += 1
        yield lc.connect(folder / str(number), **arguments)


def test_a_statement_leaves_the_rows_that_it_says(tmp_path, kind):
    check(catalogs_in(tmp_path), kind, CASES)


def test_the_name_of_the_statement_is_in_its_snapshot(tmp_path):
    catalog = lc.connect(tmp_path)
    table = filled(catalog, "key")
    for text in ("UPDATE s.t SET amount = 1", "DELETE FROM s.t WHERE id = 1", "TRUNCATE TABLE s.t"):
        catalog.sql(text)

    assert [one.operation for one in table.snapshots()][1:] == ["UPDATE", "DELETE", "TRUNCATE"]
