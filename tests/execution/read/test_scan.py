"""A scan reads the files that its condition needs, at the snapshot that was asked for."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.format.data_types import DataField, parse_type, to_internal
from lakehouse_core.planning.read.scope import ScanScope
from lakehouse_core.planning.read.splits import plan_splits
from lakehouse_core.planning.read.where import parse_where
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.manifest import live_rows
from lakehouse_core.table.predicate import bind
from tests.oracle.conditions import truth

T0 = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)  # where the virtual clock starts


EVENT_COLUMNS = {"dt": "DATE NOT NULL", "id": "INT NOT NULL", "v": "INT"}


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def catalog(clock):
    catalog = Catalog(MemoryStore(clock=clock), clock=clock)
    catalog.create_database("db")
    return catalog


def events(catalog: Catalog, **options: str) -> lc.Table:
    """Three days of four buckets, one commit a day; ids 0 to 19 each day, v = 100 · day + id."""
    table = catalog.create_table(
        "db.events",
        EVENT_COLUMNS,
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "4", **options},
    )
    for day in (1, 2, 3):
        table.write([{"dt": date(2013, 1, day), "id": number, "v": 100 * day + number} for number in range(20)])
    return table


def log(catalog: Catalog, **options: str) -> lc.Table:
    """An append table of three files: v is 0 to 9, 10 to 19, 20 to 29; n is null in the first."""
    table = catalog.create_table("db.log", {"v": "INT", "n": "INT", "s": "STRING"}, options=options)
    for start in (0, 10, 20):
        table.write([{"v": v, "n": v if start else None, "s": f"s{v:02}"} for v in range(start, start + 10)])
    return table


EVENT_FILES = [
    (None, 12),
    ("dt = DATE '2013-01-02'", 4),
    ("dt > DATE '2013-01-01' AND dt < '2013-01-03'", 4),
    ("dt IN ('2013-01-01', '2013-01-03')", 8),
    ("dt = DATE '2014-01-01'", 0),
    ("id = 7", 3),
    ("id = 7 AND dt = DATE '2013-01-02'", 1),
    ("id IN (7, 8) AND dt = DATE '2013-01-02'", 2),
    ("(dt = DATE '2013-01-01' AND id = 7) OR (dt = DATE '2013-01-02' AND id = 8)", 2),
    ("id > 100", 0),
    ("v = 205", 3),
    ("v = 205 AND id = 5", 1),
    ("v > 1000", 0),
]


@pytest.mark.parametrize(("where", "files"), EVENT_FILES)
def test_a_key_table_is_pruned_by_partition_bucket_key_and_by_values_of_whole_buckets(catalog, where, files):
    table = events(catalog)

    found = table.scan(where=where)

    assert found.plan().file_count == files
    assert sorted(found.to_arrow()["v"].to_pylist()) == [v for v in values() if where is None or matches(where, v)]


def values() -> list[int]:
    return [100 * day + number for day in (1, 2, 3) for number in range(20)]


def matches(where: str, v: int) -> bool:
    fields = [DataField(index, name, parse_type(kind)) for index, (name, kind) in enumerate(EVENT_COLUMNS.items())]
    row = {"dt": to_internal(date(2013, 1, v // 100), fields[0].type), "id": v % 100, "v": v}
    return truth(bind(parse_where(where), fields), row) is True


@pytest.mark.parametrize(
    ("engine", "files"), [("deduplicate", 0), ("first-row", 0), ("aggregation", 12), ("partial-update", 12)]
)
def test_no_statistics_of_values_are_believed_where_a_merge_makes_new_ones(catalog, clock, engine, files):
    table = events(catalog)
    context = table._context
    schema = replace(table.schema, options={**table.schema.options, "merge-engine": engine})
    predicate = bind(parse_where("v > 1000"), schema.fields)
    entries = context.manifests.columns(context.manifests.of(context.snapshots.latest()), with_stats=True)

    splits = plan_splits(
        entries, live_rows(entries), ScanScope(schema, predicate), snapshot_id=3, file_schemas={schema.id: schema}
    )

    assert sum(len(split.files) for split in splits) == files


def test_manifests_of_other_partitions_are_not_read(catalog):
    plan = events(catalog).scan(where="dt = DATE '2013-01-02'").plan()

    assert (plan.manifests_total, plan.manifests_read) == (3, 1)


LOG_FILES = [
    ("v = 15", 1),
    ("v < 10", 1),
    ("v <= 10", 2),
    ("v > 5 AND v < 12", 2),
    ("NOT (v < 10)", 2),
    ("v IN (5, 25)", 2),
    ("n IS NULL", 1),
    ("n IS NOT NULL", 2),
    ("n = 5", 0),
    ("s LIKE 's1%'", 1),
    ("s = 's29'", 1),
    ("v = 5 OR n = 25", 2),
]


@pytest.mark.parametrize("stats", ["truncate(16)", "full", "truncate(2)"])
@pytest.mark.parametrize(("where", "files"), LOG_FILES)
def test_an_append_table_is_pruned_by_statistics(catalog, where, files, stats):
    table = log(catalog, **{"metadata.stats-mode": stats})

    assert table.scan(where=where).plan().file_count <= files + (stats == "truncate(2)")


@pytest.mark.parametrize("where", [where for where, _ in LOG_FILES])
def test_without_statistics_nothing_is_pruned_and_the_rows_are_the_same(catalog, where):
    table = log(catalog, **{"metadata.stats-mode": "none"})
    other = log(catalog_with_database(), **{"metadata.stats-mode": "full"})

    assert table.scan(where=where).plan().file_count == 3
    assert table.scan(where=where).to_arrow().equals(other.scan(where=where).to_arrow())


def catalog_with_database() -> Catalog:
    catalog = Catalog(MemoryStore(), clock=VirtualClock())
    catalog.create_database("db")
    return catalog


def test_old_files_are_pruned_by_columns_that_they_lack_or_hold_in_a_narrower_type(catalog):
    table = log(catalog)
    table.alter(lc.AddColumn("c", "INT"), lc.UpdateColumnType("v", "BIGINT"), lc.RenameColumn("s", "text"))
    table.write([{"v": 30, "c": 5, "text": "s30"}])

    assert table.scan(where="c > 3").plan().file_count == 1
    assert table.scan(where="c IS NULL").plan().file_count == 3
    assert table.scan(where="v = 15").plan().file_count == 1
    assert table.scan(where="text = 's15'").to_arrow().to_pylist() == [{"v": 15, "n": 15, "text": "s15", "c": None}]


def test_a_merge_hides_versions_that_match_where_the_newest_does_not(catalog):
    table = events(catalog)
    table.write([{"dt": date(2013, 1, 1), "id": 5, "v": 0}])

    assert table.scan(where="v = 105").count() == 0
    assert table.scan(where="v = 0").to_arrow()["id"].to_pylist() == [5]


def test_each_partition_is_pruned_by_its_own_number_of_buckets(catalog):
    table = events(catalog)
    table.alter(lc.SetOption("bucket", "2"))
    table.overwrite([{"dt": date(2013, 1, 3), "id": number, "v": 0} for number in range(20)], dynamic=True)

    for number in range(20):
        plan = table.scan(where=f"id = {number}").plan()
        assert sorted(split.total_buckets for split in plan.splits) == [2, 4, 4]
        assert table.scan(where=f"id = {number}").count() == 3


NULL_PARTITION = [
    ("dt = DATE '2013-01-01' AND v >= 0", [1]),
    ("dt <> DATE '2013-01-01' AND v >= 0", []),
    ("NOT (dt IN (DATE '2013-01-02')) AND v >= 0", [1]),
    ("dt IS NULL AND v >= 0", [2]),
    ("(dt = DATE '2013-01-01' OR v = 2) AND v >= 0", [1, 2]),
    ("NOT (dt = DATE '2013-01-01' AND v = 1)", [2]),
]


@pytest.mark.parametrize(("where", "found"), NULL_PARTITION)
def test_what_is_unknown_of_a_null_partition_keeps_none_of_its_rows(catalog, where, found):
    # With statistics the files of the null partition would be left out for another reason.
    options = {"metadata.stats-mode": "none"}
    table = catalog.create_table("db.log", {"dt": "DATE", "v": "INT"}, partition_keys=["dt"], options=options)
    table.write([{"dt": date(2013, 1, 1), "v": 1}, {"dt": None, "v": 2}])

    assert sorted(table.scan(where=where).to_arrow()["v"].to_pylist()) == found


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("where", ["k = 0", "k = -0.0", "k IN (0, 5)", "k = 0 OR k = 5"])
def test_both_zeros_are_found_though_they_lie_in_different_buckets(catalog, kind, where):
    table = catalog.create_table("db.t", {"k": f"{kind} NOT NULL"}, options={"bucket": "7", "bucket-key": "k"})
    table.write([{"k": 0.0}, {"k": -0.0}, {"k": 1.0}])

    assert table.scan(where=where).count() == 2


def test_only_the_columns_asked_for_come_back_in_their_order(catalog):
    table = log(catalog)

    assert table.scan(columns=["s", "v"], where="n = 11").to_arrow().to_pylist() == [{"s": "s11", "v": 11}]
    assert table.scan(columns=["s", "v"]).schema().names == ["s", "v"]


def test_a_scan_keeps_its_snapshot_from_the_first_look_on(catalog):
    table = log(catalog)
    scan = table.scan()
    before = scan.count()
    table.write([{"v": 1}])

    assert scan.count() == before == 30
    assert table.scan().count() == 31


def test_an_empty_table_is_read_as_no_rows(catalog):
    table = catalog.create_table("db.t", {"id": "INT", "v": "STRING"})

    assert table.scan().to_arrow().num_rows == 0
    assert table.scan(where="id = 1").schema().names == ["id", "v"]
    assert table.scan().count() == 0
    assert table.snapshots() == []
    assert list(table.files()) == []


def test_rows_of_the_past_are_read_by_snapshot_tag_and_time(catalog, clock):
    table = catalog.create_table("db.t", {"id": "INT"})
    for number in (1, 2, 3):
        clock.advance(60)
        table.write([{"id": number}])
    table.create_tag("two", at=2)

    def ids(point: lc.ReadPoint) -> list[int]:
        return sorted(table.scan(at=point).to_arrow()["id"].to_pylist())

    assert ids(lc.Latest()) == [1, 2, 3]
    assert ids(lc.AtSnapshot(1)) == [1]
    assert ids(lc.AtTag("two")) == [1, 2]
    assert ids(lc.AsOf(T0 + timedelta(seconds=60))) == [1]
    assert ids(lc.AsOf(T0 + timedelta(seconds=179))) == [1, 2]
    assert ids(lc.AsOf((T0 + timedelta(days=1)).replace(tzinfo=None))) == [1, 2, 3]


def test_the_past_is_read_with_its_schema_and_the_present_with_the_newest(catalog):
    table = catalog.create_table("db.t", {"id": "INT"})
    table.write([{"id": 1}])
    table.alter(lc.AddColumn("note", "STRING"))

    assert table.scan(at=lc.AtSnapshot(1)).to_arrow().to_pylist() == [{"id": 1}]
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "note": None}]


def test_what_expired_while_it_was_read_is_told_and_never_left_out(catalog, clock):
    table = catalog.create_table(
        "db.t",
        {"id": "INT NOT NULL"},
        primary_keys=["id"],
        options={"bucket": "1", "snapshot.num-retained.min": "1", "lakehouse.read.grace": "0 s"},
    )
    table.write([{"id": 1}])
    table.write([{"id": 2}])
    old = table.scan(at=lc.AtSnapshot(2))
    old.plan()
    table.compact(full=True)
    clock.advance(7200)
    table.expire_snapshots(retain_max=1)

    with pytest.raises(lc.SnapshotExpired, match=r"Snapshot 2 is expired\. The earliest available is 3"):
        old.to_arrow()
    with pytest.raises(lc.SnapshotExpired, match="Snapshot 1 is expired"):
        table.scan(at=lc.AtSnapshot(1)).to_arrow()
