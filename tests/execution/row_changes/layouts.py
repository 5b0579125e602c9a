"""Tables of every layout, in memory, for row changes: the same rows, stored in every way that matters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore, ObjectStore

Row = dict[str, Any]
COLUMNS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "s": "INT", "v": "STRING", "n": "INT"}
VECTORS = {"deletion-vectors.enabled": "true"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}
# Rows wait for their buckets, and readers see them.
WAITING = {"bucket": "-2", "postpone.default-bucket-num": "2", "postpone.merge-on-read": "true"}


@dataclass(frozen=True)
class Layout:
    """`updates`: how a table of this layout is updated; None: it refuses updates."""

    options: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    deletes: str = "files"
    updates: str | None = "files"


LAYOUTS = {
    "append": Layout(),
    "append, small files": Layout({"target-file-row-num": "2"}),
    "append, orc": Layout({"file.format": "orc"}),
    "append, avro": Layout({"file.format": "avro"}),
    "append, partitions": Layout({}, (), ("p",)),
    "append, buckets": Layout({"bucket": "2", "bucket-key": "k"}),
    "append, vectors": Layout(VECTORS, (), (), "marks", "marks"),
    "append, vectors, partitions": Layout(VECTORS, (), ("p",), "marks", "marks"),
    "append, vectors, buckets": Layout({**VECTORS, "bucket": "2", "bucket-key": "k"}, (), (), "marks", "marks"),
    "deduplicate": Layout({"bucket": "2"}, ("k",), (), "records", "records"),
    "deduplicate, partitions": Layout({"bucket": "2"}, ("p", "k"), ("p",), "records", "records"),
    "deduplicate, compacted": Layout(
        {"bucket": "2", "num-sorted-run.compaction-trigger": "2"}, ("k",), (), "records", "records"
    ),
    "deduplicate, input": Layout(
        {"bucket": "2", "changelog-producer": "input"}, ("k",), (), "records", "records"
    ),
    "deduplicate, lookup": Layout(
        {"bucket": "2", "changelog-producer": "lookup"}, ("k",), (), "records", "records"
    ),
    "deduplicate, full-compaction": Layout(
        {"bucket": "2", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
        ("k",), (), "records", "records",
    ),
    "deduplicate, vectors": Layout({"bucket": "2", **VECTORS}, ("k",), (), "records", "records"),
    "deduplicate, sequence": Layout({"bucket": "2", "sequence.field": "s"}, ("k",), (), "records", "records"),
    "deduplicate, ignore-delete": Layout({"bucket": "2", "ignore-delete": "true"}, ("k",), (), "buckets", "records"),
    "deduplicate, dynamic": Layout(DYNAMIC, ("k",), (), "records", "records"),
    "deduplicate, dynamic, partitions": Layout(DYNAMIC, ("p", "k"), ("p",), "records", "records"),
    "deduplicate, dynamic, vectors": Layout({**DYNAMIC, **VECTORS}, ("k",), (), "records", "records"),
    "partial-update, dynamic": Layout(
        {**DYNAMIC, "merge-engine": "partial-update"}, ("k",), (), "buckets", "records"
    ),
    "partial-update": Layout({"bucket": "2", "merge-engine": "partial-update"}, ("k",), (), "buckets", "records"),
    "partial-update, removes": Layout(
        {"bucket": "2", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        ("k",), (), "records", "records",
    ),
    "aggregation": Layout({"bucket": "2", "merge-engine": "aggregation"}, ("k",), (), "buckets", None),
    "aggregation, sums": Layout(
        {"bucket": "2", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
        ("k",), (), "buckets", None,
    ),
    "aggregation, removes": Layout(
        {"bucket": "2", "merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"},
        ("k",), (), "records", None,
    ),
    "first-row": Layout({"bucket": "2", "merge-engine": "first-row", "changelog-producer": "lookup"},
                        ("k",), (), "buckets", None),
    "deduplicate, moving": Layout(DYNAMIC, ("k",), ("p",), "records", "records"),
    "partial-update, moving": Layout(
        {**DYNAMIC, "merge-engine": "partial-update"}, ("k",), ("p",), "buckets", "records"
    ),
    "deduplicate, postponed": Layout(WAITING, ("k",), (), "records", "records"),
    "deduplicate, postponed, partitions": Layout(WAITING, ("p", "k"), ("p",), "records", "records"),
}  # fmt: skip
BATCHES: tuple[tuple[Row, ...], ...] = (
    tuple({"k": k, "p": k % 3, "s": 5, "v": "abc"[k % 3], "n": None if k % 4 == 0 else k * 3} for k in range(1, 9)),
    tuple({"k": k, "p": k % 3, "s": 6, "v": None if k == 2 else "b", "n": k} for k in (2, 5, 9, 10)),
    tuple({"k": k, "p": k % 3, "s": 7, "v": "z", "n": -k} for k in (1, 5, 11)),
)


def catalog_over(store: ObjectStore, process: int = 0) -> Catalog:
    """Open the warehouse as another process does."""
    return Catalog(store, clock=VirtualClock(seed=process, now_millis=1_700_000_000_000 + process))


def made(layout: Layout, store: ObjectStore | None = None, **options: str) -> tuple[MemoryStore, lc.Table]:
    """Return a store with the table `db.t`, filled with three batches, and the table."""
    kept = MemoryStore(clock=VirtualClock()) if store is None else store
    return kept, fill(catalog_over(kept), layout, **options)


def fill(catalog: Catalog, layout: Layout, **options: str) -> lc.Table:
    """Create the table `db.t`, fill it with three batches and return it."""
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=list(layout.keys),
        partition_keys=list(layout.partitions),
        options={"lakehouse.read.grace": "0 s", **layout.options, **options},
    )
    for batch in BATCHES:
        table.write(list(batch))
    return table


def rows_of(table: lc.Table) -> list[Row]:
    """What readers see, in an order that says nothing."""
    return in_order(table.scan().to_arrow().to_pylist())


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: repr(sorted(row.items())))
