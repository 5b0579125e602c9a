"""OpenLineage events of steps: valid, one START and one end for each attempt, and never in the way of a run."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import dagster as dg
import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_dagster import (
    LakehouseIOManager,
    LakehouseResource,
    SparkRuntime,
    lake_definitions,
    table_metadata,
)
from lakehouse_dagster.lineage import StepAttempt, emitted_lineage, unended_steps
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake

pytestmark = pytest.mark.dagster

SPECIFICATION = Path(__file__).parent / "openlineage"
FIRST, SECOND = "0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"
# What differs between two runs of one test.
DIFFERS = {
    r"\d{4}-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)": "TIME",
    r'"\d{13}/main@': '"INCARNATION/main@',
    r'file://[^"]*/warehouse': "WAREHOUSE",
    r"urn:paimon-lakehouse:[\w.]+": "urn:paimon-lakehouse:VERSION",
    r'"size": \d+': '"size": 0',
}


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


class Lake:
    """The shop's lake with a receiver of events."""

    def __init__(self, instance, folder, receiver, feed=None, others=(), **lineage):
        self.lake = shop_lake(orders(maintenance={"max_small_files": 1}), *others)
        self.warehouse = folder / "warehouse"
        resource = LakehouseResource(
            name=self.lake.name, warehouse=str(self.warehouse), spark=SparkRuntime(), lineage=str(receiver), **lineage
        )
        self.definitions = lake_definitions(self.lake, resources={"lakehouse": resource, "shop": feed or ShopFeed()})
        self.instance = instance

    def run(self, job, run_id=None, day=None, **arguments):
        tags = {} if day is None else {f"dagster/asset_partition_range_{end}": day for end in ("start", "end")}
        definition = self.definitions.resolve_job_def(self.lake.scoped(job))
        return definition.execute_in_process(
            instance=self.instance, run_id=run_id, tags=tags, raise_on_error=False, **arguments
        )

    @property
    def table(self):
        return lc.connect(self.warehouse).table("sales.orders")


class BrokenFeed(ShopFeed):
    def rows(self, feed, batch):
        raise lc.CorruptTable("the file of the day is cut off")


def events(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def faults(event):
    """Return what is wrong with an event and its facets by the published schemas."""
    from jsonschema import Draft202012Validator
    from referencing import Registry, Resource

    schemas = {path.stem: json.loads(path.read_text()) for path in SPECIFICATION.glob("*Facet.json")}
    schemas["OpenLineage"] = json.loads((SPECIFICATION / "OpenLineage.json").read_text())
    registry = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in schemas.values())
    check = Draft202012Validator.FORMAT_CHECKER
    found = [*Draft202012Validator(schemas["OpenLineage"], registry=registry, format_checker=check).iter_errors(event)]
    datasets = [*event["inputs"], *event["outputs"]]
    facets = [event["run"].get("facets", {}), *(each.get("facets", {}) for each in datasets)]
    facets += [each.get("outputFacets", {}) for each in event["outputs"]]
    for facet in (facet for group in facets for facet in group.values()):
        name = re.search(r"(\w+)$", facet["_schemaURL"])[1]
        schema = {"$ref": f"{schemas[name]['$id']}#/$defs/{name}"}
        found += Draft202012Validator(schema, registry=registry, format_checker=check).iter_errors(facet)
    return [error.message for error in found]


def golden(told):
    for event in told:
        # The client adds a facet with its own version.
        event["run"]["facets"].pop("tags", None)
    text = json.dumps(told, indent=1)
    for pattern, name in DIFFERS.items():
        text = re.sub(pattern, name, text)
    return text + "\n"


def test_the_steps_of_a_run_are_told_with_versions_columns_rows_and_the_run_around_them(instance, tmp_path):
    lake = Lake(instance, tmp_path, file := tmp_path / "lineage" / "events.jsonl")

    assert lake.run("ingest", FIRST, "2013-01-01").success
    assert lake.run("maintain", SECOND).success

    told = events(file)
    assert [fault for event in told for fault in faults(event)] == []
    assert golden(told) == (SPECIFICATION / "events.json").read_text()
    assert not list(tmp_path.glob("warehouse/**/events.jsonl"))


def test_a_replay_and_a_dry_run_write_nothing(instance, tmp_path):
    lake = Lake(instance, tmp_path, file := tmp_path / "events.jsonl")
    lake.run("ingest", day="2013-01-01")
    before = len(events(file))

    lake.run("ingest", day="2013-01-01")
    config = {"ops": {"mine__sales__orders__compact_full": {"config": {"dry_run": True}}}}
    assert lake.run("maintain", run_config=config).success

    again = events(file)[before:]
    assert [event["job"]["name"].rpartition(".")[2] for event in again if event["outputs"]] == []
    assert {event["eventType"] for event in again} == {"START", "COMPLETE"}


def test_a_failed_step_is_told_with_its_error_and_each_attempt_is_a_run_of_its_own(instance, tmp_path):
    lake = Lake(instance, tmp_path, file := tmp_path / "events.jsonl", BrokenFeed())

    assert not lake.run("ingest", FIRST, "2013-01-01").success

    start, end = events(file)
    assert (start["eventType"], end["eventType"]) == ("START", "FAIL")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["run"]["facets"]["errorMessage"]["message"] == "CorruptTable: the file of the day is cut off"
    assert faults(end) == []

    assert not lake.run("ingest", SECOND, "2013-01-01").success
    assert len({event["run"]["runId"] for event in events(file)}) == 2


class DyingFeed(ShopFeed):
    def rows(self, feed, batch):
        os.kill(os.getpid(), signal.SIGKILL)


def die_in_ingest(lake):
    lake.run("ingest", FIRST, "2013-01-01")


def die_in_write(lake):
    """Write rows by the IO manager that end the process when they are read."""
    catalog = lc.connect(lake.warehouse)
    catalog.create_database("sales")
    catalog.create_table("sales.copies", {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"})
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])

    def rows():
        yield DyingFeed().rows(None, None)

    @dg.asset(key=["mine", "sales", "copies"], metadata=table_metadata(write_mode="upsert"))
    def copies() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(schema, rows())

    resources = {"io_manager": LakehouseIOManager(lakehouse=lake.definitions.resources["lakehouse"])}
    dg.materialize([copies], instance=lake.instance, resources=resources)


_DIES = """
import sys
from pathlib import Path
import dagster as dg
from tests.lakehouse_dagster import test_lineage
home, folder, file, how = sys.argv[1:]
with dg.DagsterInstance.local_temp(home) as instance:
    getattr(test_lineage, how)(test_lineage.Lake(instance, Path(folder), file, test_lineage.DyingFeed()))
"""


@pytest.mark.program
@pytest.mark.parametrize(
    ("die", "job", "report", "state"),
    [
        pytest.param(die_in_ingest, "sales.orders.ingest", "report_run_failed", "FAIL", marks=pytest.mark.long),
        pytest.param(die_in_write, "sales.copies.write", "report_run_failed", "FAIL", marks=pytest.mark.long),
        # As when a user asks for the termination of a run whose process does not react.
        (die_in_ingest, "sales.orders.ingest", "report_run_canceled", "ABORT"),
    ],
)
def test_a_step_whose_process_was_killed_is_told_as_ended_once_the_run_is(tmp_path, die, job, report, state):
    file = tmp_path / "events.jsonl"
    arguments = [sys.executable, "-c", _DIES, str(tmp_path / "home"), str(tmp_path), str(file), die.__name__]
    (tmp_path / "home").mkdir()
    assert subprocess.run(arguments, check=False, capture_output=True).returncode == -signal.SIGKILL
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as home:
        lake = Lake(home, tmp_path, file)
        repository = lake.definitions.get_repository_def()
        resources = {"lakehouse": lake.definitions.resources["lakehouse"]}
        cursors = dict.fromkeys(("mine_lineage", "mine_lineage_canceled"))

        def tick():
            """Evaluate the sensors as the daemon does."""
            for name, cursor in cursors.items():
                with dg.build_sensor_context(home, cursor, repository_def=repository, resources=resources) as context:
                    cursors[name] = repository.get_sensor_def(name).evaluate_tick(context).cursor

        tick()
        (run,) = home.get_runs()
        getattr(home, report)(run, "the worker is gone")
        tick()
        start, end = events(file)
        # A run that failed by itself has told so.
        assert not Lake(home, tmp_path, file, BrokenFeed()).run("ingest", SECOND, "2013-01-01").success
        told = len(events(file))
        tick()

    assert (start["eventType"], end["eventType"]) == ("START", state)
    assert start["run"]["runId"] == end["run"]["runId"]
    assert start["job"]["name"] == end["job"]["name"] == job
    assert "the worker is gone" in end["run"]["facets"]["errorMessage"]["message"]
    assert faults(end) == []
    assert len(events(file)) == told


def test_what_an_io_manager_writes_is_told_with_the_tables_that_the_step_read(instance, tmp_path):
    lake = Lake(instance, tmp_path, file := tmp_path / "events.jsonl", others=(orders(name="copies"),))
    lake.run("ingest", day="2013-01-01")
    file.unlink()
    lakehouse = lake.definitions.resources["lakehouse"]
    source = dg.AssetKey(["mine", "sales", "orders"])

    @dg.asset(
        key=["mine", "sales", "copies"],
        ins={"rows": dg.AssetIn(source)},
        metadata=table_metadata(write_mode="upsert"),
    )
    def copies(rows: pa.Table) -> pa.Table:
        return rows.slice(0, 1)

    assets = [copies, dg.AssetSpec(source).with_io_manager_key("io_manager")]
    resources = {"io_manager": LakehouseIOManager(lakehouse=lakehouse)}
    run = partial(dg.materialize, assets, selection=[copies], instance=instance, resources=resources)
    first, second = run(), run()
    # As a re-execution of the first run, whose rows are committed once.
    again = run(tags={"dagster/root_run_id": first.run_id})
    assert [first.success, second.success, again.success] == [True] * 3

    told = events(file)
    assert [fault for event in told for fault in faults(event)] == []
    assert [event["eventType"] for event in told] == ["START", "COMPLETE"] * 3
    assert {event["job"]["name"] for event in told} == {"sales.copies.write"}
    ends = told[1::2]
    assert [[each["name"] for each in event["inputs"]] for event in ends] == [["sales.orders"]] * 3
    assert ends[0]["inputs"][0]["facets"]["version"]["datasetVersion"].endswith("/main@1")
    written = [[each["outputFacets"]["outputStatistics"]["rowCount"] for each in event["outputs"]] for event in ends]
    assert written == [[1], [1], []]


def test_an_input_that_was_dropped_meanwhile_is_missing_in_the_events_and_its_rows_are_written(
    instance, tmp_path, capfd
):
    lake = Lake(instance, tmp_path, file := tmp_path / "events.jsonl", others=(orders(name="copies"),))
    lake.run("ingest", day="2013-01-01")
    source = dg.AssetKey(["mine", "sales", "orders"])

    @dg.asset(
        key=["mine", "sales", "copies"], ins={"rows": dg.AssetIn(source)}, metadata=table_metadata(write_mode="upsert")
    )
    def copies(rows: pa.Table) -> pa.Table:
        lc.connect(lake.warehouse).drop_table("sales.orders")
        return rows.slice(0, 1)

    assets = [copies, dg.AssetSpec(source).with_io_manager_key("io_manager")]
    resources = {"io_manager": LakehouseIOManager(lakehouse=lake.definitions.resources["lakehouse"])}

    assert dg.materialize(assets, selection=[copies], instance=instance, resources=resources).success

    end = events(file)[-1]
    assert (end["eventType"], end["inputs"], len(end["outputs"])) == ("COMPLETE", [], 1)
    assert "A dataset is missing in the OpenLineage events of this step: " in capfd.readouterr().err


def test_a_lake_without_a_receiver_has_no_sensor_of_lineage(instance, tmp_path):
    names = {each.name for each in Lake(instance, tmp_path, "").definitions.get_repository_def().sensor_defs}

    assert "mine_lineage" not in names


def test_the_snapshots_of_a_run_that_failed_later_are_found(instance, tmp_path):
    broken = orders(name="broken", columns={"id": "BIGINT NOT NULL", "more": "INT NOT NULL"})
    lake = Lake(instance, tmp_path, "", others=(broken,))

    assert not lake.run("ingest", FIRST, "2013-01-01").success

    assert [snapshot.id for snapshot in lake.table.trace_run(FIRST)] == [1]
    assert {file.run_id for file in lake.table.files(lineage=True)} == {FIRST}


def begun_step(instance, attempt):
    """A step of a run that the instance knows."""
    run = instance.create_run_for_job(dg.GraphDefinition(name="ingest").to_job())
    return StepAttempt(
        namespace="mine",
        job="a.b.commit",
        run_id=run.run_id,
        root_run_id=run.run_id,
        run_job=run.job_name,
        attempt=attempt,
    )


def test_a_step_of_a_terminated_run_is_told_as_aborted(instance, tmp_path):
    step, file = begun_step(instance, attempt=1), str(tmp_path / "events.jsonl")

    with pytest.raises(KeyboardInterrupt), emitted_lineage(step, file, "", pytest.fail, instance):
        raise KeyboardInterrupt

    assert unended_steps(instance, step.run_id, "mine") == []

    assert [event["eventType"] for event in events(tmp_path / "events.jsonl")] == ["START", "ABORT"]


def test_steps_that_began_and_did_not_end_are_found_by_their_attempts_and_their_lake(instance, tmp_path):
    first, second = begun_step(instance, attempt=0), begun_step(instance, attempt=0)
    retried = replace(first, attempt=1)
    tell = partial(emitted_lineage, receiver=str(tmp_path / "events.jsonl"), api_key="", warn=pytest.fail)

    with tell(first, instance=instance), tell(retried, instance=instance), tell(second, instance=instance):
        assert unended_steps(instance, first.run_id, "mine") == [first, retried]
        assert unended_steps(instance, first.run_id, "another") == []
    assert unended_steps(instance, first.run_id, "mine") == []


def test_a_client_that_is_not_installed_is_named_and_fails_no_step(instance, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lakehouse_dagster.lineage.openlineage_events", None)
    step = begun_step(instance, attempt=0)
    warnings = []

    with emitted_lineage(step, str(tmp_path / "events.jsonl"), "", warnings.append, instance):
        pass

    assert len(warnings) == 2
    assert warnings[0].endswith("Install it: pip install 'paimon-lakehouse[openlineage]'.")


def test_a_receiver_that_is_down_or_a_file_that_cannot_be_written_fails_no_run(instance, tmp_path, capfd):
    with receiver(503) as address:
        pass
    (tmp_path / "a file").write_text("")

    for name, where in {"down": f"{address}/api/v1/lineage", "file": tmp_path / "a file" / "below"}.items():
        lake = Lake(instance, tmp_path / name, where)
        assert lake.run("ingest", day="2013-01-01").success
        assert lake.table.scan().count() == 2

    told = capfd.readouterr().err
    assert "OpenLineage event START of sales.orders.ingest was not sent to http://" in told
    assert "OpenLineage event COMPLETE of sales.orders.commit was not sent to " in told


def test_events_are_posted_to_an_address_with_its_key(instance, tmp_path):
    with receiver(200) as address:
        assert (
            Lake(instance, tmp_path, f"{address}/api/v1/lineage", lineage_api_key="secret")
            .run("ingest", day="2013-01-01")
            .success
        )

    assert [(path, event["eventType"], key) for path, event, key in POSTED] == [
        ("/api/v1/lineage", state, "Bearer secret") for state in ("START", "COMPLETE") * 2
    ]


def test_another_kind_of_receiver_is_refused(instance, tmp_path):
    result = Lake(instance, tmp_path, "kafka://broker").run("ingest", day="2013-01-01")

    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "lineage='kafka://broker': expected a file, or an http or https address" in str(failure)


@pytest.mark.parametrize(
    "address",
    [
        "https://me:canary@events.example",
        "https://me:1/canary@events.example",
        "https:/me:canary@events.example",
        "me:canary@events.example",
        "https://events.example/api?api_key=canary",
    ],
)
def test_a_receiver_with_a_secret_in_its_address_is_refused_without_it(instance, address):
    step = begun_step(instance, attempt=1)

    with (
        pytest.raises(lc.InvalidRequest, match="Give a key as lineage_api_key") as refused,
        emitted_lineage(step, address, "", pytest.fail, instance),
    ):
        pass

    assert "canary" not in str(refused.value)


POSTED = []


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        POSTED.append((self.path, event, self.headers["Authorization"]))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *arguments):
        pass


@contextmanager
def receiver(status):
    """Give the address of a server that takes events, until the end of the block."""
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.status = status
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
