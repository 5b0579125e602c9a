"""Local lookup files are copies: what is damaged is made anew, what is over goes, and processes may share them."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable, InvalidRequest, StorageUnavailable
from lakehouse_core.execution.lookup import local_files as lookup_files
from lakehouse_core.execution.lookup.local_files import LocalRows, LookupCache
from lakehouse_core.options import LookupOptions

FILE = "data-1.parquet"


def batches(*keys: list[int]) -> Iterator[pa.RecordBatch]:
    for part in keys:
        yield pa.RecordBatch.from_pydict({"k": pa.array(part, pa.int64()), "v": [f"value {key}" for key in part]})


class Folder:
    """A directory of lookup files, and time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = VirtualClock()
        self.cache = self.anew()

    def anew(self) -> LookupCache:
        """Return the directory as another process sees it."""
        return LookupCache(str(self.path), self.clock)

    def build(self, name: str = "a", **options: int) -> LocalRows | None:
        self.clock.advance(1)
        return self.cache.build(name, batches([1, 3], [5]), ["k"], LookupOptions(**options), data_file=FILE)

    def names(self) -> list[str]:
        return sorted(path.name.removesuffix(".lookup") for path in self.path.iterdir())

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.path.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "made" / "if need be")


def rows(found: LocalRows | None) -> list[dict[str, object]]:
    assert found is not None
    return [row for batch in found.batches for row in batch.rows.to_pylist()]


ALL = [{"k": key, "v": f"value {key}"} for key in (1, 3, 5)]


def test_what_one_process_has_built_another_opens(folder):
    built = folder.build()

    assert rows(built) == rows(folder.anew().open("a", ["k"])) == ALL
    assert [batch.first_row for batch in built.batches] == [0, 2]
    assert folder.names() == ["a"]


def damaged(data: bytes) -> Iterator[bytes]:
    yield b""
    yield data[:10]
    yield data[:-1]
    yield data[:-40]
    yield data + b"x"
    for position in range(0, len(data), 7):
        yield data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def test_a_file_that_is_not_what_was_written_is_removed_and_not_believed(folder):
    folder.build()
    (path,) = folder.path.iterdir()
    data = path.read_bytes()

    for wrong in damaged(data):
        path.write_bytes(wrong)
        assert folder.anew().open("a", ["k"]) is None
        assert folder.names() == []
    assert rows(folder.build()) == ALL


def test_a_whole_file_under_the_name_of_another_is_removed_and_not_believed(folder):
    folder.build("a")
    folder.cache.build("b", batches([1, 3], [7]), ["k"], LookupOptions(), data_file=FILE)
    one, other = (folder.path / f"{name}.lookup" for name in "ab")
    assert one.stat().st_size == other.stat().st_size
    content = one.read_bytes()
    os.replace(other, one)
    other.write_bytes(content)

    assert [folder.cache.open(name, ["k"]) for name in "ab"] == [None, None]
    assert folder.names() == []


def test_the_files_used_least_recently_go_when_there_are_too_many(folder):
    folder.build("a")
    size_bytes = folder.size_bytes
    folder.build("b")
    folder.build("c")
    folder.clock.advance(1)
    assert folder.cache.touch("a")

    folder.build("d", max_disk_bytes=3 * size_bytes)

    assert folder.names() == ["a", "c", "d"]
    assert not folder.cache.touch("b")


def test_files_that_were_not_used_for_long_go_and_what_a_killed_process_left_too(folder):
    folder.build("a")
    (folder.path / "b.lookup.1.building").write_bytes(b"half")
    folder.clock.advance(90)
    folder.build("c")
    folder.cache.touch("a")
    (folder.path / "someone else's").write_bytes(b"")

    folder.cache.trim(LookupOptions(retention_millis=60_000))
    assert "a" in folder.names()
    folder.clock.advance(61)
    folder.cache.trim(LookupOptions(retention_millis=60_000))

    assert [name for name in folder.names() if not name.startswith("b.")] == ["someone else's"]


def test_a_file_larger_than_the_bound_is_neither_kept_nor_built_again(folder):
    options = LookupOptions(max_disk_bytes=100)

    assert folder.build("a", max_disk_bytes=100) is None
    assert folder.names() == []
    assert not folder.cache.is_worthwhile("a", 3, 3, size_bytes=50, options=options)
    assert not folder.cache.is_worthwhile("b", 3, 3, size_bytes=200, options=options)


def test_building_pays_once_a_tenth_of_the_rows_was_read_now_and_before(folder):
    def is_worthwhile(row_count: int) -> bool:
        return folder.cache.is_worthwhile("a", row_count, 100, size_bytes=1, options=LookupOptions())

    assert not is_worthwhile(10)
    assert is_worthwhile(11)
    folder.cache.count_read("a", 10)
    assert is_worthwhile(1)


def test_files_of_a_data_file_that_has_left_are_forgotten_together(folder):
    for name in ("x-1", "x-2", "y-1"):
        folder.build(name)

    folder.cache.forget("x")

    assert folder.names() == ["y-1"]


@pytest.mark.parametrize("wrong", [([1, 3], [3]), ([3, 1],), ([5], [1])])
def test_rows_out_of_order_are_told_by_the_name_of_their_file(folder, wrong):
    with pytest.raises(CorruptTable, match=r"data-1\.parquet: its rows are not in key order"):
        folder.cache.build("a", batches(*wrong), ["k"], LookupOptions(), data_file=FILE)

    assert folder.names() == []


@pytest.mark.parametrize(("number", "is_told"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True)])
def test_a_full_disk_means_no_local_file_and_another_fault_is_told(folder, monkeypatch, number, is_told):
    def fail(*_: object) -> None:
        raise OSError(number, "made to fail")

    monkeypatch.setattr(lookup_files.os, "replace", fail)

    if is_told:
        with pytest.raises(StorageUnavailable, match="a lookup file could not be written"):
            folder.build()
    else:
        assert folder.build() is None
    assert folder.names() == []


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(InvalidRequest, match="lookup files cannot be kept there"):
        LookupCache(str(tmp_path / "file" / "below"), VirtualClock())
