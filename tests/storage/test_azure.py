"""Tables in Azure Blob Storage, on Azurite: the contract, a table's life, races, and what it refuses."""

import itertools
import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import lakehouse_core as lc
from benchmarks.race_s3 import Server, races
from lakehouse_core.errors import StorageUnavailable
from lakehouse_core.storage import ObjectStore, StoreSpec, delete_folder, open_store, with_storage
from lakehouse_core.storage.remote import store as remote_store
from tests.storage.azurite_server import KEY, Azurite, azurite_server
from tests.storage.contract import StoreContract
from tests.storage.remote_process import as_in_a_new_process
from tests.storage.table_lives import check_large_object, check_racing_commits, expire, life, new_table, read, write

pytestmark = pytest.mark.azure

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with azurite_server(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture
def root() -> str:
    return f"lake/run-{next(NUMBERS)}"


@pytest.fixture
def store(azurite: Azurite, root: str) -> ObjectStore:
    return open_store(with_storage(StoreSpec("az", root), azurite.storage))


class TestAzureStore(StoreContract):
    @pytest.fixture
    def store(self, azurite: Azurite, root: str) -> ObjectStore:
        return open_store(with_storage(StoreSpec("az", root), azurite.storage))


def test_of_many_objects_the_missing_ones_do_not_keep_the_others(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_store, "_DELETED_AT_ONCE", 50)
    store.write({f"t/{number}": b"" for number in range(0, 120, 2)} | {"kept": b""})

    assert list(store.delete([f"t/{number}" for number in range(120)])) == []
    assert [info.key for info in store.list("")] == ["kept"]


def test_a_list_of_many_pages_has_each_key_once(store: ObjectStore) -> None:
    keys = {f"t/{number % 3}/{number}" for number in range(5_200)}
    store.write(dict.fromkeys(keys, b""))

    listed = [info.key for info in store.list("t")]
    assert (len(listed), set(listed)) == (5_200, keys)
    assert store.children("t").folders == ("0", "1", "2")
    assert list(delete_folder(store, "t")) == []
    assert list(store.list("")) == []


def test_a_large_object_appears_when_all_its_blocks_are_there(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_large_object(store, monkeypatch)


def test_a_table_has_the_same_life_as_on_a_disk(azurite: Azurite, root: str, tmp_path: Any) -> None:
    assert life(lc.connect(f"az://{root}", storage=azurite.storage)) == life(lc.connect(tmp_path))


def test_no_name_has_two_winners_and_no_version_is_replaced_unseen(azurite: Azurite, root: str) -> None:
    _, bars = races(Server(f"az://{root}", azurite.storage), names=300, objects=60)

    assert {bar.what: bar.value for bar in bars} == dict.fromkeys((bar.what for bar in bars), 0)


def test_commits_of_processes_that_race_are_all_kept(azurite: Azurite, root: str) -> None:
    check_racing_commits(f"az://{root}", azurite.storage)


def test_no_secret_is_in_what_leaves_the_process(azurite: Azurite, root: str) -> None:
    table = new_table(f"az://{root}", azurite.storage)

    for value in (table, table.scan()):
        assert KEY not in repr(value)
        assert KEY.encode() not in pickle.dumps(value)
    store = open_store(with_storage(StoreSpec("az", root), azurite.storage))
    assert not any(KEY.encode() in store.read(info.key) for info in store.list(""))


GRANT = "Grant them reading, writing, listing and deleting here"
# The permissions of a token, from when it is valid, and the verbs that are refused; the others succeed.
TOKENS: dict[str, tuple[str, int, set[Callable[[lc.Table], object]]]] = {
    "everything": ("rwdlc", -1, set()),
    "no reading": ("wdlc", -1, {read, write, expire}),
    "no writing": ("rdl", -1, {write, expire}),
    "no listing": ("rwdc", -1, {read, write, expire}),
    "no deleting": ("rwlc", -1, {expire}),
    "expired": ("rwdlc", -3, {read, write, expire}),
    "valid in an hour": ("rwdlc", 1, {read, write, expire}),
}


@pytest.fixture
def unprobed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask each store again whether it honours conditions."""
    as_in_a_new_process(monkeypatch)


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("name", TOKENS)
def test_what_a_token_does_not_allow_is_told_and_the_table_stays_whole(azurite: Azurite, root: str, name: str) -> None:
    permissions, hours, refused = TOKENS[name]
    storage = azurite.storage_by_token(azurite.token(permissions, valid_from=timedelta(hours=hours)))
    new_table(f"az://{root}", azurite.storage)
    for verb in (read, expire, write):
        if verb in refused:
            with pytest.raises(StorageUnavailable, match=GRANT) as told:
                verb(lc.connect(f"az://{root}", storage=storage).table("db.t"))
            assert storage["sas-token"] not in str(told.value)
        else:
            verb(lc.connect(f"az://{root}", storage=storage).table("db.t"))

    table = lc.connect(f"az://{root}", storage=azurite.storage).table("db.t")
    assert table.scan().to_arrow()["k"].to_pylist() == [1, 2, 3][: 2 + (write not in refused)]
    assert table.verify(data=True).findings == ()


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"account-key": "d3Jvbmc="}, r"AuthorizationFailure: these credentials are wrong"),
        ({"account": "other"}, r"ResourceNotFound: there is no such account. Check account and endpoint"),
    ],
)
def test_wrong_credentials_are_told(azurite: Azurite, root: str, settings: dict[str, str], expected: str) -> None:
    new_table(f"az://{root}", azurite.storage)
    endpoint = azurite.endpoint.rpartition("/")[0] + f"/{settings.get('account', azurite.storage['account'])}"
    for verb in (read, write):
        with pytest.raises(StorageUnavailable, match=expected):
            verb(
                lc.connect(f"az://{root}", storage={**azurite.storage, **settings, "endpoint": endpoint}).table("db.t")
            )


@pytest.mark.usefixtures("unprobed")
def test_a_missing_container_is_no_missing_object(azurite: Azurite) -> None:
    store = open_store(with_storage(StoreSpec("az", "nowhere/x"), azurite.storage))
    asks: list[Callable[[], object]] = [
        lambda: store.infos(["a"]),
        lambda: store.read("a"),
        lambda: store.read_found(["a"]),
        lambda: store.create_new("a", b""),
        lambda: store.write({"a": b""}),
        lambda: store.children(""),
        lambda: list(store.list("")),
        lambda: store.delete(["a"]),
    ]
    for ask in asks:
        with pytest.raises(
            StorageUnavailable, match=r"az://nowhere: there is no such container at http://.* Check its name and the e"
        ):
            ask()
