"""Row changes whose tasks run on Spark: the same rows as in this process."""

from datetime import datetime

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.execution.engines.spark.sql import merge
from tests.catalog.statements.test_row_changes import CASES, REPLACEMENTS, SUBQUERIES, catalogs_in, check, check_merges
from tests.execution.row_changes.layouts import BATCHES, COLUMNS, LAYOUTS, in_order
from tests.pairs import each_with_one, in_turn

pytestmark = pytest.mark.spark
KINDS = ("append, partitions", "append, vectors", "deduplicate", "deduplicate, dynamic", "first-row")


def changed(folder, session, layout):
    """The rows and counts after the same statements."""
    catalog = lc.connect(folder, spark=session)
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=list(layout.keys),
        partition_keys=list(layout.partitions),
        options=dict(layout.options),
    )
    for batch in BATCHES:
        table.write(list(batch))
    counts = [table.delete("v = 'z' OR n > 20").rows_deleted]
    if layout.updates is not None:
        counts.append(table.update({"n": "COALESCE(n, 0) + 1", "v": "'new'"}, "k < 5").rows_updated)
        with pytest.raises(lc.InvalidRequest, match=r"[Cc]olumn .n."):
            table.update({"n": "n * 2000000000"}, "k > 5")
    given = [{"k": 9, "p": 0, "s": 1, "v": "b", "n": 1}, {"k": 80, "p": 2, "s": 1, "v": "b", "n": 2}]
    if layout is not LAYOUTS["first-row"]:
        data = given if session is None else session.createDataFrame(given, "k int, p int, s int, v string, n int")
        with pytest.raises(lc.InvalidRequest, match="condition of the overwrite is not true"):
            table.overwrite(data, where="k = 80")
        for dry_run in (True, False):
            report = table.overwrite(data, where="v = 'b'", dry_run=dry_run)
            counts += [report.rows_deleted, report.rows_inserted]
    return counts, in_order(table.scan().to_arrow().to_pylist())


def test_a_statement_of_sql_leaves_the_same_rows_on_spark(spark, tmp_path):
    check(
        catalogs_in(tmp_path, spark=spark),
        "key",
        [*(CASES[number] for number in (1, 2, 13, 15, 17)), *REPLACEMENTS[:2]],
    )


@pytest.mark.parametrize(
    ("kind", "first"),
    [("key", 1), *(pytest.param(*case, marks=pytest.mark.long) for case in (("append", 0), ("vectors", 2)))],
)
def test_a_statement_with_queries_inside_leaves_the_same_rows_on_spark(spark, tmp_path, kind, first):
    check(catalogs_in(tmp_path, spark=spark), kind, SUBQUERIES[first::3])


def merged(folder, session, layout):
    catalog = lc.connect(folder, spark=session)
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=list(layout.keys),
        partition_keys=list(layout.partitions),
        options=dict(layout.options),
    )
    for batch in BATCHES:
        table.write(list(batch))
    source = [{"k": 5, "p": 2, "n": 8}, {"k": 9, "p": 0, "n": None}, {"k": 70, "p": 1, "n": 8}]
    report = table.merge(
        source if session is None else session.createDataFrame(source, "k int, p int, n int"),
        "t.k = s.k",
        lc.WhenMatched(delete=True, where="s.n IS NULL"),
        lc.WhenMatched(update={"n": "COALESCE(t.n, 0) + s.n", "v": "upper(t.v)"}),
        lc.WhenNotMatched(insert={"k": "k", "p": "p", "s": 1, "n": "n"}),
        lc.WhenNotMatchedBySource(update={"v": "'gone'"}, where="t.v = 'z'"),
    )
    with pytest.raises(lc.InvalidRequest, match="more than one row"):
        table.merge([*source, source[0]], "t.k = s.k", lc.WhenMatched(update={"n": 1}))
    counts = report.rows_updated, report.rows_deleted, report.rows_inserted
    return counts, in_order(table.scan().to_arrow().to_pylist())


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "change"), [*each_with_one(KINDS[:4], [merged, changed], step=3), (KINDS[4], changed)]
)
def test_rows_changed_or_merged_on_spark_are_those_of_this_process(spark, tmp_path, name, change):
    here = change(tmp_path / "here", None, LAYOUTS[name])

    assert change(tmp_path / "spark", spark, LAYOUTS[name]) == here
    assert all(here[0])


def test_a_merge_of_sql_leaves_the_same_rows_on_spark(spark, tmp_path):
    check_merges(catalogs_in(tmp_path, spark=spark), "key")


@pytest.mark.parametrize(
    ("layout", "on"), in_turn(2, [("deduplicate", "t.k = s.k"), ("append, vectors", "t.v = s.v AND s.k = t.k")])
)
def test_a_merge_on_spark_leaves_the_same_rows_wherever_they_are_read_and_joined(
    spark, tmp_path, monkeypatch, layout, on
):
    # Wider than the column, beyond its values, and NULL, of which no row is equal.
    source = [(5, "z", 8), (9, "b", 1), (2**40, "z", 2), (None, "b", 3), (7, None, 4)]
    given = spark.createDataFrame(source, "k bigint, v string, n int")
    rows = given.toArrow()
    new = pa.table({"k": [90, 9], "p": [1, 2], "s": [9, 9], "v": ["new", "b"], "n": [None, 3]})

    def merged(folder, session, data, **options):
        catalog = lc.connect(folder, spark=session)
        catalog.create_database("db")
        kind = LAYOUTS[layout]
        table = catalog.create_table("db.t", COLUMNS, primary_keys=list(kind.keys), options={**kind.options, **options})
        for batch in BATCHES:
            table.write(list(batch))
        reports = [
            # The engine computes and joins; then nothing is to be computed.
            table.merge(data, on, lc.WhenMatched(update={"n": "s.n + 100"})),
            table.merge(data, on, lc.WhenMatched(update={"n": "s.n"})),
            table.merge(new, on, lc.WhenMatched(update="*"), lc.WhenNotMatched(insert="*")),
        ]
        counts = [(each.rows_matched, each.rows_updated, each.rows_inserted) for each in reports]
        return counts, in_order(table.scan().to_arrow().to_pylist())

    here = merged(tmp_path / "here", None, rows)

    assert here[0][0][0]
    assert here[0][2][2]
    assert merged(tmp_path / "driver", spark, given) == here
    assert merged(tmp_path / "tasks", spark, rows, **{"source.split.target-size": "1 b"}) == here
    monkeypatch.setattr(merge, "FEW_ROWS", 0)
    assert merged(tmp_path / "large", spark, given) == here


@pytest.mark.parametrize("column", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"])
def test_a_merge_of_times_without_a_zone_does_not_depend_on_where_it_is_joined(spark, tmp_path, column):
    catalog = lc.connect(tmp_path, spark=spark)
    catalog.create_database("db")
    rows = pa.table({"k": [1], "t": pa.array([datetime(2026, 1, 1, 12)], pa.timestamp("us"))})
    zone = spark.conf.get("spark.sql.session.timeZone")

    def left(name, **clause):
        table = catalog.create_table(
            f"db.{name}", {"k": "INT NOT NULL", "t": column}, primary_keys=["k"], options={"bucket": "1"}
        )
        table.write([{"k": 1, "t": None}])
        try:
            table.merge(rows, "t.k = s.k", lc.WhenMatched(update={"t": "s.t"}, **clause))
        except lc.InvalidRequest as error:
            return str(error).replace(f"db.{name}", "db.t")
        return table.scan().to_arrow().to_pylist()

    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        assert left("plain") == left("computed", where="TRUE")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
