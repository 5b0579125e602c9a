"""The keys of a machine's role: they are found, and renewed in the middle of a job. The servers are on loopback.

A web identity is not tried: the client asks for its keys by https alone, with the certificates of the system.
"""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.storage.metadata_server import BEARER, MetadataServer, metadata_server
from tests.storage.remote_process import as_in_a_new_process
from tests.storage.s3_stub import REGION, S3Stub

# How a machine says where its keys are. `{}`: the address of the server; `{folder}`: where a token is.
WAYS = {
    "an instance": {"AWS_METADATA_ENDPOINT": "{}"},
    "a pod": {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "{}/pod",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "{folder}/token",
    },
}


@pytest.fixture
def role(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataServer]:
    """A machine without keys of its own, and a store that takes those of its role."""
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    (tmp_path / "token").write_text(BEARER)
    with S3Stub() as stub, metadata_server(stub) as server:
        stub.secrets = {}
        way: Mapping[str, str] = WAYS[getattr(request, "param", "an instance")]
        for name, value in {**way, "AWS_ENDPOINT_URL": stub.endpoint, "AWS_REGION": REGION}.items():
            monkeypatch.setenv(name, value.format(server.endpoint, folder=tmp_path))
        yield server


def end_keys(role: MetadataServer) -> None:
    """End all keys, at a time when a client asks for new ones before its next request."""
    time.sleep(0.5)
    role.expire_all()


@pytest.mark.parametrize("role", WAYS, indirect=True)
def test_keys_of_a_role_that_end_in_the_middle_of_a_job_are_renewed(role: MetadataServer) -> None:
    catalog = lc.connect("s3://lake/wh")
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
    for key in range(3):
        staged = table.stage([{"k": key}], commit_user="job", commit_identifier=key)
        end_keys(role)
        table.commit(staged)
    end_keys(role)
    table.compact(full=True)
    end_keys(role)

    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [0, 1, 2]
    assert table.verify(data=True).findings == ()
    assert len(role.stub.expired) >= 5


def test_a_role_without_keys_for_a_while_is_told_and_the_job_goes_on_when_they_are_back(
    role: MetadataServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_in_a_new_process(monkeypatch, retries=1)
    catalog = lc.connect("s3://lake/wh")
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
    staged = table.stage([{"k": 1}], commit_user="job", commit_identifier=1)
    role.is_away = True
    end_keys(role)

    with pytest.raises(lc.StorageUnavailable, match="no credentials were found") as told:
        table.commit(staged)
    assert "role-secret" not in str(told.value)
    role.is_away = False
    table.commit(staged)
    assert table.scan().to_arrow()["k"].to_pylist() == [1]
    assert table.verify(data=True).findings == ()
