"""The S3 store against a strict server: it keeps the contract, and each bad answer is told with what to do."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from io import BytesIO
from typing import Any

import boto3
import pytest

import lakehouse_core as lc
from lakehouse_core.errors import StorageUnavailable, UnsupportedFeature, WriteOutcomeUnknown
from lakehouse_core.storage import ObjectStore, StoreSpec, open_store, read_all, with_storage
from lakehouse_core.storage.remote import conditions
from tests.storage.contract import StoreContract
from tests.storage.remote_process import as_in_a_new_process, with_small_parts
from tests.storage.s3_protocol import Answer, received, signature_fault
from tests.storage.s3_stub import ACCESS, SECRET, Fault, Request, S3Stub
from tests.storage.table_lives import new_table

NUMBERS = itertools.count()
# What waits longer has not heeded a timeout of one second: the default is 20.
DEFAULT_SECONDS = 18
HTML = Answer(200, b"<html><body>Sign in to the network</body></html>", headers={"Content-Type": "text/html"})


@pytest.fixture(scope="module")
def shared() -> Iterator[S3Stub]:
    with S3Stub() as stub:
        yield stub


@pytest.fixture
def stub() -> Iterator[S3Stub]:
    with S3Stub() as own:
        yield own


def store_of(stub: S3Stub, root: str = "lake/wh", **settings: str) -> ObjectStore:
    return open_store(with_storage(StoreSpec("s3", root), {**stub.storage, **settings}))


class TestS3StoreOnTheStub(StoreContract):
    @pytest.fixture
    def store(self, shared: S3Stub) -> ObjectStore:
        return store_of(shared, f"lake/run-{next(NUMBERS)}")


def test_a_list_comes_in_pages_and_each_key_once(stub: S3Stub) -> None:
    store = store_of(stub)
    store.write({f"t/{folder}/{number}": b"" for folder in "abc" for number in range(4)} | {"t/x": b"", "u": b""})
    stub.page = 2

    assert len(list(store.list("t"))) == 13
    assert {info.key for info in store.list("t/b")} == {f"t/b/{number}" for number in range(4)}
    assert store.children("t") == store_of(stub).at("t").children("")
    assert store.children("t").folders == ("a", "b", "c")
    assert store.children("t").files == ("x",)


def test_the_client_of_others_takes_the_stub_for_a_store(stub: S3Stub) -> None:
    keys = {"aws_access_key_id": ACCESS, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    client: Any = boto3.client("s3", endpoint_url=stub.endpoint, **keys)
    client.put_object(Bucket="lake", Key="a b/é+", Body=b"0123456789")

    assert client.get_object(Bucket="lake", Key="a b/é+", Range="bytes=2-4")["Body"].read() == b"234"
    assert client.get_object(Bucket="lake", Key="a b/é+", Range="bytes=-3")["Body"].read() == b"789"
    assert [found["Size"] for found in client.list_objects_v2(Bucket="lake", Prefix="a b/")["Contents"]] == [10]
    with pytest.raises(client.exceptions.ClientError, match="PreconditionFailed"):
        client.put_object(Bucket="lake", Key="a b/é+", Body=b"", IfNoneMatch="*")
    client.copy_object(Bucket="lake", Key="copy", CopySource={"Bucket": "lake", "Key": "a b/é+"})
    assert stub.lake.objects["copy"].data == b"0123456789"
    with pytest.raises(client.exceptions.ClientError, match="NoSuchKey"):
        client.copy_object(Bucket="lake", Key="copy", CopySource={"Bucket": "lake", "Key": "nothing"})
    assert client.head_bucket(Bucket="lake")["ResponseMetadata"]["HTTPStatusCode"] == 200
    wrong: Any = boto3.client("s3", endpoint_url=stub.endpoint, **{**keys, "aws_secret_access_key": "other"})
    with pytest.raises(client.exceptions.ClientError, match="SignatureDoesNotMatch"):
        wrong.get_object(Bucket="lake", Key="a b/é+")


# The example of Amazon's documentation of signed chunks, with the keys and signatures that it gives.
CHUNKED = {
    "host": "s3.amazonaws.com",
    "x-amz-date": "20130524T000000Z",
    "x-amz-storage-class": "REDUCED_REDUNDANCY",
    "authorization": "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
    "SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;"
    "x-amz-storage-class,Signature=4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "content-encoding": "aws-chunked",
    "x-amz-decoded-content-length": "66560",
    "content-length": "66824",
}
CHUNKS = (
    (b"a" * 65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
    (b"a" * 1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
    (b"", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
)


@pytest.mark.parametrize(
    ("chunks", "is_right"),
    [
        (CHUNKS, True),
        (((b"b" * 65536, CHUNKS[0][1]), *CHUNKS[1:]), False),
        (CHUNKS[1:], False),
        (CHUNKS[:2], False),
        ((), False),
    ],
    ids=["as signed", "other bytes", "one left out", "cut off", "none"],
)
def test_a_body_in_chunks_is_taken_whole_and_as_it_was_signed(
    chunks: tuple[tuple[bytes, str], ...], is_right: bool
) -> None:
    body = b"".join(f"{len(data):x};chunk-signature={sign}\r\n".encode() + data + b"\r\n" for data, sign in chunks)
    headers = {**CHUNKED, "content-length": f"{len(body)}"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    sent = f"PUT /examplebucket/chunkObject.txt HTTP/1.1\r\n{head}\r\n".encode() + body
    message = received(BytesIO(sent), BytesIO())
    assert message is not None
    # The length is signed too: that of the whole example.
    message = replace(message, headers={**message.headers, "content-length": CHUNKED["content-length"]})

    key = {"AKIAIOSFODNN7EXAMPLE": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
    assert (signature_fault(message, key, "us-east-1") is None) is is_right
    assert message.body == b"".join(data for data, _ in chunks)


def test_an_upload_in_parts_appears_when_it_is_complete(stub: S3Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_parts(monkeypatch)
    store = store_of(stub)
    with store.open_write("large") as sink:
        sink.write(b"x" * (12 << 20))
        assert not stub.lake.keys

    assert store.read("large") == b"x" * (12 << 20)
    with ExitStack() as given_up:
        given_up.enter_context(pytest.raises(ZeroDivisionError))
        given_up.enter_context(store.open_write("other")).write(b"x" * (12 << 20))
        raise ZeroDivisionError
    assert "wh/other" not in stub.lake.keys
    assert stub.uploads == {}


def always(told: Fault | Answer) -> Callable[[S3Stub], None]:
    return lambda stub: setattr(stub, "plan", lambda request: told)


def having(**state: object) -> Callable[[S3Stub], None]:
    def have(stub: S3Stub) -> None:
        for name, value in state.items():
            setattr(stub, name, value)

    return have


def denying(*verbs: str) -> Callable[[S3Stub], None]:
    return having(denied=frozenset(verbs))


NOT_S3 = "an S3 store does not answer like this. Check the endpoint, and proxies before it"
# What was asked, without permission.
MAY_NOT = {
    act: f"AccessDenied: these credentials may not {act} here, .* Grant them reading, writing, listing and deleting"
    for act in ("read", "write", "list", "delete")
}
IN_FRANCE = r"the bucket is in the region eu-west-3\. Give storage=\{'region': …\}, or set AWS_REGION"
# What is wrong with the store; settings; what a read and a write say, None where they succeed.
BAD_STORES: dict[str, tuple[Callable[[S3Stub], object], dict[str, str], str | None, str | None]] = {
    "no such bucket": (having(buckets={}), {}, "Check its name and the endpoint, or create it", "Check its name"),
    "another region": (having(region="eu-west-3"), {}, IN_FRANCE, IN_FRANCE),
    "a redirect": (always(Answer(301)), {}, "Give storage={'region'", "Give storage={'region'"),
    "an unknown key": (having(), {"access-key": "x"}, "Check the key and the endpoint", "Check the key"),
    "a wrong secret": (having(), {"secret-key": "x"}, "the secret key does not belong.*Check both", "Check both"),
    "an expired token": (having(expired={"old"}), {"session-token": "old"}, "Get a new one", "Get a new one"),
    "a clock off by an hour": (having(skew_seconds=3600.0), {}, "the clock of this machine.*Set it", "Set it"),
    "no permission to write": (denying("put"), {}, None, MAY_NOT["write"]),
    "no permission to read": (denying("get", "head"), {}, MAY_NOT["read"], MAY_NOT["read"]),
    "no permission to list": (denying("list"), {}, MAY_NOT["list"], MAY_NOT["list"]),
    "no permission to delete": (denying("delete", "delete all"), {}, None, None),
    "If-Match ignored": (having(ignored={"if-match"}), {}, None, "Use a store with conditional writes"),
    "If-None-Match ignored": (having(ignored={"if-none-match"}), {}, None, "Use a store with conditional writes"),
    "a page of a proxy": (always(HTML), {}, NOT_S3, NOT_S3),
    "a page that says 404": (always(Answer(404, HTML.body)), {}, NOT_S3, NOT_S3),
    "a page that says 403": (always(Answer(403, HTML.body)), {}, "Check keys, permissions and the clock", "Check keys"),
    "a page that says 502": (always(Answer(502, HTML.body)), {}, "Check the endpoint, or try again", "try again later"),
    "too many requests": (always(Fault.THROTTLED), {}, "the store answers SlowDown.*Try again later", "Try again"),
    "a failure each time": (always(Fault.BEFORE), {}, "InternalError: it has failed. Try again later", "Try again"),
    "closed connections": (always(Fault.DROPPED), {}, "Check the endpoint and the network", "then try again"),
    "no answer": (always(Fault.STUCK), {}, "Check the endpoint and the network", "then try again"),
}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat a request once, and ask each store again whether it honours conditions."""
    as_in_a_new_process(monkeypatch, retries=1)


def table_on(stub: S3Stub, **settings: str) -> lc.Table:
    storage = {**stub.storage, "timeout": "1", **settings}
    if not stub.buckets["lake"].keys:
        new_table("s3://lake/wh", storage)
    return lc.connect("s3://lake/wh", storage=storage).table("db.t")


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("name", BAD_STORES)
def test_a_bad_store_is_told_with_what_to_do_and_nothing_is_lost(stub: S3Stub, name: str) -> None:
    spoil, settings, *expected = BAD_STORES[name]
    table_on(stub)
    whole, before = stub.buckets, set(stub.lake.keys)
    conditions._PROBED.clear()
    spoil(stub)
    acts: list[Callable[[lc.Table], object]] = [
        lambda table: table.scan().to_arrow(),
        lambda table: table.write([{"k": 3}]),
    ]
    for act, message in zip(acts, expected, strict=True):
        begun = time.monotonic()
        if message is None:
            act(bad_table(stub, settings))
        else:
            with pytest.raises((StorageUnavailable, UnsupportedFeature), match=message):
                act(bad_table(stub, settings))
        assert time.monotonic() - begun < DEFAULT_SECONDS

    stub.plan, stub.buckets, stub.region = lambda request: None, whole, "us-east-1"
    stub.expired = stub.denied = stub.ignored = frozenset()
    stub.skew_seconds = 0.0
    is_written = expected[1] is None
    assert is_written or set(stub.lake.keys) == before
    assert table_on(stub).scan().to_arrow()["k"].to_pylist() == [1, 2, 3][: 2 + is_written]
    assert table_on(stub).verify(data=True).findings == ()


def catalog_on(stub: S3Stub) -> lc.Catalog:
    return lc.connect("s3://lake/wh", storage=stub.storage)


def bad_table(stub: S3Stub, settings: dict[str, str]) -> lc.Table:
    return lc.connect("s3://lake/wh", storage={**stub.storage, "timeout": "1", **settings}).table("db.t")


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("status", [200, 404])
def test_a_page_of_a_proxy_is_no_list_no_object_and_no_missing_object(stub: S3Stub, status: int) -> None:
    store = store_of(stub, timeout="1")
    store.write({f"many/{number}": b"" for number in range(1_000)})
    page = Answer(status, HTML.body)
    stub.plan = lambda request: page
    asks: list[Callable[[], object]] = [
        lambda: store.read("many/1"),
        lambda: store.read("missing"),
        lambda: store.read_versioned("many/1"),
        lambda: list(store.list("")),
        lambda: store.children(""),
        lambda: store.write({"many/1": b"x"}),
        lambda: store.create_new("new", b""),
        lambda: store.delete(["many/1"]),
        store.now_millis,
    ]
    for ask in asks:
        with pytest.raises((StorageUnavailable, WriteOutcomeUnknown), match=NOT_S3):
            ask()
    assert len(stub.lake.keys) == 1_000


def test_an_answer_about_another_object_is_no_answer(stub: S3Stub) -> None:
    store = store_of(stub)
    store.write({"a": b""})
    about = (
        b"<DeleteResult><Error><Key>wh/other</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    )
    stub.plan = lambda request: Answer(200, about) if request.verb == "delete all" else None

    with pytest.raises(WriteOutcomeUnknown, match=NOT_S3):
        store.delete(["a"])


@pytest.mark.usefixtures("hasty")
def test_a_list_whose_rest_is_a_page_of_a_proxy_is_no_whole_list(stub: S3Stub) -> None:
    store = store_of(stub, timeout="1")
    store.write({f"many/{number}": b"" for number in range(1_500)})
    lists: list[Request] = []

    def after_one(request: Request) -> Answer | None:
        lists.append(request)
        return HTML if len(lists) > 1 else None

    stub.plan = after_one
    with pytest.raises(StorageUnavailable, match=NOT_S3):
        list(store.list("many"))


def test_who_connects_again_with_other_keys_is_asked_for_those(stub: S3Stub) -> None:
    table_on(stub)
    for keys, is_right in [({"session-token": "old"}, False), ({}, True), ({"secret-key": "wrong"}, False), ({}, True)]:
        stub.expired = frozenset({"old"})
        try:
            found = table_on(stub, **keys).scan().to_arrow().num_rows
        except StorageUnavailable:
            found = 0
        assert bool(found) == is_right


def test_one_stuck_connection_does_not_stop_the_others(stub: S3Stub) -> None:
    store = store_of(stub, timeout="1")
    store.write({f"{number}": b"%d" % number for number in range(20)})
    stub.plan = lambda request: (
        Fault.STUCK if (request.verb, request.key, request.count) == ("get", "wh/7", 1) else None
    )
    begun = time.monotonic()

    assert list(read_all(store, [f"{number}" for number in range(20)])) == [b"%d" % number for number in range(20)]
    assert time.monotonic() - begun < DEFAULT_SECONDS


@pytest.mark.usefixtures("hasty")
def test_of_many_objects_a_store_that_is_away_is_asked_for_few(stub: S3Stub) -> None:
    store = store_of(stub, connections="8")
    store.write({"warm": b""})
    stub.plan = lambda request: Fault.THROTTLED
    many = [f"{number}" for number in range(500)]
    asks: list[Callable[[], object]] = [
        lambda: store.infos(many),
        lambda: store.read_found(many),
        lambda: store.write(dict.fromkeys(many, b"")),
    ]
    for ask in asks:
        stub.requests.clear()
        with pytest.raises(StorageUnavailable, match=r"[Tt]ry again later"):
            ask()

        # Each of the first is sent twice.
        assert len(stub.requests) <= 8 * 2


def test_a_lost_answer_to_a_conditional_write_is_unknown_and_is_not_sent_again(stub: S3Stub) -> None:
    store = store_of(stub)
    assert store.create_new("warm", b"")
    stub.plan = lambda request: Fault.LOST if request.verb == "put" else None

    with pytest.raises(WriteOutcomeUnknown):
        store.create_new("new", b"mine")
    assert store.read("new") == b"mine"
    assert [request.verb for request in stub.requests if request.key == "wh/new"] == ["put", "get"]


def test_a_deletion_whose_connection_breaks_is_sent_again(stub: S3Stub) -> None:
    store = store_of(stub)
    store.write({"a": b"", "b": b""})
    for fault in (Fault.LOST, Fault.DROPPED):
        stub.requests.clear()
        stub.plan = lambda request, fault=fault: fault if len(stub.requests) == 1 else None

        assert list(store.delete(["a", "b"])) == []
        assert [request.verb for request in stub.requests] == ["delete all", "delete all"]
    assert not stub.lake.keys


def test_lists_that_lag_hide_no_commit(stub: S3Stub) -> None:
    table = table_on(stub)
    stub.listed = stub.lake.copy()
    table.write([{"k": 3}])

    assert table_on(stub).scan().to_arrow()["k"].to_pylist() == [1, 2, 3]
    assert table_on(stub).write([{"k": 4}]).snapshot_id == 4
    assert table_on(stub).scan().to_arrow()["k"].to_pylist() == [1, 2, 3, 4]


@pytest.mark.usefixtures("hasty")
def test_what_may_not_be_deleted_is_told_and_the_table_stays_whole(stub: S3Stub) -> None:
    table = table_on(stub)
    stub.denied = frozenset({"delete", "delete all"})

    with pytest.raises((StorageUnavailable, WriteOutcomeUnknown), match=MAY_NOT["delete"]):
        table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(
        StorageUnavailable, match=f"{MAY_NOT['delete']}.* Nothing else of table 'db.t' was removed: drop it"
    ):
        catalog_on(stub).drop_table("db.t")
    stub.denied = frozenset()
    assert table_on(stub).scan().to_arrow()["k"].to_pylist() == [1, 2]
    assert table_on(stub).verify(data=True).findings == ()
    catalog_on(stub).drop_table("db.t")
    assert [key for key in stub.lake.keys if "/t/" in key] == []
