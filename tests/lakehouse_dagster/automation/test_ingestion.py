"""Tables load what is new by themselves: derived tables by conditions, files and feeds by a sensor, others on time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from lakehouse_dagster import Lake, TableSpec, answers, lake_definitions
from lakehouse_dagster.automation import ingestion, rounds
from lakehouse_dagster.lateness import ask_source
from lakehouse_dagster.page import report_check
from lakehouse_dagster.pipeline import open_table
from lakehouse_dagster.sources import row_source
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.copies import copy_of
from tests.lakehouse_dagster.page_location import FEED, DailyFeed
from tests.lakehouse_dagster.page_location import LAKE as DELIVERED
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake, shop_resources
from tests.lakehouse_dagster.stored_instance import stored_instance
from tests.pairs import in_turn

pytestmark = pytest.mark.dagster
ORDERS, OPEN = "sales.orders", "sales.open_orders"
DERIVED = {dg.AssetKey(["mine", "sales", "open_orders", "ingest"]), dg.AssetKey(["mine", "sales", "open_orders"])}
CHANGELOG = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
SIX = datetime(2026, 11, 23, 6, tzinfo=UTC)


def follower(**change: Any) -> TableSpec:
    """The specification of a table that follows the changes of the orders."""
    return orders(
        **{"name": "open_orders", "write_mode": "cdc", "feed": None, "changes_of": {"table": ORDERS}} | change
    )


def files(name: str, folder: Path, **change: Any) -> TableSpec:
    """The specification of a table that takes the files of a folder."""
    fields = {"primary_key": (), "options": {}, "write_mode": "append", "feed": None}
    return orders(**fields | {"name": name, "files": {"path": f"{folder}/{name}*.csv"}} | change)


def put(path: Path, *ids: object) -> None:
    path.write_text("id\n" + "".join(f"{id}\n" for id in ids))


@contextmanager
def stored(lake: Lake, folder: Path, **resources: Any) -> Iterator[ReadyLake]:
    """A lake whose instance is stored: the context of a schedule takes no other."""
    with ready_lake(lake, resources=resources) as made, stored_instance(folder) as own:
        yield replace(made, instance=own)


@pytest.fixture(scope="module")
def loaded() -> Iterator[ReadyLake]:
    with ready_lake(shop_lake(orders(options=CHANGELOG), follower()), resources={"shop": ShopFeed()}) as lake:
        lake.ingest("2013-01-01", "2013-01-02")
        yield lake


@pytest.fixture
def ready(loaded: ReadyLake) -> Iterator[ReadyLake]:
    with copy_of(loaded, resources={"shop": ShopFeed()}) as own:
        yield own


def given(ready: ReadyLake, names: Any) -> dict[str, Any]:
    return {name: (ready.definitions.resources or {})[name] for name in names}


def tick(ready: ReadyLake, name: str = "news") -> Any:
    """Evaluate a sensor of the lake, as the daemon does."""
    sensor = ready.definitions.get_repository_def().get_sensor_def(f"mine_{name}")
    resources = given(ready, sensor.required_resource_keys)
    with dg.build_sensor_context(
        instance=ready.instance, resources=resources, definitions=ready.definitions
    ) as context:
        return sensor.evaluate_tick(context)


def on_time(ready: ReadyLake, at: datetime = SIX) -> list[dg.RunRequest]:
    """Evaluate the schedule of the lake's loads, as the daemon does."""
    (schedule,) = (s for s in ready.definitions.get_repository_def().schedule_defs if "_ingest_" in s.name)
    resources = given(ready, schedule.required_resource_keys)
    with dg.build_schedule_context(
        instance=ready.instance,
        resources=resources,
        scheduled_execution_time=at,
        repository_def=ready.definitions.get_repository_def(),
    ) as context:
        return list(schedule.evaluate_tick(context).run_requests or [])


def run(ready: ReadyLake, request: dg.RunRequest) -> bool:
    """Execute a requested run in this process."""
    job = ready.definitions.resolve_job_def("mine_ingest")
    return job.execute_in_process(
        instance=ready.instance,
        asset_selection=list(request.asset_selection or []),
        tags=dict(request.tags),
        raise_on_error=False,
    ).success


class Conditions:
    """The conditions of a lake, evaluated again and again."""

    def __init__(self, ready: ReadyLake) -> None:
        self.ready, self.cursor = ready, None
        self.partitions: set[str | None] = set()

    def requested(self) -> set[dg.AssetKey]:
        found = dg.evaluate_automation_conditions(
            self.ready.definitions, instance=self.ready.instance, cursor=self.cursor
        )
        self.cursor = found.cursor
        asked = [found.get_requested_partitions(key) for key in DERIVED if found.get_num_requested(key)]
        self.partitions = {partition for each in asked for partition in each}
        return {key for key in DERIVED if found.get_num_requested(key)}


def load(ready: ReadyLake, day: str) -> None:
    """Load a batch of the orders alone."""
    own = ready.lake.table(ORDERS)
    keys = [ready.lake.operation_key(own, "ingest"), ready.lake.table_key(own)]
    job = ready.definitions.resolve_job_def("mine_ingest")
    assert job.execute_in_process(instance=ready.instance, asset_selection=keys, partition_key=day).success


def test_a_derived_table_is_requested_for_new_rows_of_its_input_and_never_for_maintenance(ready: ReadyLake):
    conditions = Conditions(ready)
    assert conditions.requested() == set()
    ready.maintain()
    assert ready.table(ORDERS).snapshots()[-1].commit_kind == "COMPACT"
    assert conditions.requested() == set()

    load(ready, "2013-01-03")

    assert conditions.requested() == DERIVED
    assert run(ready, dg.RunRequest(asset_selection=sorted(DERIVED)))
    assert (conditions.requested(), ready.checks(OPEN)["inputs_current"]) == (set(), True)
    assert ready.table(OPEN).scan().count() == 4


def fail_verify(ready: ReadyLake, *, passed: bool = False) -> None:
    key = ready.lake.table_key(ready.lake.table(ORDERS))
    report_check(ready.instance, dg.AssetCheckResult(asset_key=key, check_name="verify", passed=passed), blocking=True)


def test_rows_of_an_input_that_is_damaged_are_held_back_until_it_is_sound(
    ready: ReadyLake, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ingestion, "MISSED_AFTER", timedelta())
    conditions = Conditions(ready)
    conditions.requested()
    load(ready, "2013-01-03")
    fail_verify(ready)

    assert conditions.requested() == set()
    assert "held back: the check verify of sales.orders has failed" in str(tick(ready).skip_message)

    fail_verify(ready, passed=True)
    assert conditions.requested() == DERIVED


def test_the_sensor_requests_what_the_condition_has_missed(ready: ReadyLake, monkeypatch: pytest.MonkeyPatch):
    ready.table(ORDERS).write([{"id": 99}])

    early = tick(ready)
    monkeypatch.setattr(ingestion, "MISSED_AFTER", timedelta())
    late = tick(ready)

    assert not early.run_requests
    assert "which its condition loads" in str(early.skip_message)
    (request,) = late.run_requests
    assert {*(request.asset_selection or [])} == DERIVED
    assert request.tags["lakehouse/table"] == OPEN
    assert run(ready, request)
    assert tick(ready).skip_message == "sales.open_orders: has all of sales.orders"


@pytest.mark.parametrize("days", [None, dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-04")])
def test_a_table_made_of_an_asset_is_requested_for_its_new_values_by_partition(days: dg.PartitionsDefinition | None):
    @dg.asset(key=["raw", "orders"], partitions_def=days)
    def raw() -> pa.Table:
        return rows()

    by_day = {"partitions": {"time": {"every": "day", "start": "2013-01-01", "end": "2013-01-04"}}} if days else {}
    spec = orders(name="open_orders", feed=None, asset={"key": "raw/orders"}, **by_day)
    with ready_lake(Lake(name="mine", tables=(spec,)), resources={}) as made:
        ready = replace(made, definitions=dg.Definitions.merge(made.definitions, dg.Definitions(assets=[raw])))
        conditions = Conditions(ready)
        assert conditions.requested() == set()
        day = "2013-01-02" if days else None
        dg.materialize([raw], instance=ready.instance, partition_key=day)

        assert conditions.requested() == DERIVED
        assert conditions.partitions == {day}
        assert run(
            ready, dg.RunRequest(asset_selection=sorted(DERIVED), tags={"dagster/partition": day} if day else {})
        )
        assert conditions.requested() == set()


@pytest.mark.parametrize("days", [None, dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-04")])
def test_a_load_of_an_asset_that_failed_is_requested_again_in_the_next_hour(days: dg.PartitionsDefinition | None):
    values: list[Any] = ["not rows", "not rows", rows()]

    @dg.asset(key=["raw", "orders"], partitions_def=days)
    def raw() -> Any:
        return values.pop(0)

    by_day = {"partitions": {"time": {"every": "day", "start": "2013-01-01", "end": "2013-01-04"}}} if days else {}
    spec = orders(name="open_orders", feed=None, asset={"key": "raw/orders"}, **by_day)
    day = "2013-01-02" if days else None
    with ready_lake(Lake(name="mine", tables=(spec,)), resources={}) as made:
        ready = replace(made, definitions=dg.Definitions.merge(made.definitions, dg.Definitions(assets=[raw])))
        conditions = Conditions(ready)
        assert conditions.requested() == set()
        assert news(ready, OPEN) == "has all of the asset raw/orders"
        dg.materialize([raw], instance=ready.instance, partition_key=day)
        assert conditions.requested() == DERIVED
        assert not run(
            ready, dg.RunRequest(asset_selection=sorted(DERIVED), tags={"dagster/partition": day} if day else {})
        )

        # The asset goes on meanwhile.
        dg.materialize([raw], instance=ready.instance, partition_key=day)

        assert conditions.requested() == set()
        assert "did not load; again from" in str(news(ready, OPEN))
        again = news(ready, OPEN, hours=1)
        assert isinstance(again, ingestion.Load)
        assert again.reason == f"behind by 1 {'partition' if days else 'version'} of the asset raw/orders"
        (request,) = ingestion.run_requests(ready.lake, [again], None, now=SIX)
        dg.materialize([raw], instance=ready.instance, partition_key=day)
        assert run(ready, request)
        assert news(ready, OPEN) == "has all of the asset raw/orders"
        assert (conditions.requested(), ready.table(OPEN).scan().count()) == (set(), 1)


def test_a_failed_load_of_changes_is_not_requested_again_with_each_snapshot(ready: ReadyLake):
    conditions = Conditions(ready)
    assert conditions.requested() == set()
    load(ready, "2013-01-03")
    assert conditions.requested() == DERIVED
    job = ready.definitions.resolve_job_def("mine_ingest")
    begun = ready.instance.create_run_for_job(job, asset_selection=frozenset(DERIVED))
    ready.instance.report_run_failed(begun)

    load(ready, "2013-01-04")

    assert conditions.requested() == set()
    assert isinstance(news(ready, OPEN, hours=1), ingestion.Load)


def test_a_specification_can_switch_it_off():
    off = {"news": False}
    lake = shop_lake(orders(options=CHANGELOG), follower(ingest=off))
    with ready_lake(lake, resources={"shop": ShopFeed()}) as ready:
        graph = ready.definitions.resolve_asset_graph()
        sensors = {sensor.name for sensor in ready.definitions.get_repository_def().sensor_defs}

    assert {graph.get(key).automation_condition for key in DERIVED} == {None}
    assert sensors & {"mine_news", "mine_derived"} == set()


def test_files_are_loaded_when_they_come_and_a_bad_one_stops_no_other_table(tmp_path: Path):
    lake = Lake(name="mine", tables=(files("returns", tmp_path), files("visits", tmp_path)))
    with ready_lake(lake, resources={}) as ready:
        put(tmp_path / "returns-1.csv", 1)
        put(tmp_path / "returns-2.csv", "x")
        put(tmp_path / "visits-1.csv", 7)

        first = tick(ready).run_requests
        assert [request.tags["lakehouse/table"] for request in first] == ["sales.returns", "sales.visits"]
        assert [run(ready, request) for request in first] == [True, True]
        again = tick(ready).run_requests
        (request,) = again

        assert (ready.table("sales.returns").scan().count(), ready.table("sales.visits").scan().count()) == (1, 1)
        # The bad file alone is to be done. Dagster takes a key once: so it is tried once an hour.
        assert request.tags["lakehouse/reason"].startswith("sales.returns: behind by 1 file of ")
        assert request.run_key == (tick(ready).run_requests)[0].run_key
        put(tmp_path / "returns-2.csv", 2)
        assert run(ready, request)
        assert tick(ready).run_requests == []


def begin(
    ready: ReadyLake, request: dg.RunRequest, status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED
) -> dg.DagsterRun:
    """Create the run of a request of the sensor, as the daemon does."""
    tags = {**request.tags, "dagster/run_key": str(request.run_key), "dagster/sensor_name": "mine_news"}
    return ready.instance.create_run_for_job(
        ready.definitions.resolve_job_def("mine_ingest"),
        tags=tags,
        asset_selection=frozenset(request.asset_selection or []),
        status=status,
    )


def days(request: dg.RunRequest) -> list[str]:
    """The days of January that a run is for, from the first to the last in the order of Dagster."""
    return [request.tags[f"dagster/asset_partition_range_{end}"].removeprefix("2013-01-") for end in ("start", "end")]


# Days in the order in which they were offered → the ranges of the runs, one after the other; or the fault.
OFFERED = """
01 02 03        01-03
02 01           02-01
03 01 02        03-02
01 03 x 02      01-01 x 02-02 x 03-03
01 02 04        01-02 found batch 2013-01-04, but the last committed batch is 2013-01-02
02              found batch 2013-01-02, but the last committed batch is none
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", OFFERED.strip().splitlines())
def test_batches_are_loaded_in_their_order_whatever_the_order_in_which_they_were_offered(case: str):
    offered, _, rest = case.partition("  ")
    ranges, found, fault = rest.strip().partition("found")
    with ready_lake(replace(DELIVERED, tables=DELIVERED.tables[:1]), resources={"shop": DailyFeed()}) as ready:
        for day in offered.split():
            ready.instance.add_dynamic_partitions("shop_batches", [f"2013-01-{day}"])
        for each in ranges.replace("x", "").split():
            (request,) = tick(ready, "shop_news").run_requests
            assert "-".join(days(request)) == each
            assert run(ready, request)

        assert found + fault in str(tick(ready, "shop_news").skip_message)
        assert tick(ready, "shop_news").run_requests == []


@pytest.mark.parametrize("keys", [["id"], []])
def test_a_new_version_of_a_feed_is_loaded_again_or_refused_as_its_check_says(keys: list[str]):
    change = {} if keys else {"primary_key": (), "options": {}, "write_mode": "append"}
    lake = replace(DELIVERED, tables=(orders(**change),))
    with ready_lake(lake, resources={"shop": DailyFeed()}) as first:
        first.ingest("2013-01-01", "2013-01-02")
        assert tick(first, "shop_news").run_requests == []
        resources = {**(first.definitions.resources or {}), "shop": DailyFeed(release="v2")}
        ready = replace(first, definitions=lake_definitions(lake, resources=resources))
        FEED.offer(ready.instance, ["2013-01-03"])

        found = tick(ready, "shop_news")

        if keys:
            (request,) = found.run_requests
            assert days(request) == ["01", "03"]
            assert request.tags["lakehouse/reason"] == "sales.orders: behind by 3 batches of feed orders"
            assert run(ready, request)
            assert tick(ready, "shop_news").skip_message == "sales.orders: has all of feed orders"
        else:
            assert found.run_requests == []
            assert "which would double its rows" in str(found.skip_message)


def test_tables_that_cannot_be_loaded_stop_no_other(tmp_path: Path):
    names = [f"t{number:02}" for number in range(12)]
    with ready_lake(Lake(name="mine", tables=tuple(files(name, tmp_path) for name in names)), resources={}) as ready:
        for name in names:
            put(tmp_path / f"{name}-1.csv", "x")
        first = tick(ready).run_requests
        for request in first:
            # Each load succeeds, and leaves the bad file.
            begin(ready, request, dg.DagsterRunStatus.SUCCESS)

        found = [request.tags["lakehouse/table"] for request in tick(ready).run_requests]

    assert ([request.tags["lakehouse/table"] for request in first], found) == (
        [f"sales.{name}" for name in names[:10]],
        [f"sales.{name}" for name in names[10:]],
    )


def test_delivered_batches_are_one_run_for_all_tables_of_a_feed_with_the_asset_that_makes_them():
    @dg.asset(key=FEED.key, partitions_def=FEED.partitions, backfill_policy=dg.BackfillPolicy.single_run())
    def shop_feed() -> None: ...

    carts = orders(name="carts", feed={"source": "shop", "name": "carts"})
    lake = replace(DELIVERED, tables=(*DELIVERED.tables, carts))
    with ready_lake(lake, resources={"shop": DailyFeed()}) as made:
        ready = replace(made, definitions=dg.Definitions.merge(made.definitions, dg.Definitions(assets=[shop_feed])))
        FEED.offer(ready.instance, ["2013-01-01", "2013-01-02"])

        (request,) = tick(ready, "shop_news").run_requests

        assert {key.to_user_string() for key in request.asset_selection or []} == {
            "shop_feed",
            *(f"mine/sales/{name}{operation}" for name in ("orders", "carts") for operation in ("", "/ingest")),
        }
        assert [request.tags[f"dagster/asset_partition_range_{end}"] for end in ("start", "end")] == [
            "2013-01-01",
            "2013-01-02",
        ]
        assert run(ready, request)
        assert ready.table("sales.carts").scan().count() == 3
        assert "has all of feed carts" in str(tick(ready, "shop_news").skip_message)


def news(ready: ReadyLake, table: str, *, hours: int = 0) -> ingestion.Load | str:
    """Ask for the load of a table, so many hours from now."""
    spec, resources = ready.lake.table(table), SimpleNamespace(**(ready.definitions.resources or {}))
    opened = open_table(resources.lakehouse.local_catalog(), table)
    behind = ask_source(row_source(ready.lake, spec), ready.lake.table_key(spec), opened, resources, ready.instance)
    return ingestion.news_of(ready.instance, ready.lake, spec, behind, now=datetime.now(UTC) + timedelta(hours=hours))


# The assets that the run is for: a run of the table alone loads it too.
@pytest.mark.parametrize("parts", ["ingest and table", "ingest", "table", "the whole job"])
def test_a_load_that_is_under_way_or_failed_in_this_hour_is_not_requested_again(tmp_path: Path, parts: str):
    with ready_lake(Lake(name="mine", tables=(files("visits", tmp_path),)), resources={}) as ready:
        put(tmp_path / "visits-1.csv", 7)
        spec = ready.lake.table("sales.visits")
        keys = {"ingest": ready.lake.operation_key(spec, "ingest"), "table": ready.lake.table_key(spec)}
        chosen = frozenset(key for name, key in keys.items() if name in parts) or None
        job = ready.definitions.resolve_job_def("mine_ingest")
        made = ready.instance.create_run_for_job(job, asset_selection=chosen, status=dg.DagsterRunStatus.STARTED)

        assert f"behind by 1 file of {tmp_path}/visits*.csv, which run {made.run_id[:8]} loads" in str(
            tick(ready).skip_message
        )
        ready.instance.report_run_failed(made)
        # The source goes on meanwhile.
        put(tmp_path / "visits-2.csv", 8)
        assert (
            f"behind by 2 files of {tmp_path}/visits*.csv, which run {made.run_id[:8]} did not load; again from"
            in str(tick(ready).skip_message)
        )
        assert isinstance(news(ready, "sales.visits", hours=1), ingestion.Load)


def test_a_run_that_failed_in_another_table_keeps_none_waiting():
    carts = orders(name="carts", feed={"source": "shop", "name": "carts"})
    lake = replace(DELIVERED, tables=(DELIVERED.tables[0], carts))
    with ready_lake(lake, resources={"shop": NoCarts()}) as ready:
        FEED.offer(ready.instance, ["2013-01-01"])
        (both,) = tick(ready, "shop_news").run_requests
        assert not run(ready, both)
        FEED.offer(ready.instance, ["2013-01-02"])

        (request,) = tick(ready, "shop_news").run_requests

        assert request.tags["lakehouse/table"] == "sales.orders"


class NoCarts(DailyFeed):
    """The carts of the shop cannot be read."""

    def rows(self, feed: str, batch: str | None) -> pa.Table:
        if feed == "carts":
            raise OSError("the disk is gone")
        return super().rows(feed, batch)


class Hanging(DailyFeed):
    """A shop whose line is busy, until the test is over."""

    def version(self) -> str:
        OVER.wait()
        return super().version()


OVER = Event()


class Unstartable(DailyFeed):
    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        raise OSError("the shop has no address")


@pytest.mark.parametrize("shop", [Hanging, Unstartable])
def test_a_feed_that_cannot_start_or_answer_stops_neither_pages_nor_other_tables(
    tmp_path: Path, shop: type[DailyFeed], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(answers, "LONGEST_WAIT_SECONDS", 2)
    visits = files("visits", tmp_path, ingest=DAILY | {"news": True})
    lake = replace(DELIVERED, tables=(DELIVERED.tables[0], visits))
    OVER.clear()
    with stored(lake, tmp_path, shop=shop()) as ready:
        FEED.offer(ready.instance, ["2013-01-01"])
        put(tmp_path / "visits-1.csv", 7)

        try:
            (request,) = tick(ready).run_requests
            assert request.tags["lakehouse/table"] == "sales.visits"
            assert len(on_time(ready)) == 1
            assert run(ready, request)
            assert tick(ready, "state").skip_message == "sales.orders: not created yet\nsales.visits: snapshot 1"
            if shop is not Unstartable:
                told = [str(tick(ready, "shop_news").skip_message) for _ in range(2)]
                assert ["feed orders cannot be asked: " in each for each in told] == [True, True], told
        finally:
            OVER.set()


def test_a_schedule_loads_tables_unasked_when_its_tick_has_no_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    by_day = BY_FUNCTION | {"name": "by_day", "partitions": {"time": {"every": "day", "start": "2026-11-01"}}}
    tables = (files("visits", tmp_path, ingest=DAILY), orders(**by_day))
    with stored(Lake(name="mine", tables=tables), tmp_path) as ready:
        monkeypatch.setattr(rounds, "BUDGET_SECONDS", -1)

        (request,) = on_time(ready)

        assert request.tags["lakehouse/table"] == "sales.visits"
        assert request.tags["lakehouse/reason"].endswith("the tick has no time left to ask what is new")
        assert run(ready, request)


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE])
def test_a_schedule_requests_no_load_of_a_table_that_a_run_loads(tmp_path: Path, status: dg.DagsterRunStatus):
    with stored(shop_lake(orders(**BY_FUNCTION)), tmp_path) as ready:
        ready.instance.create_run_for_job(ready.definitions.resolve_job_def("mine_ingest"), status=status)

        assert len(on_time(ready)) == (1 if status == dg.DagsterRunStatus.FAILURE else 0)


def rows(_: str | None = None) -> pa.Table:
    return pa.table({"id": [1]})


DAILY = {"schedule": "0 6 * * *"}
BY_FUNCTION: dict[str, Any] = {"feed": None, "function": {"call": rows}, "ingest": DAILY}
# What the specification says, days loaded before → partitions of the run at six on 23 November; `whole`: none.
DUE = [
    (BY_FUNCTION, "whole"),
    (BY_FUNCTION | {"partitions": {"time": {"every": "day", "start": "2026-11-01"}}}, "2026-11-22 2026-11-22"),
    (BY_FUNCTION | {"partitions": {"static": {"keys": ["north", "south"]}}}, "north south"),
    (BY_FUNCTION | {"partitions": {"dynamic": {"name": "regions"}}}, "nothing"),
    ({"ingest": DAILY}, "2013-01-01 2013-01-10"),
]


@pytest.mark.parametrize(("change", "due"), DUE)
def test_a_schedule_loads_what_is_due(change: dict[str, Any], due: str, tmp_path: Path):
    with stored(shop_lake(orders(**change)), tmp_path, shop=ShopFeed()) as ready:
        requests = on_time(ready)

    ends = [
        tuple(tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end"))
        for tags in map(_tags, requests)
    ]
    assert [" ".join(map(str, each)) if all(each) else "whole" for each in ends] == ([] if due == "nothing" else [due])


def _tags(request: dg.RunRequest) -> dict[str, str]:
    return dict(request.tags)


def test_a_schedule_continues_after_the_last_window_that_is_loaded(tmp_path: Path):
    spec = orders(**BY_FUNCTION | {"partitions": {"time": {"every": "day", "start": "2026-11-01"}}})
    with stored(shop_lake(spec), tmp_path, shop=ShopFeed()) as ready:
        ready.ingest("2026-11-20")

        (request,) = on_time(ready)

        assert request.tags["dagster/asset_partition_range_start"] == "2026-11-21"
        assert run(ready, request)
        assert on_time(ready) == []


class NoLine(ShopFeed):
    def version(self) -> str:
        raise KeyError("line")


# The feed of the shop → the days that are due after the first two.
@pytest.mark.parametrize(
    ("shop", "due"),
    in_turn(2, [(ShopFeed(), [["03", "10"]]), (ShopFeed(release="v2"), [["01", "10"]]), (NoLine(), [])]),
)
def test_a_schedule_loads_all_that_a_table_lacks_of_the_present_version_of_a_feed(
    tmp_path: Path, shop: ShopFeed, due: list[list[str]]
):
    lake = shop_lake(orders(ingest=DAILY))
    with stored(lake, tmp_path, shop=ShopFeed()) as first:
        first.ingest("2013-01-01", "2013-01-02")
        resources = {**(first.definitions.resources or {}), "shop": shop}

        found = on_time(replace(first, definitions=lake_definitions(lake, resources=resources)))

    assert [days(request) for request in found] == due


def test_tables_of_one_time_are_one_schedule_that_is_on_and_requests_only_what_is_new(tmp_path: Path):
    berlin = DAILY | {"timezone": "Europe/Berlin"}
    tables = files("returns", tmp_path, ingest=DAILY), files("visits", tmp_path, ingest=DAILY)
    with stored(Lake(name="mine", tables=tables), tmp_path) as ready:
        put(tmp_path / "visits-1.csv", 7)

        (request,) = on_time(ready)

        assert request.tags["lakehouse/table"] == "sales.visits"
        names = {s.name: s.default_status for s in ready.definitions.get_repository_def().schedule_defs}
        assert names["mine_ingest_daily_6_00"] == dg.DefaultScheduleStatus.RUNNING
    other = lake_definitions(shop_lake(orders(ingest=berlin)), resources=shop_resources(tmp_path, shop_lake()))
    assert "mine_shop_ingest_daily_6_00_Europe_Berlin" in {s.name for s in other.get_repository_def().schedule_defs}


def test_each_time_is_a_schedule_with_a_name_of_its_own_that_dagster_takes(tmp_path: Path):
    crons = ("0 6 * * *", "00 6 * * *", "30 6 * * *", "*/5 1,2 * jan-mar mon-fri")
    zones = ("UTC", "Europe/Berlin", "Etc/GMT+5", "Etc/GMT-5", "America/Port-au-Prince")
    times = [(cron, zone) for cron in crons for zone in zones]
    tables = [
        files(f"t{place}", tmp_path, ingest={"schedule": cron, "timezone": zone})
        for place, (cron, zone) in enumerate(times)
    ]
    lake = Lake(name="mine", tables=tables)

    found = lake_definitions(lake, resources=shop_resources(tmp_path, lake)).get_repository_def().schedule_defs

    assert len([each for each in found if each.name.startswith("mine_ingest_")]) == len(times)
    assert "mine_ingest_daily_6_30_Etc_GMT_plus_5" in {each.name for each in found}


def test_lakes_of_one_location_load_apart(tmp_path: Path):
    lakes = [
        replace(shop_lake(orders(options=CHANGELOG), follower(), name=name, resource=name), prefix=name)
        for name in ("a", "b")
    ]
    shop = ShopFeed()
    defs = dg.Definitions.merge(
        *(
            lake_definitions(lake, resources={**shop_resources(tmp_path / lake.name, lake), "shop": shop})
            for lake in lakes
        )
    )
    days = {f"dagster/asset_partition_range_{end}": "2013-01-01" for end in ("start", "end")}
    with dg.DagsterInstance.ephemeral() as instance:
        for lake in lakes:
            defs.resolve_job_def(f"{lake.name}_ingest").execute_in_process(instance=instance, tags=days)
        before = dg.evaluate_automation_conditions(defs, instance=instance)
        more = {name: "2013-01-02" for name in days}
        table = lakes[0].table(ORDERS)
        keys = [lakes[0].operation_key(table, "ingest"), lakes[0].table_key(table)]
        defs.resolve_job_def("a_ingest").execute_in_process(instance=instance, tags=more, asset_selection=keys)

        found = dg.evaluate_automation_conditions(defs, instance=instance, cursor=before.cursor)

    asked = {lake.name: found.get_num_requested(lake.table_key(lake.table(OPEN))) for lake in lakes}
    assert (before.total_requested, asked) == (0, {"a": 1, "b": 0})
    assert {"a_derived", "b_derived", "a_news", "b_news"} <= {s.name for s in defs.get_repository_def().sensor_defs}
