"""A run of the table's asset alone makes what is due: it stages new batches and commits them."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster import lake_definitions
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake, shop_resources

pytestmark = pytest.mark.dagster
KEY, INGEST = (dg.AssetKey(["mine", "sales", "orders", *last]) for last in ([], ["ingest"]))
DATA = "dagster/data_version"


@pytest.fixture
def ready() -> Iterator[ReadyLake]:
    with ready_lake(shop_lake(), resources={"shop": ShopFeed()}) as lake:
        yield lake


def click(ready: ReadyLake, *keys: dg.AssetKey, day: str) -> dg.ExecuteInProcessResult:
    """Execute a run of these assets for a day, as the button of an asset's page starts it."""
    job = ready.definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        partition_key=day, asset_selection=[*keys], instance=ready.instance, raise_on_error=False
    )


def latest(ready: ReadyLake, key: dg.AssetKey, day: str) -> dg.EventLogRecord:
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[day])
    return ready.instance.fetch_materializations(wanted, limit=1).records[0]


def tags(record: dg.EventLogRecord) -> dict[str, str]:
    assert record.asset_materialization is not None
    return dict(record.asset_materialization.tags or {})


def test_one_click_stages_and_commits_a_new_partition(ready: ReadyLake) -> None:
    assert click(ready, KEY, day="2013-01-01").success
    assert click(ready, KEY, day="2013-01-02").success

    (first, second) = ready.table("sales.orders").snapshots()
    assert [one.properties["lakehouse.batch"] for one in (first, second)] == ["2013-01-01", "2013-01-02"]
    for key in (KEY, INGEST):
        assert ready.instance.get_materialized_partitions(key) == {"2013-01-01", "2013-01-02"}
    ingest = latest(ready, INGEST, "2013-01-02").asset_materialization
    table = latest(ready, KEY, "2013-01-02").asset_materialization
    assert ingest is not None
    assert table is not None
    assert (ingest.metadata["paimon/rows_staged"].value, table.metadata["dagster/partition_row_count"].value) == (2, 2)
    assert table.metadata["paimon/snapshot_id"].value == second.id
    assert ready.metadata("sales.orders")["dagster/row_count"] == 3


def test_dagster_takes_what_the_click_staged_for_the_input_of_what_it_committed(ready: ReadyLake) -> None:
    click(ready, KEY, day="2013-01-01")
    ingest, table = latest(ready, INGEST, "2013-01-01"), latest(ready, KEY, "2013-01-01")
    name = INGEST.to_user_string()

    assert tags(table)[f"dagster/input_data_version/{name}"] == tags(ingest)[DATA]
    assert tags(table)[f"dagster/input_event_pointer/{name}"] == str(ingest.storage_id)
    # The same tags as those of a run of both.
    click(ready, INGEST, KEY, day="2013-01-02")
    for key in (INGEST, KEY):
        both = tags(latest(ready, key, "2013-01-02")).keys() - {"dagster/data_version_is_user_provided"}
        assert tags(latest(ready, key, "2013-01-01")).keys() == both


def test_a_second_click_is_a_replay(ready: ReadyLake) -> None:
    click(ready, KEY, day="2013-01-01")
    before = latest(ready, KEY, "2013-01-01").storage_id, latest(ready, INGEST, "2013-01-01").storage_id
    assert click(ready, KEY, day="2013-01-01").success

    assert len(ready.table("sales.orders").snapshots()) == 1
    assert before == (latest(ready, KEY, "2013-01-01").storage_id, latest(ready, INGEST, "2013-01-01").storage_id)
    (seen,) = ready.instance.fetch_observations(KEY, limit=1).records
    assert seen.asset_observation is not None
    assert str(seen.asset_observation.description).startswith("nothing was committed: committed before by run")


def test_a_click_commits_what_a_run_of_the_ingest_has_staged_and_stages_nothing_again(ready: ReadyLake) -> None:
    click(ready, INGEST, day="2013-01-01")
    files = sorted(ready.warehouse.rglob("data-*"))
    assert click(ready, KEY, day="2013-01-01").success

    assert sorted(ready.warehouse.rglob("data-*")) == files
    assert len(ready.table("sales.orders").snapshots()) == 1


def test_a_click_on_a_batch_with_a_gap_before_it_is_refused(ready: ReadyLake) -> None:
    click(ready, KEY, day="2013-01-01")
    result = click(ready, KEY, day="2013-01-03")

    assert not result.success
    (failure,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    assert "Load the batches between first" in str(failure.step_failure_data.error)
    assert len(ready.table("sales.orders").snapshots()) == 1


def test_a_click_that_was_killed_before_its_commit_is_carried_on(ready: ReadyLake) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehouse_dagster.assets.commit.commit_batches", _killed)
        assert not click(ready, KEY, day="2013-01-01").success
    files = sorted(ready.warehouse.rglob("data-*"))
    assert click(ready, KEY, day="2013-01-01").success

    assert sorted(ready.warehouse.rglob("data-*")) == files
    assert len(ready.table("sales.orders").snapshots()) == 1


def _killed(*_: object, **__: object) -> None:
    raise RuntimeError("the process is gone")


def test_the_ingest_of_another_lake_in_the_run_stages_nothing_for_the_table(tmp_path: Path) -> None:
    lakes = [shop_lake(), shop_lake(name="other", resource="other_lakehouse")]
    shop = ShopFeed()
    parts = [
        lake_definitions(
            lake, resources={**shop_resources(tmp_path / lake.name, lake), "shop": shop}, with_location=False
        )
        for lake in lakes
    ]
    job = dg.Definitions.merge(*parts).resolve_implicit_global_asset_job_def()
    other = dg.AssetKey(["other", "sales", "orders", "ingest"])

    assert job.execute_in_process(partition_key="2013-01-01", asset_selection=[other, KEY]).success
    assert len(lc.connect(tmp_path / "mine").table("sales.orders").snapshots()) == 1
    assert lc.connect(tmp_path / "other").table("sales.orders").snapshots() == ()


def test_one_click_loads_new_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n1\n2\n")
    table = orders(feed=None, files={"path": str(tmp_path / "in" / "*.csv")})
    with ready_lake(shop_lake(table), resources={"shop": ShopFeed()}) as ready:
        job = ready.definitions.resolve_implicit_global_asset_job_def()
        for _ in range(2):
            assert job.execute_in_process(asset_selection=[KEY], instance=ready.instance).success

        assert ready.table("sales.orders").scan().count() == 2
        assert len(ready.table("sales.orders").snapshots()) == 1
        assert ready.metadata("sales.orders", "ingest")["paimon/rows_staged"] == 2
        assert ready.metadata("sales.orders")["dagster/row_count"] == 2
