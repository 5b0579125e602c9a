"""The main job end to end: batches of two real weeks into all tables, by Spark and in process, under Dagster."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from assets.flights.answers import answers_at
from assets.flights.feed import FlightsFeed
from assets.flights.source import load_source
from assets.lake import LAKE
from lakehouse_dagster.automation.sensors import look_at, run_requests
from lakehouse_dagster.page import latest_checks
from lakehouse_dagster.pipeline.table_setup import differences
from orchestration import run
from orchestration.definitions import defs
from orchestration.figures import answer_all
from orchestration.run import plan_run
from tests.orchestration.pipeline import EXTRACT, START, Pipeline

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.program]

FIRST, LAST, NEXT = "2013-01-31", "2013-02-02", "2013-02-03"
BATCHED = (
    "ops.carrier_day",
    "ops.flight_board",
    "ops.flight_events",
    "ops.flight_status",
    "ops.flights",
    "ops.plane_first_seen",
    "ops.plane_operator",
    "ops.weather",
)
# Its rows are read once a compaction has moved them.
WAITS = "ops.plane_first_seen"
# What comes on the day before the first flights.
SCHEDULES = {"ops.carrier_day", "ops.flight_board", "ops.flight_events", "ops.flight_status", "ops.flights"}


@pytest.fixture(scope="module")
def loaded(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, dg.ExecuteInProcessResult]]:
    """Three batches loaded by one run."""
    root = tmp_path_factory.mktemp("pipeline")
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = Pipeline(warehouse=root / "warehouse", cache=root / "cache", instance=instance)
        yield pipeline, pipeline.load(FIRST, LAST)


@contextmanager
def copied(original: Pipeline, root: Path) -> Iterator[Pipeline]:
    shutil.copytree(original.warehouse, root / "warehouse")
    with dg.DagsterInstance.ephemeral() as instance:
        yield Pipeline(warehouse=root / "warehouse", cache=original.cache, instance=instance)


@pytest.fixture
def copy(loaded: tuple[Pipeline, dg.ExecuteInProcessResult], tmp_path: Path) -> Iterator[Pipeline]:
    """The same warehouse, to be changed."""
    with copied(loaded[0], tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def maintained(
    loaded: tuple[Pipeline, dg.ExecuteInProcessResult], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, dg.ExecuteInProcessResult]]:
    """A copy after a maintenance with the retention of the tables."""
    with copied(loaded[0], tmp_path_factory.mktemp("maintained")) as made:
        yield made, made.maintain()


@pytest.fixture(scope="module")
def expired(
    loaded: tuple[Pipeline, dg.ExecuteInProcessResult], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, dg.ExecuteInProcessResult]]:
    """A copy after a maintenance that keeps one snapshot of each table."""
    with copied(loaded[0], tmp_path_factory.mktemp("expired")) as made:
        yield made, made.maintain(retain_max=1, retain_min=1, older_than_hours=0.0)


def key(name: str, *operation: str) -> dg.AssetKey:
    return dg.AssetKey(["lake", *name.split("."), *operation])


def metadata_of(result: dg.ExecuteInProcessResult, asset: dg.AssetKey, partition: str | None = None) -> dict[str, Any]:
    events = result.asset_materializations_for_node("__".join(asset.path))
    event = next(e for e in events if partition is None or e.partition == partition)
    return {
        name: [record.data for record in value.records] if isinstance(value, dg.TableMetadataValue) else value.value
        for name, value in event.metadata.items()
    }


def test_a_range_of_batches_is_one_run_and_each_batch_a_commit(loaded: tuple[Pipeline, dg.ExecuteInProcessResult]):
    pipeline, result = loaded

    assert result.success
    for name in BATCHED:
        snapshots = [s for s in pipeline.table(name).snapshots() if s.commit_kind.value == "APPEND"]
        batches = ["2013-01-31", "2013-02-01", "2013-02-02"] if name in SCHEDULES else ["2013-02-01", "2013-02-02"]
        assert [s.properties["lakehouse.batch"] for s in snapshots] == batches
        assert [s.commit_identifier for s in snapshots] == list(range(31, 34))[-len(batches) :]


def test_the_tables_answer_as_the_source_does(maintained: tuple[Pipeline, dg.ExecuteInProcessResult]):
    pipeline, _ = maintained
    source = load_source(EXTRACT)

    answers = answer_all(pipeline.catalog, source, start=date(2013, 2, 1), through=date(2013, 2, 2))

    assert [answer.question for answer in answers if not answer.agrees] == []
    assert [answer.question[0] for answer in answers] == ["1", "2", "3", "4", "5", "6", "7"]


def test_from_a_snapshot_to_its_run_and_from_a_run_to_its_snapshots(loaded: tuple[Pipeline, dg.ExecuteInProcessResult]):
    pipeline, result = loaded

    for name in BATCHED:
        snapshots = pipeline.table(name).snapshots()
        assert {s.properties["lakehouse.run-id"] for s in snapshots} == {result.run_id}
        shown = metadata_of(result, key(name))["paimon/commits"]
        made = [commit["snapshot"] for commit in shown if not commit["note"]]
        # Where a compaction came along, it has a snapshot of its own beside that of the rows.
        rows = {s.commit_identifier: s.id for s in snapshots if s.commit_kind.value != "COMPACT"}
        compacted = {s.commit_identifier: s.id for s in snapshots if s.commit_kind.value == "COMPACT"}
        assert made == list(rows.values())
        assert [commit["compacted"] for commit in shown if not commit["note"]] == [
            compacted.get(identifier, 0) for identifier in rows
        ]


def test_each_partition_shows_its_own_figures(loaded: tuple[Pipeline, dg.ExecuteInProcessResult]):
    pipeline, result = loaded
    snapshots = {s.properties["lakehouse.batch"]: s for s in pipeline.table("ops.flight_events").snapshots()}

    for batch, snapshot in snapshots.items():
        shown = metadata_of(result, key("ops.flight_events"), batch)
        assert shown["paimon/snapshot_id"] == snapshot.id
        assert shown["paimon/rows_added"] == snapshot.delta_record_count
        assert shown["dagster/partition_row_count"] == snapshot.delta_record_count


# What an engineer on call looks for on the page of a table, and of each of its operations.
PAGE = [
    "snapshot_id",
    "snapshot_id_before",
    "commit_kind",
    "commit_user",
    "commit_identifier",
    "schema_id",
    "content_version",
    "rows_added",
    "rows_removed",
    "files_added",
    "files_removed",
    "files_total",
    "bytes_added",
    "bytes_removed",
    "bytes_total",
    "manifests_total",
    "small_files",
    "snapshots_retained",
    "earliest_snapshot_id",
    "attempts",
    "duration_seconds",
    "spark_app_id",
    "input_snapshots",
    "recent_snapshots",
    "noop_reason",
]
PAIRS = [f"{what}_{when}" for what in ("files", "bytes", "manifests", "snapshots") for when in ("before", "after")]


def test_the_page_of_a_table_has_what_one_looks_for(loaded: tuple[Pipeline, dg.ExecuteInProcessResult]):
    _, result = loaded

    shown = metadata_of(result, key("ops.flights"))

    assert {f"paimon/{name}" for name in (*PAGE, "column_lineage")} <= shown.keys()
    assert {"dagster/row_count", "dagster/uri", "dagster/column_lineage"} <= shown.keys()
    assert shown["paimon/spark_app_id"].startswith("local-")
    lineage = shown["dagster/column_lineage"].deps_by_column
    (dep,) = lineage["carrier"]
    assert (dep.asset_key.to_user_string(), dep.column_name) == ("flights_feed", "cdc.carrier")
    staged = metadata_of(result, key("ops.flights", "ingest"))
    assert {"paimon/snapshot_id_before", "paimon/spark_app_id", "paimon/input_snapshots"} <= staged.keys()


def test_the_page_of_each_operation_has_what_one_looks_for(maintained: tuple[Pipeline, dg.ExecuteInProcessResult]):
    _, result = maintained

    for operation in ("compact_manifests", "compact_full", "expire"):
        shown = metadata_of(result, key("ops.flights", operation))
        wanted = {f"paimon/{name}" for name in (*PAGE, *PAIRS)}
        # Only what was committed has one.
        assert wanted - shown.keys() == (set() if shown["paimon/snapshots_made"] else {"paimon/commit_identifier"})
    assert metadata_of(result, key("ops.flights", "compact_full"))["paimon/commit_user"].startswith("compaction-")


def test_a_specification_that_its_table_does_not_follow_is_told_of(loaded: tuple[Pipeline, dg.ExecuteInProcessResult]):
    (spec,) = (spec for spec in LAKE.tables if spec.identifier == "ops.flights")
    table = loaded[0].table("ops.flights")
    changed = spec.model_copy(
        update={
            "columns": {**spec.columns, "gate": spec.columns["dest"]},
            "options": {**spec.options, "snapshot.num-retained.max": "33"},
            "partition_by": (),
        }
    )

    retained = table.schema.options["snapshot.num-retained.max"]
    assert differences(table, spec) == []
    assert differences(table, changed) == [
        "the specification has a column 'gate', which the table lacks. Alter the table, or the specification.",
        f"option snapshot.num-retained.max is 33 in the specification and {retained} in the table. "
        "Alter the table, or the specification.",
        "its partition is none in the specification and flight_date in the table, where it stays as it is. "
        "Change the specification, or drop the table and load it anew.",
    ]


def test_the_data_version_is_the_newest_snapshot_that_changed_rows(loaded: tuple[Pipeline, dg.ExecuteInProcessResult]):
    pipeline, _ = loaded
    event = pipeline.instance.get_latest_data_version_record(key("ops.flights"))
    table = pipeline.table("ops.flights")

    assert event is not None
    tags = event.asset_materialization.tags
    assert tags["dagster/data_version"] == f"{table.schemas()[0].time_millis}/main@{table.snapshots()[-1].id}"


def test_every_check_passes_but_that_of_rows_that_wait_for_maintenance(
    loaded: tuple[Pipeline, dg.ExecuteInProcessResult],
):
    _, result = loaded
    evaluations = result.get_asset_check_evaluations()

    assert len(evaluations) == len(defs.resolve_asset_graph().asset_check_keys)
    (waits,) = (each for each in evaluations if not each.passed)
    assert (waits.asset_key, waits.check_name) == (key(WAITS), "waiting_rows")
    assert str(waits.description).endswith("rows wait in bucket-postpone, and compact makes them readable")


def test_rows_that_wait_are_read_after_maintenance_and_the_check_of_them_passes(
    loaded: tuple[Pipeline, dg.ExecuteInProcessResult], maintained: tuple[Pipeline, dg.ExecuteInProcessResult]
):
    (before, _), (after, _) = loaded, maintained
    known = answers_at(load_source(EXTRACT), start=date(2013, 2, 1), through=date(2013, 2, 2))

    assert before.table(WAITS).scan().count() == 0
    # Of all that is loaded these rows alone are due for maintenance.
    looks = [look_at(before.catalog, spec) for spec in LAKE.tables]
    requests = run_requests(LAKE, looks, now=datetime(2026, 11, 21, tzinfo=UTC))
    assert [request.tags["lakehouse/table"] for request in requests] == [WAITS]
    assert after.table(WAITS).scan().count() == known.tail_numbers
    shown = latest_checks(after.instance, key(WAITS), ["waiting_rows"])["waiting_rows"].evaluation
    assert (shown.passed, shown.description) == (True, "0, at most 0")


def test_an_evening_is_a_tag(loaded: tuple[Pipeline, dg.ExecuteInProcessResult]):
    pipeline, _ = loaded
    table = pipeline.table("ops.flight_board")

    assert {tag.name: tag.snapshot_id for tag in table.tags()} == {
        f"batch-2013-0{day}": snapshot.id
        for day, snapshot in zip(("1-31", "2-01", "2-02"), table.snapshots(), strict=True)
    }
    known = answers_at(load_source(EXTRACT), start=date(2013, 2, 1), through=date(2013, 2, 1))
    assert table.scan(at=lc.AtTag("batch-2013-02-01")).count() == known.open


def test_nothing_is_pending_after_a_run(loaded: tuple[Pipeline, dg.ExecuteInProcessResult]):
    pipeline, _ = loaded

    assert list(pipeline.warehouse.rglob("lakehouse/pending/*")) == []


def test_batches_delivered_again_change_nothing(copy: Pipeline):
    before = {name: copy.table(name).snapshot().id for name in BATCHED}

    result = copy.load(FIRST, LAST)

    assert result.success
    assert {name: copy.table(name).snapshot().id for name in BATCHED} == before
    for batch in (FIRST, LAST):
        shown = metadata_of(result, key("ops.flights"), batch)
        assert shown["paimon/replayed"] == 1
        assert str(shown["paimon/noop_reason"]).startswith("committed before by run ")


def test_the_next_run_goes_on(copy: Pipeline):
    assert copy.load(NEXT, NEXT).success

    known = answers_at(load_source(EXTRACT), start=date(2013, 2, 1), through=date(2013, 2, 3))
    assert copy.table("ops.flights").scan().count() == known.rows


def test_a_batch_too_early_is_refused_and_says_what_to_load_first(copy: Pipeline):
    result = copy.load("2013-02-05", "2013-02-05")

    assert not result.success
    messages = " ".join(e.step_failure_data.error.to_string() for e in result.all_events if e.is_step_failure)
    assert "found batch 2013-02-05, but the last committed batch is 2013-02-02" in messages
    assert "UP_FOR_RETRY" not in {e.event_type_value for e in result.all_events}


def test_maintenance_leaves_every_row_and_fewer_files_manifests_and_snapshots(
    loaded: tuple[Pipeline, dg.ExecuteInProcessResult], expired: tuple[Pipeline, dg.ExecuteInProcessResult]
):
    (before, _), (after, result) = loaded, expired

    assert result.success
    read = [name for name in BATCHED if name != WAITS]
    assert {name: after.table(name).scan().count() for name in read} == {
        name: before.table(name).scan().count() for name in read
    }
    flights = after.table("ops.flights")
    assert len(flights.manifests()) < len(before.table("ops.flights").manifests())
    assert len(flights.snapshots()) == 1
    buckets = [(str(file.partition), file.bucket) for file in flights.files()]
    assert len(buckets) == len(set(buckets))
    shown = metadata_of(result, key("ops.flights", "expire"))
    assert shown["paimon/snapshots_before"] > shown["paimon/snapshots_after"] == 1
    assert shown["paimon/changelogs_retained"] > 0
    assert {name: after.table(name).verify(data=True).findings for name in BATCHED} == dict.fromkeys(BATCHED, ())


def test_changes_between_two_evenings_outlive_their_snapshots(expired: tuple[Pipeline, dg.ExecuteInProcessResult]):
    pipeline, _ = expired

    answers = answer_all(pipeline.catalog, load_source(EXTRACT), start=date(2013, 2, 1), through=date(2013, 2, 2))

    assert [answer.question for answer in answers if not answer.agrees] == []


def test_a_table_that_joins_a_filled_warehouse_begins_where_the_others_began(
    loaded: tuple[Pipeline, dg.ExecuteInProcessResult], monkeypatch: pytest.MonkeyPatch
):
    pipeline, _ = loaded
    (flights,) = (spec for spec in LAKE.tables if spec.identifier == "ops.flights")
    for name in ("arrivals", "zones"):
        twin = flights.model_copy(update={"name": name})
        tables = sorted([*LAKE.tables, twin], key=lambda spec: spec.identifier)
        monkeypatch.setattr(run, "LAKE", replace(LAKE, tables=tables))

        plan = plan_run(pipeline.catalog, FlightsFeed(start=START, folder=str(EXTRACT), cache=str(pipeline.cache)), 2)

        assert plan.batches == (date(2013, 1, 31), date(2013, 2, 1))


def test_a_table_that_is_kept_from_another_catches_up_with_the_batch_loaded_last(copy: Pipeline):
    feed = FlightsFeed(start=START, folder=str(EXTRACT), cache=str(copy.cache))
    assert plan_run(copy.catalog, feed, 1).batches == (date(2013, 2, 3),)
    count = copy.table("serving.open_flights").scan().count()
    copy.catalog.drop_table("serving.open_flights")

    assert plan_run(copy.catalog, feed, 1).batches == (date(2013, 2, 2),)
    assert copy.load(LAST, LAST).success
    assert copy.table("serving.open_flights").scan().count() == count


def test_maintenance_tells_the_page_of_the_table_and_names_its_run(
    maintained: tuple[Pipeline, dg.ExecuteInProcessResult],
):
    pipeline, result = maintained

    shown = pipeline.instance.fetch_materializations(key("ops.flights"), limit=5).records
    assert f"compact_full by run {result.run_id[:8]}" in {m.asset_materialization.description for m in shown}
    latest = pipeline.table("ops.flights").snapshot()
    assert latest.commit_kind.value == "COMPACT"
    assert latest.properties["lakehouse.run-id"] == result.run_id


def test_maintenance_with_nothing_to_do_says_so_and_keeps_its_keys(
    maintained: tuple[Pipeline, dg.ExecuteInProcessResult], tmp_path: Path
):
    pipeline, first = maintained
    with copied(pipeline, tmp_path) as copy:
        second = copy.maintain()

    for operation in ("compact_manifests", "compact_full", "expire"):
        done, idle = (metadata_of(result, key("ops.flights", operation)) for result in (first, second))
        assert idle["paimon/noop_reason"]
        assert done.keys() - {"paimon/commit_identifier"} == idle.keys()
        assert idle["paimon/files_before"] == idle["paimon/files_after"]


def test_the_data_version_survives_compaction(expired: tuple[Pipeline, dg.ExecuteInProcessResult]):
    pipeline, _ = expired

    (last,) = pipeline.instance.fetch_materializations(key("ops.flights"), limit=1).records
    content = [s for s in pipeline.table("ops.flight_events").snapshots() if s.commit_kind.value == "APPEND"]
    assert last.asset_materialization.tags["dagster/data_version"].endswith("/main@3")
    assert content == []


def test_the_sensor_reads_the_state_of_all_tables_without_spark(maintained: tuple[Pipeline, dg.ExecuteInProcessResult]):
    script = """
import json, sys
import dagster as dg
from orchestration.definitions import defs
repository = defs.get_repository_def()
lakehouse = {"lakehouse": defs.resources["lakehouse"]}
instance = dg.DagsterInstance.ephemeral()
with dg.build_sensor_context(instance=instance, repository_def=repository, resources=lakehouse) as context:
    tick = repository.get_sensor_def("lake_maintenance").evaluate_tick(context)
print(json.dumps({"skipped": tick.skip_message, "cursor": tick.cursor, "spark": "pyspark" in sys.modules,
                  "requests": [r.run_key for r in tick.run_requests]}))
"""
    import os

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"LAKEHOUSE_WAREHOUSE": str(maintained[0].warehouse), "DAGSTER_DISABLE_TELEMETRY": "1"},
    )
    tick = json.loads(done.stdout.splitlines()[-1])

    assert not tick["spark"]
    assert tick["requests"] == []
    assert "ops.flights: " in tick["skipped"]
    assert len(tick["skipped"].splitlines()) == len(LAKE.tables)
    assert set(json.loads(tick["cursor"])["tables"]) >= set(BATCHED)
