"""A table says how far it is behind its source, in batches and in time, and its page is not green meanwhile."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from lakehouse_dagster import Lake, TableSpec
from lakehouse_dagster.lateness import content_age_check, duration_text, inputs_check, last_deadline
from lakehouse_dagster.sources import Behind, row_source
from lakehouse_dagster.specs import FreshnessSpec
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.copies import copy_of
from tests.lakehouse_dagster.page_location import LAKE as DELIVERED
from tests.lakehouse_dagster.page_location import DailyFeed
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake
from tests.lakehouse_dagster.table_states import STATE
from tests.limits import HANGS_AFTER_SECONDS

ORDERS, OPEN = "sales.orders", "sales.open_orders"
FOLLOWED = orders(options={"bucket": "1", "changelog-producer": "input", "lakehouse.read.grace": "0 s"})
# By which the follower holds the changes that it has yet to take.
CONSUMER = "changes.mine.sales.open_orders"
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def followers(**change: Any) -> TableSpec:
    """The specification of a table that follows the changes of the orders."""
    return orders(
        **{"name": "open_orders", "write_mode": "cdc", "feed": None, "changes_of": {"table": ORDERS}} | change
    )


@pytest.fixture(scope="module")
def loaded() -> Iterator[ReadyLake]:
    with ready_lake(shop_lake(FOLLOWED, followers()), resources={"shop": ShopFeed()}) as lake:
        lake.ingest("2013-01-01", "2013-01-02")
        yield lake


@pytest.fixture
def ready(loaded: ReadyLake) -> Iterator[ReadyLake]:
    with copy_of(loaded, resources={"shop": ShopFeed()}) as own:
        yield own


def tick(ready: ReadyLake, name: str = "state") -> str:
    """Evaluate a sensor of the lake; return what it says."""
    sensor = ready.definitions.get_repository_def().get_sensor_def(f"mine_{name}")
    given = {name: (ready.definitions.resources or {})[name] for name in sensor.required_resource_keys}
    with dg.build_sensor_context(instance=ready.instance, resources=given, definitions=ready.definitions) as context:
        return str(sensor.evaluate_tick(context).skip_message)


def evaluations(ready: ReadyLake, table: str, check: str = "inputs_current") -> list[dg.AssetCheckEvaluation]:
    """The evaluations of a check, newest first."""
    key = dg.AssetCheckKey(ready.lake.table_key(ready.lake.table(table)), check)
    found = ready.instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
    return [each.evaluation for each in found if isinstance(each.evaluation, dg.AssetCheckEvaluation)]


def figures(evaluation: dg.AssetCheckEvaluation) -> dict[str, Any]:
    return {name.removeprefix("paimon/"): value.value for name, value in evaluation.metadata.items()}


@pytest.mark.dagster
def test_a_table_11_snapshots_behind_is_not_green_and_says_how_far_and_how_long(ready: ReadyLake):
    assert ready.checks(OPEN)["inputs_current"]
    for number in range(11):
        ready.table(ORDERS).write([{"id": 100 + number}])

    tick(ready)

    (found, *_) = evaluations(ready, OPEN)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert str(found.description).startswith("behind by 11 snapshots of sales.orders; the oldest waits for ")
    shown = figures(found)
    waited = shown.pop("behind_seconds")
    oldest = ready.table(ORDERS).snapshot(3).time_millis / 1000
    assert shown.pop("behind_since") == oldest
    assert 0 <= waited <= datetime.now(UTC).timestamp() - oldest
    assert shown == {
        "behind": 11,
        "input": ORDERS,
        "input_newest": "13",
        "input_taken": "2",
        "input_oldest": "3",
        "input_held": f"from snapshot 3 on, by consumer {CONSUMER}",
        "limit": "warns above 0, fails above 10 or after 1 h",
    }


@pytest.mark.dagster
def test_a_tick_shows_news_of_the_source_once_and_the_next_load_makes_the_table_current(ready: ReadyLake):
    before = len(evaluations(ready, OPEN))
    tick(ready)
    assert len(evaluations(ready, OPEN)) == before
    ready.table(ORDERS).write([{"id": 100}])

    tick(ready)
    tick(ready)

    assert len(evaluations(ready, OPEN)) == before + 1
    assert evaluations(ready, OPEN)[0].severity == dg.AssetCheckSeverity.WARN
    ready.ingest("2013-01-03")
    assert ready.checks(OPEN)["inputs_current"]
    assert figures(evaluations(ready, OPEN)[0])["behind"] == 0


@pytest.mark.dagster
def test_compactions_of_the_source_are_no_news_and_maintenance_of_the_table_keeps_the_result(ready: ReadyLake):
    ready.table(ORDERS).compact(full=True)
    tick(ready)
    assert ready.checks(OPEN)["inputs_current"]
    ready.table(ORDERS).write([{"id": 100}])
    tick(ready)

    ready.maintain()

    newest = ready.instance.get_latest_materialization_event(ready.lake.table_key(ready.lake.table(OPEN)))
    key = dg.AssetCheckKey(ready.lake.table_key(ready.lake.table(OPEN)), "inputs_current")
    record = ready.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert newest is not None
    assert record.event is not None
    assert record.event.timestamp >= newest.timestamp
    assert not ready.checks(OPEN)["inputs_current"]


@pytest.mark.dagster
def test_changes_that_expired_unread_fail_the_check_with_the_reason(ready: ReadyLake):
    for number in range(3):
        ready.table(ORDERS).write([{"id": 100 + number}])
    ready.table(ORDERS).delete_consumer(CONSUMER)
    ready.table(ORDERS).expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta())

    tick(ready)

    (found, *_) = evaluations(ready, OPEN)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert str(found.description).startswith(
        "sales.open_orders: it has the changes of sales.orders up to snapshot 2, and "
    )


@pytest.mark.dagster
def test_changes_wait_since_their_snapshot_also_when_only_its_changelog_is_left():
    kept = {"changelog.num-retained.min": "10", "changelog.num-retained.max": "10", "changelog.time-retained": "1 d"}
    followed = orders(options={**FOLLOWED.options, **kept})
    with ready_lake(shop_lake(followed, followers()), resources={"shop": ShopFeed()}) as ready:
        ready.ingest("2013-01-01")
        for number in range(3):
            ready.table(ORDERS).write([{"id": 100 + number}])
        waits_since = ready.table(ORDERS).snapshot(2).time_millis
        ready.table(ORDERS).delete_consumer(CONSUMER)
        ready.table(ORDERS).expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta())
        assert [each.id for each in ready.table(ORDERS).snapshots()] == [4]

        resources = SimpleNamespace(**(ready.definitions.resources or {}))
        source = row_source(ready.lake, ready.lake.table(OPEN))
        behind = source.behind(ready.table(OPEN), resources, ready.instance)

    assert behind.waiting == ("2", "3", "4")
    assert behind.since == datetime.fromtimestamp(waits_since / 1000, UTC)


@pytest.mark.dagster
def test_files_that_are_not_loaded_are_counted_from_when_they_came(tmp_path: Path):
    fields: dict[str, Any] = {"primary_key": (), "options": {}, "write_mode": "append", "feed": None}
    spec = orders(**fields, files={"path": str(tmp_path / "*.csv")})
    with ready_lake(Lake(name="mine", tables=(spec,)), resources={}) as ready:
        put(tmp_path / "a.csv", 1)
        put(tmp_path / "empty.csv")
        ready.ingest()
        assert ready.checks(ORDERS)["inputs_current"]
        put(tmp_path / "b.csv", 2)
        # A file that was moved here from elsewhere has an old time of modification.
        os.utime(tmp_path / "b.csv", (1_700_000_000,) * 2)

        tick(ready)

        (found, *_) = evaluations(ready, ORDERS)
        assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert str(found.description).startswith(f"behind by 1 file of {tmp_path}/*.csv; the oldest waits for ")
        assert figures(found)["behind_seconds"] < HANGS_AFTER_SECONDS


@pytest.mark.dagster
def test_a_followed_table_that_was_dropped_fails_the_check_until_the_table_is_made_anew(ready: ReadyLake):
    ready.catalog.drop_table(ORDERS)

    tick(ready)

    (found, *_) = evaluations(ready, OPEN)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert str(found.description).endswith(
        "is not there any more. Make it again, and drop sales.open_orders: a run makes it anew."
    )
    assert "behind" not in figures(found)

    ready.catalog.drop_table(OPEN)
    tick(ready)

    assert evaluations(ready, OPEN)[0].description == "has all of sales.orders, which is not created yet"


@pytest.mark.dagster
def test_a_folder_of_files_that_is_missing_fails_the_check_of_a_table_that_is_not_created_yet(tmp_path: Path):
    fields: dict[str, Any] = {"primary_key": (), "options": {}, "write_mode": "append", "feed": None}
    spec = orders(**fields, files={"path": str(tmp_path / "incoming" / "*" / "*.csv")})
    with ready_lake(Lake(name="mine", tables=(spec,)), resources={}) as ready:
        tick(ready)
        (found, *_) = evaluations(ready, ORDERS)
        assert found.severity == dg.AssetCheckSeverity.ERROR
        assert f"found no folder {tmp_path}/incoming. Make it, or correct the path" in str(found.description)
        assert "behind" not in figures(found)
        (tmp_path / "incoming" / "monday").mkdir(parents=True)
        put(tmp_path / "incoming" / "monday" / "a.csv", 1)

        tick(ready)

        (found, *_) = evaluations(ready, ORDERS)
        assert (found.passed, figures(found)["behind"]) == (False, 1)


@pytest.mark.dagster
@pytest.mark.parametrize("partitions", [None, {"static": {"keys": ["a", "b"], "column": "id"}}])
def test_a_table_of_an_asset_that_was_dropped_is_behind(partitions: Any):
    spec = orders(
        columns={"id": "STRING NOT NULL"},
        primary_key=(),
        options={},
        partition_by=("id",),
        write_mode="overwrite",
        feed=None,
        asset={"key": "raw"},
        partitions=partitions,
    )
    raw = dg.AssetKey("raw")
    with ready_lake(Lake(name="mine", tables=(spec,)), resources={}) as ready:
        source = row_source(ready.lake, ready.lake.table(ORDERS))
        keys = [None] if partitions is None else partitions["static"]["keys"]
        for key in (raw, ready.lake.operation_key(spec, "ingest"), ready.lake.table_key(spec)):
            for partition in keys:
                ready.instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition))

        assert len(source.behind(None, None, ready.instance).waiting) == len(keys)


def put(path: Path, *ids: int) -> None:
    path.write_text("id\n" + "".join(f"{id}\n" for id in ids))


@pytest.mark.dagster
def test_delivered_batches_that_are_not_loaded_wait_since_the_check_saw_the_oldest():
    with ready_lake(DELIVERED, resources={"shop": DailyFeed()}) as ready:
        ready.ingest("2013-01-01")
        assert ready.checks(ORDERS)["inputs_current"]
        ready.instance.add_dynamic_partitions("shop_batches", ["2013-01-02", "tomorrow"])
        tick(ready, "shop_news")
        (first, *_) = evaluations(ready, ORDERS)
        ready.instance.add_dynamic_partitions("shop_batches", ["2013-01-03"])

        tick(ready, "shop_news")

        (found, *_) = evaluations(ready, ORDERS)
        assert str(found.description).startswith("behind by 2 batches of feed orders; the oldest waits for ")
        assert (figures(found)["input_newest"], figures(found)["input_taken"]) == ("2013-01-03", "2013-01-01")
        assert figures(found)["input_oldest"] == "2013-01-02"
        assert figures(found)["behind_since"] == figures(first)["behind_since"]
        ready.ingest("2013-01-02")
        (later, *_) = evaluations(ready, ORDERS)
        assert figures(later)["input_oldest"] == "2013-01-03"
        assert figures(later)["behind_since"] > figures(first)["behind_since"]


class BrokenFeed(DailyFeed):
    """A feed whose owner did not think of everything."""

    def is_gap(self, feed: str, after: str | None, before: str) -> bool:
        raise KeyError("counts")


@pytest.mark.dagster
def test_a_source_that_cannot_be_asked_fails_the_check_of_its_table_and_no_tick():
    with ready_lake(DELIVERED, resources={"shop": DailyFeed()}) as ready:
        ready.ingest("2013-01-01")
        ready.instance.add_dynamic_partitions("shop_batches", ["2013-01-02"])
        (ready.definitions.resources or {})["shop"] = BrokenFeed()  # type: ignore[index]

        assert tick(ready, "shop_news").startswith("sales.orders: feed orders cannot be asked: ")

        (found, *_) = evaluations(ready, ORDERS)
        assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert found.description == "feed orders cannot be asked: KeyError: 'counts'"


def test_sources_that_cannot_be_asked_cheaply_have_no_such_check():
    with ready_lake(shop_lake(), resources={"shop": ShopFeed()}) as ready:
        names = {key.name for key in ready.definitions.resolve_asset_graph().asset_check_keys}

    assert "inputs_current" not in names


# Limits, waiting batches, hours since the oldest came → result.
LATE = """
warn_above  fail_above  fail_after  waiting  hours  result
0           10          1 h         0        0      passed
0           10          1 h         1        0      WARN
0           10          1 h         10       1      WARN
0           10          1 h         11       0      ERROR
0           10          1 h         1        2      ERROR
0           10          1 h         1        -      WARN
1           3           26 h        1        25     passed
1           3           26 h        1        27     ERROR
3           3           26 h        3        27     ERROR
1           3           26 h        0        27     passed
1           3           26 h        2        25     WARN
1           3           26 h        2        27     ERROR
0           0           1 h         1        0      ERROR
"""


@pytest.mark.parametrize("case", LATE.strip().splitlines()[1:])
def test_the_limits_of_the_specification_decide_between_warning_and_failure(case: str):
    words = case.replace(" h ", "_h ").split()
    warn_above, fail_above, fail_after, waiting, hours, result = words
    spec = followers(
        behind={"warn_above": warn_above, "fail_above": fail_above, "fail_after": fail_after.replace("_", " ")}
    )
    since = None if hours == "-" else NOW - timedelta(hours=int(hours))
    behind = Behind(source=ORDERS, unit="snapshot", waiting=("1",) * int(waiting), since=since)

    found = inputs_check(dg.AssetKey("t"), spec, behind, now=NOW)

    assert ("passed" if found.passed else found.severity.name) == result


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (7500, "2 h 5 min"),
        (86400, "1 d"),
        (97200, "1 d 3 h"),
    ],
)
def test_a_time_is_told_in_its_two_largest_units(seconds: int, text: str):
    assert duration_text(timedelta(seconds=seconds)) == text


# Freshness, hours since the newest rows at 12:00 → result.
AGES = """
fail_after=26h                   0   passed
fail_after=26h                   26  passed
fail_after=26h                   27  ERROR
fail_after=26h,warn_after=24h    24  passed
fail_after=26h,warn_after=24h    25  WARN
fail_after=26h,warn_after=24h    27  ERROR
deadline=0_6_*_*_*,within=2h     7   passed
deadline=0_6_*_*_*,within=2h     8   passed
deadline=0_6_*_*_*,within=2h     9   ERROR
deadline=0_13_*_*_*,within=2h    25  passed
deadline=0_13_*_*_*,within=2h    26  ERROR
deadline=0_12_*_*_*,within=2h    3   ERROR
fail_after=26h                   -   WARN
"""


def freshness(text: str) -> dict[str, str]:
    return {name: value.replace("_", " ") for name, value in (each.split("=") for each in text.split(","))}


@pytest.mark.parametrize("case", AGES.strip().splitlines())
def test_the_age_of_the_newest_rows_is_compared_with_the_time_or_the_deadline(case: str):
    text, hours, result = case.split()
    spec = orders(freshness=freshness(text))
    came = None if hours == "-" else NOW - timedelta(hours=int(hours))
    state = replace(STATE, content_time=came, content_snapshot_id=None if came is None else 10)
    assert spec.freshness is not None

    found = content_age_check(dg.AssetKey("t"), spec.freshness, state, now=NOW)

    assert ("passed" if found.passed else found.severity.name) == result


def test_rows_whose_snapshot_has_expired_are_too_old():
    spec = orders(freshness={"fail_after": "1 d"})
    assert spec.freshness is not None

    found = content_age_check(dg.AssetKey("t"), spec.freshness, replace(STATE, content_time=None), now=NOW)

    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert found.description == "the newest rows are of snapshot 10, which has expired, at most 1 d"


@pytest.mark.parametrize(("minute", "passed"), [(59, False), (0, True)])
def test_the_age_at_a_deadline_is_a_time_that_has_passed_also_where_clocks_change_before_it(minute: int, passed: bool):
    # On this day 6:00 in Berlin is 4:00 UTC, five hours after 23:00 UTC.
    limit = FreshnessSpec(deadline="0 6 * * *", within="5 h", timezone="Europe/Berlin")
    newest = datetime(2026, 3, 28, 23 if passed else 22, minute, tzinfo=UTC)
    state = replace(STATE, content_time=newest)

    found = content_age_check(dg.AssetKey("t"), limit, state, now=datetime(2026, 3, 29, 12, tzinfo=UTC))

    assert found.passed is passed


def test_a_deadline_is_of_its_time_zone():
    spec = orders(freshness={"deadline": "0 6 * * *", "within": "1 h", "timezone": "Europe/Berlin"})
    assert spec.freshness is not None

    assert last_deadline(spec.freshness, now=NOW) == datetime(2026, 11, 23, 5, tzinfo=UTC)


@pytest.mark.dagster
def test_freshness_is_of_the_ingest_and_maintenance_makes_no_old_rows_fresh():
    spec = orders(freshness={"fail_after": "1 d"})
    with ready_lake(shop_lake(spec), resources={"shop": ShopFeed()}) as ready:
        graph = ready.definitions.resolve_asset_graph()
        key = ready.lake.table_key(spec)
        assert graph.get(ready.lake.operation_key(spec, "ingest")).freshness_policy == dg.FreshnessPolicy.time_window(
            timedelta(days=1)
        )
        assert graph.get(key).freshness_policy is None
        ready.ingest("2013-01-01")
        assert ready.checks(ORDERS)["content_age"]
        before = evaluations(ready, ORDERS, "content_age")

        ready.maintain()
        tick(ready)

        # Evaluated again for the page, with the age that it had.
        assert {str(each.description) for each in evaluations(ready, ORDERS, "content_age")} == {
            str(each.description) for each in before
        }
        assert ready.checks(ORDERS)["content_age"]
