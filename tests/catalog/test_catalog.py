"""Databases and tables by name: made, listed, renamed, dropped; a handle never writes into what has its name by now."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

import lakehouse_core as lc

COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}
ROW = [{"k": 1, "v": "a"}]


@pytest.fixture
def catalog(tmp_path):
    catalog = lc.connect(tmp_path / "lake")
    catalog.create_database("sales")
    return catalog


def made(catalog, name="sales.orders"):
    table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    table.write(ROW)
    return table


def test_the_rest_of_a_drop_in_a_bucket_that_was_copied_to_a_disk_is_dropped(tmp_path: Path) -> None:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    folder = tmp_path / "db.db" / "t"
    for key in ("lakehouse/dropped", "schema/schema-1"):
        (folder / key).parent.mkdir(parents=True)
        (folder / key).write_bytes(b"")

    catalog.drop_table("db.t")

    assert not folder.exists()


def test_databases_and_tables_are_listed_by_name(catalog):
    catalog.create_database("archive")
    for name in ("sales.orders", "sales.items", "archive.orders"):
        made(catalog, name)

    assert catalog.databases() == ["archive", "sales"]
    assert catalog.tables("sales") == ["items", "orders"]
    assert catalog.tables("archive") == ["orders"]


def test_what_exists_is_taken_as_it_is_only_where_that_is_asked_for(catalog):
    made(catalog)

    again = catalog.create_table("sales.orders", {"x": "INT"}, exist_ok=True)
    catalog.create_database("sales", exist_ok=True)

    assert again.schema.column_names == ("k", "v")
    with pytest.raises(lc.InvalidRequest, match="exists already"):
        catalog.create_table("sales.orders", COLUMNS)
    with pytest.raises(lc.InvalidRequest, match="exists already"):
        catalog.create_database("sales")


def test_a_table_that_another_process_makes_meanwhile_is_the_one_that_exists(catalog, tmp_path, monkeypatch):
    other = lc.connect(tmp_path / "lake")
    metastore = type(catalog._context.metastore)
    place, calls = metastore.place, []

    def interrupted(self, name):
        if self is catalog._context.metastore and not calls:
            # The place is asked for when the names that exist are known.
            calls.append(name)
            made(other)
        return place(self, name)

    monkeypatch.setattr(metastore, "place", interrupted)
    found = catalog.create_table("sales.orders", {"k": "INT"}, exist_ok=True)

    assert found.scan().count() == 1


def test_a_dropped_table_leaves_nothing_and_its_name_is_free(catalog, tmp_path):
    made(catalog).create_tag("first")

    catalog.drop_table("sales.orders")

    assert catalog.tables("sales") == []
    assert not list((tmp_path / "lake" / "sales.db").glob("*/*"))
    catalog.drop_table("sales.orders", missing_ok=True)
    with pytest.raises(lc.NotFound):
        catalog.drop_table("sales.orders")
    assert made(catalog).scan().to_arrow().to_pylist() == ROW


def test_a_database_is_dropped_with_its_tables_only_where_that_is_asked_for(catalog):
    made(catalog)

    with pytest.raises(lc.InvalidRequest, match=r"has 1 table \("):
        catalog.drop_database("sales")
    catalog.drop_database("sales", cascade=True)

    assert catalog.databases() == []
    catalog.drop_database("sales", missing_ok=True)


def test_a_database_with_files_of_no_table_stays_and_the_error_names_one(catalog, tmp_path):
    made(catalog)
    stray = next(tmp_path.rglob("sales.db")) / "notes.txt"
    stray.write_text("keep me")

    with pytest.raises(lc.InvalidRequest, match=r"1 files that belong to no table, such as .*sales\.db/notes\.txt"):
        catalog.drop_database("sales", cascade=True)

    assert (stray.read_text(), catalog.tables("sales")) == ("keep me", [])


def test_a_renamed_table_keeps_its_rows_snapshots_and_tags(catalog):
    catalog.create_database("archive")
    made(catalog).create_tag("first")

    renamed = catalog.rename_table("sales.orders", "archive.old_orders")

    assert (catalog.tables("sales"), catalog.tables("archive")) == ([], ["old_orders"])
    assert renamed.scan().to_arrow().to_pylist() == ROW
    assert [tag.name for tag in renamed.tags()] == ["first"]
    assert renamed.write([{"k": 2, "v": "b"}]).snapshot_id == 2
    assert renamed.verify().findings == ()


USES: dict[str, Callable[[lc.Table, lc.StagedCommit], object]] = {
    "write": lambda table, _: table.write([{"k": 2, "v": "b"}]),
    "commit what was staged before": lambda table, staged: table.commit(staged),
    "read": lambda table, _: table.scan().to_arrow(),
    "compact": lambda table, _: table.compact(full=True),
    "compact manifests": lambda table, _: table.compact_manifests(),
    "expire": lambda table, _: table.expire_snapshots(),
    "alter": lambda table, _: table.alter(lc.AddColumn("note", "STRING")),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("fate", ["dropped", "renamed", "made anew", "made anew with other columns"])
def test_a_handle_of_a_table_that_is_gone_does_nothing_to_what_has_its_name_now(catalog, tmp_path, use, fate):
    handle = made(catalog)
    staged = handle.stage([{"k": 3, "v": "c"}], commit_user="loader", commit_identifier=1)
    other = lc.connect(tmp_path / "lake")
    if fate == "renamed":
        other.rename_table("sales.orders", "sales.moved")
    else:
        other.drop_table("sales.orders")
    if fate == "made anew":
        made(other)
    elif fate == "made anew with other columns":
        other.create_table("sales.orders", {"id": "STRING", "x": "DOUBLE"})

    with pytest.raises((lc.NotFound, lc.InvalidRequest), match=r"sales\.orders: .*Open it again"):
        use(handle, staged)

    if "anew" in fate:
        now = other.table("sales.orders")
        assert now.scan().to_arrow().to_pylist() == (ROW if fate == "made anew" else [])
        assert len(now.snapshots()) == (1 if fate == "made anew" else 0)
        assert now.verify().findings == ()
    else:
        assert "orders" not in other.tables("sales")
        assert not (tmp_path / "lake" / "sales.db" / "orders").exists()


def test_a_handle_sees_the_columns_that_another_one_added(catalog, tmp_path):
    handle = made(catalog)
    lc.connect(tmp_path / "lake").table("sales.orders").alter(lc.AddColumn("note", "STRING"))

    handle.write([{"k": 2, "v": "b", "note": "new"}])

    assert handle.scan().to_arrow().sort_by("k").to_pylist() == [
        {"k": 1, "v": "a", "note": None},
        {"k": 2, "v": "b", "note": "new"},
    ]


def test_all_tables_of_a_pattern_are_compacted_with_a_report_each(catalog):
    for name in ("sales.orders", "sales.order_items", "sales.people"):
        made(catalog, name).write(ROW)
    catalog.create_database("archive")
    made(catalog, "archive.orders")

    reports = catalog.compact("order*", database="sales", full=True, properties={"note": "nightly"})

    assert [(report.table, report.commit_kind, report.error) for report in reports] == [
        ("sales.order_items", "COMPACT", None),
        ("sales.orders", "COMPACT", None),
    ]
    assert catalog.table("sales.orders").snapshot().properties["note"] == "nightly"
    assert [report.table for report in catalog.compact(dry_run=True)] == [
        "archive.orders",
        "sales.order_items",
        "sales.orders",
        "sales.people",
    ]
    with pytest.raises(lc.NotFound, match=r"No table matches 'z\*' in sales\. There are: order_items, orders, people"):
        catalog.compact("z*", database="sales")
    with pytest.raises(lc.InvalidRequest, match="partition_idle='1h'"):
        catalog.compact("order*", partition_idle="1h")
    with pytest.raises(lc.NotFound, match="No database matches 'sale'"):
        catalog.compact(database="sale")


def test_a_pattern_may_name_the_database_as_in_the_shell(catalog):
    for name in ("sales.orders", "sales.people"):
        made(catalog, name).write(ROW)
    catalog.create_database("archive")
    made(catalog, "archive.orders").write(ROW)

    assert catalog.matching("sales.*") == ["sales.orders", "sales.people"]
    assert catalog.matching("*.order?") == ["archive.orders", "sales.orders"]
    assert [report.table for report in catalog.compact("sales.*", full=True)] == ["sales.orders", "sales.people"]
    with pytest.raises(lc.NotFound, match=r"No table matches 'z\*' in sales\."):
        catalog.compact("sales.z*")
    with pytest.raises(lc.NotFound, match=r"No database matches 'shop' in"):
        catalog.compact("shop.*")


def test_a_pattern_where_one_table_is_meant_says_how_to_take_many(catalog):
    made(catalog, "sales.orders")

    with pytest.raises(
        lc.NotFound, match=r"'sales\.\*' does not exist\. For many tables loop over matching\('sales\.\*'\)"
    ):
        catalog.table("sales.*")


def test_a_table_that_cannot_be_compacted_says_so_in_its_report_and_stops_no_other(catalog, tmp_path):
    for name in ("sales.a", "sales.b", "sales.c"):
        made(catalog, name).write(ROW)
    schema = tmp_path / "lake" / "sales.db" / "b" / "schema" / "schema-0"
    text = schema.read_text()
    schema.write_text("{")

    reports = catalog.compact(database="sales", full=True)
    schema.write_text(text)

    assert [report.table for report in reports if report.error is None] == ["sales.a", "sales.c"]
    assert isinstance(reports[1].error, lc.CorruptTable)
    assert "sales.b" in str(reports[1].error)
    assert isinstance(reports[1].to_dict()["error"], str)


def test_a_warehouse_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    lc.connect("~/lake").create_database("sales")

    assert (tmp_path / "lake" / "sales.db").is_dir()
    assert lc.connect("./~").uri.endswith("/~")
    with pytest.raises(lc.InvalidRequest, match="Path '~nobody-at-all/x': user '~nobody-at-all' does not exist"):
        lc.connect("~nobody-at-all/x")


POINTS_IN_TIME = {
    "a text with a zone": "2013-01-05T11:00:00+01:00",
    "a text without one, which is UTC": "2013-01-05 10:00:00",
    "a datetime without a zone": datetime(2013, 1, 5, 10),
    "a datetime with one": datetime(2013, 1, 5, 11, tzinfo=timezone(timedelta(hours=1))),
    "milliseconds since 1970, as text": "1357380000000",
}


@pytest.mark.parametrize("given", POINTS_IN_TIME.values(), ids=POINTS_IN_TIME)
def test_a_time_may_be_given_in_many_ways(given):
    for point in (lc.AsOf(given), lc.FromCreationTime(given), lc.FromFileCreationTime(given)):
        assert point.time_millis == 1_357_380_000_000


@pytest.mark.parametrize("day", [date(2013, 1, 5), "2013-01-05", "20130105"])
def test_a_date_is_its_first_moment_in_utc(day):
    assert lc.AsOf(day).time_millis == 1_357_344_000_000


def test_a_tag_is_made_at_a_snapshot_a_tag_or_a_time(catalog):
    table = made(catalog)
    table.write(ROW)
    first = table.snapshot(1)

    table.create_tag("by id", at=1)
    table.create_tag("by point", at=lc.AtSnapshot(1))
    table.create_tag("by tag", at=lc.AtTag("by id"))
    table.create_tag("by time", at=lc.AsOf(datetime.fromtimestamp(first.time_millis / 1000, UTC)))
    table.create_tag("the latest", at=lc.Latest())

    assert {tag.name: tag.snapshot_id for tag in table.tags()} == {
        **dict.fromkeys(("by id", "by point", "by tag", "by time"), 1),
        "the latest": 2,
    }


def test_where_spark_is_missing_it_is_told_what_to_install(catalog, monkeypatch, tmp_path):
    table = made(catalog)
    for name in list(sys.modules):
        if name.startswith("lakehouse_core.execution.engines.spark") or name.partition(".")[0] == "pyspark":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    install = re.escape("Install it with `pip install 'paimon-lakehouse[spark]'`, or connect without spark=…")

    on_spark = lc.connect(tmp_path / "lake", spark=lambda: None).table("sales.orders")
    assert on_spark.scan().count() == 1
    for use in (
        lambda: on_spark.write(ROW),
        lambda: on_spark.scan().to_spark(),
        lambda: table.scan().to_spark("a session"),
        lambda: table.system("ro").to_spark("a session"),
    ):
        with pytest.raises(lc.InvalidRequest, match=install):
            use()


def set_by_another(lake: Path, options: dict[str, str]) -> lc.Table:
    """Return the table `sales.orders` with options in its schema that another engine set."""
    schema = lake / "sales.db" / "orders" / "schema" / "schema-0"
    document = json.loads(schema.read_text())
    document["options"] |= options
    del document["lakehouseCrc32"]
    schema.write_text(json.dumps(document))
    return lc.connect(lake).table("sales.orders")


def test_a_table_with_settings_for_other_engines_is_written_maintained_and_altered(catalog, tmp_path):
    made(catalog).write(ROW)
    options = {"consumer-id": "job", "streaming-read-overwrite": "true", "parquet.block.size": "1048576"}
    table = set_by_another(tmp_path / "lake", options)

    table.write(ROW)
    table.delete("k = 1")
    table.compact(full=True)
    table.alter(lc.SetOption("write-only", "true"))
    assert table.schema.options == {"bucket": "1", "write-only": "true", **options}
    with pytest.raises(lc.UnsupportedFeature, match=r"consumer-id = other has no effect here.*Leave it out"):
        table.alter(lc.SetOption("consumer-id", "other"))
    table.alter(lc.RemoveOption("consumer-id"))


def test_a_table_of_hives_metastore_is_maintained_and_gets_no_rows_here(catalog, tmp_path):
    staged = made(catalog).stage(ROW, commit_user="job", commit_identifier=1)
    table = set_by_another(tmp_path / "lake", {"metastore.partitioned-table": "true"})

    for use in (
        lambda: table.write(ROW),
        lambda: table.delete("k = 1"),
        lambda: table.commit(staged),
        lambda: table.alter(lc.UpdateComment("x")),
    ):
        with pytest.raises(lc.UnsupportedFeature, match=r"metastore.partitioned-table = true is not supported"):
            use()
    assert table.compact(full=True).buckets_rewritten == 1
    table.compact_manifests()
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.scan().to_arrow().to_pylist() == ROW


@pytest.mark.parametrize(
    "rows", [lc.Table.scan, lambda table: table.changes(after=0), lambda table: table.system("files")]
)
def test_without_a_session_to_spark_asks_for_one(catalog, rows):
    with pytest.raises(lc.InvalidRequest, match=r"this catalog has no Spark session. Pass one: to_spark\(session\)"):
        rows(made(catalog)).to_spark()


@pytest.mark.parametrize("folder", ["lake/sales.db", "lake/sales.db/orders"])
def test_a_folder_inside_a_warehouse_is_told_from_a_warehouse(catalog, tmp_path, folder):
    made(catalog)

    with pytest.raises(lc.NotFound, match=f"It has no databases. It looks like the folder of .* is .*{tmp_path}/lake."):
        lc.connect(tmp_path / folder).table("sales.orders")


def test_a_table_of_java_whose_moved_keys_would_be_twice_is_read_and_not_written(catalog, tmp_path):
    columns = {"p": "INT", **COLUMNS}
    made = catalog.create_table("sales.orders", columns, primary_keys=["k"], partition_keys=["p"])
    made.write([{"p": 1, **ROW[0]}])
    table = set_by_another(tmp_path / "lake", {"ignore-delete": "true"})

    assert table.scan().to_arrow().to_pylist() == [{"p": 1, **ROW[0]}]
    for use in (lambda: table.write(ROW), table.compact, lambda: table.alter(lc.UpdateComment("x"))):
        with pytest.raises(lc.UnsupportedFeature, match=r"keys move between partitions.*It can be read here"):
            use()
    with pytest.raises(lc.InvalidRequest, match=r"-1 and cannot become 2 once there are rows.*with the other number"):
        table.alter(lc.SetOption("bucket", "2"))
