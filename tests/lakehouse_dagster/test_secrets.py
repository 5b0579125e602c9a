"""No key of a store and no password of a database is in what Dagster keeps of runs, whether they succeed or fail."""

from pathlib import Path

import dagster as dg
import pytest

from lakehouse_dagster import Lake, LakehouseResource, SparkRuntime, failures, lake_definitions, load_specs
from tests.catalog.sql.postgresql_server import postgresql_server
from tests.lakehouse_dagster.test_sql_catalog import SPEC
from tests.storage.s3_stub import ACCESS, SECRET, S3Stub

PASSWORD, OTHER = "canary-of-the-database", "canary-of-another-secret"
SECRETS = (SECRET, PASSWORD, OTHER)
JOBS = ("lake_ingest", "lake_maintain")


@pytest.mark.dagster
@pytest.mark.long
def test_no_secret_is_in_events_logs_and_pages_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "orders.yaml").write_text(SPEC)
    for name in ("incoming", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "incoming" / "a.csv").write_text("id\n1\n2\n")
    lake = Lake(name="lake", tables=load_specs(tmp_path))
    monkeypatch.setattr(failures, "FIRST_WAIT_SECONDS", 0)
    with S3Stub() as stub, postgresql_server() as server:
        address = server.new_database().replace("postgres@", f"postgres:{PASSWORD}@")
        lakehouse = LakehouseResource(
            warehouse="s3://lake/wh",
            storage={"endpoint": stub.endpoint, "access-key": ACCESS, "secret-key": dg.EnvVar("LAKE_SECRET")},
            metastore=dg.EnvVar("LAKE_METASTORE"),
            health_pages=str(tmp_path / "pages"),
            lineage=str(tmp_path / "lineage.json"),
            spark=SparkRuntime(),
        )
        defs = lake_definitions(lake, resources={"lakehouse": lakehouse})
        away = address.replace("/names_", "/no_such_names_")
        with dg.instance_for_test(temp_dir=str(tmp_path / "home")) as instance:
            for secret, metastore, succeeds in (
                (SECRET, address, True),
                (OTHER, address, False),
                (SECRET, away, False),
            ):
                monkeypatch.setenv("LAKE_SECRET", secret)
                monkeypatch.setenv("LAKE_METASTORE", metastore)
                for job in JOBS:
                    result = defs.resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False)
                    assert result.success is succeeds, job

            assert len(instance.get_runs()) == 3 * len(JOBS)
        stored = [stored.data for stored in stub.lake.objects.values()]
        files = [path for folder in (tmp_path, server.folder) for path in folder.rglob("*") if path.is_file()]
        written = {path: path.read_bytes() for path in files}
    assert any(b"s3://lake/wh" in data for path, data in written.items() if tmp_path / "home" in path.parents)
    assert any(b"SignatureDoesNotMatch" in data for data in written.values())
    for name in ("pages", "lineage.json"):
        assert (tmp_path / name).exists()
    assert [path for path, data in written.items() if any(secret.encode() in data for secret in SECRETS)] == []
    assert not any(secret.encode() in data for data in stored for secret in SECRETS)
