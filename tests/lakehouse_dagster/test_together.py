"""Many runs stage batches of a table in parallel; a committer takes all of them in one snapshot."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import pytest
from pydantic import ValidationError

import lakehouse_core as lc
from lakehouse_dagster import TableSpec, lake_definitions
from lakehouse_dagster.pipeline.table_state import batch_keys
from lakehouse_dagster.run_tags import range_tags
from tests.lakehouse_dagster.many_batches import (
    DAYS,
    FEED,
    INGEST,
    TABLE,
    keyed_orders,
    many_lake,
    orders,
    resources,
    run,
)
from tests.lakehouse_dagster.plane import CHECKOUT
from tests.pairs import in_turn

pytestmark = pytest.mark.dagster
PARTITION = "dagster/partition"
ALL = DAYS.get_partition_keys()


class Place:
    """A warehouse with the table, and an instance in memory."""

    def __init__(self, root: Path, spec: TableSpec, instance: dg.DagsterInstance) -> None:
        self.root, self.spec, self.instance = root, spec, instance
        self.cursor: str | None = None

    def stage(self, *days: str) -> None:
        for day in days:
            made = run(self.root, self.spec, INGEST, day, self.instance)
            assert made.is_success

    def commit(self, day: str) -> dg.DagsterRun:
        return run(self.root, self.spec, TABLE, day, self.instance)

    @property
    def table(self) -> lc.Table:
        return lc.connect(self.root / "warehouse").table("sales.orders")

    def tick(self) -> list[dg.RunRequest] | str | None:
        """The runs that the sensor requests now, or why it requests none."""
        definitions = lake_definitions(many_lake(self.spec), resources=resources(self.root))
        with dg.build_sensor_context(
            instance=self.instance, resources=resources(self.root), definitions=definitions, cursor=self.cursor
        ) as context:
            answer = definitions.resolve_sensor_def("lake_committer").evaluate_tick(context)
        self.cursor = answer.cursor
        return answer.run_requests or answer.skip_message

    def requested(self) -> dg.RunRequest:
        found = self.tick()
        assert isinstance(found, list), found
        (request,) = found
        return request

    def events(self) -> dict[str, dg.AssetMaterialization]:
        """The latest event of each partition of the table."""
        found: dict[str, dg.AssetMaterialization] = {}
        for record in self.instance.fetch_materializations(TABLE, limit=1000, ascending=True).records:
            made = record.asset_materialization
            assert made is not None
            if made.partition is not None:
                found[made.partition] = made
        return found


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def snapshots(table: lc.Table) -> list[str]:
    return [", ".join(batch_keys(one.properties)) for one in table.snapshots()]


def test_the_sensor_starts_one_run_that_commits_what_all_runs_have_staged(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place, days = Place(tmp_path, orders(), instance), ALL[:7]
    assert place.tick() == "sales.orders: not created yet"
    place.stage(*Random(1).sample(days, len(days)))
    request = place.requested()
    assert (request.tags[PARTITION], request.tags["lakehouse/reason"]) == (days[-1], "7 batches staged")
    assert request.asset_selection == [TABLE]
    made = place.commit(request.tags[PARTITION])

    assert made.is_success
    assert snapshots(place.table) == [", ".join(days)]
    assert place.table.snapshots()[0].run_id == made.run_id
    # Each partition has its own figures, and the version of the snapshot.
    events = place.events()
    assert sorted(events) == days
    assert {event.metadata["dagster/partition_row_count"].value for event in events.values()} == {2}
    assert {event.metadata["paimon/snapshot_id"].value for event in events.values()} == {1}
    # Of the one commit, so that the plot of each partition tells of other writers alone.
    assert {event.metadata["paimon/attempts"].value for event in events.values()} == {1}
    assert len({(event.tags or {})["dagster/data_version"] for event in events.values()}) == 1
    latest = instance.get_latest_materialization_event(TABLE)
    assert latest is not None
    assert latest.asset_materialization is not None
    assert latest.asset_materialization.metadata["dagster/row_count"].value == 14
    assert str(latest.asset_materialization.metadata["paimon/made_by"].value).startswith(
        f"APPEND by run {made.run_id[:8]}, batch 2013-01-01 to 2013-01-07, 7 batches"
    )
    assert place.tick() == "sales.orders: nothing is staged"


def test_no_partition_is_called_out_of_date_after_the_commit(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place, days = Place(tmp_path, orders(), instance), ALL[:3]
    place.stage(*days)
    place.commit(days[-1])
    events = place.events()

    for day in days:
        wanted = dg.AssetRecordsFilter(asset_key=INGEST, asset_partitions=[day])
        (staged,) = instance.fetch_materializations(wanted, limit=1).records
        tags = events[day].tags or {}
        assert tags["dagster/input_event_pointer/lake/sales/orders/ingest"] == str(staged.storage_id)
        assert tags["dagster/code_version"] == (events[days[-1]].tags or {})["dagster/code_version"]
        assert tags.keys() >= {"dagster/input_data_version/lake/sales/orders/ingest", "dagster/data_version"}


def test_a_replay_names_the_snapshot_that_holds_the_batch(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, orders(), instance)
    place.stage(*ALL[:3])
    first = place.commit(ALL[2])
    place.stage(ALL[0])
    again = place.commit(ALL[0])

    assert again.is_success
    assert len(place.table.snapshots()) == 1
    (seen,) = instance.fetch_observations(TABLE, limit=1).records
    observation = seen.asset_observation
    assert observation is not None
    assert observation.partition == ALL[0]
    assert observation.description == f"nothing was committed: committed before by run {first.run_id[:8]} as snapshot 1"
    assert observation.metadata["dagster/partition_row_count"].value == 2


def test_what_a_killed_committer_did_not_tell_the_next_one_tells(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, orders(), instance)
    place.stage(*ALL[:3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehouse_dagster.assets.commit.read_state", _killed)
        assert not place.commit(ALL[2]).is_success
    assert snapshots(place.table) == [", ".join(ALL[:3])]
    assert place.events() == {}
    # Meanwhile another run stages a batch.
    place.stage(ALL[3])
    request = place.requested()
    place.commit(request.tags[PARTITION])

    assert snapshots(place.table) == [", ".join(ALL[:3]), ALL[3]]
    found = {day: event.metadata["paimon/snapshot_id"].value for day, event in place.events().items()}
    assert found == {ALL[0]: 1, ALL[1]: 1, ALL[2]: 1, ALL[3]: 2}
    assert {event.metadata["dagster/partition_row_count"].value for event in place.events().values()} == {2}
    assert place.tick() == "sales.orders: nothing is staged"


def _killed(*_: object) -> None:
    raise RuntimeError("the process is gone")


def test_a_batch_of_a_key_table_waits_for_those_before_it(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, keyed_orders(), instance)
    place.stage(ALL[1], ALL[2])
    assert place.tick() == "sales.orders: 2 staged: it waits for the batches after the start"
    assert place.commit(ALL[2]).is_success
    assert (place.events(), place.table.snapshots()) == ({}, ())
    (seen,) = instance.fetch_observations(TABLE, limit=1).records
    assert seen.asset_observation is not None
    assert seen.asset_observation.description == "nothing was committed: it waits for the batches after the start"

    place.stage(ALL[0])
    request = place.requested()
    place.commit(request.tags[PARTITION])
    assert snapshots(place.table) == [", ".join(ALL[:3])]
    # Of the three versions of order 0 the last one is left.
    assert {row["id"]: row["day"] for row in place.table.scan().to_arrow().to_pylist()}[0] == ALL[2]
    assert sorted(place.events()) == ALL[:3]


def test_the_sensor_waits_for_runs_that_stage_and_for_a_run_that_commits(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = Place(tmp_path, orders(commit={"how": "together", "wait_minutes": 60}), instance)
    place.stage(ALL[0])
    job = lake_definitions(many_lake(place.spec), resources=resources(tmp_path)).resolve_implicit_global_asset_job_def()

    def begin(key: dg.AssetKey) -> str:
        made = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, asset_selection=frozenset({key}))
        return made.run_id

    staging = begin(INGEST)
    assert place.tick() == "sales.orders: 1 batch staged, 1 more run is staging"
    # It has waited long enough.
    place.cursor = '{"sales.orders": "2013-01-01T00:00:00+00:00"}'
    assert place.requested().tags[PARTITION] == ALL[0]
    committing = begin(TABLE)
    assert place.tick() == "sales.orders: 1 batch staged, a run is committing"
    for run_id in (staging, committing):
        instance.delete_run(run_id)
    assert place.requested().tags[PARTITION] == ALL[0]


def test_each_new_batch_is_staged_by_a_run_of_its_own(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, orders(), instance)
    delivered = dg.DynamicPartitionsDefinition(name="many_batches")
    lake = replace(many_lake(place.spec), feeds={"many": replace(FEED, delivered=delivered)})
    instance.add_dynamic_partitions("many_batches", ALL[:3])

    def requested() -> list[tuple[str, list[dg.AssetKey]]]:
        definitions = lake_definitions(lake, resources=resources(tmp_path))
        with dg.build_sensor_context(
            instance=instance, resources=resources(tmp_path), definitions=definitions
        ) as context:
            found = definitions.resolve_sensor_def("lake_committer").evaluate_tick(context).run_requests or []
        return [(request.tags[PARTITION], list(request.asset_selection or ())) for request in found]

    assert requested() == [(day, [INGEST]) for day in ALL[:3]]
    place.stage(ALL[0], ALL[2])
    # It waits with the commit for the one that is left.
    assert requested() == [(ALL[1], [INGEST])]
    place.stage(ALL[1])
    assert requested() == [(ALL[2], [TABLE])]


def test_batches_of_a_range_that_a_run_stages_are_not_staged_by_another_run(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = Place(tmp_path, orders(), instance)
    delivered = dg.DynamicPartitionsDefinition(name="many_batches")
    lake = replace(many_lake(place.spec), feeds={"many": replace(FEED, delivered=delivered)})
    instance.add_dynamic_partitions("many_batches", ALL[:4])
    definitions = lake_definitions(lake, resources=resources(tmp_path))
    job = definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={INGEST})
    # As a job without a selection of its own is run.
    run = instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags=range_tags(ALL[0], ALL[2]), asset_selection=None
    )
    assert run.asset_selection is None

    with dg.build_sensor_context(instance=instance, resources=resources(tmp_path), definitions=definitions) as context:
        found = definitions.resolve_sensor_def("lake_committer").evaluate_tick(context).run_requests or []
    assert [request.tags[PARTITION] for request in found] == [ALL[3]]


def test_each_commit_waits_anew_for_the_runs_that_stage(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, orders(commit={"how": "together", "wait_minutes": 60}), instance)
    place.stage(ALL[0])
    job = lake_definitions(many_lake(place.spec), resources=resources(tmp_path)).resolve_implicit_global_asset_job_def()
    instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, asset_selection=frozenset({INGEST}))
    place.cursor = '{"sales.orders": "2013-01-01T00:00:00+00:00"}'
    request = place.requested()
    place.commit(request.tags[PARTITION])
    place.stage(ALL[1])

    assert place.tick() == "sales.orders: 1 batch staged, 1 more run is staging"


def test_a_policy_bounds_the_batches_of_a_snapshot(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, orders(commit={"how": "together", "most_batches": 2}, tag_batches=True), instance)
    place.stage(*ALL[:5])
    place.commit(ALL[4])

    assert snapshots(place.table) == [", ".join(ALL[:2]), ", ".join(ALL[2:4]), ALL[4]]
    # A tag shows the table as it was after its batch, which is the last one of a snapshot.
    assert {tag.name: tag.snapshot_id for tag in place.table.tags()} == {
        f"batch-{ALL[1]}": 1, f"batch-{ALL[3]}": 2, f"batch-{ALL[4]}": 3,
    }  # fmt: skip


def test_the_rows_of_batches_with_gaps_are_those_that_the_source_makes(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = Place(tmp_path, orders(), instance)
    place.stage(ALL[0], ALL[1], ALL[4], ALL[6])
    place.commit(ALL[0])
    checks = lake_definitions(many_lake(place.spec), resources=resources(tmp_path))
    result = dg.materialize(
        [*(checks.assets or ()), *(checks.asset_checks or ())],
        selection=dg.AssetSelection.checks(dg.AssetCheckKey(TABLE, "source_row_count")),
        resources=resources(tmp_path),
        instance=instance,
    )
    (evaluation,) = result.get_asset_check_evaluations()

    assert evaluation.passed
    assert evaluation.description == f"8 rows, the source makes 8 through {ALL[6]}"


def test_a_run_of_both_assets_for_a_range_makes_one_snapshot(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, keyed_orders(), instance)
    definitions = lake_definitions(many_lake(place.spec), resources=resources(tmp_path))
    ends = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
    result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=[INGEST, TABLE], tags=dict(zip(ends, (ALL[0], ALL[4]), strict=True))
    )

    assert result.success
    assert snapshots(place.table) == [", ".join(ALL[:5])]
    assert sorted(place.events()) == ALL[:5]


def test_one_click_stages_its_batch_and_commits_it_with_those_of_other_runs(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = Place(tmp_path, keyed_orders(), instance)
    place.stage(*ALL[:2])
    made = place.commit(ALL[2])

    assert made.is_success
    assert snapshots(place.table) == [", ".join(ALL[:3])]
    assert sorted(place.events()) == ALL[:3]
    assert instance.get_materialized_partitions(INGEST) == {*ALL[:3]}
    (staged,) = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=INGEST, asset_partitions=[ALL[2]]), limit=1
    ).records
    tags = place.events()[ALL[2]].tags or {}
    assert tags["dagster/input_event_pointer/lake/sales/orders/ingest"] == str(staged.storage_id)
    # A batch waits where those before it are not staged.
    place.commit(ALL[4])
    assert len(place.table.snapshots()) == 1
    place.commit(ALL[3])
    assert snapshots(place.table) == [", ".join(ALL[:3]), ", ".join(ALL[3:5])]


def test_a_click_that_died_before_its_commit_is_carried_on_by_the_next_one(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = Place(tmp_path, orders(), instance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehouse_dagster.assets.commit._joint_commit", _killed)
        assert not place.commit(ALL[0]).is_success
    request = place.requested()
    assert (request.tags[PARTITION], request.asset_selection) == (ALL[0], [TABLE])
    place.commit(ALL[0])

    assert snapshots(place.table) == [ALL[0]]
    assert sorted(place.events()) == [ALL[0]]
    # Nothing was written twice.
    assert len([*(tmp_path / "warehouse" / "sales.db" / "orders").rglob("data-*")]) == 1


def test_the_sensor_does_not_stage_the_batch_of_a_click(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, orders(), instance)
    delivered = dg.DynamicPartitionsDefinition(name="many_batches")
    lake = replace(many_lake(place.spec), feeds={"many": replace(FEED, delivered=delivered)})
    instance.add_dynamic_partitions("many_batches", ALL[:2])
    definitions = lake_definitions(lake, resources=resources(tmp_path))
    job = definitions.resolve_implicit_global_asset_job_def()
    instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags={PARTITION: ALL[0]}, asset_selection=frozenset({TABLE})
    )

    with dg.build_sensor_context(instance=instance, resources=resources(tmp_path), definitions=definitions) as context:
        found = definitions.resolve_sensor_def("lake_committer").evaluate_tick(context).run_requests or []
    assert [(request.tags[PARTITION], request.asset_selection) for request in found] == [(ALL[1], [INGEST])]


def test_a_click_on_a_range_makes_one_snapshot(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, orders(), instance)
    definitions = lake_definitions(many_lake(place.spec), resources=resources(tmp_path))
    result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=[TABLE], tags=range_tags(ALL[0], ALL[3])
    )

    assert result.success
    assert snapshots(place.table) == [", ".join(ALL[:4])]
    assert sorted(place.events()) == ALL[:4]
    assert instance.get_materialized_partitions(INGEST) == {*ALL[:4]}


def test_runs_that_stage_need_no_pool() -> None:
    definitions = lake_definitions(many_lake(orders()))
    pools = {asset.key: asset.op.pool for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition)}
    assert (pools[INGEST], pools[TABLE]) == (None, "lake/sales/orders")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feed": {"source": "many", "name": "orders", "batches": False}}, "which is for a feed in batches"),
        (
            {"primary_key": ("id",), "write_mode": "upsert", "options": {"changelog-producer": "input"}},
            "Take 'lookup' or 'full-compaction'",
        ),
        (
            {"primary_key": ("id",), "write_mode": "upsert", "options": {"bucket": "-1"}},
            "may put a new key into two of them. Give it a number of buckets",
        ),
        ({"commit": "twice"}, "Input should be 'each' or 'together'"),
    ],
    ids=["whole", "changelog", "dynamic buckets", "word"],
)
def test_what_cannot_be_committed_together_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        orders(**change)


def test_a_table_that_took_batches_together_does_not_take_them_one_by_one(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = Place(tmp_path, orders(), instance)
    place.stage(*ALL[:2])
    place.commit(ALL[1])
    place.spec = orders(commit="each")

    assert not run(tmp_path, place.spec, INGEST, ALL[2], instance).is_success


def test_a_table_that_took_batches_one_by_one_goes_on_together(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, orders(commit="each"), instance)
    place.stage(ALL[0])
    place.commit(ALL[0])
    place.spec = orders()
    place.stage(*ALL[:3])
    place.commit(ALL[2])

    assert snapshots(place.table) == [ALL[0], ", ".join(ALL[1:3])]


@pytest.mark.long
def test_two_hundred_runs_in_parallel_processes_make_one_snapshot_and_no_conflict(tmp_path: Path) -> None:
    days = ALL[:200]
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")

    def start(what: str, part: Sequence[str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-W", "ignore", "-m", "tests.lakehouse_dagster.many_batches", str(tmp_path), what]
        return subprocess.Popen([*command, *part], cwd=CHECKOUT)

    started = datetime.now(UTC)
    stagers = [start("stage", days[first::4]) for first in range(4)]
    # One of them is killed in the middle.
    while len(list(tmp_path.glob("warehouse/**/lakehouse/pending/*"))) < 40:
        assert all(process.poll() is None for process in stagers)
        time.sleep(0.1)
    os.kill(stagers[0].pid, signal.SIGKILL)
    assert [process.wait() for process in stagers] == [-signal.SIGKILL, 0, 0, 0]
    assert start("stage", days[0::4]).wait() == 0
    staged = datetime.now(UTC)
    assert start("die", days[-1:]).wait() == 9
    assert start("commit", days[-1:]).wait() == 0
    committed = datetime.now(UTC)
    print(f"200 batches: staged in {staged - started}, committed twice in {committed - staged}")

    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        place = Place(tmp_path, orders(), instance)
        assert snapshots(place.table) == [", ".join(days)]
        assert sorted(place.events()) == days
        assert place.tick() == "sales.orders: nothing is staged"
    assert sorted(row["day"] for row in place.table.scan().to_arrow().to_pylist()) == sorted([*days, *days])
    assert place.table.verify().findings == ()


def test_the_sensor_says_which_staged_batch_cannot_be_committed(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = Place(tmp_path, orders(), instance)
    place.stage(ALL[0])
    (kept,) = place.table.pending_commits()
    staged = place.table.pending(kept.commit_user, kept.commit_identifier)
    assert staged is not None
    for file in staged.messages[0].new_files:
        next((tmp_path / "warehouse").rglob(file.file_name)).unlink()

    told = place.tick()

    assert isinstance(told, str)
    assert told.startswith("sales.orders: 1 staged cannot be committed: ")
    place.stage(ALL[0])
    assert isinstance(place.tick(), list)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("spec", in_turn(2, [orders, keyed_orders], first=1))
def test_batches_that_spark_staged_are_committed_together(
    tmp_path: Path, instance: dg.DagsterInstance, spec: Callable[..., TableSpec]
) -> None:
    place, days = Place(tmp_path, spec(runs_on="spark"), instance), ALL[:3]
    place.stage(days[2], days[0], days[1])
    request = place.requested()
    assert request.tags["lakehouse/reason"] == "3 batches staged"

    assert place.commit(request.tags[PARTITION]).is_success

    assert snapshots(place.table) == [", ".join(days)]
    rows = sorted(place.table.scan().to_arrow().to_pylist(), key=lambda row: (row["id"], row["day"]))
    # Order 0 is in each batch: by its key the latest one is kept.
    shared = [{"id": 0, "day": day} for day in (days[2:] if spec is keyed_orders else days)]
    assert rows == [*shared, *({"id": number, "day": day} for number, day in enumerate(days, 1))]
    assert sorted(place.events()) == days
    assert place.table.verify().findings == ()
    # The commit without anything new commits nothing.
    assert place.tick() == "sales.orders: nothing is staged"
    assert place.commit(days[2]).is_success
    assert len(place.table.snapshots()) == 1
