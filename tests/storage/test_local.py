"""The local disk keeps the contract: also between processes, through links, on a full or refusing disk."""

import errno
import multiprocessing
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_core.errors import (
    InvalidRequest,
    StorageFull,
    StorageUnavailable,
    UnsupportedFeature,
    WriteOutcomeUnknown,
)
from lakehouse_core.storage import LocalStore, ObjectStore, StoreSpec, child, local, system_calls
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.contract import HOSTILE_KEYS, FolderContract


class TestLocalStore(FolderContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return LocalStore(str(tmp_path / "warehouse"))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "warehouse"))


def hidden_files(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list("") if info.key.rsplit("/", 1)[-1].startswith(".")]


def _create_all(root: str, worker: int, names: int, won: Any) -> None:
    store = LocalStore(root)
    won.put((worker, [name for name in range(names) if store.create_new(f"snapshot/s-{name}", b"%d" % worker * 500)]))


def test_of_four_processes_that_create_the_same_names_exactly_one_wins_each(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    won = context.Queue()
    workers = [context.Process(target=_create_all, args=(str(tmp_path), worker, 150, won)) for worker in range(4)]
    for worker in workers:
        worker.start()
    winners = dict(won.get(timeout=HANGS_AFTER_SECONDS) for _ in workers)
    for worker in workers:
        worker.join()

    assert sorted(name for names in winners.values() for name in names) == list(range(150))
    for number, names in winners.items():
        assert all((tmp_path / f"snapshot/s-{name}").read_bytes() == b"%d" % number * 500 for name in names)
    assert hidden_files(LocalStore(str(tmp_path))) == []


def test_nothing_hidden_is_left_after_writes(store: LocalStore) -> None:
    store.create_new("a", b"1")
    store.create_new("a", b"2")
    store.write({"b": b"1"})
    with store.open_write("c") as sink:
        sink.write(b"x")
    store.replace("d", b"1", if_version=None)
    store.now_millis()

    assert hidden_files(store) == []


def test_an_address_is_the_plain_path(store: LocalStore, tmp_path: Path) -> None:
    assert store.uri("dt=a%2Fb/x y") == f"file://{tmp_path}/warehouse/dt=a%2Fb/x y"


def test_a_specification_names_the_real_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert LocalStore(str(tmp_path / "link")).spec == StoreSpec("file", str(tmp_path / "real"))


@pytest.mark.parametrize("root", ["", "relative/path", "a\0b", "/a\0b"])
def test_a_root_is_an_absolute_path(root: str) -> None:
    with pytest.raises(InvalidRequest, match="absolute path"):
        LocalStore(root)


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_no_path_is_built_from_a_hostile_part(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidRequest, match="Key "):
        child(str(tmp_path), f"db/{key}")


@pytest.mark.parametrize("key", ["secret", "folder/secret", "inner/out/secret"])
def test_a_link_that_leaves_the_root_is_refused(store: LocalStore, tmp_path: Path, key: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"do not touch")
    store.write({"inner/x": b""})
    root = tmp_path / "warehouse"
    (root / "secret").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    (root / "inner/out").symlink_to("../../outside")

    for verb in (store.read, lambda key: store.infos([key]), store.open_read, store.uri):
        with pytest.raises(InvalidRequest, match=r"leaves .*warehouse.*symbolic link"):
            verb(key)
    with pytest.raises(InvalidRequest, match="symbolic link"):
        store.write({key: b"overwritten"})
    assert (outside / "secret").read_bytes() == b"do not touch"
    assert [info.key for info in store.list("")] == ["inner/x"]


@pytest.mark.parametrize("verb", ["delete_folder", "delete"])
def test_the_root_is_never_deleted(store: LocalStore, verb: str) -> None:
    store.write({"a": b""})
    with pytest.raises(InvalidRequest, match="the root of the store"):
        store.folders.delete("") if verb == "delete_folder" else store.delete([""])

    assert store.read("a") == b""


def test_a_link_within_the_root_is_followed(store: LocalStore, tmp_path: Path) -> None:
    store.write({"real/x": b"1"})
    (tmp_path / "warehouse/link").symlink_to("real")

    assert store.read("link/x") == b"1"


def test_a_deeper_store_does_not_reach_its_neighbours_by_a_link(store: LocalStore, tmp_path: Path) -> None:
    store.write({"db/other/x": b"1"})
    store.write({"db/t/y": b"2"})
    (tmp_path / "warehouse/db/t/link").symlink_to("../other")

    with pytest.raises(InvalidRequest, match="leaves"):
        store.at("db/t").read("link/x")


@pytest.mark.parametrize("length", [250, 255])
def test_names_may_be_as_long_as_the_disk_allows(store: LocalStore, length: int) -> None:
    assert store.create_new("d/" + "n" * length, b"x")
    assert store.read("d/" + "n" * length) == b"x"


def test_a_longer_name_is_refused(store: LocalStore) -> None:
    with pytest.raises(InvalidRequest, match="longer than the file system allows"):
        store.write({"n" * 256: b"x"})


def test_files_follow_the_umask(store: LocalStore, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        store.create_new("a", b"")
        store.write({"b": b""})
    finally:
        os.umask(before)

    modes = {stat.S_IMODE((tmp_path / "warehouse" / name).stat().st_mode) for name in "ab"}
    assert modes == {0o640}


def test_a_full_disk_is_said_and_leaves_nothing(store: LocalStore) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    data = os.urandom(200_000)
    table = pa.table({"k": list(range(200_000))})
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(StorageFull, match="no space left"):
            store.write({"t/a": data})
        with pytest.raises(StorageFull, match="no space left"):
            store.create_new("t/a", data)
        with pytest.raises(StorageFull, match="no space left"), store.open_write("t/b") as sink:
            sink.write(data)
        with pytest.raises(StorageFull, match="no space left"), store.open_write("t/c") as sink:
            pq.write_table(table, sink, compression="none")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert list(store.list("")) == []
    assert store.create_new("t/a", data)


def test_when_one_of_several_objects_finds_no_room_none_appears(store: LocalStore) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(StorageFull):
            store.write({"t/small": b"x", "t/large": bytes(2000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert list(store.list("")) == []


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(local.os, name, refused)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EFBIG, StorageFull),
        (errno.EROFS, StorageUnavailable),
        (errno.EACCES, StorageUnavailable),
        (errno.EIO, StorageUnavailable),
        (errno.EMFILE, StorageUnavailable),
    ],
)
def test_what_the_disk_refuses_before_the_name_appears_was_not_done(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int, expected: type[Exception]
) -> None:
    store.write({"there": b""})
    with monkeypatch.context() as patched:
        refuse(patched, "open", code)
        for attempt in (lambda: store.create_new("a", b"x"), lambda: store.write({"a": b"x"}), store.now_millis):
            with pytest.raises(expected) as raised:
                attempt()
            assert not isinstance(raised.value, WriteOutcomeUnknown)
        with pytest.raises(StorageUnavailable):
            store.read("there")

    assert [info.key for info in store.list("")] == ["there"]


def test_an_error_of_the_disk_is_never_an_empty_listing(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write({"t/a": b""})
    refuse(monkeypatch, "scandir", errno.EIO)

    with pytest.raises(StorageUnavailable):
        store.children("t")
    with pytest.raises(StorageUnavailable):
        list(store.list("t"))


def test_a_file_that_cannot_be_deleted_is_in_the_answer(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write({"t/a": b""})
    store.write({"t/folder/b": b""})
    assert list(store.delete(["t/folder"])) == ["t/folder"]
    refuse(monkeypatch, "unlink", errno.EACCES)

    assert list(store.delete(["t/a", "t/missing"])) == ["t/a", "t/missing"]


@pytest.mark.parametrize(
    "write",
    [lambda store: store.create_new("t/a", b"x"), lambda store: store.write({"t/a": b"x"})],
    ids=["create_new", "write"],
)
def test_a_name_that_may_not_last_is_an_unknown_outcome(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, write: Callable[[LocalStore], object]
) -> None:
    store.write({"t/there": b""})

    def unsure(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(local, "sync_folder", unsure)
    with pytest.raises(WriteOutcomeUnknown, match="Check whether it exists"):
        write(store)

    assert store.read("t/a") == b"x"


def test_without_hard_links_the_rename_that_keeps_what_exists_serves(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "link", errno.EOPNOTSUPP)

    assert store.create_new("t/a", b"1")
    monkeypatch.setattr(local.os.path, "lexists", lambda _: False)
    assert not store.create_new("t/a", b"2")
    assert store.read("t/a") == b"1"
    assert hidden_files(store) == []


def test_where_no_exclusive_name_exists_writing_is_refused(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "link", errno.EPERM)
    monkeypatch.setattr(system_calls.ctypes, "CDLL", lambda *_, **__: object())

    with pytest.raises(UnsupportedFeature, match="neither hard links nor a rename"):
        store.create_new("t/a", b"1")
    assert list(store.list("")) == []


def test_a_folder_that_vanishes_under_a_writer_is_made_again(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write({"dt=1/bucket-0/data-0": b""})
    store.delete(["dt=1/bucket-0/data-0"])
    create, cleaned = system_calls.create, iter([True, True])

    def clean_first(path: str) -> int:
        if next(cleaned, False):
            store.folders.delete_empty("dt=1")
        return create(path)

    monkeypatch.setattr(system_calls, "create", clean_first)
    store.write({"dt=1/bucket-0/data-1": b"x"})

    assert store.read("dt=1/bucket-0/data-1") == b"x"


def test_an_interrupted_write_of_several_objects_leaves_no_hidden_file(tmp_path, monkeypatch):
    replaced = []

    def interrupted(source: str, target: str) -> None:
        if replaced:
            raise KeyboardInterrupt
        replaced.append(target)
        os.rename(source, target)

    monkeypatch.setattr(local.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LocalStore(str(tmp_path)).write({"a": b"1", "b": b"2", "c": b"3"})

    assert os.listdir(tmp_path) == ["a"]


def test_objects_in_several_new_folders_sync_each_folder_once(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    fsync = system_calls.fsync
    monkeypatch.setattr(system_calls, "fsync", lambda descriptor: (synced.append(descriptor), fsync(descriptor))[1])

    store.write({f"p={part}/bucket-{bucket}/data": b"x" for part in range(3) for bucket in range(4)})

    files = buckets = 12
    partitions, root, parent = 3, 1, 1
    assert len(synced) == files + buckets + partitions + root + parent


@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize("call", ["mkdir", "fsync"])
def test_where_a_new_folder_cannot_be_made_durable_it_is_removed(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, call: str, nth: int
) -> None:
    real, calls = getattr(system_calls, call), []

    def failing(argument: Any) -> None:
        calls.append(argument)
        if len(calls) == nth:
            raise OSError(errno.EIO, "Input/output error")
        real(argument)

    monkeypatch.setattr(system_calls, call, failing)
    objects = {f"p={part}/bucket-{bucket}/data": b"x" for part in range(2) for bucket in range(2)}
    with pytest.raises(StorageUnavailable, match="the disk refused"):
        store.write(objects)

    assert list(store.list("")) == []
    # What is left is durable, and a later call goes on from there.
    monkeypatch.undo()
    store.write(objects)
    assert sorted(info.key for info in store.list("")) == sorted(objects)
