"""Room: what reads of an object store keep in memory is bounded by its bytes, whatever the number of files."""

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import lakehouse_core as lc
from lakehouse_core.storage import ObjectStore, StoreSpec, with_storage
from lakehouse_core.storage.remote import store as remote_store
from lakehouse_core.storage.remote.files import RangeFile
from lakehouse_core.storage.remote.room import ROOM, Room
from lakehouse_core.storage.remote.s3 import s3_store
from tests.storage.s3_stub import S3Stub

MEBIBYTE = 1 << 20


@pytest.fixture
def stub() -> Iterator[S3Stub]:
    with S3Stub() as stub:
        yield stub


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The bytes that were held after each reservation, where eight mebibytes may be."""
    gc.collect()
    assert ROOM.held_bytes == 0
    seen: list[int] = []
    take = Room.take

    def noted(room: Room, size: int) -> bool:
        is_taken = take(room, size)
        seen.append(room.held_bytes)
        return is_taken

    monkeypatch.setattr(ROOM, "_most_bytes", 8 * MEBIBYTE)
    monkeypatch.setattr(Room, "take", noted)
    yield seen
    gc.collect()
    assert ROOM.held_bytes == 0


def store_of(stub: S3Stub) -> ObjectStore:
    return s3_store(with_storage(StoreSpec("s3", "lake/wh"), stub.storage))


def test_files_that_are_open_at_once_take_no_more_than_the_room(stub: S3Stub, most: list[int]) -> None:
    store, sizes = store_of(stub), {f"file-{number}": MEBIBYTE + number for number in range(40)}
    store.write({key: bytes([size % 251]) * size for key, size in sizes.items()})

    with ThreadPoolExecutor(16) as pool:
        files = [*pool.map(store.open_read, sizes, sizes.values())]

    assert 7 * MEBIBYTE < max(most) <= 8 * MEBIBYTE
    for file, size in zip(files, sizes.values(), strict=True):
        assert file.read_at(4, size - 4) == file.read_at(4, 9) == bytes([size % 251]) * 4
        assert file.size() == size
    assert max(most) <= 8 * MEBIBYTE
    for file in files:
        file.close()


def test_a_merge_of_more_files_than_have_room_reads_the_same_rows(
    stub: S3Stub, most: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = lc.connect("s3://lake/wh", storage=stub.storage)
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true"}
    )
    for run in range(8):
        table.write([{"k": key, "v": f"{(run + 1) * key * 2654435761 % 2**61:x}"} for key in range(run, 20_000, 2)])
    assert min(file.file_size for file in table.files()) > remote_store._LEAST_BYTES
    with_room = table.scan().to_arrow()

    for room in (512 << 10, 0):
        most.clear()
        monkeypatch.setattr(ROOM, "_most_bytes", room)
        assert table.scan().to_arrow() == with_room
        assert max(most) <= room


def test_a_failed_read_gives_its_room_back(stub: S3Stub, most: list[int]) -> None:
    with pytest.raises(lc.NotFound):
        store_of(stub).open_read("missing", MEBIBYTE)

    assert max(most) == MEBIBYTE
    assert ROOM.held_bytes == 0


def test_a_large_file_without_room_asks_for_what_is_read_and_nothing_ahead() -> None:
    asked: list[tuple[int, int]] = []

    def read_range(start: int, length: int) -> bytes:
        asked.append((start, length))
        return bytes(length)

    with RangeFile(read_range, 64 * MEBIBYTE, Room(0)) as file:
        for place in (0, 1_000, 2_000):
            file.seek(place)
            assert file.read(1_000) == bytes(1_000)
        file.seek(-8, 2)
        assert file.read() == bytes(8)

    assert asked == [(0, 1_000), (1_000, 1_000), (2_000, 1_000), (64 * MEBIBYTE - (64 << 10), 64 << 10)]


def test_a_large_file_gives_its_room_back_when_it_is_closed() -> None:
    room = Room(16 * MEBIBYTE)
    with RangeFile(lambda start, length: bytes(length), 64 * MEBIBYTE, room) as file:
        for _ in range(4):
            file.read(MEBIBYTE)
        assert 0 < room.held_bytes <= 16 * MEBIBYTE

    assert room.held_bytes == 0
