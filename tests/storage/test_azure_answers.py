"""What an Azure store says about its settings and about bad answers; no server of Azure is needed."""

import base64
import pickle
from collections.abc import Callable, Iterator

import pytest

import lakehouse_core as lc
from lakehouse_core.errors import (
    CredentialsMissing,
    InvalidRequest,
    NotFound,
    StorageUnavailable,
    UnsupportedFeature,
    WriteOutcomeUnknown,
)
from lakehouse_core.storage import ObjectStore, StoreSpec, open_store, with_storage
from lakehouse_core.storage.remote import conditions
from lakehouse_core.storage.remote import settings as remote_settings
from lakehouse_core.storage.remote.store import RemoteStore
from tests.storage.remote_process import as_in_a_new_process
from tests.storage.s3_protocol import Answer
from tests.storage.s3_stub import Fault, S3Stub

KEY = base64.b64encode(b"canary-secret-account-key").decode()
SETTINGS = {"account": "canary", "account-key": KEY}
HTML = b"<html><body>Sign in to the network</body></html>"


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Stub]:
    """A server whose answers tests tell; requests are repeated once."""
    as_in_a_new_process(monkeypatch, retries=1)
    with S3Stub() as own:
        yield own


def store_of(stub: S3Stub) -> ObjectStore:
    given = {**SETTINGS, "endpoint": f"{stub.endpoint}/canary", "timeout": "1"}
    return open_store(with_storage(StoreSpec("az", "lake/wh"), given))


GRANT = "Grant them reading, writing, listing and deleting here, as the role Storage Blob Data Contributor does"
NOT_AZURE = "an Azure store does not answer like this. Check the endpoint, and proxies before it"
ANSWERS: dict[str, tuple[Answer | Fault, str]] = {
    "a wrong key, or a clock off by an hour": (Answer(403, code="AuthenticationFailed"), "the clock of this machine"),
    "no permission": (Answer(403, code="AuthorizationPermissionMismatch"), GRANT),
    "another network": (Answer(403, code="AuthorizationFailure"), "check that the account lets this network in"),
    "no such container": (Answer(404, code="ContainerNotFound"), "Check its name and the endpoint, or create it"),
    "no such account": (Answer(404, code="ResourceNotFound"), "there is no such account. Check account and endpoint"),
    "too many requests": (
        Answer(503, code="ServerBusy"),
        "asked too often. Try again later, or give fewer connections",
    ),
    "a failure each time": (Answer(500, code="InternalError"), "InternalError: it has failed. Try again later"),
    "a page of a proxy": (Answer(200, HTML, headers={"Content-Type": "text/html"}), NOT_AZURE),
    "a page that says 404": (Answer(404, HTML), NOT_AZURE),
    "a page that says 403": (Answer(403, HTML), "Check keys, permissions and the clock of this machine"),
    "a page that says 502": (Answer(502, HTML), "Check the endpoint, or try again later"),
    "closed connections": (Fault.DROPPED, "Check the endpoint and the network, then try again"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_bad_answer_is_told_with_what_to_do_and_is_nothing_else(stub: S3Stub, name: str) -> None:
    answer, expected = ANSWERS[name]
    stub.plan = lambda request: answer
    store = store_of(stub)
    asks: list[Callable[[], object]] = [
        lambda: store.read("a"),
        lambda: list(store.list("")),
        lambda: store.children(""),
        lambda: store.create_new("a", b""),
        lambda: store.write({"a": b""}),
    ]
    for ask in asks:
        with pytest.raises(StorageUnavailable) as told:
            ask()
        assert expected in str(told.value)
        assert KEY not in str(told.value)


def test_a_store_that_ignores_conditions_is_refused_before_anything_is_written(stub: S3Stub) -> None:
    stub.plan = lambda request: Answer(201 if request.verb == "put" else 202, headers={"ETag": '"0x1"'})

    with pytest.raises(UnsupportedFeature, match=r"az://lake at .* Nothing was written\. Use a store with conditional"):
        store_of(stub).write({"a": b"x"})


def test_a_lost_answer_to_a_conditional_write_is_unknown_and_is_not_sent_again(
    stub: S3Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(stub)
    assert isinstance(store, RemoteStore)
    monkeypatch.setattr(conditions, "_PROBED", {store.settings: True})
    for answer in (Fault.LOST, Answer(500, code="InternalError")):
        stub.requests.clear()
        stub.plan = lambda request, answer=answer: answer

        with pytest.raises(WriteOutcomeUnknown):
            store.create_new("a", b"x")
        assert len(stub.requests) == 1


def test_only_the_code_of_a_missing_blob_is_a_missing_object(stub: S3Stub) -> None:
    stub.plan = lambda request: Answer(404, code="BlobNotFound")

    with pytest.raises(NotFound, match="az://lake/wh/a: the object does not exist"):
        store_of(stub).read("a")
    assert store_of(stub).read_versioned("a") is None


@pytest.mark.parametrize(
    ("warehouse", "storage", "expected"),
    [
        ("az://Lake_1/x", SETTINGS, "'Lake_1' is not the name of a container"),
        ("az://a--b/x", SETTINGS, "'a--b' is not the name of a container"),
        ("az://", SETTINGS, "'' is not the name of a container"),
        (
            "az://lake/x",
            {},
            "no storage account is given. Give storage={'account': …}, or set AZURE_STORAGE_ACCOUNT_NAME",
        ),
        (
            "az://lake/x",
            {"account": "A"},
            "Expected the name of a storage account: 3 to 24 lower-case letters and digits",
        ),
        ("az://lake/x", {"acount": "x"}, "no setting 'acount' of an Azure store. Did you mean account"),
        ("az://lake/x", {"region": "x"}, "no setting 'region' of an Azure store. Expected endpoint, allow-http"),
        ("az://lake/x", {**SETTINGS, "sas-token": "sv=1"}, "account-key and sas-token are two kinds of credentials"),
        (
            "az://lake/x",
            {**SETTINGS, "account-key": "no base64"},
            "account-key is not base64, as the keys of an account",
        ),
        ("az://lake/x", {**SETTINGS, "endpoint": "http://lake.example.com"}, "is not encrypted. Use https"),
        ("az://lake/x", {**SETTINGS, "timeout": "0"}, "timeout is '0'. Expected a whole number from 1 to 3600"),
        ("az://lake/a//b", SETTINGS, "it has an empty part"),
    ],
)
def test_a_wrong_address_or_setting_is_refused(
    warehouse: str, storage: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidRequest) as refused:
        lc.connect(warehouse, storage=storage)

    assert expected in str(refused.value)
    assert "no base64" not in str(refused.value)


def test_the_account_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "canary")

    assert dict(with_storage(StoreSpec("az", "lake/wh"), {}).settings)["account"] == "canary"


def test_another_process_says_that_it_has_no_keys(stub: S3Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(store_of(stub))
    monkeypatch.setattr(remote_settings, "_GIVEN", {})

    assert KEY.encode() not in pickled
    with pytest.raises(
        CredentialsMissing, match=r"its keys were given .* Set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_"
    ):
        pickle.loads(pickled).read("a")


def test_missing_credentials_are_named(stub: S3Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    given = {"account": "canary", "endpoint": f"{stub.endpoint}/canary", "timeout": "1"}
    store = open_store(with_storage(StoreSpec("az", "lake/x"), given))

    with pytest.raises(CredentialsMissing, match=r"no credentials were found\. Set AZURE_STORAGE_ACCOUNT_KEY or"):
        store.read("a")
