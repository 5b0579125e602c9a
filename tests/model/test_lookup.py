"""A lookup of keys gives what a scan gives of them: any engine, levels, deletes, schema changes, old snapshots."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore

COLUMNS = {"p": "INT NOT NULL", "k": "STRING NOT NULL", "n": "INT", "v": "STRING"}
PARTITIONED = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
PLAIN = {"primary_keys": ["k", "p"]}
AGGREGATION = {
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "fields.v.aggregate-function": "listagg",
    "aggregation.remove-record-on-delete": "true",
}
PARTIAL_UPDATE = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
GROUPS = {"merge-engine": "partial-update", "fields.n.sequence-group": "v"}
VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "deduplicate": (PARTITIONED, {"bucket": "2"}),
    "deduplicate, one bucket": (PLAIN, {"bucket": "1"}),
    "deduplicate, dynamic": (PARTITIONED, {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
    "deduplicate, sequence field": (PLAIN, {"bucket": "1", "sequence.field": "n"}),
    "deduplicate, ignore-delete": (PARTITIONED, {"bucket": "1", "ignore-delete": "true"}),
    "partial-update": (PLAIN, {"bucket": "2", **PARTIAL_UPDATE}),
    "partial-update, groups": (PARTITIONED, {"bucket": "1", **GROUPS}),
    "aggregation": (PLAIN, {"bucket": "1", **AGGREGATION}),
    "first-row": (PARTITIONED, {"bucket": "1", "merge-engine": "first-row", "ignore-delete": "true"}),
    "deletion vectors": (PLAIN, {"bucket": "1", **VECTORS}),
    "deletion vectors, merged": (PARTITIONED, {"bucket": "1", **VECTORS, "deletion-vectors.merge-on-read": "true"}),
    "partial-update, vectors": (PLAIN, {"bucket": "1", **PARTIAL_UPDATE, **VECTORS}),
    "aggregation, lookups": (PLAIN, {"bucket": "1", **AGGREGATION, "changelog-producer": "lookup"}),
    "formats": (PLAIN, {"bucket": "1", "file.format.per.level": "0:avro,5:orc"}),
}
KEYS = [(p, k) for p in range(2) for k in ("", "a", "a\0", "ab", "user-00000001", "user-000000010", "user-2")]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "n": st.none() | st.integers(-2, 9),
            "v": st.none() | st.sampled_from(["x", "y"]),
            "op": st.sampled_from(["+I", "+I", "+U", "-D"]),
        }
    ),
    min_size=1,
    max_size=10,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), ROWS),
        st.tuples(st.just("write"), ROWS),
        st.tuples(st.sampled_from(["compact", "compact fully", "widen", "rename"]), st.none()),
    ),
    min_size=1,
    max_size=9,
)
ASKED = st.lists(st.sampled_from([*KEYS, (7, "a"), (0, "nobody")]), max_size=12)


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@settings(max_examples=settings.default.max_examples // 5)
@given(steps=STEPS, asked=ASKED, data=st.data())
def test_a_lookup_is_a_scan_of_these_keys_at_every_snapshot(tmp_path_factory, kind, steps, asked, data):
    keys, options = kind
    clock = VirtualClock()
    catalog = Catalog(MemoryStore(clock=clock), clock=clock)
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, options=options, **keys)
    cache = tmp_path_factory.mktemp("lookup")
    lookups = table.lookups(cache=cache)
    names = {"n": "n", "v": "v"}
    for verb, rows in steps:
        match verb:
            case "write":
                made = [
                    {
                        "p": row["key"][0],
                        "k": row["key"][1],
                        names["n"]: row["n"],
                        names["v"]: row["v"],
                        "op": row["op"],
                    }
                    for row in rows
                ]
                table.write(made, rowkind_column="op")
            case "compact":
                table.compact()
            case "compact fully":
                table.compact(full=True)
            case "widen" if "n" in table.schema.column_names:
                table.alter(lc.UpdateColumnType("n", "BIGINT"))
            case "rename" if not any(name.startswith("fields.v") for name in table.schema.options):
                other = names["v"] + "2"
                table.alter(lc.RenameColumn(names["v"], other))
                names["v"] = other
        clock.advance(60)
        if data.draw(st.booleans()):
            lookups.refresh()
            assert answer(lookups.get(as_table(asked, table))) == scanned(table, asked, lc.Latest())

    for snapshot in table.snapshots():
        found = table.lookup(
            [dict(zip("pk", key, strict=True)) for key in asked], at=lc.AtSnapshot(snapshot.id), cache=cache
        )
        assert answer(found) == scanned(table, asked, lc.AtSnapshot(snapshot.id))


def as_table(asked: list[tuple[int, str]], table: lc.Table) -> pa.Table:
    return pa.table(
        {"k": pa.array([k for _, k in asked], pa.string()), "p": pa.array([p for p, _ in asked], pa.int32())}
    )


def scanned(table: lc.Table, asked: list[tuple[int, str]], at: lc.ReadPoint) -> list[dict[str, Any]]:
    rows = {(row["p"], row["k"]): row for row in table.scan(at=at).to_arrow().to_pylist()}
    return [rows[key] for key in asked if key in rows]


def answer(found: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
