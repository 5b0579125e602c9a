"""Tables on Ceph's gateway: the contract, a table's life, races, a gateway killed among commits, refusals."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import lakehouse_core as lc
from benchmarks.race_s3 import Server, races
from lakehouse_core.errors import StorageUnavailable
from lakehouse_core.storage import ObjectStore, StoreSpec, open_store, with_storage
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.ceph_server import CephServer, ceph_server, faked_clock
from tests.storage.contract import StoreContract
from tests.storage.remote_process import as_in_a_new_process
from tests.storage.table_lives import check_large_object, check_racing_commits, expire, life, new_table, read, write

pytestmark = pytest.mark.ceph

NUMBERS = itertools.count()
# Those of a user to whom the bucket does not belong.
GUEST = {"access-key": "guest-access", "secret-key": "guest-secret-key"}
ACTIONS = ("GetObject", "PutObject", "DeleteObject", "ListBucket")
GRANT = r"AccessDenied: .* Grant them reading, writing, listing and deleting here"
NO_BUCKET = r"s3://nowhere: there is no such bucket at http://.* Check its name and the endpoint, or create it"
KILLS, WRITERS, COMMITS = 4, 3, 12


@pytest.fixture(scope="module")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CephServer]:
    with ceph_server(tmp_path_factory.mktemp("ceph")) as server:
        server.new_user("guest", GUEST["access-key"], GUEST["secret-key"])
        yield server


@pytest.fixture
def root() -> str:
    return f"lake/run-{next(NUMBERS)}"


class TestCephStore(StoreContract):
    @pytest.fixture
    def store(self, ceph: CephServer, root: str) -> ObjectStore:
        return open_store(with_storage(StoreSpec("s3", root), ceph.storage))


def test_a_table_has_the_same_life_as_on_a_disk(ceph: CephServer, root: str, tmp_path: Any) -> None:
    assert life(lc.connect(f"s3://{root}", storage=ceph.storage)) == life(lc.connect(tmp_path))


def test_a_large_object_appears_when_all_its_parts_are_there(
    ceph: CephServer, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_large_object(open_store(with_storage(StoreSpec("s3", root), ceph.storage)), monkeypatch)
    assert not ceph.client().list_multipart_uploads(Bucket="lake").get("Uploads")


def test_no_name_has_two_winners_and_no_version_is_replaced_unseen(ceph: CephServer, root: str) -> None:
    _, bars = races(Server(f"s3://{root}", ceph.storage), names=200, objects=40)

    assert {bar.what: bar.value for bar in bars} == dict.fromkeys((bar.what for bar in bars), 0)


def test_commits_of_processes_that_race_are_all_kept(ceph: CephServer, root: str) -> None:
    check_racing_commits(f"s3://{root}", ceph.storage)


def test_a_gateway_killed_among_commits_loses_and_doubles_none(ceph: CephServer, root: str) -> None:
    storage = {**ceph.storage, "timeout": "5"}
    catalog = lc.connect(f"s3://{root}", storage=storage)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"writer": "INT", "number": "INT"})
    unsure: list[str] = []

    def commit_all(writer: int) -> None:
        mine = lc.connect(f"s3://{root}", storage=storage).table("db.t")
        for number in range(COMMITS):
            row = {"writer": writer, "number": number}
            is_done = False
            while not is_done:
                try:
                    mine.commit(mine.stage([row], commit_user=f"writer-{writer}", commit_identifier=number))
                    is_done = True
                except (StorageUnavailable, lc.CommitOutcomeUnknown) as error:
                    unsure.append(str(error))
                    time.sleep(0.2)

    with ThreadPoolExecutor(WRITERS) as pool:
        running = [pool.submit(commit_all, writer) for writer in range(WRITERS)]
        for _ in range(KILLS):
            before = len(table.snapshots())
            while len(table.snapshots()) < before + 2 and not all(each.done() for each in running):
                time.sleep(0.02)
            ceph.kill_gateway()
            ceph.start_gateway()
        for each in running:
            each.result(timeout=HANGS_AFTER_SECONDS)

    rows = sorted((row["writer"], row["number"]) for row in table.scan().to_arrow().to_pylist())
    assert rows == [(writer, number) for writer in range(WRITERS) for number in range(COMMITS)]
    assert len(table.snapshots()) == WRITERS * COMMITS
    assert table.verify(data=True).findings == ()
    assert all("try again" in said or "Try again" in said or "same" in said for said in unsure), unsure


# What a guest may not do, and the verbs that are refused then; the others succeed.
DENIED = {
    "GetObject": (read, write, expire),
    "PutObject": (write, expire),
    "DeleteObject": (expire,),
    "ListBucket": (read, write, expire),
}


@pytest.fixture
def unprobed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask each store again whether it honours conditions."""
    as_in_a_new_process(monkeypatch)


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("action", DENIED)
def test_a_missing_permission_is_told_and_the_table_stays_whole(ceph: CephServer, root: str, action: str) -> None:
    mine = new_table(f"s3://{root}", ceph.storage)
    allow_guest(ceph, *(each for each in ACTIONS if each != action))
    for verb in (read, expire, write):
        table = lc.connect(f"s3://{root}", storage={**ceph.storage, **GUEST}).table
        if verb in DENIED[action]:
            with pytest.raises(StorageUnavailable, match=GRANT):
                verb(table("db.t"))
        else:
            verb(table("db.t"))

    # What the guest wrote belongs to it: the owner of the bucket may not read that.
    allow_guest(ceph, *ACTIONS)
    theirs = lc.connect(f"s3://{root}", storage={**ceph.storage, **GUEST}).table("db.t")
    assert theirs.scan().to_arrow()["k"].to_pylist() == [1, 2, 3][: 2 + (write not in DENIED[action])]
    assert theirs.verify(data=True).findings == ()
    assert write not in DENIED[action] or mine.verify(data=True).findings == ()


def allow_guest(ceph: CephServer, *actions: str) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": ["arn:aws:iam:::user/guest"]},
        "Action": [f"s3:{action}" for action in actions],
        "Resource": ["arn:aws:s3:::lake", "arn:aws:s3:::lake/*"],
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    ceph.client().put_bucket_policy(Bucket="lake", Policy=json.dumps(policy))


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "a wrong secret": ({"secret-key": "x"}, "SignatureDoesNotMatch: the secret key does not belong"),
    "an unknown key": ({"access-key": "x"}, "InvalidAccessKeyId: the access key is unknown there"),
}


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("name", REFUSED)
def test_wrong_credentials_are_told(ceph: CephServer, root: str, name: str) -> None:
    settings, expected = REFUSED[name]
    new_table(f"s3://{root}", ceph.storage)
    for verb in (read, write):
        with pytest.raises(StorageUnavailable, match=expected):
            verb(lc.connect(f"s3://{root}", storage={**ceph.storage, **settings}).table("db.t"))


@pytest.mark.usefixtures("unprobed")
def test_a_missing_bucket_is_told_and_is_no_missing_table(ceph: CephServer) -> None:
    nowhere = lc.connect("s3://nowhere/wh", storage=ceph.storage)
    asks: list[Callable[[], object]] = [
        nowhere.databases,
        lambda: nowhere.table("db.t"),
        lambda: nowhere.create_database("db"),
    ]
    for ask in asks:
        with pytest.raises(StorageUnavailable, match=NO_BUCKET):
            ask()


def test_any_region_is_taken_where_the_server_has_none(ceph: CephServer, root: str) -> None:
    new_table(f"s3://{root}", ceph.storage)

    elsewhere = lc.connect(f"s3://{root}", storage={**ceph.storage, "region": "eu-west-3"})
    assert elsewhere.table("db.t").write([{"k": 3}]).snapshot_id == 3


COUNT = """
import sys

import lakehouse_core as lc

warehouse, endpoint = sys.argv[1:]
try:
    print(lc.connect(warehouse, storage={"endpoint": endpoint}).table("db.t").scan().count())
except lc.LakehouseError as error:
    print(error)
"""


def counted(root: str, endpoint: str, keys: dict[str, str], *, ahead_seconds: int = 0) -> str:
    """Return what a process says that counts the rows of the table. `ahead_seconds`: of its clock."""
    clock = faked_clock(ahead_seconds) if ahead_seconds else None
    environment = {**os.environ, **(clock or {}), **keys}
    command = [sys.executable, "-c", COUNT, f"s3://{root}", endpoint]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=HANGS_AFTER_SECONDS, check=True
    )
    return ended.stdout.strip()


def test_a_clock_that_is_off_by_an_hour_is_told(ceph: CephServer, root: str) -> None:
    new_table(f"s3://{root}", ceph.storage)
    keys = {"AWS_ACCESS_KEY_ID": ceph.storage["access-key"], "AWS_SECRET_ACCESS_KEY": ceph.storage["secret-key"]}

    assert counted(root, ceph.endpoint, keys) == "2"
    said = counted(root, ceph.endpoint, keys, ahead_seconds=3_600)
    assert "RequestTimeTooSkewed: the clock of this machine differs from the store's. Set it, then try again." in said


def test_a_session_token_is_taken_until_it_expires(ceph: CephServer, root: str) -> None:
    new_table(f"s3://{root}", ceph.storage)
    statement = {"Effect": "Allow", "Action": ["sts:GetSessionToken"], "Resource": ["*"]}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    ceph.client("iam").put_user_policy(UserName="owner", PolicyName="tokens", PolicyDocument=policy)
    with ceph.token_gateway() as today, ceph.token_gateway(ahead_seconds=3_600) as later:
        given = ceph.client("sts", today).get_session_token(DurationSeconds=900)["Credentials"]
        keys = {
            "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
            "AWS_SESSION_TOKEN": given["SessionToken"],
        }
        assert counted(root, today, keys) == "2"
        said = counted(root, later, keys, ahead_seconds=3_600)

    assert "AccessDenied: these credentials may not list here, are wrong, or have expired." in said
    assert given["SecretAccessKey"] not in said
