"""Time and chance come from the clock seam alone: the same life with the same seed writes the same bytes.

With another seed only UUIDs differ, and the sizes and checksums of bytes that hold one.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.format.avro_file import read_avro
from lakehouse_core.storage import MemoryStore
from tests.pairs import in_turn

HISTORY = {"lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1", "manifest.merge-min-count": "4"}
KEYED = {**HISTORY, "bucket": "2"}
TABLES: dict[str, dict[str, str]] = {
    "marked": {**KEYED, "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    "looked up": {**KEYED, "changelog-producer": "lookup", "precommit-compact": "true", "file.format": "orc"},
    "in full": {**KEYED, "changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
    "as input": {
        **KEYED,
        "changelog-producer": "input",
        "changelog.num-retained.max": "100",
        "changelog.time-retained": "1 d",
        "file.format": "avro",
        "file.compression": "null",
        "num-sorted-run.compaction-trigger": "3",
    },
    "indexed": {
        **KEYED,
        "file-index.bloom-filter.columns": "v",
        "file-index.in-manifest-threshold": "1 b",
        "write-buffer-size": "64 kb",
        "target-file-size": "64 kb",
    },
    "appended": {**HISTORY, "bucket": "-1", "compaction.min.file-num": "3"},
    "dynamic": {**HISTORY, "bucket": "-1", "dynamic-bucket.target-row-num": "500"},
    "postponed": {**HISTORY, "bucket": "-2", "changelog-producer": "lookup"},
    "moving": {**HISTORY, "bucket": "-1", "tag.automatic-creation": "process-time"},
}
PRIMARY_KEYS = {"appended": [], "moving": ["k"]}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# What counts or checksums bytes that hold a UUID.
CHECKSUMS = re.compile(r"size|checksum|crc", re.IGNORECASE)

# What the records of branches begin with.
CHECKSUM = re.compile(r"^crc32:[0-9a-f]{8} ")

# Eight bytes that depend on the name of the data file.
INDEX_CHECKSUM = re.compile(rb"(?<=lh-indx1).{8}", re.DOTALL)


class CountingClock(VirtualClock):
    """Numbers the UUIDs that it gives out."""

    def __init__(self, *, seed: int) -> None:
        super().__init__(seed=seed)
        self.numbers: dict[str, int] = {}

    def uuid(self) -> str:
        fresh = super().uuid()
        self.numbers[fresh] = len(self.numbers)
        return fresh


def rows(first: int, count: int, value: str) -> list[dict[str, Any]]:
    return [{"p": k % 2, "k": k, "v": f"{value}{k}"} for k in range(first, first + count)]


@dataclass(frozen=True)
class Life:
    """What a table left behind: each object that there was before the expiry or at the end, and what was told."""

    objects: Mapping[str, bytes]
    told: list[object]
    uuids: Mapping[str, int]


def live(name: str, seed: int) -> Life:
    """Lead a table through every verb, a second between two."""
    clock = CountingClock(seed=seed)
    store = MemoryStore(clock=clock)
    catalog = Catalog(store, clock=clock)
    catalog.create_database("db")
    keys = PRIMARY_KEYS.get(name, ["p", "k"])
    table = catalog.create_table(
        "db.t",
        {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"},
        partition_keys=["p"],
        primary_keys=keys,
        options=TABLES[name],
    )
    told: list[object] = []

    def tell(*what: object) -> None:
        clock.advance(1)
        told.extend(what)

    tell(table.write(rows(0, 600, "a")))
    tell(table.create_tag("first"))
    # A later one of the same key wins, and the buffer spills where it is small.
    tell(table.write(rows(300, 4000, "b")))
    staged = table.stage(rows(0, 3, "late"), commit_user="job", commit_identifier=1)
    tell(table.write(rows(1, 5, "soon")))
    tell(table.commit(staged))
    if keys:
        tell(table.write([{"p": 0, "k": 4, "v": None, "op": "-D"}], rowkind_column="op"))
        sought = [(0, 0), (1, 1), (0, 4), (0, 9999)] if len(keys) == 2 else [0, 1, 4, 9999]
        tell(table.lookup(sought, aligned=True).to_pylist())
    tell(table.compact())
    tell(table.compact(full=True))
    tell(table.create_tag("second"))
    tell(table.alter(lc.AddColumn("w", "INT")))
    tell(table.overwrite([{"p": 1, "k": 1, "v": "z", "w": 7}]))
    change_rows(table, tell)
    tell(table.compact_manifests())
    tell(table.changes(after=0).to_arrow().to_pylist())
    tell(table.diff("first", "second").to_arrow().to_pylist())
    before = content(store)
    clock.advance(3 * 3600)
    tell(table.expire_snapshots(retain_max=2, older_than=timedelta(0)))
    tell(table.delete_tag("first"))
    tell(table.write(rows(7, 2, "c")))
    tell(sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["p"], row["k"])))
    tell(table.verify(data=True).findings)
    return Life({**before, **content(store)}, told, clock.numbers)


def change_rows(table: lc.Table, tell: Callable[..., None]) -> None:
    """Change single rows, buckets, indexes and branches of the table."""
    # Rows that wait for their buckets are not seen, and may not be changed.
    tell(table.compact(full=True))
    tell(table.update({"v": "v || '!'"}, where="p = 1 AND k = 1"))
    tell(table.delete(where="p = 1 AND k > 4000"))
    source = [{"p": 1, "k": 1, "v": "merged"}, {"p": 0, "k": 2, "v": "inserted"}]
    matched, other = lc.WhenMatched(update={"v": "s.v"}), lc.WhenNotMatched(insert={"p": "s.p", "k": "s.k", "v": "s.v"})
    tell(table.merge(source, "t.p = s.p AND t.k = s.k", matched, other))
    tell(table.compact(full=True))
    tell(table.rollback_to(lc.AtTag("second")))
    # A partition of postponed buckets keeps the number that its first compaction gave it.
    if (bucket := table.schema.options["bucket"]) != "-2" and table.schema.primary_keys:
        tell(table.rescale(3 if bucket == "2" else None))
    tell(table.rewrite_file_index())
    tell(table.create_branch("side", at=table.snapshot().id))
    tell(table.branch("side").write([{"p": 0, "k": 8, "v": "beside", "w": 1}]))
    tell(table.branch("side").compact(full=True))
    tell(table.fast_forward("side"))


def content(store: MemoryStore) -> dict[str, bytes]:
    return {info.key: store.read(info.key) for info in store.list("")}


@cache
def first_life(name: str) -> Life:
    return live(name, 7)


@pytest.mark.parametrize("name", in_turn(3, TABLES))
def test_the_same_seed_writes_the_same_bytes_and_tells_the_same(name):
    first, second = first_life(name), live(name, 7)

    assert first.told[-1] == ()
    assert repr(first.told) == repr(second.told)
    assert first.objects == second.objects


# Where keys move, files are written in the order of partitions in which older files, sorted by name, have the keys.
@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn(3, [name for name in TABLES if name != "moving"]))
def test_another_seed_changes_uuids_alone(name):
    first, second = (dict(without_uuids(life)) for life in (first_life(name), live(name, 1)))

    assert list(first) == list(second)
    assert [key for key in first if first[key] != second[key]] == []


def without_uuids(life: Life) -> Iterator[tuple[str, object]]:
    """Yield what the objects say, with the numbers of UUIDs in their places."""

    def plain(value: object) -> object:
        match value:
            case str():
                return UUID.sub(lambda found: f"<{life.uuids[found[0]]}>", value)
            case Mapping():
                kept = {key: each for key, each in value.items() if not CHECKSUMS.search(key)}
                return {plain(key): plain(each) for key, each in kept.items()}
            case list() | tuple():
                return [plain(each) for each in value]
            case _:
                return value

    for key, data in life.objects.items():
        yield str(plain(key)), plain(meaning(key, data))


def meaning(key: str, data: bytes) -> object:
    """Return what an object says, as plain values."""
    if ".cc-" in key:
        # Several files behind each other; readers were told what is in them.
        return len(data)
    if key.endswith(".parquet.index"):
        return INDEX_CHECKSUM.sub(b"", data)
    if data[:1] == b"{":
        return json.loads(data)
    if data[:4] == b"Obj\1":
        return read_avro(data, key) if "/manifest/" in key else list(fastavro.reader(io.BytesIO(data)))
    if data[:4] == b"PAR1":
        return pq.read_table(io.BytesIO(data)).to_pylist()
    if data[:3] == b"ORC":
        return orc.read_table(io.BytesIO(data)).to_pylist()
    return CHECKSUM.sub("", data.decode()) if data.isascii() else data
