"""What the web server answers about the page of a table, after each thing that happens to the table."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster_graphql.test.utils import execute_dagster_graphql

from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.page_location import FEED, LAKE, DailyFeed
from tests.lakehouse_dagster.stored_instance import stored_instance

pytestmark = [
    pytest.mark.dagster,
    # Dagster's own, where it loads a code location in the process of the web server.
    pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition.environment_vars` is deprecated"),
]
TABLE = ["mine", "sales", "orders"]
DAYS = ["2013-01-01", "2013-01-02", "2013-01-03"]

_PAGE = """
query Page($path: [String!]!) {
  assetNodeOrError(assetKey: {path: $path}) {
    ... on AssetNode {
      staleStatus
      partitionKeys
      partitionStats { numPartitions numMaterialized numFailed }
      assetMaterializations(limit: 9) { description partition metadataEntries { label __typename } }
      assetObservations(limit: 9) { description partition }
      assetChecksOrError {
        ... on AssetChecks { checks { name executionForLatestMaterialization { status } } }
      }
    }
  }
}
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """The warehouse and the instance after the first two days, for copies of them."""
    folder = tmp_path_factory.mktemp("instance")
    with ready_lake(LAKE, resources={"shop": DailyFeed()}) as made:
        # The web server takes no instance in memory.
        with stored_instance(folder) as own:
            FEED.offer(own, DAYS)
            replace(made, instance=own).ingest(DAYS[0], DAYS[1])
        yield made.warehouse, folder


@pytest.fixture
def ready(loaded: tuple[Path, Path], tmp_path: Path) -> Iterator[ReadyLake]:
    warehouse, instance = loaded
    with ready_lake(LAKE, resources={"shop": DailyFeed()}) as made, stored_instance(tmp_path, like=instance) as own:
        shutil.copytree(warehouse, made.warehouse)
        yield replace(made, instance=own)


def page(ready: ReadyLake, *path: str) -> dict[str, Any]:
    """Return what the web server answers about an asset."""
    target = LoadableTargetOrigin(module_name="tests.lakehouse_dagster.page_location")
    origin = InProcessCodeLocationOrigin(loadable_target_origin=target, location_name="shop")
    with WorkspaceProcessContext(ready.instance, InProcessWorkspaceLoadTarget(origin)) as process:
        context: Any = process.create_request_context()
        answer = execute_dagster_graphql(context, _PAGE, variables={"path": [*path]})
    found: dict[str, Any] = answer.data["assetNodeOrError"]
    return found


def run(ready: ReadyLake, table: list[str], operation: str, **config: Any) -> None:
    key = dg.AssetKey([*table, operation])
    ready.definitions.resolve_job_def("mine_maintain").execute_in_process(
        instance=ready.instance, asset_selection=[key], run_config={"ops": {"__".join(key.path): {"config": config}}}
    )


def test_maintenance_adds_an_event_and_makes_nothing_out_of_date(ready: ReadyLake):
    run(ready, TABLE, "compact_full")
    run(ready, TABLE, "expire", retain_max=1, retain_min=1, older_than_hours=0.0)

    shown = page(ready, *TABLE)
    assert shown["staleStatus"] == "FRESH"
    assert page(ready, *TABLE, "ingest")["staleStatus"] == "FRESH"
    newest, before, *loads = shown["assetMaterializations"]
    assert [str(each["description"]).split()[0] for each in (newest, before)] == ["expire", "compact_full"]
    assert (newest["partition"], before["partition"]) == (None, None)
    assert {each["partition"] for each in loads} >= {*DAYS[:2]}


def test_after_maintenance_an_ingest_without_news_makes_nothing_out_of_date(ready: ReadyLake):
    table = ["mine", "sales", "open_orders"]
    ingest = dg.AssetKey([*table, "ingest"])
    staged = ready.instance.get_latest_materialization_event(ingest)
    assert staged is not None
    assert staged.asset_materialization is not None
    run(ready, table, "compact_full")

    version = (staged.asset_materialization.tags or {})["dagster/data_version"]
    again = dg.AssetMaterialization(ingest, tags={"dagster/data_version": version})
    ready.instance.report_runless_asset_event(again)

    assert page(ready, *table)["staleStatus"] == "FRESH"


def checks(ready: ReadyLake) -> dict[str, str]:
    """Return the checks of the table as its page shows them: a check is not evaluated before its newest event."""
    found = page(ready, *TABLE)["assetChecksOrError"]["checks"]
    return {
        each["name"]: (each["executionForLatestMaterialization"] or {"status": "not evaluated"})["status"]
        for each in found
    }


def test_after_maintenance_each_check_says_what_is_true_of_the_new_state(ready: ReadyLake):
    passed = dict.fromkeys(("snapshot_count", "sorted_runs", "source_row_count", "verify"), "SUCCEEDED")
    # A batch is delivered and not loaded.
    everything = passed | {"inputs_current": "FAILED"}
    assert checks(ready) == everything

    found = []
    for operation in ("compact_full", "compact_full", "compact_manifests"):
        run(ready, TABLE, operation)
        found.append(checks(ready))

    assert found == [everything] * 3


def test_checks_of_rows_that_another_process_wrote_are_not_taken_for_evaluated(ready: ReadyLake):
    ready.table("sales.orders").write([{"id": 99, "closed": None}])
    run(ready, TABLE, "compact_full")

    assert checks(ready) == {
        "inputs_current": "not evaluated",
        "snapshot_count": "SUCCEEDED",
        "sorted_runs": "SUCCEEDED",
        "source_row_count": "not evaluated",
        "verify": "SUCCEEDED",
    }


def test_a_damage_that_maintenance_finds_is_a_failed_check(ready: ReadyLake):
    old = sorted((ready.warehouse / "sales.db" / "orders" / "bucket-0").glob("data-*"))
    run(ready, TABLE, "compact_full")
    old[0].unlink()

    run(ready, TABLE, "compact_manifests")

    assert checks(ready)["verify"] == "FAILED"


def test_the_ui_is_given_the_state_first_and_figures_as_numbers_to_plot(ready: ReadyLake):
    run(ready, TABLE, "compact_full")

    entries = page(ready, *TABLE)["assetMaterializations"][0]["metadataEntries"]
    kinds = {entry["label"]: entry["__typename"] for entry in entries}
    first = ["snapshot_id", "made_by", "health", "content_time", "next_maintenance", "last_maintenance"]
    assert [entry["label"] for entry in entries[:6]] == [f"paimon/{name}" for name in first]
    plotted = {label for label, kind in kinds.items() if kind in ("IntMetadataEntry", "FloatMetadataEntry")}
    assert {"dagster/row_count", "paimon/snapshot_id", "paimon/files_total", "paimon/bytes_total"} <= plotted
    assert plotted.isdisjoint({"paimon/commit_identifier", "paimon/schema_id", "paimon/incarnation"})
    assert kinds["paimon/content_time"] == "TimestampMetadataEntry"


def test_the_missing_partition_is_the_one_that_is_delivered_and_not_loaded(ready: ReadyLake):
    shown = page(ready, *TABLE)

    assert shown["partitionKeys"] == DAYS
    assert shown["partitionStats"] == {"numPartitions": 3, "numMaterialized": 2, "numFailed": 0}


def test_a_replay_and_a_dry_run_are_observations_and_leave_the_status_as_it_was(ready: ReadyLake):
    before = page(ready, *TABLE)

    ready.ingest(DAYS[0])
    run(ready, TABLE, "compact_full", dry_run=True)

    after, operation = page(ready, *TABLE), page(ready, *TABLE, "compact_full")
    unchanged = ("staleStatus", "partitionStats", "assetMaterializations")
    assert {name: after[name] for name in unchanged} == {name: before[name] for name in unchanged}
    (replay,) = after["assetObservations"]
    assert replay["partition"] == DAYS[0]
    assert str(replay["description"]).startswith("nothing was committed: committed before by run ")
    assert operation["assetMaterializations"] == []
    assert [str(each["description"])[:8] for each in operation["assetObservations"]] == ["dry run:"]
