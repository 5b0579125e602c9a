"""Partitions of every kind of Dagster: each key loads its part of the table, again when it is run again."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_dagster import Lake, TableSpec, ingest_asset
from lakehouse_dagster.partitions import partitions_definition
from lakehouse_dagster.sources.run_delivery import run_partitions
from lakehouse_dagster.specs import PartitionsSpec
from lakehouse_dagster.testing import ReadyLake, ready_lake

T = "sales.sums"
DAYS = {"time": {"every": "day", "start": "2013-01-01", "end": "2013-01-06", "columns": {"dt": "%Y-%m-%d"}}}
REGIONS = {"static": {"keys": ["north", "south"], "column": "region"}}
NAMED = {"static": {"keys": ["n", "s"], "column": "region", "values": {"n": "north", "s": "south"}}}
DYNAMIC = {"dynamic": {"name": "regions", "column": "region"}}
BOTH = {"multi": {"day": DAYS, "region": REGIONS}}
# What the function gives to a key, beside the key itself.
VERSION = ["first"]
NOW = datetime(2013, 2, 1, tzinfo=UTC)


def sums(key: str) -> Iterator[pa.Table]:
    """The rows of a partition, which name the key; a key that ends with `!` gives rows of another one."""
    day, _, region = key.partition("|") if "|" in key or key[:2] == "20" else ("2013-01-01", "", key)
    region = {"n": "north", "s": "south", "wrong": "north"}.get(region or "north", region or "north")
    yield pa.table({"dt": pa.array([date.fromisoformat(day)]), "region": [region], "v": [f"{key} {VERSION[0]}"]})


def everywhere(key: str) -> pa.Table:
    return pa.table({"dt": pa.array([date(2013, 1, 9)]), "region": ["east"], "v": [key]})


@pytest.fixture(autouse=True)
def first_version() -> None:
    VERSION[:] = ["first"]


@contextmanager
def lake_of(partitions: Any, **change: Any) -> Iterator[ReadyLake]:
    with ready_lake(Lake(name="lake", tables=[spec(partitions, **change)]), resources={}) as ready:
        yield ready


def spec(partitions: Any, **change: Any) -> TableSpec:
    fields = {
        "database": "sales",
        "name": "sums",
        "comment": "Sums.",
        "columns": {"dt": "DATE NOT NULL", "region": "STRING NOT NULL", "v": "STRING"},
        "partition_by": ["dt", "region"],
        "options": {"bucket": "-1"},
        "write_mode": "overwrite",
        "runs_on": "process",
        "function": {"call": sums},
        "partitions": partitions,
        **change,
    }
    return TableSpec.model_validate(fields)


def run(ready: ReadyLake, key: str, last: str | None = None, *, only_stage: bool = False) -> dg.ExecuteInProcessResult:
    if "|" not in key and not only_stage:
        return ready.ingest(key, last)
    resources = {ready.lake.resource: ready.definitions.resources[ready.lake.resource]}
    if only_stage:
        ingest = ingest_asset(ready.lake, ready.lake.tables[0])
        return dg.materialize([ingest], instance=ready.instance, resources=resources, partition_key=key)
    job = ready.definitions.resolve_job_def("lake_ingest")
    return job.execute_in_process(instance=ready.instance, partition_key=key)


def values(ready: ReadyLake) -> list[str]:
    return sorted(row["v"] for row in ready.table(T).scan().to_arrow().to_pylist())


@pytest.mark.one_in(2)
@pytest.mark.dagster
@pytest.mark.parametrize(
    ("partitions", "keys"),
    [
        (DAYS, ["2013-01-02", "2013-01-04"]),
        pytest.param(REGIONS, ["north", "south"], marks=pytest.mark.long),
        (NAMED, ["n", "s"]),
        (DYNAMIC, ["north", "west"]),
        (BOTH, ["2013-01-02|south", "2013-01-03|north"]),
    ],
)
def test_a_key_of_each_kind_loads_its_part_and_replaces_it_when_it_is_run_again(partitions: Any, keys: list[str]):
    with lake_of(partitions) as ready:
        ready.instance.add_dynamic_partitions("regions", [key for key in keys if partitions is DYNAMIC])
        for key in keys:
            run(ready, key)
        VERSION[:] = ["second"]
        run(ready, keys[0])

        assert values(ready) == sorted([f"{keys[0]} second", f"{keys[1]} first"])
        status = ready.instance.get_materialized_partitions(ready.lake.table_key(ready.lake.tables[0]))
        assert {str(key) for key in status} == {*keys}
        assert all(ready.checks(T).values())


@pytest.mark.dagster
def test_a_range_of_keys_is_one_run_with_a_commit_each_and_a_dead_one_is_executed_again():
    with lake_of(DAYS) as ready:
        first = run(ready, "2013-01-01", "2013-01-03")
        commits = len(ready.table(T).snapshots())
        # The run is executed again under the same identity: nothing is added, and nothing is committed.
        job = ready.definitions.resolve_job_def("lake_ingest")
        tags = {
            "dagster/asset_partition_range_start": "2013-01-01",
            "dagster/asset_partition_range_end": "2013-01-03",
            "lakehouse/root_run_id": first.run_id,
        }
        VERSION[:] = ["second"]
        again = job.execute_in_process(instance=ready.instance, tags=tags)
        # Other keys under that identity are other batches.
        tags |= {"dagster/asset_partition_range_start": "2013-01-04", "dagster/asset_partition_range_end": "2013-01-04"}
        other = job.execute_in_process(instance=ready.instance, tags=tags)

        assert again.success
        assert other.success
        assert commits == 3
        assert values(ready) == [*(f"2013-01-0{day} first" for day in (1, 2, 3)), "2013-01-04 second"]


@pytest.mark.dagster
def test_rows_of_a_run_that_died_before_its_commit_do_not_come_back():
    with lake_of(REGIONS) as ready:
        assert run(ready, "north", only_stage=True).success
        VERSION[:] = ["second"]
        run(ready, "north")

        assert values(ready) == ["north second"]


@pytest.mark.dagster
def test_keys_without_a_map_merge_into_a_table_without_partitions():
    change = {"partition_by": [], "write_mode": "upsert", "primary_key": ["region"], "options": {"bucket": "1"}}
    with lake_of({"static": {"keys": ["north", "south"]}}, **change) as ready:
        for key in ("north", "south", "north"):
            run(ready, key)

        assert values(ready) == ["north first", "south first"]


@pytest.mark.dagster
def test_rows_of_another_partition_are_refused():
    with lake_of(REGIONS, function={"call": everywhere}) as ready:
        job = ready.definitions.resolve_job_def("lake_ingest")
        result = job.execute_in_process(instance=ready.instance, partition_key="north", raise_on_error=False)

        assert not result.success
        told = "\n".join(str(entry) for entry in ready.instance.all_logs(result.run_id))
        assert "the source of sales.sums gave for 'north' 1 rows of other partitions, the first of region=east" in told


@pytest.mark.dagster
def test_tables_with_and_without_partitions_are_of_one_lake():
    whole = spec(None, name="whole", function={"call": f"{__name__}.all_rows"})
    monthly = spec({"time": {**DAYS["time"], "every": "month"}}, name="monthly")
    with ready_lake(Lake(name="lake", tables=[spec(DAYS), whole, monthly]), resources={}) as ready:
        keys = {table.name: ready.lake.table_key(table) for table in ready.lake.tables}
        assets = [ready.lake.operation_key(ready.lake.tables[1], "ingest"), keys["whole"]]
        job = ready.definitions.resolve_implicit_global_asset_job_def()

        assert job.execute_in_process(instance=ready.instance, asset_selection=assets).success
        assert ready.table("sales.whole").scan().count() == 1


def all_rows() -> pa.Table:
    return everywhere("all")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"partitions": {**DAYS, **REGIONS}}, "found time and static, expected one of time, static, dynamic, multi."),
        ({"partitions": {"static": {"keys": ["a"], "column": "regio"}}}, "partitions map 'regio', which is not in"),
        ({"partitions": {"static": {"keys": ["a"]}}}, "but partitions have no columns: each would replace the whole"),
        ({"tag_batches": True}, "tag_batches is for time windows; other keys may not be names of tags."),
        (
            {"partitions": {"static": {"keys": ["n", "s"], "column": "region", "values": {"n": "north"}}}},
            "values have no value for the key 's'. Give each key a value of its own",
        ),
        (
            {"partitions": {"static": {"keys": ["n"], "column": "region", "values": {"n": "north", "s": "north"}}}},
            "values have one value for two keys.",
        ),
        (
            {"partitions": {"time": {"every": "day", "start": "2013-01-01", "columns": {"dt": "%Y-%m"}}}},
            "2013-01-01 00:00:00 and 2013-01-02 00:00:00 have the same values, expected values of their own",
        ),
        (
            {"partitions": {"time": {"every": "hour", "start": "2013-01-01-00:00", "columns": {"dt": "%H"}}}},
            "2013-01-01 00:00:00 and 2013-02-01 00:00:00 have the same values, expected values of their own",
        ),
        ({"write_mode": "append"}, "write_mode is 'append', but each run would add all rows of the function again."),
        (
            {"function": {"call": sums, "cursor": "v"}, "write_mode": "append"},
            "partitions are for files, and for function, asset, sql without",
        ),
    ],
)
def test_partitions_that_do_not_fit_are_told(change: dict[str, Any], told: str):
    with pytest.raises(ValueError, match="validation error") as refused:
        spec(**{"partitions": REGIONS, **change})

    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        ({"time": {"every": "0 25 * * *", "start": "2013-01-01-00:00"}}, "sales.t: partitions: Found invalid cron"),
        ({"time": {"every": "day", "start": "yesterday"}}, "sales.t: partitions: time data 'yesterday' does not"),
        ({"static": {"keys": ["a", "a"]}}, "sales.t: partitions: Partition keys must be unique"),
    ],
)
def test_partitions_that_dagster_refuses_are_told_with_the_table(partitions: Any, told: str):
    with pytest.raises(lc.InvalidRequest) as refused:
        partitions_definition(PartitionsSpec.model_validate(partitions), "sales.t")

    assert str(refused.value).startswith(told)


def test_a_cron_schedule_makes_windows_of_any_length():
    made = partitions_definition(
        PartitionsSpec.model_validate(
            {"time": {"every": "0 */6 * * *", "start": "2013-01-01-00:00", "end": "2013-01-02-00:00"}}
        ),
        "sales.t",
    )

    assert made.get_partition_keys() == [f"2013-01-01-{hour:02}:00" for hour in (0, 6, 12, 18)]


@pytest.mark.dagster
def test_a_schedule_loads_the_windows_of_a_table_that_was_made_again_once_more(tmp_path: Path):
    days = [f"2013-01-0{day}" for day in range(1, 6)]
    partitions = run_partitions(PartitionsSpec.model_validate(DAYS), "db.t", overwrites=True)
    assert partitions is not None
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    key = dg.AssetKey("t")

    def made() -> lc.Table:
        return catalog.create_table("db.t", {"dt": "DATE"})

    with dg.DagsterInstance.ephemeral() as instance:
        table = made()
        assert partitions.scheduled_keys(table, key, instance, now=NOW) == days[4:]
        for day in days[1:3]:
            instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=day))
        assert partitions.scheduled_keys(table, key, instance, now=NOW) == days[3:]

        catalog.drop_table("db.t")

        assert partitions.scheduled_keys(None, key, instance, now=NOW) == days[1:]
        assert partitions.scheduled_keys(made(), key, instance, now=NOW) == days[1:]


@pytest.mark.dagster
@pytest.mark.parametrize(
    ("tick", "due"), [("2013-01-03T23:59", ["2013-01-02"]), ("2013-01-04T00:00", ["2013-01-03"]), ("2013-01-01", [])]
)
def test_a_late_tick_of_a_schedule_takes_the_windows_that_had_ended_at_its_time(tick: str, due: list[str]):
    partitions = run_partitions(PartitionsSpec.model_validate(DAYS), "db.t", overwrites=True)
    assert partitions is not None
    now = datetime.fromisoformat(tick).replace(tzinfo=UTC)

    with dg.DagsterInstance.ephemeral() as instance:
        assert partitions.scheduled_keys(None, dg.AssetKey("t"), instance, now=now) == due
