"""Row changes whose tasks run on Spark: the same rows as in this process."""

import pytest

import lakehouse_core as lc
from lakehouse_core.execution.engines.spark.sql import merge
from tests.catalog.statements.test_row_changes import CASES, REPLACEMENTS, catalogs_in, check, check_merges
from tests.execution.row_changes.layouts import BATCHES, COLUMNS, LAYOUTS, in_order
from tests.pairs import each_with_one

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


@pytest.mark.parametrize(
    ("name", "change"), [*each_with_one(KINDS[:4], [merged, changed], step=2), (KINDS[4], changed)]
)
def test_rows_changed_or_merged_on_spark_are_those_of_this_process(spark, tmp_path, name, change):
    here = change(tmp_path / "here", None, LAYOUTS[name])

    assert change(tmp_path / "spark", spark, LAYOUTS[name]) == here
    assert all(here[0])


def test_a_merge_of_sql_leaves_the_same_rows_on_spark(spark, tmp_path):
    check_merges(catalogs_in(tmp_path, spark=spark), "key")


@pytest.mark.parametrize("layout", ["deduplicate", "append, vectors"])
@pytest.mark.parametrize("on", ["t.k = s.k", "t.v = s.v AND s.k = t.k"])
def test_a_small_source_leaves_out_only_rows_that_it_cannot_match(spark, tmp_path, monkeypatch, layout, on):
    # Wider than the column, beyond its values, and NULL, of which no row is equal.
    source = [(5, "z", 8), (9, "b", 1), (2**40, "z", 2), (None, "b", 3), (7, None, 4)]
    given = spark.createDataFrame(source, "k bigint, v string, n int")

    def merged(folder, session):
        catalog = lc.connect(folder, spark=session)
        catalog.create_database("db")
        kind = LAYOUTS[layout]
        table = catalog.create_table(
            "db.t", COLUMNS, primary_keys=list(kind.keys), partition_keys=list(kind.partitions), options=kind.options
        )
        for batch in BATCHES:
            table.write(list(batch))
        rows = given if session is not None else given.toArrow()
        report = table.merge(rows, on, lc.WhenMatched(update={"n": "s.n + 100"}))
        return report.rows_matched, in_order(table.scan().to_arrow().to_pylist())

    here = merged(tmp_path / "here", None)

    assert here[0]
    assert merged(tmp_path / "small", spark) == here
    monkeypatch.setattr(merge, "_MOST_KEYS", 0)
    assert merged(tmp_path / "large", spark) == here
