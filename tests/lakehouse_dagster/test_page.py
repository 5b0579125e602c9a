"""The page of a table says what is true now, whoever changed the table."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

import lakehouse_core as lc
from lakehouse_dagster import commit_asset, ingest_asset
from lakehouse_dagster.pipeline import TableState, read_state
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.copies import copy_of
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake

pytestmark = pytest.mark.dagster
ORDERS = "sales.orders"
KEY = dg.AssetKey(["mine", "sales", "orders"])
LIMITS = {"max_snapshots": 3, "max_sorted_runs": 2}


@pytest.fixture(scope="module")
def loaded() -> Iterator[ReadyLake]:
    spec = orders(options={"bucket": "1", "write-only": "true"}, maintenance=LIMITS)
    with ready_lake(shop_lake(spec), resources={"shop": ShopFeed()}) as lake:
        lake.ingest("2013-01-01", "2013-01-04")
        yield lake


@pytest.fixture
def ready(loaded: ReadyLake) -> Iterator[ReadyLake]:
    with copy_of(loaded, resources={"shop": ShopFeed()}) as own:
        yield own


def operate(ready: ReadyLake, operation: str, **config: Any) -> dg.ExecuteInProcessResult:
    key = ready.lake.operation_key(ready.lake.table(ORDERS), operation)
    op = "__".join(key.path)
    return ready.definitions.resolve_job_def("mine_maintain").execute_in_process(
        instance=ready.instance, asset_selection=[key], run_config={"ops": {op: {"config": config}}}
    )


def compact(ready: ReadyLake) -> None:
    operate(ready, "compact_full")


def report(ready: ReadyLake) -> str:
    """Evaluate the sensor; return what it says of its tick."""
    sensor = ready.definitions.get_repository_def().get_sensor_def("mine_state")
    resources = {"lakehouse": (ready.definitions.resources or {})["lakehouse"]}
    with dg.build_sensor_context(instance=ready.instance, resources=resources) as context:
        tick = sensor.evaluate_tick(context)
    assert not tick.run_requests
    return str(tick.skip_message)


def assert_true(ready: ReadyLake) -> None:
    """Check the page against the table itself."""
    table = ready.table(ORDERS)
    snapshots = table.snapshots()
    ready.assert_metadata(
        ORDERS,
        {
            "paimon/snapshot_id": snapshots[-1].id,
            "paimon/earliest_snapshot_id": snapshots[0].id,
            "paimon/snapshots_retained": len(snapshots),
            "paimon/files_total": len(table.files()),
            "paimon/tags": len(table.tags()),
            "dagster/row_count": table.scan().count(),
        },
    )


def events(ready: ReadyLake) -> int:
    return len(ready.instance.fetch_materializations(KEY, limit=100).records)


def all_events(ready: ReadyLake) -> list[int]:
    """Return the number of evaluations of each cheap check, and of events of the table."""
    storage = ready.instance.event_log_storage
    keys = [dg.AssetCheckKey(KEY, name) for name in ("sorted_runs", "snapshot_count")]
    evaluations = [len(storage.get_asset_check_execution_history(key, limit=100)) for key in keys]
    return [*evaluations, events(ready)]


def latest(ready: ReadyLake) -> dg.AssetMaterialization:
    event = ready.instance.get_latest_materialization_event(KEY)
    assert event is not None
    assert event.asset_materialization is not None
    return event.asset_materialization


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("operation", "config"),
    [("compact_full", {}), ("compact_manifests", {}), ("expire", {"retain_max": 1, "older_than_hours": 0.0})],
)
def test_after_maintenance_the_page_shows_the_state_that_it_left(
    ready: ReadyLake, operation: str, config: dict[str, Any]
):
    before = ready.metadata(ORDERS)

    operate(ready, operation, **config)

    assert_true(ready)
    assert ready.metadata(ORDERS) != before
    event = ready.instance.get_latest_materialization_event(KEY)
    assert event is not None
    assert event.run_id == ""
    assert event.asset_materialization is not None
    assert str(event.asset_materialization.description).startswith(operation)


def test_maintenance_keeps_the_data_version_and_what_dagster_compares_of_the_inputs(ready: ReadyLake):
    before = dict(latest(ready).tags or {})

    operate(ready, "compact_full")

    after = dict(latest(ready).tags or {})
    assert after["dagster/data_version"] == before["dagster/data_version"]
    inputs = {name for name in before if name.startswith(("dagster/input_", "dagster/code_version"))}
    assert inputs
    assert {name: after.get(name) for name in inputs} == {name: before[name] for name in inputs}


def test_rows_of_another_process_are_shown_counted_and_are_a_new_version(ready: ReadyLake):
    before = dict(latest(ready).tags or {})
    ready.table(ORDERS).write([{"id": 99}])

    assert report(ready) == "sales.orders: snapshot 5"

    assert_true(ready)
    assert latest(ready).tags["dagster/data_version"] != before["dagster/data_version"]


def test_a_compaction_by_another_process_is_shown_and_is_no_new_version(ready: ReadyLake):
    before = dict(latest(ready).tags or {})
    ready.table(ORDERS).compact(full=True)

    report(ready)

    assert_true(ready)
    assert latest(ready).tags["dagster/data_version"] == before["dagster/data_version"]


def test_each_verb_of_another_process_is_shown(ready: ReadyLake):
    verbs: dict[str, Callable[[lc.Table], object]] = {
        "tag create": lambda table: table.create_tag("before"),
        "merge": lambda table: table.merge([{"id": 98}], "t.id = s.id", lc.WhenNotMatched(insert="*")),
        "rollback": lambda table: table.rollback_to(lc.AtTag("before")),
        "tag delete": lambda table: table.delete_tag("before"),
    }
    for name, verb in verbs.items():
        verb(ready.table(ORDERS))
        before = events(ready)
        report(ready)

        assert events(ready) == before + 1, name
        assert_true(ready)


def test_a_table_that_was_made_again_is_shown_although_its_snapshots_begin_at_1(ready: ReadyLake):
    options = {"bucket": "1"}
    ready.catalog.drop_table(ORDERS)
    made = ready.catalog.create_table(ORDERS, {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options=options)
    made.write([{"id": 1}])
    report(ready)
    assert_true(ready)


def test_a_state_that_is_shown_is_not_reported_again(ready: ReadyLake):
    found = [events(ready)]
    for act in (report, compact, compact, compact, report):
        act(ready)
        found.append(events(ready))

    # The second compaction is the first one that says why it did nothing.
    assert [count - found[0] for count in found[1:]] == [0, 1, 2, 2, 2]


def test_the_page_says_what_each_operation_did_last_or_why_it_did_nothing(ready: ReadyLake):
    assert ready.metadata(ORDERS)["paimon/last_maintenance"] == (
        "compact_full: not run yet; compact_manifests: not run yet; expire: not run yet"
    )

    compact(ready)
    done = "compact_full: 4 files removed, 1 file added"
    assert str(ready.metadata(ORDERS)["paimon/last_maintenance"]).startswith(f"{done}; compact_manifests: not run yet")
    operate(ready, "expire", retain_max=9, retain_min=9)
    ready.assert_metadata(ORDERS, {"paimon/snapshot_id": 5})
    told = "expire: nothing to do: snapshots 1 to 5 stay: at least 9 are to be retained"
    assert ready.metadata(ORDERS)["paimon/last_maintenance"] == f"{done}; compact_manifests: not run yet; {told}"
    ready.ingest("2013-01-05")
    assert ready.metadata(ORDERS)["paimon/last_maintenance"] == f"{done}; compact_manifests: not run yet; {told}"


def test_the_page_says_who_made_the_current_snapshot(ready: ReadyLake):
    run = ready.table(ORDERS).snapshots()[-1].properties["lakehouse.run-id"][:8]
    assert ready.metadata(ORDERS)["paimon/made_by"].startswith(
        f"APPEND by run {run}, batch 2013-01-04, +2 rows in files, "
    )

    ready.table(ORDERS).write([{"id": 99}])
    report(ready)

    shown = ready.metadata(ORDERS)
    user = ready.table(ORDERS).snapshots()[-1].commit_user
    assert shown["paimon/made_by"].startswith(f"APPEND by {user}, +1 rows in files, ")
    assert (shown["paimon/commit_kind"], shown["paimon/commit_user"]) == ("APPEND", user)

    ready.table(ORDERS).rollback_to(4)
    report(ready)

    user = ready.table(ORDERS).snapshots()[-1].commit_user
    assert ready.metadata(ORDERS)["paimon/made_by"].startswith(
        f"OVERWRITE by {user}, rolled back to snapshot 4, -1 rows in files, "
    )


def test_after_maintenance_the_page_still_shows_the_commits_of_the_last_load(ready: ReadyLake):
    before = ready.metadata(ORDERS)

    compact(ready)

    after = ready.metadata(ORDERS)
    for name in ("paimon/commits", "paimon/input_snapshots", "dagster/row_count", "dagster/uri"):
        assert after[name] == before[name]
    assert [commit["batch"] for commit in after["paimon/commits"]] == [f"2013-01-0{day}" for day in (1, 2, 3, 4)]


def test_after_a_range_with_compactions_the_page_shows_the_snapshot_of_the_last_compaction():
    spec = orders(options={"bucket": "1", "write-only": "false", "full-compaction.delta-commits": "1"})
    with ready_lake(shop_lake(spec), resources={"shop": ShopFeed()}) as lake:
        lake.ingest("2013-01-01", "2013-01-02")

        assert [str(each.commit_kind) for each in lake.table(ORDERS).snapshots()] == ["APPEND", "COMPACT"] * 2
        assert_true(lake)
        ready_at = {
            each.partition_key: each.asset_materialization.metadata["paimon/snapshot_id"].value
            for each in lake.instance.fetch_materializations(KEY, limit=9).records
            if each.asset_materialization is not None
        }
        assert ready_at == {"2013-01-01": 1, "2013-01-02": 3, None: 4}


def test_nothing_that_identifies_something_is_plotted(ready: ReadyLake):
    compact(ready)
    for asset in (None, "ingest", "compact_full"):
        numbers = {name for name, value in ready.metadata(ORDERS, asset).items() if isinstance(value, int | float)}
        ids = {name for name in numbers if name.endswith(("_id", "_identifier", "_id_before", "incarnation"))}
        # Their plots show how a table moves on, and what expiry leaves of it.
        assert ids <= {"paimon/snapshot_id", "paimon/earliest_snapshot_id"}


def test_ticks_over_an_unchanged_table_write_nothing(ready: ReadyLake):
    operate(ready, "compact_full")
    report(ready)
    before = all_events(ready)

    report(ready)
    report(ready)

    assert all_events(ready) == before


def test_checks_that_were_not_evaluated_since_the_last_commit_are(ready: ReadyLake):
    spec = ready.lake.table(ORDERS)
    assets = [ingest_asset(ready.lake, spec), commit_asset(ready.lake, spec)]
    resources = ready.definitions.resources or {}
    dg.materialize(assets, instance=ready.instance, resources=resources, partition_key="2013-01-05")
    before = all_events(ready)

    report(ready)

    assert all_events(ready) == [count + 1 for count in before[:2]] + before[2:]


def test_a_table_without_an_event_is_shown_from_nothing(ready: ReadyLake):
    ready.instance.wipe_assets([KEY])

    report(ready)

    assert_true(ready)


def test_cheap_checks_say_what_is_true_after_maintenance(ready: ReadyLake):
    checks = {
        name: passed for name, passed in ready.checks(ORDERS).items() if name in ("sorted_runs", "snapshot_count")
    }
    assert checks == {"sorted_runs": False, "snapshot_count": False}

    operate(ready, "compact_full")
    assert ready.checks(ORDERS)["sorted_runs"]
    operate(ready, "expire", retain_max=2, retain_min=1, older_than_hours=0.0)
    assert ready.checks(ORDERS)["snapshot_count"]


def test_snapshot_health_age_and_maintenance_come_first(ready: ReadyLake):
    shown = ready.metadata(ORDERS)

    first = ["snapshot_id", "made_by", "health", "content_time", "next_maintenance", "last_maintenance"]
    assert list(shown)[:6] == [f"paimon/{name}" for name in first]
    compact(ready)
    assert list(ready.metadata(ORDERS))[:6] == list(shown)[:6]
    assert shown["paimon/health"] == "4 sorted runs > 2; 4 snapshots > 3"
    assert shown["paimon/next_maintenance"] == (
        "compact_full: due, 4 small files <= 16, 4 sorted runs > 2; compact_manifests: not due, 4 manifests <= 16; "
        "expire: due, 4 snapshots > 3"
    )
    assert ready.table(ORDERS).snapshots()[3].time_millis == round(1000 * shown["paimon/content_time"])


def observations(ready: ReadyLake, *operation: str) -> list[dg.AssetObservation]:
    """Return the observations of the table or of an operation, the oldest first."""
    records = ready.instance.fetch_observations(dg.AssetKey([*KEY.path, *operation]), limit=100).records
    return [record.asset_observation for record in reversed(records) if record.asset_observation is not None]


def test_a_replay_shows_the_original_snapshot_its_rows_and_why_nothing_was_done(ready: ReadyLake):
    before, shown = events(ready), ready.metadata(ORDERS)
    first, *_ = ready.table(ORDERS).snapshots()

    result = ready.ingest("2013-01-01", "2013-01-02")

    assert result.success
    assert (events(ready), ready.metadata(ORDERS)) == (before, shown)
    one, two = observations(ready)
    assert (one.partition, two.partition) == ("2013-01-01", "2013-01-02")
    run = first.properties["lakehouse.run-id"][:8]
    assert one.description == f"nothing was committed: committed before by run {run} as snapshot 1"
    assert {name: one.metadata[name].value for name in ("paimon/snapshot_id", "paimon/rows_added")} == {
        "paimon/snapshot_id": 1,
        "paimon/rows_added": 2,
    }
    assert one.metadata["dagster/partition_row_count"].value == 2
    (ingest, _) = observations(ready, "ingest")
    assert (ingest.partition, ingest.description) == ("2013-01-01", "nothing was staged: committed before")
    assert len(ready.instance.fetch_materializations(dg.AssetKey([*KEY.path, "ingest"]), limit=9).records) == 4


def test_a_batch_whose_snapshot_has_expired_shows_no_rows_rather_than_wrong_ones(ready: ReadyLake):
    operate(ready, "expire", retain_max=1, retain_min=1, older_than_hours=0.0)

    ready.ingest("2013-01-01")

    (one,) = observations(ready)
    assert one.description == "nothing was committed: committed before; no retained snapshot has it"
    assert {"paimon/snapshot_id", "paimon/rows_added", "dagster/partition_row_count"}.isdisjoint(one.metadata)


def test_committed_batches_that_an_instance_does_not_know_turn_green_with_their_own_figures(ready: ReadyLake):
    with dg.DagsterInstance.ephemeral() as instance:
        moved = replace(ready, instance=instance)
        moved.ingest("2013-01-01", "2013-01-03")

        assert instance.get_materialized_partitions(KEY) == {"2013-01-01", "2013-01-02", "2013-01-03"}
        records = instance.fetch_materializations(KEY, limit=9).records
        by_day = {each.partition_key: each.asset_materialization for each in records if each.asset_materialization}
        found = {
            day: (each.metadata["paimon/snapshot_id"].value, each.metadata["dagster/partition_row_count"].value)
            for day, each in by_day.items()
            if day is not None
        }
        assert found == {"2013-01-01": (1, 2), "2013-01-02": (2, 2), "2013-01-03": (3, 2)}
        reason = str(by_day["2013-01-01"].metadata["paimon/noop_reason"].value)
        assert reason.startswith("committed before by run ")
        assert not observations(moved)


@pytest.fixture
def following() -> Iterator[ReadyLake]:
    """A lake whose second table follows the changes of the first."""
    columns = {"id": "BIGINT NOT NULL", "closed": "BIGINT"}
    followed = orders(columns=columns, options={"bucket": "1", "changelog-producer": "input"})
    changes = {"table": ORDERS, "while_null": ["closed"]}
    with ready_lake(
        shop_lake(followed, orders(name="open_orders", feed=None, changes_of=changes)), resources={"shop": ShopFeed()}
    ) as lake:
        yield lake


def test_a_run_that_was_killed_after_its_commit_is_materialized_by_the_next_one(following: ReadyLake):
    following.ingest("2013-01-01")
    with dg.DagsterInstance.ephemeral() as lost:
        replace(following, instance=lost).ingest("2013-01-02")
    assert following.metadata("sales.open_orders")["paimon/snapshot_id"] == 1

    following.ingest("2013-01-02")

    event = following.instance.get_latest_materialization_event(dg.AssetKey(["mine", "sales", "open_orders"]))
    assert event is not None
    assert event.run_id
    following.assert_metadata("sales.open_orders", {"paimon/snapshot_id": 2, "dagster/row_count": 3})


def test_a_table_that_follows_a_replayed_one_takes_the_changes_that_it_lacks(following: ReadyLake):
    following.ingest("2013-01-01", "2013-01-02")
    assert following.table("sales.open_orders").scan().count() == 3
    following.catalog.drop_table("sales.open_orders")

    following.ingest("2013-01-02")

    assert following.table("sales.open_orders").scan().count() == 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize("operation", ["compact_full", "compact_manifests", "expire"])
def test_a_dry_run_shows_its_plan_and_is_no_materialization(ready: ReadyLake, operation: str):
    before, shown = all_events(ready), ready.metadata(ORDERS)
    config = {"retain_max": 1, "retain_min": 1, "older_than_hours": 0.0} if operation == "expire" else {}

    assert operate(ready, operation, dry_run=True, **config).success

    assert (all_events(ready), ready.metadata(ORDERS)) == (before, shown)
    assert len(ready.table(ORDERS).snapshots()) == 4
    assert not ready.metadata(ORDERS, operation)
    (plan,) = observations(ready, operation)
    assert plan.description == "dry run: nothing was done; the metadata are the plan"
    planned = {
        "compact_full": {"paimon/buckets_rewritten": 1, "paimon/files_before": 4},
        "compact_manifests": {"paimon/manifests_merged": 4},
        "expire": {"paimon/snapshots_expired": 3},
    }[operation]
    assert {name: plan.metadata[name].value for name in planned} == planned
    if operation == "compact_full":
        (bucket,) = plan.metadata["paimon/buckets"].records
        assert (bucket.data["files"], bucket.data["reason"]) == (4, "full compaction")


def test_a_dry_run_with_nothing_to_do_says_why(ready: ReadyLake):
    operate(ready, "compact_full")

    operate(ready, "compact_full", dry_run=True)

    (plan,) = observations(ready, "compact_full")
    assert plan.description == "dry run: every bucket is one sorted run in its top level"


def test_a_replay_shows_the_state_that_another_process_made(ready: ReadyLake):
    ready.table(ORDERS).compact(full=True)

    ready.ingest("2013-01-01", "2013-01-04")

    assert_true(ready)


def test_a_table_that_is_not_there_yet_stops_no_tick(ready: ReadyLake):
    ready.catalog.drop_table(ORDERS)

    assert report(ready) == "sales.orders: not created yet"


@pytest.mark.parametrize("folder", ["snapshot", "manifest"])
def test_a_damaged_table_fails_its_check_verify_until_it_is_repaired(ready: ReadyLake, folder: str):
    before = events(ready)
    table = ready.warehouse / "sales.db" / "orders"
    damaged = {path: path.read_bytes() for path in (table / folder).iterdir()}
    for path in damaged:
        path.write_bytes(b"{")

    assert report(ready).startswith("sales.orders: ")
    first = told_of_verify(ready)
    report(ready)

    assert events(ready) == before
    assert len(first) == len(told_of_verify(ready)) == 2
    assert re.match(rf"The table cannot be read\. .*{folder}/.* Then evaluate this check again\.", first[0])
    checks = ready.definitions.resolve_implicit_global_asset_job_def()
    selection = [dg.AssetCheckKey(KEY, "verify")]
    assert not evaluate(ready, checks, selection).success
    assert ready.checks(ORDERS)["verify"] is False

    for path, data in damaged.items():
        path.write_bytes(data)

    assert evaluate(ready, checks, selection).success
    assert ready.checks(ORDERS)["verify"]
    assert report(ready) == "sales.orders: snapshot 4"


def told_of_verify(ready: ReadyLake) -> list[str | None]:
    """Return the descriptions of the evaluations of the check, the newest first."""
    check = dg.AssetCheckKey(KEY, "verify")
    records = ready.instance.event_log_storage.get_asset_check_execution_history(check, limit=100)
    found = (record.evaluation for record in records)
    return [each.description for each in found if isinstance(each, dg.AssetCheckEvaluation)]


def evaluate(ready: ReadyLake, job: dg.JobDefinition, checks: list[dg.AssetCheckKey]) -> dg.ExecuteInProcessResult:
    return job.get_subset(asset_selection=set(), asset_check_selection=set(checks)).execute_in_process(
        instance=ready.instance, raise_on_error=False
    )


def statements(ready: ReadyLake) -> int:
    """Return how many statements of SQL a tick takes."""
    count = 0

    def counted(*_: object) -> None:
        nonlocal count
        count += 1

    sa.event.listen(sa.Engine, "before_cursor_execute", counted)
    try:
        report(ready)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", counted)
    return count


def test_a_tick_without_news_asks_the_instance_as_often_for_many_tables_as_for_one():
    found = []
    for count in (1, 4):
        specs = [orders(name=f"orders_{number}", freshness={"fail_after": "9000 d"}) for number in range(count)]
        with ready_lake(shop_lake(*specs), resources={"shop": ShopFeed()}) as ready:
            ready.ingest("2013-01-01", "2013-01-01")
            report(ready)
            found.append(statements(ready))
    assert found[0] == found[1]


def test_a_load_that_ends_during_a_tick_stays_on_the_page(ready: ReadyLake, monkeypatch: pytest.MonkeyPatch):
    report(ready)
    looked_up = "lakehouse_dagster.automation.state.read_state"

    def late(table: lc.Table) -> TableState:
        # After the sensor has read what the page shows.
        monkeypatch.setattr(looked_up, read_state)
        ready.ingest("2013-01-05", "2013-01-05")
        return read_state(table)

    monkeypatch.setattr(looked_up, late)
    report(ready)

    assert ready.metadata(ORDERS)["paimon/made_by"].startswith("APPEND by run")
    assert_true(ready)
