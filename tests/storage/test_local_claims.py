"""What the disk says of a call that gives a name is not believed but looked after: told truly, nothing left behind.

Each error before and after the effect of each system call of each verb that writes.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from lakehouse_core.errors import (
    LakehouseError,
    NotFound,
    StorageUnavailable,
    WriteOutcomeUnknown,
)
from lakehouse_core.storage import LocalStore, system_calls
from tests.storage.failing_disk import FailingDisk, installed, quick_folder

# Those that kernels and servers are known to send, before the effect, after it, or not knowing. Calls that give no name
# have few ways to go.
FEW = [errno.EIO, errno.ENOSPC, errno.ENOENT]
ALL = [
    errno.EIO,
    errno.ETIMEDOUT,
    errno.ESTALE,
    errno.EINTR,
    errno.EAGAIN,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.EEXIST,
    errno.EOPNOTSUPP,
]


def _stream(store: LocalStore) -> None:
    with store.open_write("t/new") as sink:
        sink.write(b"mine")


VERBS: dict[str, Callable[[LocalStore], object]] = {
    "create_new": lambda store: store.create_new("t/new", b"mine"),
    "write": lambda store: store.write({"t/there": b"mine"}),
    "write new": lambda store: store.write({"u/new": b"mine"}),
    "write two": lambda store: store.write({"t/new": b"mine", "t/there": b"mine"}),
    "open_write": _stream,
    "replace": lambda store: store.replace("t/there", b"mine", if_version=_version(store)),
    "delete": lambda store: store.delete(["t/there", "t/never"]),
    "delete_folder": lambda store: store.folders.delete("t"),
    "delete_empty_folders": lambda store: store.folders.delete_empty("empty"),
    "rename_folder": lambda store: store.folders.rename("t", "moved"),
    "make_last": lambda store: store.make_last(["t/there"]),
}


@pytest.fixture
def quick() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


def _version(store: LocalStore) -> str:
    found = store.read_versioned("t/there")
    assert found is not None
    return found[1]


def make(folder: Path) -> LocalStore:
    store = LocalStore(str(folder))
    store.write({"t/there": b"old"})
    (folder / "empty/inner").mkdir(parents=True)
    return store


def seen(store: LocalStore) -> dict[str, bytes]:
    """The objects, with those under hidden names."""
    return {info.key: store.read(info.key) for info in store.list("")}


def failures(
    folder: Path, verb: Callable[[LocalStore], object], code: int, *, takes_effect: bool
) -> Iterator[tuple[FailingDisk, LocalStore, object]]:
    """Let each system call of the verb fail in its turn; yield the store and what the verb answered or raised."""
    for number in count(1):
        store = make(folder / f"{code}-{takes_effect}-{number}")
        with installed(FailingDisk(code, number, takes_effect=takes_effect)) as disk:
            try:
                answer: object = verb(store)
            except LakehouseError as error:
                answer = error
        if len(disk.calls) < number:
            return
        if disk.has_failed:
            yield disk, store, answer


@pytest.mark.parametrize("takes_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("verb", VERBS)
def test_an_error_says_what_happened_or_that_nobody_knows(quick: Path, verb: str, takes_effect: bool) -> None:
    store = make(quick / "first")
    before = seen(store)
    VERBS[verb](store)
    done = seen(store)
    for code in ALL if verb in ("create_new", "write", "rename_folder") else FEW:
        for disk, store, answer in failures(quick, VERBS[verb], code, takes_effect=takes_effect):
            case = f"{errno.errorcode[code]} at call {len(disk.calls)} of {disk.calls}: {answer!r}"
            found = {key: data for key, data in seen(store).items() if not key.endswith(".tmp")}
            assert all(found.get(key) in (before.get(key), done.get(key)) for key in before | done | found), case
            if verb in ("delete", "delete_folder"):
                # What is left is in the answer, or a folder of it, unless nobody could look.
                assert isinstance(answer, StorageUnavailable | list), case
                left = tuple(f"{key}/" for key in answer) if isinstance(answer, list) else ("",)
                assert all(f"{key}/".startswith(left) for key in found.keys() - done.keys()), case
            elif isinstance(answer, WriteOutcomeUnknown):
                continue
            elif isinstance(answer, LakehouseError) or answer is False:
                # Of several objects some may be there.
                assert verb == "write two" or found == before, case
            else:
                assert found == done, case


@pytest.mark.parametrize("verb", [verb for verb in VERBS if "delete" not in verb])
def test_what_fails_once_leaves_no_hidden_file_and_succeeds_when_it_is_done_again(quick: Path, verb: str) -> None:
    store = make(quick / "first")
    VERBS[verb](store)
    done = seen(store)
    for takes_effect in (False, True):
        for disk, store, answer in failures(quick, VERBS[verb], errno.EIO, takes_effect=takes_effect):
            with suppress(NotFound):
                VERBS[verb](store)

            # The removal of a hidden file may itself be what failed.
            hidden = {key for key in seen(store) if key.endswith(".tmp")}
            assert {key: data for key, data in seen(store).items() if key not in hidden} == done, answer
            assert not hidden or "unlink" in disk.calls, disk.calls


@pytest.mark.parametrize("code", [errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.EINTR, errno.EEXIST, errno.ENOSPC])
def test_a_link_that_took_effect_is_done_whatever_the_disk_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store, link = LocalStore(str(tmp_path)), system_calls.link

    def linked(source: str, target: str) -> None:
        link(source, target)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(system_calls, "link", linked)

    assert store.create_new("snapshot/snapshot-1", b"mine")
    assert os.listdir(tmp_path / "snapshot") == ["snapshot-1"]


def test_a_link_of_which_nobody_knows_is_an_unknown_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(tmp_path))

    def lost(source: str, target: str) -> None:
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    monkeypatch.setattr(system_calls, "link", lost)
    with pytest.raises(WriteOutcomeUnknown, match=r"Connection timed out\), which may have taken effect"):
        store.create_new("snapshot/snapshot-1", b"mine")


@pytest.mark.parametrize("code", [errno.EIO, errno.EEXIST, errno.ENOENT])
def test_without_hard_links_a_rename_that_took_effect_is_done_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store, rename = LocalStore(str(tmp_path)), system_calls.rename_new

    def no_links(source: str, target: str) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    def renamed(source: str, target: str) -> None:
        rename(source, target)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(system_calls, "link", no_links)
    monkeypatch.setattr(system_calls, "rename_new", renamed)

    assert store.create_new("snapshot/snapshot-1", b"mine")


def test_a_folder_that_somebody_else_moved_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, rename = make(tmp_path), system_calls.rename_new

    def overtaken(source: str, target: str) -> None:
        os.rename(source, f"{source}-elsewhere")
        rename(source, target)

    monkeypatch.setattr(system_calls, "rename_new", overtaken)
    with pytest.raises(NotFound, match="another process moved or dropped the folder"):
        store.folders.rename("t", "moved")
