"""Tables with postponed buckets: few rows that wait are moved by a compaction that rewrites nothing else."""

from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster.automation.sensors import look_at, run_requests
from lakehouse_dagster.page import latest_checks, report_check
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake

pytestmark = pytest.mark.dagster
TABLE = "sales.orders"


@pytest.fixture
def ready() -> Iterator[ReadyLake]:
    with ready_lake(shop_lake(orders(options={"bucket": "-2"})), resources={"shop": ShopFeed()}) as lake:
        yield lake


def requested(ready: ReadyLake) -> dg.RunRequest:
    look = look_at(ready.catalog, ready.lake.table(TABLE))
    (request,) = run_requests(ready.lake, [look], now=datetime(2026, 11, 21, tzinfo=UTC))
    return request


def waiting(ready: ReadyLake) -> tuple[bool, str]:
    """What the page of the table says of rows that wait, or of none."""
    key = ready.lake.table_key(ready.lake.table(TABLE))
    found = latest_checks(ready.instance, key, ["waiting_rows"])["waiting_rows"].evaluation
    assert found.severity == dg.AssetCheckSeverity.WARN
    assert ready.checks(TABLE)["sorted_runs"]
    return found.passed, str(found.description).rpartition("; ")[2]


def test_a_row_that_waits_is_moved_and_nothing_else_is_rewritten(ready: ReadyLake) -> None:
    ready.ingest("2013-01-01", "2013-01-03")
    assert waiting(ready) == (False, "6 rows wait in bucket-postpone, and compact makes them readable")
    assert ready.maintain().success
    assert waiting(ready) == (True, "0, at most 0")
    there = {file.file_name for file in ready.table(TABLE).files()}
    ready.ingest("2013-01-04")
    request = requested(ready)

    run = ready.definitions.resolve_job_def("mine_maintain").execute_in_process(
        instance=ready.instance,
        asset_selection=list(request.asset_selection or []),
        run_config=request.run_config,
        tags=request.tags,
    )

    assert run.success
    assert request.tags["lakehouse/reason"] == "2 waiting rows > 0"
    assert request.run_config == {"ops": {"mine__sales__orders__compact_full": {"config": {"full": False}}}}
    table = ready.table(TABLE)
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [0, 1, 2, 3, 4]
    assert there < {file.file_name for file in table.files()}


def test_rows_that_wait_are_not_missing_and_to_move_them_is_a_new_version_for_what_reads_the_table(
    ready: ReadyLake,
) -> None:
    key = ready.lake.table_key(ready.lake.table(TABLE))

    def shown() -> tuple[str, bool, str]:
        event = ready.instance.get_latest_materialization_event(key)
        assert event is not None
        assert event.asset_materialization is not None
        check = latest_checks(ready.instance, key, ["source_row_count"])["source_row_count"].evaluation
        return (event.asset_materialization.tags or {})["dagster/data_version"], check.passed, str(check.description)

    def check() -> bool:
        return dg.materialize(
            [*(ready.definitions.assets or ()), *(ready.definitions.asset_checks or ())],
            selection=dg.AssetSelection.checks(dg.AssetCheckKey(key, "source_row_count")),
            resources=dict(ready.definitions.resources or {}),
            instance=ready.instance,
        ).success

    ready.ingest("2013-01-01", "2013-01-02")
    before, *waiting = shown()
    makes_3 = "the source makes 3 through 2013-01-02"
    assert waiting == [True, f"0 rows {beside(4, 0)}, {makes_3}"]
    ready.table(TABLE).alter(lc.SetOption("postpone.merge-on-read", "true"))
    assert check()
    assert shown()[1:] == (True, "3 rows, the source makes 3 through 2013-01-02")
    ready.table(TABLE).alter(lc.RemoveOption("postpone.merge-on-read"))
    assert ready.maintain().success
    assert check()
    after, *moved = shown()
    assert moved == [True, f"3 rows, {makes_3}"]
    assert after != before
    assert ready.maintain().success
    assert shown()[0] == after
    ready.table(TABLE).overwrite([])
    ready.ingest("2013-01-03")
    assert shown()[1:] == (False, f"0 rows {beside(2, 0)}, the source makes 4 through 2013-01-03")
    ready.table(TABLE).overwrite([])
    ready.table(TABLE).write([{"id": number, "op": "-D"} for number in range(4)], rowkind_column="op")
    check()
    # Four rows that are deleted are no four rows.
    assert shown()[1:] == (False, f"0 rows {beside(0, 4)}, the source makes 4 through 2013-01-03")


def counted_at_the_newest_event(ready: ReadyLake) -> tuple[bool, str] | None:
    """What the check of the rows says; None where Dagster takes it for not evaluated."""
    key = ready.lake.table_key(ready.lake.table(TABLE))
    event = ready.instance.get_latest_materialization_event(key)
    assert event is not None
    check = latest_checks(ready.instance, key, ["source_row_count"])["source_row_count"].evaluation
    about = check.target_materialization_data
    is_evaluated = about is not None and about.timestamp == event.timestamp
    return (check.passed, str(check.description)) if is_evaluated else None


@pytest.mark.parametrize(
    ("done_before", "expected"),
    [
        pytest.param(None, (True, "3 rows, the source makes 3 through 2013-01-02"), id="nothing else"),
        pytest.param({"id": 9}, None, id="a write of another process"),
    ],
)
def test_rows_that_a_compaction_moves_are_counted_again(
    ready: ReadyLake, done_before: dict[str, int] | None, expected: tuple[bool, str] | None
) -> None:
    ready.ingest("2013-01-01", "2013-01-02")
    assert counted_at_the_newest_event(ready) is not None
    if done_before is not None:
        ready.table(TABLE).write([done_before])

    assert ready.maintain().success

    assert counted_at_the_newest_event(ready) == expected


def test_rows_that_a_compaction_loses_are_missed(ready: ReadyLake) -> None:
    ready.ingest("2013-01-01", "2013-01-02")
    key = ready.lake.table_key(ready.lake.table(TABLE))
    event = ready.instance.get_latest_materialization_event(key)
    assert event is not None
    check = latest_checks(ready.instance, key, ["source_row_count"])["source_row_count"].evaluation
    more = {**check.metadata, "paimon/rows_expected": dg.MetadataValue.int(4)}
    report_check(
        ready.instance, dg.AssetCheckResult(asset_key=key, check_name=check.check_name, passed=True, metadata=more)
    )

    assert ready.maintain().success

    assert counted_at_the_newest_event(ready) == (False, "3 rows, the source makes 4 through 2013-01-02")


def beside(adding: int, removing: int) -> str:
    return f"(those that wait for a compaction may add {adding} and remove {removing})"
