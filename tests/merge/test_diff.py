"""The diff of two states, in columns, tells what the row-wise model tells."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.merge.diff import differences
from lakehouse_core.table.file_columns import ROW_KINDS
from tests.oracle.difference import Record, difference

SCHEMA = pa.schema(
    [("k", pa.int32()), ("s", pa.string()), ("d", pa.float64()), ("l", pa.list_(pa.int32())), ("kind", pa.int8())]
)
VALUES = st.tuples(
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
    st.sampled_from([None, [], [1], [1, None]]),
)
STATES = st.dictionaries(st.integers(0, 12), st.tuples(st.sampled_from(ROW_KINDS), VALUES), max_size=10).map(
    lambda rows: [(key, kind, values) for key, (kind, values) in sorted(rows.items())]
)


def batches(records: list[Record], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(records), size):
        rows: list[tuple[Any, ...]] = [
            (key, *values, ROW_KINDS.index(kind)) for key, kind, values in records[start : start + size]
        ]
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def told(before: list[Record], after: list[Record], size: int, *, keeps_deletes: bool) -> list[Record]:
    found = differences(
        batches(before, size),
        batches(after, size),
        ["k"],
        "kind",
        names=SCHEMA.names,
        keeps_deletes=keeps_deletes,
        chunk_rows=4,
        chunk_bytes=1 << 20,
    )
    rows = [row for batch in found for row in batch.to_pylist()]
    return [(row["k"], ROW_KINDS[row["kind"]], (row["s"], row["d"], row["l"])) for row in rows]


@given(STATES, STATES, st.integers(1, 5), st.booleans())
def test_it_tells_what_is_new_changed_or_gone(
    before: list[Record], after: list[Record], size: int, keeps_deletes: bool
) -> None:
    expected = difference(before, after, keeps_deletes=keeps_deletes)

    # As text: NaN equals nothing.
    assert repr(told(before, after, size, keeps_deletes=keeps_deletes)) == repr(expected)


@given(STATES)
def test_a_state_does_not_differ_from_itself(state: list[Record]) -> None:
    assert told(state, state, 3, keeps_deletes=True) == []


def test_entries_of_a_map_have_no_order_at_any_depth() -> None:
    maps = pa.map_(pa.string(), pa.int32())
    kinds = {"k": pa.int32(), "m": maps, "r": pa.struct([("ms", pa.list_(maps))]), "kind": pa.int8()}
    stored = [("x", 1), ("y", None)]
    turned = [("y", None), ("x", 1)]

    def state(*maps_of_keys: list[tuple[str, int | None]]) -> pa.RecordBatch:
        columns = [range(len(maps_of_keys)), maps_of_keys, [{"ms": [one, None]} for one in maps_of_keys]]
        columns += [[0] * len(maps_of_keys)]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds.values(), strict=True)]
        return pa.RecordBatch.from_arrays(arrays, list(kinds))

    found = differences(
        [state(stored, stored)],
        [state(turned, [("y", 1), ("x", None)])],
        ["k"],
        "kind",
        names=list(kinds),
        keeps_deletes=True,
        chunk_rows=4,
        chunk_bytes=1 << 20,
    )

    assert [row["k"] for batch in found for row in batch.to_pylist()] == [1]
