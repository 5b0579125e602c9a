"""DELETE, UPDATE, TRUNCATE and DROP PARTITION by SQL: the rows that they leave. Spark has some of the cases."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.statements import inserts, sources, subqueries
from lakehouse_core.execution.engines.duckdb import query
from lakehouse_core.execution.engines.duckdb.box import boxed_connection

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
        {key: {"status": "it's", "amount": 41} if key == 2 else {} for key in KEPT},
    ),
    (
        "UPDATE s.t AS x SET x.Amount = :n, status = COALESCE(x.status, '') || '!' WHERE x.status = :s",
        {"n": -5, "s": "a"},
        {key: {"status": "a!", "amount": -5} if key in (3, 6) else {} for key in KEPT},
    ),
    ("UPDATE s.t SET amount = DEFAULT, status = NULL", {}, {key: {"amount": 7, "status": None} for key in KEPT}),
    ("DELETE FROM s.t WHERE upper(status) = 'A' OR id % 4 = 1", {}, {2: {}, 4: {}}),
    ("DELETE FROM s.t WHERE amount > id * 10", {}, {key: {} for key in KEPT}),
    (
        "UPDATE s.t AS x SET amount = CASE WHEN x.id > 3 THEN id ELSE amount END, status = upper(x.status) "
        "WHERE id > :n",
        {"n": 4},
        {key: {"status": KEPT[key]["status"].upper(), "amount": key} if key > 4 else {} for key in KEPT},
    ),
    (
        "UPDATE t SET status = concat(status, '-'), amount = DEFAULT WHERE length(status) = 1 AND id IN (1, 2)",
        {},
        {key: {"status": f"{KEPT[key]['status']}-", "amount": 7} if key < 3 else {} for key in KEPT},
    ),
]
# REPLACE WHERE: the statement, and the rows that it leaves in which they differ from before.
REPLACEMENTS: list[tuple[str, dict[str, Any], dict[int, dict[str, Any]]]] = [
    (
        "INSERT INTO s.t REPLACE WHERE status = 'a' SELECT id + 10, day, status, 1 FROM s.t WHERE status = 'a'",
        {},
        {
            **{key: {} for key in KEPT if KEPT[key]["status"] != "a"},
            **{key + 10: {**row, "id": key + 10, "amount": 1} for key, row in KEPT.items() if row["status"] == "a"},
        },
    ),
    (
        "insert into T by name replace where Day = :d values (DATE '2013-01-02', 9, 'z')".replace(
            "values (DATE '2013-01-02', 9, 'z')", "select CAST(9 AS BIGINT) AS id, DATE '2013-01-02' AS day"
        ),
        {"d": date(2013, 1, 2)},
        {2: {}, 4: {}, 6: {}, 9: {"id": 9, "day": date(2013, 1, 2), "status": None, "amount": 7}},
    ),
    ("INSERT INTO s.t REPLACE WHERE (id > 1 OR amount IS NULL) SELECT * FROM s.t WHERE id = 3", {}, {1: {}, 3: {}}),
    (
        "INSERT INTO s.t REPLACE WHERE TRUE VALUES (5, DATE '2013-01-02', 'b', 50)",
        {},
        {5: {"status": "b"}},
    ),
]


OTHERS = [
    {"id": 2, "n": 20, "word": "a"},
    {"id": 3, "n": None, "word": "b"},
    {"id": 5, "n": 1, "word": None},
    {"id": None, "n": 40, "word": "a"},
]
CHANGES = [{"id": 2, "amount": 5}, {"id": 3, "amount": None}, {"id": 70, "amount": 8}]
# Queries inside a DELETE or UPDATE, over the table `o`, the data `c` and the table that changes.
SUBQUERIES: list[tuple[str, dict[str, Any], dict[int, dict[str, Any]]]] = [
    ("DELETE FROM s.t WHERE id IN (SELECT id FROM s.o)", {}, {1: {}, 4: {}, 6: {}}),
    # One id is NULL, so that NOT IN is true for no row.
    ("DELETE FROM s.t WHERE id NOT IN (SELECT id FROM s.o)", {}, {key: {} for key in KEPT}),
    (
        "DELETE FROM t WHERE day = '2013-01-02' AND id NOT IN (SELECT id FROM o WHERE id IS NOT NULL AND n > :n)",
        {"n": 0},
        {2: {}, 4: {}, 5: {}, 6: {}},
    ),
    (
        "delete from S.T as x where exists (select * from s.O where o.ID = X.id and n >= 20)",
        {},
        {key: {} for key in KEPT if key != 2},
    ),
    (
        "DELETE FROM s.t WHERE NOT EXISTS (SELECT 1 FROM o WHERE word = status)",
        {},
        {key: {} for key in KEPT if KEPT[key]["status"] in "ab"},
    ),
    ("DELETE FROM s.t WHERE amount >= (SELECT avg(t.amount) FROM s.t)", {}, {1: {}, 2: {}, 3: {}}),
    (
        "DELETE FROM s.t WHERE (id, amount) IN (SELECT id, n FROM s.o) OR id = (SELECT min(id) FROM c) + 2",
        {},
        {key: {} for key in KEPT if key not in (2, 4)},
    ),
    (
        "DELETE FROM s.t WHERE id IN (WITH w AS (SELECT id FROM s.t VERSION AS OF 1) SELECT max(id) FROM w)",
        {},
        {key: {} for key in KEPT if key != 6},
    ),
    # A query without a row is NULL.
    ("DELETE FROM s.t WHERE id > (SELECT id FROM s.o WHERE n = 99)", {}, {key: {} for key in KEPT}),
    (
        "UPDATE s.t SET amount = (SELECT sum(n) FROM s.o WHERE n > :n) + id, status = 'new' WHERE id < :n",
        {"n": 3},
        {key: {"amount": 60 + key, "status": "new"} if key < 3 else {} for key in KEPT},
    ),
    (
        "UPDATE s.t AS x SET amount = (SELECT CAST(max(n) AS INT) FROM s.o WHERE o.word = x.status), status = DEFAULT "
        "WHERE x.id IN (SELECT id FROM c)",
        {},
        {key: {2: {"amount": 7, "status": None}, 3: {"amount": 40, "status": None}}.get(key, {}) for key in KEPT},
    ),
    (
        "UPDATE s.t SET amount = (SELECT CAST(count(*) AS INT) FROM o WHERE id IN (SELECT id FROM s.t WHERE id > 2) "
        "AND EXISTS (SELECT 1 FROM c WHERE c.id = o.id)) WHERE day IN (SELECT max(day) FROM s.t) AND id < :n",
        {"n": 4},
        {key: {"amount": 1} if key in (1, 3) else {} for key in KEPT},
    ),
    # Python has no such day.
    ("DELETE FROM s.t WHERE day IN (SELECT make_date(10000, 1, 1))", {}, {key: {} for key in KEPT}),
    # More values than a condition takes.
    ("DELETE FROM s.t WHERE id IN (SELECT explode(sequence(3, 2000)))", {}, {1: {}, 2: {}}),
    (
        "MERGE INTO s.t USING (SELECT make_date(10000, 1, 1) AS day) AS n ON t.day = n.day WHEN MATCHED THEN DELETE",
        {},
        {key: {} for key in KEPT},
    ),
    # No row of the table has such an id, and none of them has none.
    ("DELETE FROM s.t WHERE id IN (SELECT id * 100 FROM s.o WHERE id = 2)", {}, {key: {} for key in KEPT}),
    ("DELETE FROM s.t WHERE id IN (SELECT id FROM s.o WHERE id IS NULL)", {}, {key: {} for key in KEPT}),
    (
        "DELETE FROM s.t WHERE id IN ((SELECT x FROM VALUES (3), (4) AS q(x))) AND status = 'a'",
        {},
        {key: {} for key in KEPT if key != 3},
    ),
    (
        "UPDATE s.t SET status = (SELECT word FROM s.o WHERE id = 2) WHERE NOT id IN (SELECT id FROM s.t WHERE id > 1)",
        {},
        {key: {"status": "a"} if key == 1 else {} for key in KEPT},
    ),
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
        catalog.create_table("s.o", {"id": "BIGINT", "n": "INT", "word": "STRING"}).write(OTHERS)

        report = catalog.sql(text, parameters, database="s", tables={"c": CHANGES}).report

        assert rows_of(table) == {key: KEPT.get(key, {}) | values for key, values in changed.items()}, text
        assert isinstance(report, lc.RowChangeReport)
        assert (report.noop_reason is None) == (rows_of(table) != KEPT), text


def catalogs_in(folder: Path, **arguments: Any) -> Iterator[lc.Catalog]:
    number = 0
    while True:
        number += 1
        yield lc.connect(folder / str(number), **arguments)


@pytest.mark.one_in(2)
def test_a_statement_leaves_the_rows_that_it_says(tmp_path, kind):
    check(catalogs_in(tmp_path), kind, CASES)


@pytest.mark.one_in(2)
def test_a_statement_with_queries_inside_leaves_the_rows_that_it_says(tmp_path, kind):
    check(catalogs_in(tmp_path), kind, SUBQUERIES)


def test_a_query_of_few_values_prunes_what_a_statement_reads(tmp_path, kind):
    catalog = lc.connect(tmp_path)
    filled(catalog, kind)
    catalog.create_table("s.days", {"day": "DATE", "n": "INT"}).write([{"day": date(2013, 1, 2), "n": 1}])

    few = catalog.sql("UPDATE s.t SET amount = 0 WHERE day IN (SELECT day FROM s.days)").report
    outside = catalog.sql("UPDATE s.t SET amount = 1 WHERE day IN (SELECT d.day FROM s.days d WHERE n < amount)").report

    # Read are also older versions of rows, and those that are marked as deleted.
    assert (few.rows_updated, few.rows_read) == (3, 3)
    assert outside.rows_read >= len(KEPT)


@pytest.mark.parametrize(("most_bytes", "runs"), [(query._MOST_HELD_BYTES, 1), (1000, 2)])
def test_a_query_of_many_values_runs_once_if_they_can_be_held(tmp_path, kind, monkeypatch, most_bytes, runs):
    monkeypatch.setattr(query, "_HELD_ROWS", 100)
    monkeypatch.setattr(query, "_MOST_HELD_BYTES", most_bytes)
    catalog = lc.connect(tmp_path)
    table, read = filled(catalog, kind), []
    ids = [{"id": number} for number in range(3, 5000)]
    catalog.create_table("s.many", {"id": "INT"}).write([*ids, {"id": None}, *ids])
    relation = sources.QuerySource.relation

    def counted(source: sources.QuerySource, *given: Any, **named: Any) -> Any:
        read.append(source.title)
        return relation(source, *given, **named)

    monkeypatch.setattr(sources.QuerySource, "relation", counted)
    report = catalog.sql("DELETE FROM s.t WHERE id IN (SELECT id FROM s.many) AND id IN (SELECT id FROM s.many)").report

    assert (sorted(rows_of(table)), report.rows_deleted, read.count("s.many")) == ([1, 2], 4, 2 * runs)


@pytest.mark.parametrize("key", ["day", "seen"])
def test_rows_are_merged_by_days_that_python_does_not_have(tmp_path, key):
    catalog = lc.connect(tmp_path)
    catalog.create_database("s")
    columns = {"id": "INT NOT NULL", "day": "DATE", "seen": "TIMESTAMP(6)", "n": "INT"}
    catalog.create_table("s.f", columns, primary_keys=[key, "id"], options={"bucket": "1"})
    merge = (
        "MERGE INTO s.f USING (SELECT explode(array({})) AS id, make_date(10000, 1, 1) AS day, "
        "CAST(make_date(10000, 1, 1) AS TIMESTAMP_NTZ) AS seen, 1 AS n) AS g "
        f"ON f.{key} = g.{key} AND f.id = g.id WHEN MATCHED THEN UPDATE SET n = {{}} WHEN NOT MATCHED THEN INSERT *"
    )
    for ids, value in (("1, 2", "g.n"), ("2, 3", "g.n + 1"), ("3", "f.n + 2")):
        catalog.sql(merge.format(ids, value))

    assert catalog.sql("SELECT id, n FROM s.f ORDER BY id").to_arrow().to_pydict() == {"id": [1, 2, 3], "n": [1, 2, 3]}
    with pytest.raises(lc.InvalidRequest, match=f"the key {key} = 10000-01-01.*, id = 4 would be inserted more than"):
        catalog.sql(merge.format("4, 4", "g.n"))


def test_a_new_value_of_several_rows_is_refused(tmp_path):
    catalog = lc.connect(tmp_path)
    table = filled(catalog, "key")

    with pytest.raises(lc.InvalidRequest, match="a query that stands for one value has several rows"):
        catalog.sql("UPDATE s.t SET amount = (SELECT amount FROM s.t)")
    assert rows_of(table) == KEPT


def test_no_change_is_lost_of_rows_that_a_query_inside_a_statement_reads(tmp_path, kind, monkeypatch):
    catalog = lc.connect(tmp_path)
    table, runs = filled(catalog, kind), []
    read = subqueries.Sources.read_at

    def overtaken(*given: Any) -> Any:
        runs.append(read(*given))
        if len(runs) == 1:
            catalog.table("s.t").update({"amount": "amount * 2"}, "id = 1")
        return runs[-1]

    monkeypatch.setattr(subqueries.Sources, "read_at", overtaken)
    report = catalog.sql("UPDATE s.t SET amount = (SELECT CAST(sum(amount) AS INT) FROM S.T) WHERE id = 1").report

    assert (rows_of(table)[1]["amount"], report.runs, [one.snapshot_id for one in runs]) == (220, 2, [1, 2])


def test_a_name_is_one_snapshot_however_it_is_spelled(tmp_path, monkeypatch):
    catalog = lc.connect(tmp_path)
    table, pins = filled(catalog, "append"), []
    pin = sources.pin

    def overtaken(*given: Any) -> Any:
        pins.append(pin(*given))
        table.write(ROWS[:1])
        return pins[-1]

    monkeypatch.setattr(sources, "pin", overtaken)
    counts = catalog.sql("SELECT (SELECT count(*) FROM s.t) - (SELECT count(*) FROM S.T) AS more FROM t", database="s")

    assert (set(counts.to_arrow().column("more").to_pylist()), len(pins)) == ({0}, 1)


@pytest.mark.one_in(2)
def test_replace_where_leaves_the_rows_that_it_says(tmp_path, kind):
    check(catalogs_in(tmp_path), kind, REPLACEMENTS)


def test_the_name_of_the_statement_is_in_its_snapshot(tmp_path):
    catalog = lc.connect(tmp_path)
    table = filled(catalog, "key")
    for text in ("UPDATE s.t SET amount = 1", "DELETE FROM s.t WHERE id = 1", "TRUNCATE TABLE s.t"):
        catalog.sql(text)

    assert [one.operation for one in table.snapshots()][1:] == ["UPDATE", "DELETE", "TRUNCATE"]


# The statement, its parameters, and the columns of the rows that it leaves in which they differ from before.
MERGES: list[tuple[str, dict[str, Any], dict[int, dict[str, Any]]]] = [
    (
        "MERGE INTO s.t USING c ON t.id = c.id WHEN MATCHED AND c.amount IS NULL THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET amount = t.amount + c.amount, t.Status = 'set' "
        "WHEN NOT MATCHED THEN INSERT (id, day, status) VALUES (c.id, DATE '2013-01-01', DEFAULT)",
        {},
        {
            **{key: {"amount": 25, "status": "set"} if key == 2 else {} for key in KEPT if key != 3},
            70: {"id": 70, "day": date(2013, 1, 1), "status": None, "amount": 7},
        },
    ),
    (
        "merge into T as x using (select id, id % 2 as odd from s.t where id > :least) as y on x.id = y.id - 1 "
        "when matched and case when y.odd = 1 then true end then update set amount = :n "
        "when not matched by source and x.id < 3 then delete "
        "when not matched by source then update set status = concat(status, '?')",
        {"least": 4, "n": -1},
        # The source has 5 and 6, which belong to 4 and 5.
        {3: {"status": "a?"}, 4: {"amount": -1}, 5: {}, 6: {"status": "a?"}},
    ),
    (
        "MERGE INTO s.t -- all columns\n USING (SELECT id + 6 AS id, day, 'n' AS status, 0 AS amount FROM s.t) AS n "
        "ON s.t.id = n.id AND t.day = n.day WHEN NOT MATCHED BY TARGET AND n.id < 8 THEN INSERT *",
        {},
        {**{key: {} for key in KEPT}, 7: {"id": 7, "day": date(2013, 1, 2), "status": "n", "amount": 0}},
    ),
    (
        "MERGE INTO s.t USING s.t AS same ON t.id = same.id AND t.day = same.day WHEN MATCHED AND t.id = 2 THEN UPDATE "
        "SET amount = same.amount + (SELECT CAST(max(amount) AS INT) FROM c), status = (SELECT max(o.status) FROM s.t "
        "AS o WHERE o.id < same.id) WHEN MATCHED AND same.id = 3 THEN UPDATE SET amount = (SELECT NULL)",
        {},
        {key: {2: {"amount": 28, "status": "b"}, 3: {"amount": 7}}.get(key, {}) for key in KEPT},
    ),
    (
        "MERGE INTO s.t USING s.t AS same ON t.id = same.id AND t.day = same.day AND t.id > 4 "
        "WHEN MATCHED THEN UPDATE SET *",
        {},
        {key: {} for key in KEPT},
    ),
]


def check_merges(catalogs: Iterator[lc.Catalog], kind: str) -> None:
    for (text, parameters, changed), catalog in zip(MERGES, catalogs, strict=False):
        table = filled(catalog, kind)

        report = catalog.sql(text, parameters, database="s", tables={"c": CHANGES}).report

        assert rows_of(table) == {key: KEPT.get(key, {}) | values for key, values in changed.items()}, text
        assert isinstance(report, lc.RowChangeReport)
        assert (report.operation, table.snapshots()[-1].operation) == ("MERGE", "MERGE")


@pytest.mark.one_in(2)
def test_a_merge_leaves_the_rows_that_it_says(tmp_path, kind):
    check_merges(catalogs_in(tmp_path), kind)


def test_a_statement_that_an_engine_computes_keeps_its_name(tmp_path):
    catalog = lc.connect(tmp_path)
    table = filled(catalog, "key")

    catalog.sql("DELETE FROM s.t WHERE id % 2 = 1")
    catalog.sql("UPDATE s.t SET status = upper(status)")

    assert [one.operation for one in table.snapshots()][-2:] == ["DELETE", "UPDATE"]


def test_a_table_that_takes_no_deletes_says_which_conditions_rewrite_its_buckets(tmp_path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("s")
    table = catalog.create_table("s.t", COLUMNS, primary_keys=["id"], options={"bucket": "1", "ignore-delete": "true"})
    table.write(ROWS)

    with pytest.raises(lc.UnsupportedFeature, match=r"ignore-delete = true.*compare columns with literals"):
        catalog.sql("DELETE FROM s.t WHERE id % 2 = 1")

    assert catalog.sql("DELETE FROM s.t WHERE id > 5").report.rows_deleted == 1


def test_the_queries_of_a_merge_share_a_box(tmp_path, monkeypatch):
    opened: list[str] = []

    def counted(*arguments: Any) -> Any:
        opened.append("box")
        return boxed_connection(*arguments)

    monkeypatch.setattr("lakehouse_core.execution.engines.duckdb.box.boxed_connection", counted)
    catalog = lc.connect(tmp_path)
    table = filled(catalog, "key")

    table.merge(CHANGES[:1], "t.id = s.id", lc.WhenMatched(update={"amount": "s.amount"}))
    catalog.sql("MERGE INTO s.t USING (SELECT 3 AS id) AS n ON t.id = n.id WHEN MATCHED THEN DELETE")

    assert len(opened) <= 1


@pytest.mark.parametrize(
    ("into", "wanted"),
    [("s.t", [(1, "x"), (3, "x")]), ("s.t PARTITION (p = 'y') (k)", [(1, "y"), (3, "y")])],
)
def test_no_row_is_lost_that_is_added_while_an_overwrite_reads_its_own_table(
    empty: lc.Catalog, monkeypatch: pytest.MonkeyPatch, into: str, wanted: list[Row]
) -> None:
    """The keys of the table move between partitions, so that the second statement brings them over."""
    table = empty.create_table("s.t", {"k": "INT NOT NULL", "p": "STRING"}, primary_keys=["k"], partition_keys=["p"])
    table.write([{"k": 1, "p": "x"}, {"k": 2, "p": "y"}])
    _add_before_the_write(empty, monkeypatch)
    empty.sql(f"INSERT OVERWRITE {into} SELECT {'k' if 'PARTITION' in into else '*'} FROM s.t WHERE p = 'x'")

    assert sorted((row["k"], row["p"]) for row in table.scan().to_arrow().to_pylist()) == wanted
    assert table.verify(data=True).findings == ()


def test_an_overwrite_of_the_partitions_that_a_query_of_its_own_table_names_loses_no_row_either(
    empty: lc.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = empty.create_table("s.t", {"k": "INT", "p": "STRING"}, partition_keys=["p"])
    table.write([{"k": 1, "p": "x"}, {"k": 2, "p": "y"}])
    _add_before_the_write(empty, monkeypatch)
    overwrite = "INSERT OVERWRITE s.t SELECT k + 10, p FROM s.t WHERE p = '{}'"
    dynamic = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}

    with pytest.raises(lc.CommitConflict, match=r"was added since the rows were read.*read the table again"):
        empty.sql(overwrite.format("x"), settings=dynamic)
    empty.sql(overwrite.format("y"), settings=dynamic)

    rows = sorted((row["k"], row["p"]) for row in table.scan().to_arrow().to_pylist())
    assert rows == [(1, "x"), (3, "x"), (12, "y")]


def _add_before_the_write(catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another writer add a row when a statement has planned its query."""
    read_at, runs = inserts.read_at, []

    def overtaken(*given: Any) -> Any:
        runs.append(1)
        if len(runs) == 1:
            catalog.table("s.t").write([{"k": 3, "p": "x"}])
        return read_at(*given)

    monkeypatch.setattr(inserts, "read_at", overtaken)
