"""Manifests and lists are read once where they are small; what is asked of them never shows it."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.metadata.manifest_reader import ManifestReader, Missing
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.table.data_file import EMPTY_ROW, EMPTY_STATS, DataFile
from lakehouse_core.table.layout import MAIN, manifest_key
from lakehouse_core.table.manifest import (
    FEW_ENTRIES,
    EntryKind,
    ManifestEntry,
    ManifestFile,
    decode_manifest,
    encode_manifest,
    encode_manifest_list,
)
from lakehouse_core.table.stats import UNREAD_STATS
from tests.pairs import in_turn


class Folder:
    """The metadata files of a table; `reads` tells which were read, in order."""

    def __init__(self) -> None:
        self._origin = MemoryStore(clock=VirtualClock())
        self.store = FaultyStore(self._origin)
        self.reader = ManifestReader(self.store, MAIN)

    @property
    def reads(self) -> list[str]:
        return [call.key.rpartition("/")[2] for call in self.store.calls if call.method == "read"]

    def manifest(self, name: str, count: int) -> ManifestFile:
        entries = [entry(name, number) for number in range(count)]
        data = encode_manifest(entries)
        self._origin.write({manifest_key(name): data})
        return ManifestFile(
            file_name=name,
            file_size=len(data),
            num_added_files=count,
            num_deleted_files=0,
            partition_stats=EMPTY_STATS,
            schema_id=0,
        )

    def list(self, name: str, manifests: list[ManifestFile]) -> int:
        data = encode_manifest_list(manifests)
        self._origin.write({manifest_key(name): data})
        return len(data)

    def damage(self, name: str) -> None:
        self._origin.write({manifest_key(name): b"damage"})


def entry(name: str, number: int) -> ManifestEntry:
    file = DataFile(
        file_name=f"{name}-{number}",
        file_size=100,
        row_count=10,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=0,
        max_sequence_number=9,
        schema_id=0,
        level=number % 3,
        creation_time_millis=0,
    )
    return ManifestEntry(kind=EntryKind.ADD, partition=EMPTY_ROW, bucket=number % 4, total_buckets=4, file=file)


def names(entries: list[ManifestEntry]) -> list[str]:
    return [one.file.file_name for one in entries]


@pytest.fixture
def folder() -> Folder:
    return Folder()


def test_a_small_manifest_is_read_once_and_a_large_one_each_time(folder: Folder) -> None:
    small, large = folder.manifest("small", FEW_ENTRIES - 1), folder.manifest("large", FEW_ENTRIES)

    for _ in range(3):
        for manifest in (small, large):
            assert len(folder.reader.entries(manifest)) == manifest.num_added_files

    assert folder.reads == ["small", "large", "large", "large"]


def test_what_is_kept_is_asked_of_remembered_entries_too(folder: Folder) -> None:
    manifest = folder.manifest("m", 12)

    def keep(partition: bytes, bucket: int, level: int) -> bool:
        return partition == EMPTY_ROW and bucket == 1 and level == 2

    first = folder.reader.entries(manifest, keep=keep)

    assert names(first) == ["m-5"]
    assert folder.reader.entries(manifest, keep=keep) == first
    assert len(folder.reader.entries(manifest)) == 12
    assert folder.reads == ["m"]


def test_whoever_changes_an_answer_does_not_change_the_next(folder: Folder) -> None:
    manifest = folder.manifest("m", 2)
    size = folder.list("list", [manifest])

    folder.reader.entries(manifest).clear()
    folder.reader.listed("list", size).clear()

    assert names(folder.reader.entries(manifest)) == ["m-0", "m-1"]
    assert folder.reader.listed("list", size) == [manifest]
    assert folder.reads == ["m", "list"]


def test_statistics_are_there_only_where_they_were_asked_for(folder: Folder) -> None:
    manifest = folder.manifest("m", 1)

    for with_stats in (True, False, True, False):
        (only,) = folder.reader.entries(manifest, with_stats=with_stats)
        assert (only.file.value_stats is UNREAD_STATS) is not with_stats

    assert folder.reads == ["m", "m"]


def test_a_remembered_list_is_damage_to_who_expects_another_size_or_checksum(folder: Folder) -> None:
    size = folder.list("list", [])
    assert folder.reader.listed("list", size) == []

    with pytest.raises(CorruptTable, match=f"list: it has {size} bytes, expected {size + 1}"):
        folder.reader.listed("list", size + 1)
    with pytest.raises(CorruptTable, match="list: its blake2b-64 checksum is"):
        folder.reader.listed("list", size, "blake2b-64:0000000000000000")
    with pytest.raises(CorruptTable, match=f"m: it has {folder.manifest('m', 1).file_size} bytes"):
        folder.reader.entries(replace(folder.manifest("m", 1), file_size=1))


@pytest.mark.parametrize(
    "read",
    [
        lambda reader, manifest: reader.entries(manifest),
        lambda reader, manifest: reader.listed("gone", 7),
        lambda reader, manifest: reader.listed_index_files("gone"),
    ],
    ids=["a manifest", "a list", "an index manifest"],
)
def test_what_is_gone_is_damage_or_not_found_as_the_caller_says(
    folder: Folder, read: Callable[[ManifestReader, ManifestFile], object]
) -> None:
    gone = replace(folder.manifest("m", 1), file_name="gone")

    with pytest.raises(CorruptTable, match="manifest/gone"):
        read(folder.reader, gone)
    with pytest.raises(NotFound, match="manifest/gone"):
        read(ManifestReader(folder.store, MAIN, Missing.NOT_FOUND), gone)
    folder.damage("gone")
    with pytest.raises(CorruptTable, match="gone"):
        read(ManifestReader(folder.store, MAIN, Missing.NOT_FOUND), gone)


def test_what_could_not_be_read_is_asked_for_again(folder: Folder) -> None:
    manifest = folder.manifest("m", 1)
    folder.damage("m")
    with pytest.raises(CorruptTable, match="m: it has 6 bytes"):
        folder.reader.entries(manifest)

    assert folder.manifest("m", 1) == manifest

    assert names(folder.reader.entries(manifest)) == ["m-0"]


def test_the_manifest_used_longest_ago_is_forgotten_first(folder: Folder) -> None:
    manifests = [folder.manifest(f"m{number}", 1) for number in range(257)]
    for manifest in manifests[:256]:
        folder.reader.entries(manifest)
    folder.reader.entries(manifests[0])
    folder.reader.entries(manifests[256])

    read_before = len(folder.reads)
    for manifest in (manifests[0], manifests[256], manifests[1]):
        folder.reader.entries(manifest)

    assert folder.reads[read_before:] == ["m1"]


@pytest.mark.parametrize("seed", in_turn(3, range(8)))
def test_entries_and_columns_of_many_come_in_order_whatever_is_remembered(folder: Folder, seed: int) -> None:
    random = Random(seed)
    sizes = [random.choice((0, 1, 5, FEW_ENTRIES - 1, FEW_ENTRIES, 2 * FEW_ENTRIES)) for _ in range(30)]
    manifests = [folder.manifest(f"m{number}", size) for number, size in enumerate(sizes)]
    for manifest in random.sample(manifests, 10):
        folder.reader.entries(manifest, with_stats=True)
    keep = random.choice((None, lambda partition, bucket, level: bucket > 0 and level < 2))

    expected = [
        decode_manifest(folder.store.read(manifest_key(m.file_name)), m.file_name, keep=keep, with_stats=True)
        for m in manifests
    ]

    assert list(folder.reader.entries_of_each(manifests, keep=keep, with_stats=True)) == expected
    columns = folder.reader.columns(manifests, keep=keep, with_stats=True)
    assert list(columns.entries()) == [one for entries in expected for one in entries]
