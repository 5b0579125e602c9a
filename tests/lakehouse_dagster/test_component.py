"""A table from a `defs.yaml`: scaffolded, it runs at once; a fault is told with its file and line."""

import re
import sqlite3
import warnings
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent
from typing import Any, get_args

import dagster as dg
import pytest
import yaml
from dagster.components.core.component_tree import ComponentTreeException
from pydantic import ValidationError

import lakehouse_core as lc
import lakehouse_dagster
from lakehouse_dagster import LakehouseTableComponent, TableSpec
from lakehouse_dagster.component import (
    _OF_THE_FEED,
    _OF_THE_LAKE,
    AssetAttributes,
    BehindAttributes,
    ChangesAttributes,
    CommitAttributes,
    DimensionAttributes,
    DynamicPartitionsAttributes,
    FeedAttributes,
    FilesAttributes,
    FreshnessAttributes,
    FunctionAttributes,
    IngestAttributes,
    MaintenanceAttributes,
    PartitionsAttributes,
    ScaffoldAttributes,
    SqlAttributes,
    StaticPartitionsAttributes,
    TimePartitionsAttributes,
)
from lakehouse_dagster.specs import (
    BehindSpec,
    ChangesSpec,
    DimensionSpec,
    FeedSpec,
    FilesSpec,
    FreshnessSpec,
    FunctionSpec,
    IngestSpec,
    MaintenanceSpec,
    PartitionsSpec,
    SqlSpec,
    UpstreamSpec,
)
from lakehouse_dagster.specs.partitions import DynamicPartitionsSpec, StaticPartitionsSpec, TimePartitionsSpec
from lakehouse_dagster.specs.table import CommitSpec

REFUSALS = (ComponentTreeException, ValidationError, lc.InvalidRequest)


@pytest.fixture(autouse=True)
def where_dagster_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        # Dagster's own: it calls parts of components beta or preview, and uses what pydantic calls outdated.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@pytest.fixture
def sandbox() -> Iterator[Any]:
    from dagster.components.testing import create_defs_folder_sandbox

    with create_defs_folder_sandbox() as made:
        yield made


def component(**change: object) -> dict[str, object]:
    return {
        "type": "lakehouse_dagster.LakehouseTableComponent",
        "attributes": {
            "warehouse": "./warehouse",
            "database": "sales",
            "name": "orders",
            "comment": "Orders.",
            "columns": {"id": {"type": "BIGINT NOT NULL", "description": "The order."}, "status": "STRING"},
            "write_mode": "upsert",
            "primary_key": ["id"],
            "options": {"bucket": "1"},
            "runs_on": "process",
            "files": {"path": "*.csv"},
            **change,
        },
    }


def placed(sandbox: Any, *components: dict[str, object]) -> Path:
    folder: Path = sandbox.scaffold_component(component_cls=LakehouseTableComponent)
    (folder / "defs.yaml").write_text(yaml.safe_dump_all(components, sort_keys=False))
    return folder


@pytest.mark.dagster
def test_a_scaffolded_component_is_ten_lines_and_its_first_run_is_green(sandbox: Any):
    folder = sandbox.scaffold_component(component_cls=LakehouseTableComponent)
    given = [line for line in (folder / "defs.yaml").read_text().splitlines() if line.strip()]

    with sandbox.load_component_and_build_defs(defs_path=folder) as (_, defs), dg.DagsterInstance.ephemeral() as home:
        assert defs.resolve_job_def("lake_sales_orders_ingest").execute_in_process(instance=home).success
        assert defs.resolve_job_def("lake_sales_orders_maintain").execute_in_process(instance=home).success

    assert len(given) <= 13
    rows = lc.connect("warehouse").table("sales.orders").scan().to_arrow().to_pylist()
    assert rows == [{"id": 1, "status": "new"}, {"id": 2, "status": "paid"}]


@pytest.mark.parametrize("source", get_args(ScaffoldAttributes.model_fields["source"].annotation))
def test_a_component_of_each_source_is_scaffolded_and_can_be_loaded(sandbox: Any, source: str):
    folder = sandbox.scaffold_component(component_cls=LakehouseTableComponent, scaffold_params={"source": source})

    with sandbox.load_component_and_build_defs(defs_path=folder) as (component, defs):
        assert getattr(component, source) is not None
        # An input must be an asset of the code location.
        both = dg.Definitions.merge(defs, dg.Definitions(assets=[dg.AssetSpec(["raw", "orders"])]))
        assert [key for key in both.resolve_asset_graph().get_all_asset_keys() if key.path[-1] == "ingest"]


@pytest.mark.dagster
def test_a_component_may_leave_its_buckets_to_the_table(sandbox: Any):
    folder = placed(sandbox, component(options={"bucket": -1, "dynamic-bucket.target-row-num": 1}))
    (folder / "one.csv").write_text("id,status\n1,new\n2,paid\n")

    with sandbox.load_component_and_build_defs(defs_path=folder) as (_, defs), dg.DagsterInstance.ephemeral() as home:
        for job in ("lake_sales_orders_ingest", "lake_sales_orders_maintain"):
            assert defs.resolve_job_def(job).execute_in_process(instance=home).success

    table = lc.connect("warehouse").table("sales.orders")
    assert len({one.bucket for one in table.buckets()}) == 2
    assert table.verify(data=True).findings == ()


@pytest.mark.dagster
def test_a_component_takes_the_rows_of_a_query(sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = sandbox.scaffold_component(component_cls=LakehouseTableComponent, scaffold_params={"source": "sql"})
    assert "    # A number or a time that only rises; the order of texts is" in (Path(folder) / "defs.yaml").read_text()
    database = sqlite3.connect(tmp_path / "shop.sqlite")
    with database:
        database.execute("CREATE TABLE orders AS SELECT 1 AS id, 'new' AS status")
    database.close()
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite:///{tmp_path / 'shop.sqlite'}")

    with sandbox.load_component_and_build_defs(defs_path=folder) as (_, defs), dg.DagsterInstance.ephemeral() as home:
        assert defs.resolve_job_def("lake_sales_orders_ingest").execute_in_process(instance=home).success

    assert lc.connect("warehouse").table("sales.orders").scan().to_arrow().to_pylist() == [{"id": 1, "status": "new"}]


@pytest.mark.dagster
def test_components_of_one_lake_share_its_warehouse(sandbox: Any):
    folder = placed(sandbox, component(), component(name="returns", files={"path": "returns/*.csv"}))
    (folder / "a.csv").write_text("id,status\n1,new\n")

    with sandbox.build_all_defs() as defs, dg.DagsterInstance.ephemeral() as home:
        for table in ("orders", "returns"):
            assert defs.resolve_job_def(f"lake_sales_{table}_ingest").execute_in_process(instance=home).success

    catalog = lc.connect("warehouse")
    counts = {name: catalog.table(f"sales.{name}").scan().count() for name in ("orders", "returns")}
    assert counts == {"orders": 1, "returns": 0}
    assert catalog.table("sales.orders").snapshot() is not None


SHOP = "tests.lakehouse_dagster.shop"
FEED = {"source": "shop", "name": "orders", "definition": f"{SHOP}.SHOP", "reader": f"{SHOP}.READER"}


def fed(**change: Any) -> dict[str, object]:
    made = component(columns={"id": "BIGINT NOT NULL"}, feed={**FEED, **change.pop("feed", {})}, **change)
    del made["attributes"]["files"]  # type: ignore[attr-defined]
    return made


@pytest.mark.dagster
def test_a_component_takes_the_batches_of_a_feed_one_by_one_or_together(sandbox: Any):
    placed(sandbox, fed(), fed(name="returns", commit="together"))

    with sandbox.build_all_defs() as defs, dg.DagsterInstance.ephemeral() as home:
        keys = [["lake", "sales", name, *end] for name in ("orders", "returns") for end in (["ingest"], [])]
        job = defs.resolve_implicit_global_asset_job_def()
        for day in ("2013-01-01", "2013-01-02"):
            assert job.execute_in_process(
                instance=home, partition_key=day, asset_selection=[dg.AssetKey(key) for key in keys]
            ).success

    catalog = lc.connect("warehouse")
    for name in ("orders", "returns"):
        rows = catalog.table(f"sales.{name}").scan().to_arrow()["id"].to_pylist()
        assert sorted(rows) == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"name": "order"}, r"defs\.yaml:\d+: feed\.name 'order' is not known; did you mean 'orders'\?"),
        ({"definition": f"{SHOP}.SHOPP"}, r"defs\.yaml:\d+: feed\.definition '.*SHOPP': found NoneType, .*mean 'SHOP'"),
        (
            {"definition": "no_such.SHOP"},
            r"defs\.yaml:\d+: feed\.definition 'no_such\.SHOP': the module 'no_such' cannot",
        ),
        ({"reader": f"{SHOP}.SHOP"}, r"defs\.yaml:\d+: feed\.reader '.*SHOP': found Feed, expected a FeedResource"),
        ({"reader": "READER"}, r"defs\.yaml:\d+: feed\.reader 'READER': the module '' cannot be imported"),
    ],
)
def test_a_feed_that_is_not_there_is_told_with_its_line(sandbox: Any, change: dict[str, object], fault: str):
    folder = placed(sandbox, fed(feed=change))

    with pytest.raises(REFUSALS) as refused, sandbox.load_component_and_build_defs(defs_path=folder):
        pass

    assert re.search(fault, causes(refused.value)), causes(refused.value)


def test_news_of_a_feed_that_does_not_tell_it_are_refused_with_their_line(sandbox: Any):
    folder = placed(sandbox, component(name="others"), fed(ingest={"news": True}))
    lines = (folder / "defs.yaml").read_text().splitlines()

    with pytest.raises(REFUSALS) as refused, sandbox.build_all_defs():
        pass

    line = lines.index("    news: true") + 1
    assert f"defs.yaml:{line}: ingest.news: the feed 'shop'" in causes(refused.value)


def test_two_components_of_one_table_are_told_with_both_places(sandbox: Any):
    one, other = (
        sandbox.scaffold_component(component_cls=LakehouseTableComponent, defs_path=name) for name in ("one", "other")
    )

    with pytest.raises(REFUSALS) as refused, sandbox.build_all_defs():
        pass

    told = causes(refused.value)
    places = (
        rf"({one}|{other})/defs\.yaml:6: sales\.orders of the lake lake is specified in ({one}|{other})/defs\.yaml:6"
    )
    assert re.search(f"{places} too. Keep one.", told), told

    # Mended, the same process loads them.
    text = (other / "defs.yaml").read_text()
    (other / "defs.yaml").write_text(text.replace("name: orders", "name: returns"))
    with sandbox.build_all_defs() as defs:
        assert defs.resolve_job_def("lake_sales_returns_ingest")


def test_two_components_of_one_table_in_one_file_are_told_with_both_lines(sandbox: Any):
    placed(sandbox, component(), component())

    with pytest.raises(REFUSALS) as refused, sandbox.build_all_defs():
        pass

    assert re.search(r"defs\.yaml:25: sales\.orders .*defs\.yaml:5 too\. Keep one\.", causes(refused.value))


@pytest.mark.one_in(2)
@pytest.mark.dagster
@pytest.mark.parametrize("by", ["its address", "the environment", "a profile"])
def test_components_of_one_lake_share_its_metastore(
    sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
):
    address = f"sqlite:///{tmp_path / 'names.db'}"
    monkeypatch.setenv("NAMES", address)
    monkeypatch.setenv("LAKEHOUSE_PROFILES", str(tmp_path / "profiles.yaml"))
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump({"work": {"metastore": {"env": "NAMES"}}}))
    given = {
        "its address": {"metastore": address},
        "the environment": {"metastore": {"env": "NAMES"}},
        "a profile": {"profile": "work"},
    }[by]
    placed(sandbox, component(**given), component(name="returns", files={"path": "returns/*.csv"}, **given))

    with sandbox.build_all_defs() as defs, dg.DagsterInstance.ephemeral() as home:
        for table in ("orders", "returns"):
            assert defs.resolve_job_def(f"lake_sales_{table}_ingest").execute_in_process(instance=home).success

    assert {"orders", "returns"} <= {*lc.connect("warehouse", metastore=address).tables("sales")}


@pytest.mark.dagster
def test_a_component_takes_the_changes_of_a_table_that_another_one_makes(sandbox: Any):
    followed = component(options={"bucket": "1", "changelog-producer": "input"})
    follower = component(name="open", files=None, changes_of={"table": "sales.orders", "while_null": ["status"]})
    folder = placed(sandbox, followed, {**follower, "attributes": {**follower["attributes"], "write_mode": "cdc"}})
    (folder / "a.csv").write_text("id,status\n1,\n2,paid\n3,\n")

    with sandbox.build_all_defs() as defs, dg.DagsterInstance.ephemeral() as home:
        for change in ("", "id,status\n3,paid\n"):
            (folder / "b.csv").write_text(change) if change else None
            for table in ("orders", "open"):
                assert defs.resolve_job_def(f"lake_sales_{table}_ingest").execute_in_process(instance=home).success
        parents = defs.resolve_asset_graph().get(dg.AssetKey(["lake", "sales", "open", "ingest"])).parent_keys

    assert lc.connect("warehouse").table("sales.open").scan().to_arrow().column("id").to_pylist() == [1]
    assert parents == {dg.AssetKey(["lake", "sales", "orders"])}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"primary_key": ["idd"]}, "primary_key names 'idd', which is not a column; did you mean 'id'?"),
        ({"columns": {"id": {"typ": "INT"}}}, r"columns\.id\.typ is not known; did you mean 'type'\?"),
        ({"files": {"path": ""}}, r"defs\.yaml:19: files\.path: found '', expected a text that is not empty"),
        ({"write_mode": "append"}, r"defs\.yaml:12: write_mode is 'append', but the table has primary_key"),
        (
            {"files": None, "sql": {"connection": "sqlite:///x", "query": "SELECT 1", "cursor": "id"}},
            r"defs\.yaml:\d+: sql\.connection: expected the name of an environment variable",
        ),
        (
            {"files": None, "function": {"call": "a.b"}, "partitions": {"static": {"keys": ["a"], "column": "idd"}}},
            r"defs\.yaml:\d+: partitions map 'idd', which is not in partition_by; the table has none\.",
        ),
        ({"file": {"path": "*.csv"}}, r"Additional properties are not allowed \('file' was unexpected\)|file"),
    ],
)
def test_a_wrong_attribute_is_told_with_its_file(sandbox: Any, change: dict[str, object], fault: str):
    folder = placed(sandbox, component(**change))

    with pytest.raises(REFUSALS) as refused, sandbox.load_component_and_build_defs(defs_path=folder):
        pass

    told = causes(refused.value)
    assert re.search(fault, told), told
    assert f"{folder}/defs.yaml" in told


def test_a_component_without_a_source_is_refused(sandbox: Any):
    without = component()
    del without["attributes"]["files"]  # type: ignore[attr-defined]
    folder = placed(sandbox, without)

    with pytest.raises(REFUSALS) as refused, sandbox.load_component_and_build_defs(defs_path=folder):
        pass

    told = causes(refused.value)
    assert re.search(r"defs\.yaml:3: rows come from one source: found none, expected one of ", told), told


def test_the_scaffolded_component_is_the_one_of_the_page(sandbox: Any):
    folder = sandbox.scaffold_component(component_cls=LakehouseTableComponent)
    page = (Path(lakehouse_dagster.__file__).parent.parent / "docs" / "dagster.md").read_text()

    _, attributes = (folder / "defs.yaml").read_text().split("\n\n", 1)

    assert attributes.strip() in page


def test_dagster_finds_the_component_by_the_package():
    (found,) = (each for each in entry_points(group="dagster_dg_cli.registry_modules") if "lakehouse" in each.name)

    assert found.load() is lakehouse_dagster
    schema = LakehouseTableComponent.get_model_cls().model_json_schema()
    assert {"warehouse", "database", "name", "columns", "write_mode"} <= set(schema["required"])
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("attributes", "spec", "absent", "own"),
    [
        (FilesAttributes, FilesSpec, set(), set()),
        (ChangesAttributes, ChangesSpec, set(), set()),
        (SqlAttributes, SqlSpec, set(), set()),
        (FunctionAttributes, FunctionSpec, set(), set()),
        (AssetAttributes, UpstreamSpec, set(), set()),
        (PartitionsAttributes, PartitionsSpec, set(), set()),
        (DimensionAttributes, DimensionSpec, set(), set()),
        (TimePartitionsAttributes, TimePartitionsSpec, set(), set()),
        (StaticPartitionsAttributes, StaticPartitionsSpec, set(), set()),
        (DynamicPartitionsAttributes, DynamicPartitionsSpec, set(), set()),
        (BehindAttributes, BehindSpec, set(), set()),
        (FreshnessAttributes, FreshnessSpec, set(), set()),
        (IngestAttributes, IngestSpec, set(), set()),
        (MaintenanceAttributes, MaintenanceSpec, set(), set()),
        (FeedAttributes, FeedSpec, set(), _OF_THE_FEED),
        (CommitAttributes, CommitSpec, set(), set()),
        (LakehouseTableComponent, TableSpec, set(), _OF_THE_LAKE),
    ],
)
def test_attributes_have_the_names_of_the_specification(attributes: Any, spec: Any, absent: set[str], own: set[str]):
    assert attributes.model_fields.keys() - own == spec.model_fields.keys() - absent


def causes(error: BaseException | None) -> str:
    told = []
    while error is not None:
        told.append(str(error))
        error = error.__cause__ or error.__context__
    return dedent("\n".join(told))
