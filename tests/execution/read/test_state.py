"""Each read point means the state, or the changes, that its description says."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def catalog(clock: VirtualClock) -> Catalog:
    catalog = Catalog(MemoryStore(clock=clock), clock=clock)
    catalog.create_database("db")
    return catalog


def board(catalog: Catalog, clock: VirtualClock, **options: str) -> lc.Table:
    """Keys 1 to 3, an hour apart each: snapshot 1 has k 1 and 2, 2 changes 2, 3 is a full compaction, 4 adds 3 and
    deletes 1."""
    table = catalog.create_table(
        "db.board", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "1", **options}
    )
    table.write([{"k": 1, "v": 10}, {"k": 2, "v": 20}])
    clock.advance(3600)
    table.write([{"k": 2, "v": 21}])
    clock.advance(3600)
    table.compact(full=True)
    clock.advance(3600)
    rows = [{"k": 3, "v": 30, "op": "+I"}, {"k": 1, "v": 10, "op": "-D"}]
    table.write(rows, rowkind_column="op")
    return table


def values(scan: lc.Scan) -> dict[int, int]:
    return {row["k"]: row["v"] for row in scan.to_arrow().to_pylist()}


START = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
FIRST, SECOND, LAST = {1: 10, 2: 20}, {1: 10, 2: 21}, {2: 21, 3: 30}

POINTS: list[tuple[lc.ReadPoint, dict[int, int]]] = [
    (lc.Latest(), LAST),
    (lc.AtVersion("2"), SECOND),
    (lc.AtVersion("eod"), FIRST),
    (lc.CompactedFull(), SECOND),
    (lc.LatestDelta(), {3: 30}),
    (lc.FromCreationTime(START + HOUR), SECOND),
]


@pytest.mark.parametrize(("point", "expected"), POINTS, ids=str)
def test_a_point_means_its_state(
    catalog: Catalog, clock: VirtualClock, point: lc.ReadPoint, expected: dict[int, int]
) -> None:
    table = board(catalog, clock)
    table.create_tag("eod", at=1)

    assert values(table.scan(at=point)) == expected
    assert table.scan(at=point).count() == len(expected)


def test_files_are_told_apart_by_the_time_of_their_creation(catalog: Catalog, clock: VirtualClock) -> None:
    table = catalog.create_table("db.log", {"k": "INT", "v": "INT"})
    for number in (1, 2, 3):
        table.write([{"k": number, "v": number}])
        clock.advance(3600)

    assert values(table.scan(at=lc.FromFileCreationTime(START + HOUR))) == {2: 2, 3: 3}
    assert table.scan(at=lc.FromFileCreationTime(START + HOUR)).count() == 2
    assert len(table.files(at=lc.FromFileCreationTime(START + HOUR))) == 2
    # Within the snapshots a time means a state; outside of them it means files of the latest.
    assert values(table.scan(at=lc.FromCreationTime(START + HOUR))) == {1: 1, 2: 2}
    assert values(table.scan(at=lc.FromCreationTime(START - HOUR))) == {1: 1, 2: 2, 3: 3}
    assert values(table.scan(at=lc.FromCreationTime(START + 9 * HOUR))) == {}


OPTIONS = [
    ({"scan.snapshot-id": "1"}, FIRST),
    ({"scan.tag-name": "eod"}, FIRST),
    ({"scan.mode": "compacted-full"}, SECOND),
    ({"incremental-between": "3,4"}, {3: 30}),
    ({"incremental-between": "1,2", "incremental-between-scan-mode": "delta"}, {2: 21}),
    ({"incremental-between": "1,2", "incremental-between-scan-mode": "changelog"}, {}),
    ({"incremental-between": "0,1"}, FIRST),
    ({"incremental-between": "2,2"}, {}),
    ({"incremental-between": "1,4", "incremental-between-scan-mode": "diff"}, LAST),
    ({"incremental-between": "eod,late"}, LAST),
    ({"incremental-between": "eod,late", "incremental-between-tag-to-snapshot": "true"}, LAST),
    ({"incremental-between-timestamp": "0,1"}, {}),
    ({"incremental-between-timestamp": "2023-11-14 22:13:20,2023-11-14 23:30:00"}, {2: 21}),
    ({"incremental-between-timestamp": "0,4102444800000", "incremental-between-scan-mode": "diff"}, LAST),
    ({"incremental-to-auto-tag": "2023-11-16"}, LAST),
    ({"incremental-to-auto-tag": "2023-11-15"}, {}),
    ({"incremental-to-auto-tag": "2023-12-24"}, {}),
]


@pytest.mark.parametrize(("options", "expected"), OPTIONS, ids=str)
def test_options_of_a_read_or_of_the_table_mean_the_same(
    catalog: Catalog, clock: VirtualClock, options: dict[str, str], expected: dict[int, int]
) -> None:
    table = board(catalog, clock)
    for name, snapshot_id in (("eod", 1), ("late", 4), ("2023-11-15", 1), ("2023-11-16", 4)):
        table.create_tag(name, at=snapshot_id)

    assert values(table.scan(options=options)) == expected

    table.alter(*(lc.SetOption(key, value) for key, value in options.items()))

    assert values(table.scan()) == expected
    assert values(table.scan(at=lc.Latest())) == LAST


def test_where_and_columns_go_with_an_incremental_read(catalog: Catalog, clock: VirtualClock) -> None:
    scan = board(catalog, clock).scan(["v"], "k > 2", options={"incremental-between": "0,4"})

    assert scan.to_arrow().to_pylist() == [{"v": 30}]


REFUSED: list[tuple[Callable[[lc.Table], lc.Scan], type[lc.LakehouseError], str]] = [
    (lambda table: table.scan(at=lc.AtVersion("nope")), lc.NotFound, "nope"),
    (lambda table: table.scan(at=lc.AtWatermark(5)), lc.NotFound, "No snapshot has the watermark 5"),
    (
        lambda table: table.scan(at=lc.Latest(), options={"scan.snapshot-id": "1"}),
        lc.InvalidRequest,
        "both name a read point",
    ),
    (lambda table: table.scan(options={"bucket": "1"}), lc.InvalidRequest, "option bucket is not a read option"),
    (
        lambda table: table.scan(options={"scan.snapshot-id": 2}),
        lc.InvalidRequest,
        "'scan.snapshot-id' = 2: keys and values of options are text",
    ),
    (
        lambda table: table.scan(options={"incremental-between": (1, 2)}),
        lc.InvalidRequest,
        "keys and values of options are text",
    ),
    (lambda table: table.scan(options={"incremental-between": "4,3"}), lc.InvalidRequest, "ends before it begins"),
    (lambda table: table.scan(options={"incremental-between": "1,9"}), lc.NotFound, "Snapshot 9 does not exist yet"),
    (
        lambda table: table.scan(options={"incremental-between": "a,2"}),
        lc.InvalidRequest,
        "expected two tags or two snapshot ids",
    ),
    (
        lambda table: table.scan(options={"incremental-to-auto-tag": "x"}),
        lc.InvalidRequest,
        "expected the name of an automatic tag",
    ),
    (lambda table: table.scan(limit=-1), lc.InvalidRequest, "limit=-1: expected a number of rows"),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED)
def test_what_cannot_be_read_is_told(
    catalog: Catalog,
    clock: VirtualClock,
    make: Callable[[lc.Table], lc.Scan],
    error: type[lc.LakehouseError],
    message: str,
) -> None:
    table = board(catalog, clock)

    with pytest.raises(error, match=message):
        make(table).to_arrow()


def test_bad_options_are_refused_when_a_table_is_created_or_altered(catalog: Catalog, clock: VirtualClock) -> None:
    with pytest.raises(lc.InvalidRequest, match=r"found scan\.snapshot-id and scan\.tag-name"):
        board(catalog, clock, **{"scan.snapshot-id": "1", "scan.tag-name": "eod"})
    with pytest.raises(lc.InvalidRequest, match=r"expected exactly one of scan\.snapshot-id"):
        board(catalog, clock).alter(lc.SetOption("scan.mode", "from-snapshot"))


def test_a_table_without_snapshots_has_no_rows_at_any_point_that_needs_none(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})

    for point in (lc.Latest(), lc.CompactedFull(), lc.LatestDelta(), lc.FromCreationTime(START)):
        assert table.scan(at=point).count() == 0
    assert table.scan(options={"incremental-between": "1,2"}).count() == 0


def test_a_diff_tells_what_is_new_changed_and_gone(catalog: Catalog, clock: VirtualClock) -> None:
    table = board(catalog, clock)

    assert sorted(table.diff(1, 4).to_arrow().to_pylist(), key=lambda row: row["k"]) == [
        {"rowkind": "-D", "k": 1, "v": 10},
        {"rowkind": "+I", "k": 2, "v": 21},
        {"rowkind": "+I", "k": 3, "v": 30},
    ]
    assert table.diff(2, 3).to_arrow().num_rows == 0
    assert table.diff(0, 1).to_arrow().num_rows == 2


def test_tags_are_compared_after_their_snapshots_have_expired(catalog: Catalog, clock: VirtualClock) -> None:
    table = board(catalog, clock, **{"lakehouse.read.grace": "0 s"})
    table.create_tag("sod", at=1)
    table.create_tag("eod", at=2)
    table.expire_snapshots(retain_max=1, retain_min=1)

    assert table.diff("sod", "eod").to_arrow().to_pylist() == [{"rowkind": "+I", "k": 2, "v": 21}]
    with pytest.raises(lc.SnapshotExpired):
        table.diff(1, 2).to_arrow()
    with pytest.raises(lc.InvalidRequest, match="Swap the two"):
        table.diff("eod", "sod").to_arrow()
    with pytest.raises(lc.InvalidRequest, match="two snapshot ids, or two tags"):
        table.diff(1, "eod").to_arrow()


def test_a_diff_whose_snapshot_expires_meanwhile_says_so(catalog: Catalog, clock: VirtualClock) -> None:
    table = board(catalog, clock, **{"lakehouse.read.grace": "0 s"})
    asked = table.diff(1, 4)
    asked.plan()
    clock.advance(7 * 3600)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)

    with pytest.raises(lc.SnapshotExpired, match="Snapshot 1 expired while"):
        asked.to_arrow()


def test_the_diff_of_an_append_table_is_the_rows_of_the_files_that_came(catalog: Catalog) -> None:
    table = catalog.create_table("db.log", {"v": "INT"})
    for number in range(3):
        table.write([{"v": number}])

    assert table.diff(1, 3).to_arrow().to_pylist() == [{"rowkind": "+I", "v": 1}, {"rowkind": "+I", "v": 2}]


def test_a_limit_reads_no_more_files_than_it_needs(catalog: Catalog) -> None:
    table = catalog.create_table("db.log", {"v": "INT"}, options={"source.split.open-file-cost": "128 mb"})
    for start in (0, 10, 20):
        table.write([{"v": start + number} for number in range(10)])

    for limit, files in ((0, 0), (1, 1), (10, 1), (11, 2), (30, 3), (99, 3)):
        scan = table.scan(limit=limit)
        assert scan.plan().file_count == files
        assert scan.to_arrow().num_rows == scan.count() == min(limit, 30)
    assert table.scan(where="v > 12", limit=4).to_arrow().num_rows == 4
    assert table.scan(where="v > 12", limit=4).count() == 4


def test_a_limit_counts_rows_after_the_merge(catalog: Catalog, clock: VirtualClock) -> None:
    table = board(catalog, clock)

    for limit in range(4):
        assert table.scan(limit=limit).to_arrow().num_rows == min(limit, 2)


def test_a_read_optimized_scan_sees_the_top_level_only(catalog: Catalog, clock: VirtualClock) -> None:
    table = board(catalog, clock)

    assert values(table.scan(read_optimized=True)) == SECOND
    assert values(table.scan(read_optimized=True, where="v = 21")) == {2: 21}
    assert values(table.scan(read_optimized=True, at=lc.AtSnapshot(2))) == {}
    log = catalog.create_table("db.log", {"k": "INT", "v": "INT"})
    log.write([{"k": 1, "v": 1}])
    assert values(log.scan(read_optimized=True)) == {1: 1}
