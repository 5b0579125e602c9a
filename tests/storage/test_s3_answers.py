"""What a user is told of each answer that S3 can give, and what became of a write: done, not done, or unknown."""

import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

import lakehouse_core as lc
from lakehouse_core.errors import InvalidRequest, NotFound, StorageUnavailable, WriteOutcomeUnknown
from lakehouse_core.storage import ObjectStore, StoreSpec, open_store, with_storage
from lakehouse_core.storage.outcomes import created, replaced
from lakehouse_core.storage.remote import clients
from lakehouse_core.storage.remote import store as remote_store
from tests.storage.remote_process import as_in_a_new_process, with_small_parts
from tests.storage.s3_errors import STATUSES, error, in_body
from tests.storage.s3_protocol import Answer, document, tag
from tests.storage.s3_stub import ACCESS, REGION, SECRET, Fault, Request, S3Stub

Told = Answer | Fault | None


@pytest.fixture(scope="module")
def server() -> Iterator[S3Stub]:
    with S3Stub() as stub:
        yield stub


@pytest.fixture
def stub(server: S3Stub, monkeypatch: pytest.MonkeyPatch) -> S3Stub:
    """With one object `a`, the content `old`; the client repeats no request."""
    as_in_a_new_process(monkeypatch, retries=0)
    monkeypatch.setattr(clients, "FIRST_WAIT_SECONDS", 0.001)
    server.restart({"wh/a": b"old"})
    server.denied, server.archived, server.is_locked = frozenset(), frozenset(), False
    store_of(server)._check_writable()
    return server


def store_of(stub: S3Stub, **settings: str) -> Any:
    return open_store(with_storage(StoreSpec("s3", "lake/wh"), {**stub.storage, "timeout": "1", **settings}))


def telling(told: Told, *verbs: str, times: int = 1_000) -> Callable[[Request], Told]:
    return lambda request: told if (not verbs or request.verb in verbs) and request.count <= times else None


# By code: what to do, and whether a write certainly did not happen.
NOT_DONE, UNKNOWN = StorageUnavailable, WriteOutcomeUnknown
CODES: dict[str, tuple[str, type[StorageUnavailable]]] = {
    "AccessDenied": ("Grant them reading, writing, listing and deleting", NOT_DONE),
    "AccountProblem": ("Ask its owner", NOT_DONE),
    "AllAccessDisabled": ("all access to the bucket is disabled. Check its name", NOT_DONE),
    "AuthorizationHeaderMalformed": ("the bucket is in another region. Give storage=", NOT_DONE),
    "BadDigest": ("the bytes were changed on their way", NOT_DONE),
    "ConditionalRequestConflict": ("another request for the object was running. Try again", UNKNOWN),
    "EntityTooLarge": ("larger than the store takes. Write smaller files", NOT_DONE),
    "EntityTooSmall": ("it has not the parts that were sent. Nothing was written. Try again", NOT_DONE),
    "ExpiredToken": ("the session token has expired. Get a new one", NOT_DONE),
    "IncompleteBody": ("the request was cut off", NOT_DONE),
    "InternalError": ("it has failed. Try again later", UNKNOWN),
    "InvalidAccessKeyId": ("the access key is unknown there. Check the key", NOT_DONE),
    "InvalidArgument": ("it does not take the request. Check the endpoint", NOT_DONE),
    "InvalidDigest": ("the bytes were changed on their way", NOT_DONE),
    "InvalidObjectState": ("the object is archived. Restore it", NOT_DONE),
    "InvalidPart": ("it has not the parts that were sent", NOT_DONE),
    "InvalidPartOrder": ("it has not the parts that were sent", NOT_DONE),
    "InvalidRange": ("the object is shorter than its table says", UNKNOWN),
    "InvalidRequest": ("Check the settings of the bucket: its encryption, and a retention by Object Lock", NOT_DONE),
    "InvalidToken": ("the session token does not belong to these keys, or was cut", NOT_DONE),
    "KMS.DisabledException": ("the key that encrypts the objects of the bucket cannot be used", NOT_DONE),
    "KMS.ThrottlingException": ("is busy, or has failed. Try again later", UNKNOWN),
    "KeyTooLongError": ("Use a shorter prefix", NOT_DONE),
    "MalformedXML": ("it does not do that. Check the endpoint and the settings of the bucket", UNKNOWN),
    "MethodNotAllowed": ("it may not be asked that here", NOT_DONE),
    "MissingContentLength": ("the request was changed on its way", NOT_DONE),
    "NoSuchBucket": ("there is no such bucket at http://.* Check its name and the endpoint, or create it", NOT_DONE),
    "NotImplemented": ("it does not know such a request", UNKNOWN),
    "OperationAborted": ("another request for the object was running. Try again", UNKNOWN),
    "PermanentRedirect": ("the bucket is in another region or at another address. Give storage=", UNKNOWN),
    "PreconditionFailed": ("a condition was not met that was not set. Check proxies", UNKNOWN),
    "RequestTimeTooSkewed": ("the clock of this machine differs from the store's", NOT_DONE),
    "RequestTimeout": ("it waited too long for the request. Check the network", UNKNOWN),
    "ServiceUnavailable": ("it is overloaded. Try again later", UNKNOWN),
    "SignatureDoesNotMatch": ("the secret key does not belong to the access key. Check both", NOT_DONE),
    "SlowDown": ("it is asked too often. Try again later", UNKNOWN),
    "TemporaryRedirect": ("the bucket is in another region or at another address. Give storage=", UNKNOWN),
    "XAmzContentSHA256Mismatch": ("the bytes were changed on their way", NOT_DONE),
}


def test_each_error_that_the_server_knows_is_in_the_table() -> None:
    assert CODES.keys() == STATUSES.keys() - {"NoSuchKey", "NoSuchUpload"}


@pytest.mark.parametrize("code", CODES)
def test_each_error_is_told_with_its_object_and_what_to_do(stub: S3Stub, code: str) -> None:
    advice, outcome = CODES[code]
    store = store_of(stub)
    version = store.read_versioned("a")[1]
    moved = {"Location": f"{stub.endpoint}/lake/wh/a"} if code == "TemporaryRedirect" else {}
    stub.plan = telling(Answer(STATUSES[code], code=code, headers=moved))
    heads = partial(store.infos, ["a"])
    reads: list[Callable[[], object]] = [
        lambda: store.read("a"),
        lambda: store.read_versioned("a"),
        heads,
        lambda: list(store.list("")),
        lambda: store.children(""),
    ]
    writes: list[Callable[[], object]] = [lambda: store.write({"a": b"new"}), lambda: store.delete(["a"])]
    conditional: list[Callable[[], object]] = [
        lambda: store.create_new("b", b"new"),
        lambda: store.replace("a", b"new", if_version=version),
    ]
    acts = [(act, NOT_DONE) for act in reads] + [(act, outcome) for act in writes]
    acts += [(act, outcome) for act in conditional if code != "PreconditionFailed"]
    for act, kind in acts:
        # The answer to HEAD has no code; where the store has failed, it is not asked for one.
        is_bare = act is heads and STATUSES[code] >= 500
        with pytest.raises(StorageUnavailable, match="try again later" if is_bare else advice) as told:
            act()
        assert type(told.value) is kind
        assert str(told.value).startswith("s3://lake")
        assert "<" not in str(told.value)
    if code == "PreconditionFailed":
        assert [act() for act in conditional] == [False, False]
    assert {key: held.data for key, held in stub.lake.objects.items()} == {"wh/a": b"old"}


def test_a_session_token_that_is_sent_back_is_not_shown(stub: S3Stub) -> None:
    answer = b"<Error><Code>Malformed</Code><Message>The token is malformed</Message><Token-0>canary</Token-0></Error>"
    for told in (answer, answer.replace(b"<Code>Malformed</Code>", b"")):
        stub.plan = telling(Answer(400, told))
        with pytest.raises(StorageUnavailable) as refused:
            store_of(stub).read("a")
        assert "canary" not in str(refused.value)


def test_what_the_store_says_is_told_where_it_says_more_than_its_code(stub: S3Stub) -> None:
    said = "User: arn:aws:iam::1:user/me is not authorized to perform: s3:GetObject & more"
    stub.plan = telling(error("AccessDenied", said))

    with pytest.raises(StorageUnavailable, match=r"\(It says: User: arn:aws:iam::1:user/me is not .* & more\)"):
        store_of(stub).read("a")


CONFLICT = error("ConditionalRequestConflict")
# What the write is answered; whether `created` and `replaced` find out that it is done.
LOST: dict[str, tuple[Told, bool]] = {
    "409 and nothing there": (CONFLICT, False),
    "409 of another code": (error("OperationAborted"), False),
    "409 of a proxy": (Answer(409, b"<html></html>"), False),
    "412 of a proxy": (Answer(412, b"<html></html>"), False),
    "404 of a proxy": (Answer(404, b"<html></html>"), False),
    "304": (Answer(304), False),
    "500 before": (Fault.BEFORE, False),
    "500 after": (Fault.AFTER, True),
    "503": (Fault.THROTTLED, False),
    "the answer lost": (Fault.LOST, True),
    "the request lost": (Fault.DROPPED, False),
    "400 RequestTimeout": (error("RequestTimeout"), False),
    "no ETag": (Answer(200), False),
}


@pytest.mark.parametrize("name", LOST)
def test_a_conditional_write_without_a_clear_answer_is_unknown_and_read_back(stub: S3Stub, name: str) -> None:
    told, is_done = LOST[name]
    store = store_of(stub)
    version = store.read_versioned("a")[1]
    acts: list[Callable[[], bool]] = [
        lambda: created(store, "b", b"new"),
        lambda: replaced(store, "a", b"new", if_version=version),
    ]
    stub.plan = telling(told, "put")
    for act in acts:
        if is_done:
            assert act()
        elif name == "404 of a proxy" and act is acts[0]:
            with pytest.raises(StorageUnavailable, match="an S3 store does not answer like this"):
                act()
        else:
            with pytest.raises(WriteOutcomeUnknown, match="s3://lake/wh/"):
                act()
    assert stub.lake.objects["wh/a"].data == (b"new" if is_done else b"old")
    assert [request.count for request in stub.requests if request.verb == "put" and request.key == "wh/b"] == [1]


def test_a_conflict_of_two_writers_is_found_out(stub: S3Stub) -> None:
    store = store_of(stub)
    version = store.read_versioned("a")[1]
    other = store_of(stub, connections="3")
    other._check_writable()

    def answer(request: Request) -> Told:
        if request.verb != "put" or request.count > 1:
            return None
        stub.plan = lambda request: None
        other.write({request.key.removeprefix("wh/"): b"other"})
        return CONFLICT

    stub.plan = answer
    assert not replaced(store, "a", b"mine", if_version=version)
    stub.plan = answer
    assert not created(store, "b", b"mine")
    assert store.read("a") == store.read("b") == b"other"


def test_a_commit_that_is_told_of_a_conflict_is_published_once(stub: S3Stub) -> None:
    storage = {**stub.storage, "timeout": "1"}
    catalog = lc.connect("s3://lake/t", storage=storage)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT"}, options={"commit.timeout": "1 s"})
    for number in (1, 2):
        table.write([{"k": number}])
    stub.plan = lambda request: CONFLICT if "/snapshot/snapshot-3" in request.key and request.verb == "put" else None
    with pytest.raises((StorageUnavailable, lc.CommitOutcomeUnknown)):
        table.write([{"k": 3}])
    stub.plan = telling(None)

    assert table.scan().to_arrow()["k"].to_pylist() == [1, 2]
    table.write([{"k": 3}])
    assert table.scan().to_arrow()["k"].to_pylist() == [1, 2, 3]


# Of an upload in parts: which request is answered what; the outcome, and what is told.
UPLOADS: dict[str, tuple[str, Told, type[StorageUnavailable], str]] = {
    "may not begin": ("begin parts", error("AccessDenied"), NOT_DONE, "may not write here"),
    "cannot begin": ("begin parts", Fault.BEFORE, UNKNOWN, "InternalError"),
    "begins with a page": ("begin parts", Answer(200, b"<html></html>"), UNKNOWN, "an S3 store does not answer"),
    "a part is refused": ("part", error("AccessDenied"), NOT_DONE, "may not write here"),
    "a part is late": ("part", error("RequestTimeout"), UNKNOWN, "it waited too long"),
    "a part is throttled": ("part", Fault.THROTTLED, UNKNOWN, "it is asked too often"),
    "a part without upload": ("part", error("NoSuchUpload"), UNKNOWN, "the upload in parts is not there any more"),
    "a part without ETag": ("part", Answer(200), UNKNOWN, "an S3 store does not answer"),
    "parts lost": ("complete", error("InvalidPart"), NOT_DONE, "Nothing was written. Try again"),
    "parts too small": ("complete", error("EntityTooSmall"), NOT_DONE, "Nothing was written. Try again"),
    "completed before": ("complete", error("NoSuchUpload"), UNKNOWN, "it was completed, or given up"),
    "an error in a success": ("complete", in_body("InternalError"), UNKNOWN, "it has failed. Try again later"),
    "an empty success": ("complete", Answer(200), UNKNOWN, "an S3 store does not answer"),
    "a success cut off": (
        "complete",
        Answer(200, b"<CompleteMultipartUploadResult><ETag>", cut=20),
        UNKNOWN,
        "an S3 store does not answer|the answer was cut off",
    ),
    "a conflict": ("complete", CONFLICT, UNKNOWN, "another request for the object was running"),
    "no answer": ("complete", Fault.DROPPED, UNKNOWN, "Check the endpoint and the network"),
    "the answer lost": ("complete", Fault.LOST, UNKNOWN, "Check the endpoint|given up"),
}


@pytest.mark.parametrize("name", UPLOADS)
def test_an_upload_in_parts_that_fails_is_told(stub: S3Stub, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_parts(monkeypatch)
    verb, told, outcome, message = UPLOADS[name]
    store, data = store_of(stub), b"x" * (6 << 20)

    def written() -> None:
        with store.open_write("large") as sink:
            sink.write(data)

    for write in (written, lambda: store.write({"large": data})):
        stub.plan = telling(told, verb)
        with pytest.raises(StorageUnavailable, match=message) as failed:
            write()
        assert type(failed.value) is outcome
        assert ("wh/large" in stub.lake.objects) == (told is Fault.LOST)
        assert stub.uploads == {}
        stub.restart({})


@pytest.mark.parametrize("told", [error("AccessDenied"), error("NoSuchUpload"), Fault.BEFORE, Fault.DROPPED])
def test_an_upload_that_cannot_be_given_up_does_not_hide_why_it_was(
    stub: S3Stub, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_small_parts(monkeypatch)
    stub.plan = telling(told, "abort")

    def fail() -> None:
        with store_of(stub).open_write("large") as sink:
            sink.write(b"x" * (6 << 20))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "wh/large" not in stub.lake.objects


def test_an_answer_that_is_cut_off_is_not_taken_for_whole(stub: S3Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_store, "_WHOLE_BYTES", 10)
    data = bytes(range(200)) * 1_000
    headers = {"ETag": '"x"', "Last-Modified": "Fri, 04 Jan 2013 10:00:00 GMT"}
    whole = Answer(200, data, headers=headers, cut=70_000)
    part = Answer(206, data[:5], headers={**headers, "Content-Range": "bytes 0-4/200000"}, cut=3)
    page = Answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>", cut=30)
    store = store_of(stub)
    acts: list[tuple[Answer, Callable[[], object]]] = [
        (whole, lambda: store.read("a")),
        (Answer(200, data, headers=headers, is_chunked=True), lambda: store.read("a")),
        (part, lambda: store._requests.get_range("a", 0, 5)),
        (Answer(206, data[:3], headers=dict(part.headers)), lambda: store._requests.get_range("a", 0, 5)),
        (page, lambda: list(store.list(""))),
        (page, lambda: store.children("")),
    ]
    for told, act in acts:
        stub.plan = telling(told)
        begun = time.monotonic()
        with pytest.raises(StorageUnavailable, match=r"s3://lake/wh.* Check the"):
            act()
        assert time.monotonic() - begun < 5


def test_a_read_whose_answer_is_cut_once_goes_on_where_it_ended(stub: S3Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "READ_RETRIES", 1)
    store, data = store_of(stub), bytes(range(200)) * 5_000
    store.write({"b": data})
    held = stub.lake.objects["wh/b"]
    headers = {"ETag": f'"{held.etag}"', "Last-Modified": "Fri, 04 Jan 2013 10:00:00 GMT", "Accept-Ranges": "bytes"}
    stub.plan = telling(Answer(200, data, headers=headers, cut=300_000), "get", times=1)

    assert store.read("b") == data


def test_who_may_not_list_is_told_that_a_refusal_may_mean_a_missing_object(stub: S3Stub) -> None:
    stub.denied = frozenset({"list"})
    store = store_of(stub)

    assert store.read("a") == b"old"
    for act in (lambda: store.read("missing"), lambda: store.infos(["missing"])):
        with pytest.raises(StorageUnavailable, match=r"s3://lake/wh/missing: .* Who may not list is told"):
            act()


def test_an_archived_object_is_named(stub: S3Stub) -> None:
    stub.archived = frozenset({"wh/a"})

    with pytest.raises(StorageUnavailable, match=r"s3://lake/wh/a: .* InvalidObjectState: .* Restore it"):
        store_of(stub).read("a")


def test_a_bucket_that_asks_for_checksums_is_refused_before_anything_is_written(stub: S3Stub) -> None:
    stub.is_locked = True

    with pytest.raises(StorageUnavailable, match=r"retention by Object Lock.*\(It says: .*Content-MD5") as refused:
        store_of(stub).create_new("b", b"")
    assert type(refused.value) is StorageUnavailable


def test_a_key_that_no_service_takes_is_refused_without_a_request(stub: S3Stub) -> None:
    store: ObjectStore = store_of(stub)
    longest = "é" * 510 + "x"
    store.write({longest: b"1"})
    assert store.read(longest) == b"1"
    stub.requests.clear()

    with pytest.raises(InvalidRequest, match=r"it has 1025 bytes with the prefix of the warehouse.* shorter names"):
        store.write({longest + "x": b""})
    assert stub.requests == []


def test_a_refusal_of_what_was_sent_again_is_an_unknown_outcome(stub: S3Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "READ_RETRIES", 1)
    store = store_of(stub)
    stub.plan = lambda request: (
        (Fault.AFTER if request.count == 1 else error("ExpiredToken")) if request.verb == "put" else None
    )

    with pytest.raises(WriteOutcomeUnknown, match="the session token has expired"):
        store.write({"b": b"new"})
    assert stub.lake.objects["wh/b"].data == b"new"


def test_of_several_deletions_one_that_is_refused_leaves_the_others_unknown(stub: S3Stub) -> None:
    refused = tag("Key", "wh/b") + tag("Code", "AccessDenied") + tag("Message", "Access Denied")
    stub.plan = telling(document("DeleteResult", f"<Error>{refused}</Error>"), "delete all")

    with pytest.raises(WriteOutcomeUnknown, match="these credentials may not delete here"):
        store_of(stub).delete(["a", "b"])


def test_a_missing_object_is_told_by_a_missing_key_only(stub: S3Stub) -> None:
    with pytest.raises(NotFound, match="s3://lake/wh/missing: the object does not exist"):
        store_of(stub).read("missing")


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://127.0.0.1:{closed}", "nothing listens there, the connection was refused. Check the endpoint"),
        ("https://nothing.invalid", "the host of that name was not found. Check the endpoint"),
        ("https://127.0.0.1:{plain}", "Check the endpoint"),
    ],
)
def test_a_connection_that_cannot_be_made_is_told(stub: S3Stub, endpoint: str, expected: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    plain = stub.endpoint.rpartition(":")[2]
    store = store_of(stub, endpoint=endpoint.format(closed=closed, plain=plain))
    begun = time.monotonic()

    with pytest.raises(StorageUnavailable, match=f"s3://lake/wh/a: .*{expected}"):
        store.read("a")
    assert time.monotonic() - begun < 5


def test_the_server_refuses_what_amazon_refuses(stub: S3Stub) -> None:
    client: Any = boto3.client(
        "s3",
        endpoint_url=stub.endpoint,
        aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET,
        region_name=REGION,
    )
    large = b"x" * (5 << 20)

    def upload(*sizes: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        at = {"Bucket": "lake", "Key": "u"}
        at["UploadId"] = client.create_multipart_upload(**at)["UploadId"]
        tags = [
            client.upload_part(**at, PartNumber=number, Body=large[:size])["ETag"]
            for number, size in enumerate(sizes, 1)
        ]
        return at, [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(tags, 1)]

    def complete(at: dict[str, Any], parts: list[dict[str, Any]]) -> Any:
        return client.complete_multipart_upload(**at, MultipartUpload={"Parts": parts})

    at, parts = upload(5 << 20, 3, 3)
    key = {"Bucket": "lake", "Key": "k"}
    refused: list[tuple[str, Callable[[], object]]] = [
        ("EntityTooSmall", lambda: complete(at, parts)),
        ("InvalidPartOrder", lambda: complete(at, parts[1::-1])),
        ("InvalidPart", lambda: complete(at, [{**parts[0], "ETag": '"no"'}])),
        ("InvalidPart", lambda: complete(at, [{**parts[0], "PartNumber": 9}])),
        ("NoSuchUpload", lambda: complete({**at, "Key": "other"}, parts)),
        ("NoSuchUpload", lambda: client.abort_multipart_upload(**key, UploadId="none")),
        ("KeyTooLongError", lambda: client.put_object(Bucket="lake", Key="x" * 1_025)),
        ("BadDigest", lambda: client.put_object(**key, Body=b"1", ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==")),
        ("NoSuchKey", lambda: client.put_object(**key, Body=b"1", IfMatch='"x"')),
        ("InvalidRange", lambda: client.get_object(Bucket="lake", Key="wh/a", Range="bytes=3-")),
        ("PreconditionFailed", lambda: client.get_object(Bucket="lake", Key="wh/a", IfMatch='"x"')),
        ("InvalidArgument", lambda: client.list_objects_v2(Bucket="lake", ContinuationToken="wh/a")),
        ("404", lambda: client.head_object(**key)),
    ]
    for code, act in refused:
        with pytest.raises(ClientError) as told:
            act()
        assert told.value.response["Error"]["Code"] == code
    assert complete(at, parts[:2])["ETag"].endswith('-2"')
    assert stub.lake.objects["u"].data == large + b"xxx"
    assert stub.uploads == {}
