"""A table that is fed by files: each file once, whatever happens to a run, and a bad file stops no other."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster import Lake, LakehouseResource, SparkRuntime, ingest_asset, lake_definitions, load_specs
from lakehouse_dagster.pipeline.deliveries import FoundFile, ReadFile, find_files, record_delivery, recorded_files
from lakehouse_dagster.sources.files_source import FilesSource
from lakehouse_dagster.specs import FilesSpec
from lakehouse_dagster.testing import ReadyLake, ready_lake

ORDERS = "sales.orders"
SPEC = """
database: sales
name: orders
comment: Orders from files.
columns: {id: BIGINT NOT NULL, status: STRING}
write_mode: append
runs_on: process
files: {path: "incoming/**/*.csv"}
"""


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    (tmp_path / "orders.yaml").write_text(SPEC)
    (tmp_path / "incoming").mkdir()
    return tmp_path / "incoming"


@pytest.fixture
def ready(incoming: Path) -> Iterator[ReadyLake]:
    with ready_lake(Lake(name="lake", tables=load_specs(incoming.parent)), resources={}) as lake:
        yield lake


def put(folder: Path, name: str, *ids: object, at: int) -> Path:
    """Write a file of rows, last changed `at` seconds after some moment."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("id,status\n" + "".join(f"{id},new\n" for id in ids))
    os.utime(path, (1_700_000_000 + at,) * 2)
    return path


def ids(ready: ReadyLake) -> list[int]:
    return sorted(row["id"] for row in ready.table(ORDERS).scan().to_arrow().to_pylist())


@pytest.mark.dagster
def test_each_file_is_loaded_once_by_the_first_run_that_finds_it(ready: ReadyLake, incoming: Path):
    put(incoming, "a.csv", 1, 2, at=0)
    put(incoming, "deep/b.csv", 3, at=1)
    put(incoming, ".hidden.csv", 7, at=1)
    put(incoming, "half.csv.tmp", 8, at=1)
    ready.ingest()
    first = ready.table(ORDERS).snapshot()
    ready.ingest()

    assert (ids(ready), ready.table(ORDERS).snapshot()) == ([1, 2, 3], first)
    put(incoming, "c.csv", 4, at=2)
    ready.ingest()

    assert ids(ready) == [1, 2, 3, 4]
    assert ready.checks(ORDERS) == dict.fromkeys(
        ("files_loaded", "inputs_current", "snapshot_count", "sorted_runs", "source_row_count", "verify"), True
    )
    recorded = ready.table("sales.file_deliveries").scan().to_arrow().to_pylist()
    assert {Path(row["path"]).name: (row["delivery"], row["row_count"]) for row in recorded} == {
        "a.csv": (0, 2),
        "b.csv": (0, 1),
        "c.csv": (1, 1),
    }


@pytest.mark.dagster
def test_a_file_that_cannot_be_read_stops_no_other_and_stays_to_be_done(ready: ReadyLake, incoming: Path):
    for number in range(5):
        put(incoming, f"{number}.csv", "x" if number == 2 else number, at=number)
    ready.ingest()

    assert ids(ready) == [0, 1, 3, 4]
    assert not ready.checks(ORDERS)["files_loaded"]
    evaluation = latest_evaluation(ready, "files_loaded")
    assert evaluation.description is not None
    assert evaluation.description.startswith(f"{incoming}/2.csv: ")
    assert "column 'id'" in evaluation.description

    put(incoming, "2.csv", 2, at=9)
    ready.ingest()

    assert ids(ready) == [0, 1, 2, 3, 4]
    assert ready.checks(ORDERS)["files_loaded"]


@pytest.mark.dagster
def test_whether_all_files_are_loaded_is_still_shown_after_maintenance(ready: ReadyLake, incoming: Path):
    put(incoming, "0.csv", 0, at=0)
    put(incoming, "1.csv", "x", at=1)
    ready.ingest()
    told = latest_evaluation(ready, "files_loaded")
    ready.maintain()

    again = latest_evaluation(ready, "files_loaded")
    event = ready.instance.fetch_materializations(ready.lake.table_key(ready.lake.table(ORDERS)), limit=1).records[0]
    assert again.target_materialization_data is not None
    assert again.target_materialization_data.storage_id == event.storage_id
    assert (again.passed, again.description) == (False, told.description)


@pytest.mark.dagster
def test_files_whose_rows_a_rollback_took_away_are_not_loaded_again(ready: ReadyLake, incoming: Path):
    put(incoming, "a.csv", 1, at=0)
    ready.ingest()
    put(incoming, "b.csv", 2, at=1)
    ready.ingest()
    ready.table(ORDERS).rollback_to(1)
    ready.ingest()

    assert ids(ready) == [1]
    assert {name for name, passed in ready.checks(ORDERS).items() if not passed} == {"source_row_count"}
    assert latest_evaluation(ready, "source_row_count").description == "1 rows, the source makes 2 through delivery 1"


@pytest.mark.dagster
def test_a_run_that_died_anywhere_before_its_commit_is_continued_with_the_same_files(ready: ReadyLake, incoming: Path):
    put(incoming, "a.csv", 1, at=0)
    ready.ingest()
    catalog, table = ready.catalog, ready.table(ORDERS)
    put(incoming, "b.csv", 2, at=1)
    # Dead after the delivery was recorded.
    assert record_delivery(catalog, table, read(incoming)) == 1
    put(incoming, "c.csv", 3, at=2)
    # Dead after staging, before the commit.
    ingest = ingest_asset(ready.lake, ready.lake.tables[0])
    resources = {ready.lake.resource: ready.definitions.resources[ready.lake.resource]}
    assert dg.materialize([ingest], instance=ready.instance, resources=resources).success
    assert ids(ready) == [1]
    put(incoming, "d.csv", 4, at=3)

    ready.ingest()

    assert ids(ready) == [1, 2, 3, 4]
    assert {each.file.path.name: each.delivery for each in recorded_files(catalog, table)} == {
        "a.csv": 0,
        "b.csv": 1,
        "c.csv": 2,
        "d.csv": 3,
    }


@pytest.mark.dagster
def test_a_file_that_changes_after_it_was_loaded_is_told_and_not_loaded_again(ready: ReadyLake, incoming: Path):
    put(incoming, "a.csv", 1, at=0)
    ready.ingest()
    changed = put(incoming, "a.csv", 5, at=1)

    warnings = told(ready, ready.ingest().run_id)

    assert ids(ready) == [1]
    assert [line for line in warnings if f"{changed} has changed since it was loaded" in line]


@pytest.mark.dagster
def test_a_table_that_was_dropped_takes_its_files_anew(ready: ReadyLake, incoming: Path):
    put(incoming, "a.csv", 1, at=0)
    ready.ingest()
    ready.catalog.drop_table(ORDERS)

    ready.ingest()

    assert ids(ready) == [1]


@pytest.mark.dagster
def test_a_warehouse_that_is_not_there_is_told_by_the_run(incoming: Path, tmp_path: Path):
    put(incoming, "a.csv", 1, at=0)
    (tmp_path / "warehouse").write_text("a file")
    lakehouse = LakehouseResource(warehouse=str(tmp_path / "warehouse"), spark=SparkRuntime())
    defs = lake_definitions(Lake(name="lake", tables=load_specs(tmp_path)), resources={"lakehouse": lakehouse})

    with dg.DagsterInstance.ephemeral() as instance:
        run = defs.resolve_job_def("lake_ingest").execute_in_process(instance=instance, raise_on_error=False)

    failure = run.failure_data_for_node("lake__sales__orders__ingest")
    assert failure is not None
    assert failure.user_failure_data is not None
    assert str(failure.user_failure_data.description).startswith(f"Warehouse '{tmp_path}/warehouse': ")
    assert "is a file. Expected a folder, which need not exist yet." in str(failure.user_failure_data.description)


def test_runs_that_record_at_once_give_each_file_to_one_delivery(tmp_path: Path):
    catalog = lc.connect(tmp_path / "warehouse")
    catalog.create_database("sales")
    table = catalog.create_table(ORDERS, {"id": "BIGINT"})
    for number in range(12):
        put(tmp_path, f"{number}.csv", number, at=number)
    files = read(tmp_path)

    def record(first: int) -> int | None:
        return record_delivery(lc.connect(tmp_path / "warehouse"), table, files[first : first + 6])

    with ThreadPoolExecutor(4) as runs:
        numbers = [number for number in runs.map(record, (0, 3, 6, 0)) if number is not None]

    recorded = recorded_files(catalog, table)
    assert sorted(each.file.path.name for each in recorded) == sorted(f"{n}.csv" for n in range(12))
    assert sorted({each.delivery for each in recorded}) == sorted(numbers) == list(range(len(numbers)))
    assert catalog.table("sales.file_deliveries").verify().findings == ()


@pytest.mark.dagster
def test_a_file_that_names_no_format_and_one_that_no_run_may_read_are_told_by_their_paths(
    ready: ReadyLake, incoming: Path
):
    ready.ingest()
    source = FilesSource(
        spec=FilesSpec(path="*"),
        pattern="*",
        key=ready.lake.table_key(ready.lake.table(ORDERS)),
        upstream=dg.AssetKey("files"),
        lake_resource="lakehouse",
        write_mode="append",
    )
    nameless, folder = put(incoming, "rows", 1, at=0), incoming / "folder.csv"
    folder.mkdir()
    found = [FoundFile.of(path, path.stat()) for path in (nameless, folder)]

    good, refused = source.check(ready.table(ORDERS), found)

    assert good == []
    assert refused[0].startswith(f"{nameless}: expected a name that ends with one of ")
    assert refused[1].startswith(f"{folder}: ")
    assert [sentence.count(str(incoming)) for sentence in refused] == [1, 1]


def test_files_are_found_oldest_first_and_a_missing_folder_has_none(tmp_path: Path):
    put(tmp_path, "b.csv", 1, at=5)
    put(tmp_path, "a.csv", 1, at=5)
    put(tmp_path, "z.csv", 1, at=1)

    assert [file.path.name for file in find_files(f"{tmp_path}/*.csv")] == ["z.csv", "a.csv", "b.csv"]
    assert find_files(f"{tmp_path}/none/*.csv") == []


def read(folder: Path) -> list[ReadFile]:
    return [ReadFile(file=file, row_count=1) for file in find_files(f"{folder}/*.csv")]


def latest_evaluation(ready: ReadyLake, check: str) -> dg.AssetCheckEvaluation:
    key = dg.AssetCheckKey(ready.lake.table_key(ready.lake.table(ORDERS)), check)
    record = ready.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert record.evaluation is not None
    return record.evaluation


def told(ready: ReadyLake, run_id: str) -> list[str]:
    return [str(entry.user_message) for entry in ready.instance.all_logs(run_id)]
