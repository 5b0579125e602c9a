"""An S3-compatible store keeps the contract; the server is moto, in this process."""

import itertools
import multiprocessing
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.cli.program import run
from lakehouse_core.errors import CredentialsMissing, InvalidRequest, StorageUnavailable
from lakehouse_core.storage import ObjectStore, StoreSpec, open_store, with_storage
from lakehouse_core.storage.remote import files as remote_files
from lakehouse_core.storage.remote import store as remote_store
from lakehouse_core.storage.remote.answers import ServiceAnswers
from lakehouse_core.storage.remote.requests import Requests
from lakehouse_core.storage.remote.s3 import SERVICE
from lakehouse_core.storage.remote.s3_settings import S3Settings
from lakehouse_core.storage.remote.store import RemoteStore
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.contract import StoreContract
from tests.storage.remote_process import with_small_parts
from tests.storage.s3_server import ACCESS, SECRET, s3_server, storage_of
from tests.storage.table_lives import check_racing_commits, life
from tests.test_documents import run_page

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with s3_server() as client:
        yield client


def store_at(server: Any, root: str, **settings: str) -> ObjectStore:
    return open_store(with_storage(StoreSpec("s3", root), {**storage_of(server), **settings}))


@pytest.fixture
def store(server: Any) -> ObjectStore:
    return store_at(server, f"lake/run-{next(NUMBERS)}")


class TestS3Store(StoreContract):
    @pytest.fixture
    def store(self, server: Any) -> ObjectStore:
        return store_at(server, f"lake/run-{next(NUMBERS)}")


def test_a_missing_bucket_is_no_missing_object(server: Any) -> None:
    store = store_at(server, "nowhere/x")
    asks: list[Callable[[], object]] = [
        lambda: store.infos(["a"]),
        lambda: store.read("a"),
        lambda: store.read_found(["a"]),
        lambda: store.create_new("a", b""),
        lambda: store.write({"a": b""}),
        lambda: store.children(""),
        lambda: list(store.list("")),
    ]
    for ask in asks:
        with pytest.raises(
            StorageUnavailable, match=r"s3://nowhere: there is no such bucket at http://.* Check its name"
        ):
            ask()


def test_a_large_object_is_read_in_ranges(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_store, "_WHOLE_BYTES", 1_000)
    data = bytes(range(256)) * 40
    store.write({"large": data})

    with store.open_read("large", len(data)) as file:
        assert file.size() == len(data)
        assert file.read_at(10, 1_500) == data[1_500:1_510]
        file.seek(10_000)
        assert file.read() == data[10_000:]
        assert file.read(5) == b""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.long] * (seed > 3)) for seed in range(20)])
def test_a_large_object_that_is_read_on_and_on_is_read_ahead_and_right(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for name, size in (
        ("_WHOLE_BYTES", 10),
        ("_PIECE_BYTES", 64),
        ("_MOST_AHEAD_BYTES", 256),
        ("_GAP_BYTES", 50),
        ("_TAIL_BYTES", 90),
    ):
        monkeypatch.setattr(remote_store if name == "_WHOLE_BYTES" else remote_files, name, size)
    random = Random(seed)
    data = random.randbytes(5_000 + random.randrange(70))
    store.write({"large": data})

    with store.open_read("large", len(data)) as file:
        place = 0
        for _ in range(60):
            place += random.choice([0, 0, 0, 0, 3, 49, 200, -30])
            if not 0 <= place < len(data):
                place = random.randrange(len(data))
            length = random.choice([1, 20, 64, 300])
            assert file.read_at(length, place) == data[place : place + length]
            place = min(len(data), place + length)


def test_what_reads_ahead_asks_for_each_byte_once(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("_WHOLE_BYTES", 10), ("_PIECE_BYTES", 100), ("_MOST_AHEAD_BYTES", 400), ("_TAIL_BYTES", 0)):
        monkeypatch.setattr(remote_store if name == "_WHOLE_BYTES" else remote_files, name, size)
    asked: list[tuple[int, int]] = []
    get_range = Requests.get_range

    def counted(self: Requests, key: str, start: int, length: int) -> bytes:
        asked.append((start, length))
        return get_range(self, key, start, length)

    monkeypatch.setattr(Requests, "get_range", counted)
    store.write({"large": bytes(2_050)})
    with store.open_read("large", 2_050) as file:
        for place in range(0, 2_050, 41):
            assert file.read_at(41, place) == bytes(41)

    assert sum(length for _, length in asked) == 2_050
    assert len(asked) == 21


def test_the_first_read_of_a_large_object_asks_at_once_for_what_follows_and_copies_nothing() -> None:
    asked: list[tuple[int, int]] = []
    mebibyte = 1 << 20

    def read_range(start: int, length: int) -> memoryview:
        asked.append((start, length))
        return memoryview(bytes(length))

    with ThreadPoolExecutor(4) as pool:
        file = remote_files.RangeFile(read_range, 64 * mebibyte)
        vars(file)["_pool"] = pool
        found = file.read(mebibyte)

    assert (len(found), type(found)) == (mebibyte, memoryview)
    assert sorted(asked) == [(0, 2 * mebibyte), (2 * mebibyte, 2 * mebibyte)]


def test_a_large_object_is_sent_in_parts_and_given_up_when_its_block_fails(
    server: Any, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_small_parts(monkeypatch)
    piece = bytes(range(256)) * (4 << 10)

    def fill(count: int) -> None:
        with store.open_write("large") as sink:
            for _ in range(count):
                sink.write(piece)
            assert sink.tell() == count * len(piece)
            sink.close()
            if count > 12:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fill(13)
    assert list(store.list("")) == []
    fill(12)
    assert store.read("large") == piece * 12
    assert not server.list_multipart_uploads(Bucket="lake").get("Uploads")


def test_where_nothing_listens_is_told_within_its_time() -> None:
    given = {"endpoint": "http://127.0.0.1:1", "timeout": "1", "access-key": ACCESS, "secret-key": SECRET}
    store = open_store(with_storage(StoreSpec("s3", "lake/x"), given))

    for ask in (lambda: store.read("a"), lambda: store.write({"a": b""}), lambda: store.create_new("a", b"")):
        with pytest.raises(
            StorageUnavailable, match=r"s3://lake/x/.*: nothing listens there, the connection was refused"
        ):
            ask()


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    store = open_store(with_storage(StoreSpec("s3", "lake/x"), {"endpoint": "http://127.0.0.1:1", "timeout": "1"}))

    with pytest.raises(CredentialsMissing, match=r"no credentials were found\. Set AWS_ACCESS_KEY_ID"):
        store.read("a")


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_one_key_of_two_in_the_environment_is_told(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "canary")
    # No other test has a client for this bucket.
    store = open_store(with_storage(StoreSpec("s3", "half/x"), {"endpoint": "http://127.0.0.1:1", "timeout": "1"}))

    with pytest.raises(
        CredentialsMissing, match=r"only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set\. Set"
    ):
        store.read("a")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("AccessDenied", "Grant them reading, writing, listing and deleting"),
        ("RequestTimeTooSkewed", "the clock of this machine"),
        ("PermanentRedirect", "another region"),
        ("ExpiredToken", "Get a new one"),
    ],
)
def test_what_a_store_answers_comes_with_what_to_do(store: ObjectStore, code: str, advice: str) -> None:
    assert isinstance(store, RemoteStore)
    error = OSError(f"Generic S3 error\n<Error><Code>{code}</Code></Error>")

    text = ServiceAnswers(SERVICE, store.settings, "wh").text("a", error)
    assert f"the store answers {code}: " in text
    assert advice in text


@pytest.mark.parametrize(
    ("warehouse", "storage", "expected"),
    [
        ("s3://Lake_1/x", {}, "'Lake_1' is not the name of a bucket"),
        ("s3://", {}, "'' is not the name of a bucket"),
        ("s3://lake/x", {"endpont": "x"}, "no setting 'endpont' of an S3 store. Did you mean endpoint"),
        ("s3://lake/x", {"endpoint": "lake.example.com"}, "expected the address of a service without user"),
        ("s3://lake/x", {"endpoint": "http://lake.example.com"}, "is not encrypted. Use https"),
        ("s3://lake/x", {"endpoint": f"https://me:{SECRET}@example.com"}, "without user and password"),
        (
            "s3://lake/x",
            {"endpoint": f"https://example.com/?X-Amz-Security-Token={SECRET}"},
            "found a password, a key or a sig",
        ),
        ("s3://lake/x", {"endpoint": f"https://{SECRET}@example.com"}, "without user and password"),
        ("s3://lake/x", {"endpoint": f"https://me:1/{SECRET}@example.com"}, "without user and password"),
        ("s3://lake/x", {"endpoint": "https://[::1"}, "expected the address of a service"),
        ("s3://lake/x", {"endpoint": "https://example.com:90000"}, "expected the address of a service"),
        ("s3://lake/x", {"access-key": "a"}, "access-key and secret-key belong together"),
        ("s3://lake/x", {"session-token": "a"}, "access-key and secret-key belong together"),
        ("s3://lake/x", {"timeout": "0"}, "timeout is '0'. Expected a whole number from 1 to 3600"),
        ("s3://lake/x", {"connections": "many"}, "connections is 'many'. Expected a whole number from 1 to 256"),
        ("s3://lake/x", {"path-style": "yes"}, "path-style is 'yes'. Expected true or false"),
        ("s3://lake/x", {"region": "a", "s3.region": "b"}, "region is given twice"),
        ("s3://lake/a//b", {}, "it has an empty part"),
    ],
)
def test_a_wrong_address_or_setting_is_refused(warehouse: str, storage: dict[str, str], expected: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        lc.connect(warehouse, storage=storage)

    assert expected in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("warehouse", "module", "extra"), [("s3://lake/x", "s3", "s3"), ("az://lake/x", "azure", "azure")]
)
def test_a_missing_package_is_named_with_its_extra(
    warehouse: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (f"lakehouse_core.storage.remote.{module}", "obstore.store"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "lake")

    with pytest.raises(
        InvalidRequest, match=rf"obstore is not installed\. Run pip install 'paimon-lakehouse\[{extra}\]'"
    ):
        lc.connect(warehouse)


def test_the_names_of_java_paimon_are_taken_too(server: Any) -> None:
    names = {"s3.endpoint": server.meta.endpoint_url, "s3.access-key": ACCESS, "s3.secret-key": SECRET}

    lc.connect("s3://lake/java", storage={**names, "s3.path.style.access": "true"}).create_database("db")
    assert lc.connect("s3://lake/java", storage=storage_of(server)).databases() == ["db"]


def test_the_shell_takes_endpoint_and_keys_from_the_environment(
    server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = f"s3://lake/run-{next(NUMBERS)}"
    catalog = lc.connect(warehouse, storage=storage_of(server))
    catalog.create_database("db")
    catalog.create_table("db.t", {"k": "INT"}).write([{"k": 7}])
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.meta.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    assert run(["-w", warehouse, "--json", "read", "db.t"]) == 0
    assert capsys.readouterr().out == '{"k":7}\n'


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_empty_endpoint_in_the_environment_is_none(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    settings = S3Settings.parsed(with_storage(StoreSpec("s3", "lake/wh"), {}))

    assert settings.client_config()["endpoint"] == "https://lake.s3.eu-west-1.amazonaws.com"


def test_a_table_has_the_same_life_as_on_a_disk(server: Any, tmp_path: Any) -> None:
    on_s3 = lc.connect(f"s3://lake/run-{next(NUMBERS)}", storage=storage_of(server))

    assert life(on_s3) == life(lc.connect(tmp_path))


def test_no_secret_is_in_what_leaves_the_process(server: Any) -> None:
    catalog = lc.connect(f"s3://lake/run-{next(NUMBERS)}", storage=storage_of(server))
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT"})
    table.write([{"k": 1}])

    for value in (table, table.scan(), catalog):
        assert SECRET not in repr(value)
        assert SECRET.encode() not in pickle.dumps(value)
    objects = server.list_objects_v2(Bucket="lake")["Contents"]
    stored = (server.get_object(Bucket="lake", Key=found["Key"])["Body"].read() for found in objects)
    assert not any(SECRET.encode() in data for data in stored)


def _counted(scan: bytes, answers: Any) -> None:
    try:
        answers.put(pickle.loads(scan).to_arrow().num_rows)
    except lc.LakehouseError as error:
        answers.put(str(error))


@pytest.mark.program
def test_another_process_says_that_it_has_no_keys(server: Any) -> None:
    catalog = lc.connect(f"s3://lake/run-{next(NUMBERS)}", storage=storage_of(server))
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT"})
    table.write([{"k": 1}])
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    child = context.Process(target=_counted, args=(pickle.dumps(table.scan()), answers))
    child.start()

    assert "its keys were given to connect() in another process" in answers.get(timeout=HANGS_AFTER_SECONDS)
    child.join()


def _forked(store: ObjectStore, answers: Any) -> None:
    signal.alarm(20)
    try:
        answers.put(store.read("a"))
    except StorageUnavailable as error:
        answers.put(str(error))


def test_a_forked_process_says_to_use_spawn_instead_of_waiting_for_ever(store: ObjectStore) -> None:
    store.write({"a": b"x"})
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_forked, args=(store, answers))
    child.start()

    assert "was forked" in answers.get(timeout=HANGS_AFTER_SECONDS)
    child.join()
    assert store.read("a") == b"x"


@pytest.mark.program
@pytest.mark.slow
def test_commits_of_processes_that_race_are_all_kept(server: Any) -> None:
    check_racing_commits(f"s3://lake/run-{next(NUMBERS)}", storage_of(server), writers=2, commits=6)


def test_the_code_of_the_page_runs(
    server: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("S3_ENDPOINT", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, server.meta.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    run_page("object-stores.md", tmp_path, monkeypatch, capsys)


def test_what_other_engines_leave_for_folders_is_no_object(server: Any) -> None:
    root = f"run-{next(NUMBERS)}"
    store = store_at(server, f"lake/{root}")
    store.write({"t/bucket-0/data": b"x", "t/empty": b""})
    for folder in ("", "t/", "t/bucket-0/", "t/bucket-1/"):
        server.put_object(Bucket="lake", Key=f"{root}/{folder}")

    assert sorted(info.key for info in store.list("")) == ["t/bucket-0/data", "t/empty"]
    assert [info.key for info in store.list("t/bucket-0")] == ["t/bucket-0/data"]
    assert list(store.list("t/bucket-1")) == []
    assert store.children("t").files == ("empty",)
    assert store.children("t/bucket-1").files == ()


def test_a_database_that_another_engine_made_is_dropped_there(server: Any) -> None:
    root = f"run-{next(NUMBERS)}"
    server.put_object(Bucket="lake", Key=f"{root}/sales.db/")
    catalog = lc.connect(f"s3://lake/{root}", storage=storage_of(server))
    catalog.create_table("sales.orders", {"k": "INT"}).write([{"k": 1}])
    catalog.drop_table("sales.orders")

    assert (catalog.databases(), catalog.tables("sales")) == (["sales"], [])
    with pytest.raises(
        InvalidRequest, match=rf"found the mark s3://lake/{root}/sales\.db/ of another engine, so its f"
    ):
        catalog.drop_database("sales")
