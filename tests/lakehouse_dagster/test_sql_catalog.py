"""A lake whose table names are kept in a SQL database."""

from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

import lakehouse_core as lc
from lakehouse_core.catalog.sql.tables import LOCKS
from lakehouse_dagster import Lake, LakehouseResource, SparkRuntime, lake_definitions, load_specs
from tests.storage.s3_stub import S3Stub

SPEC = """
database: sales
name: orders
comment: Orders from files.
columns: {id: BIGINT NOT NULL}
write_mode: append
runs_on: process
files: {path: "incoming/*.csv"}
"""


def load_and_maintain(tmp_path: Path, lakehouse: LakehouseResource) -> None:
    (tmp_path / "orders.yaml").write_text(SPEC)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "a.csv").write_text("id\n1\n2\n")
    lake = Lake(name="lake", tables=load_specs(tmp_path))
    defs = lake_definitions(lake, resources={"lakehouse": lakehouse})

    with dg.DagsterInstance.ephemeral() as instance:
        for job in ("lake_ingest", "lake_maintain"):
            assert defs.resolve_job_def(job).execute_in_process(instance=instance).success


@pytest.mark.dagster
def test_a_table_of_a_lake_is_loaded_and_maintained_by_its_name_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LAKEHOUSE_METASTORE", f"sqlite:///{tmp_path}/names.db")
    lakehouse = LakehouseResource(
        warehouse=str(tmp_path / "warehouse"),
        metastore=dg.EnvVar("LAKEHOUSE_METASTORE"),
        metastore_options={"lock.enabled": "true", "catalog-key": "team"},
        spark=SparkRuntime(),
    )
    load_and_maintain(tmp_path, lakehouse)

    options = {"catalog-key": "team"}
    catalog = lc.connect(tmp_path / "warehouse", metastore=f"sqlite:///{tmp_path}/names.db", metastore_options=options)
    assert "orders" in catalog.tables("sales")
    assert catalog.table("sales.orders").scan().count() == 2
    assert catalog.check() == []


@pytest.mark.dagster
def test_a_table_in_a_store_without_conditional_writes_is_loaded_and_maintained_where_a_database_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LAKEHOUSE_METASTORE", f"sqlite:///{tmp_path}/names.db")
    with S3Stub() as stub:
        stub.ignored = frozenset({"if-none-match", "if-match"})
        storage = {**stub.storage, "conditional-writes": "false"}
        lakehouse = LakehouseResource(
            warehouse="s3://lake/wh",
            storage=storage,
            metastore=dg.EnvVar("LAKEHOUSE_METASTORE"),
            spark=SparkRuntime(),
        )
        load_and_maintain(tmp_path, lakehouse)

        catalog = lc.connect("s3://lake/wh", storage=storage, metastore=f"sqlite:///{tmp_path}/names.db")
        assert catalog.table("sales.orders").scan().count() == 2
        assert catalog.table("sales.orders").verify().findings == ()
        assert catalog.check() == []


def test_the_column_of_a_lock_in_mysql_is_javas_also_where_dagster_is_loaded():
    """The storage of an instance changes how SQLAlchemy writes times for MySQL, in the whole process."""
    with dg.DagsterInstance.ephemeral():
        statement = str(CreateTable(LOCKS).compile(dialect=mysql.dialect()))

    assert "acquired_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP" in statement
