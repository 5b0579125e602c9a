"""What merge engines make of the versions of each key, all keys at once, is what the row-wise model makes of them."""

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import arrow_schema
from lakehouse_core.merge.key_words import key_words
from lakehouse_core.merge.order import order_rows
from lakehouse_core.merge.record_columns import RecordColumns
from lakehouse_core.merge.reduce import reduce
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import TableSchema, new_schema
from tests.oracle import engines as oracle
from tests.oracle.functions import Refused

COLUMNS = {"k": "INT NOT NULL", "s": "INT", "t": "INT", "n": "BIGINT", "m": "BIGINT", "v": "STRING", "w": "STRING"}
KINDS = ("+I", "-U", "+U", "-D")
ADDS = ("+I", "+U")
GROUPS = {"fields.s.sequence-group": "n,v", "fields.t.sequence-group": "m"}
TABLES: dict[str, dict[str, str]] = {
    "first-row": {"merge-engine": "first-row"},
    "first-row, no deletes": {"merge-engine": "first-row", "ignore-delete": "true"},
    "deduplicate": {},
    "deduplicate, no deletes": {"ignore-delete": "true"},
    "partial-update": {"merge-engine": "partial-update"},
    "partial-update, no deletes": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "partial-update, removing": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "groups": {"merge-engine": "partial-update", **GROUPS},
    "groups, no deletes": {"merge-engine": "partial-update", "ignore-delete": "true", **GROUPS},
    "group of two": {"merge-engine": "partial-update", "fields.s,t.sequence-group": "n,v"},
    "groups, removing": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-sequence-group": "t",
        **GROUPS,
    },
    "groups with functions": {
        "merge-engine": "partial-update",
        "fields.n.aggregate-function": "sum",
        "fields.v.aggregate-function": "last_non_null_value",
        "fields.m.aggregate-function": "last_value",
        **GROUPS,
    },
    "groups with functions that only add": {
        "merge-engine": "partial-update",
        "fields.n.aggregate-function": "max",
        "fields.v.aggregate-function": "listagg",
        "fields.m.aggregate-function": "first_non_null_value",
        "fields.n.ignore-retract": "true",
        **GROUPS,
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.s.aggregate-function": "sum",
        "fields.t.aggregate-function": "last_value",
        "fields.n.aggregate-function": "sum",
    },
    "aggregation that only adds": {
        "merge-engine": "aggregation",
        "fields.s.aggregate-function": "min",
        "fields.t.aggregate-function": "max",
        "fields.n.aggregate-function": "product",
        "fields.m.aggregate-function": "first_value",
        "fields.v.aggregate-function": "listagg",
        "fields.w.aggregate-function": "first_non_null_value",
    },
    "aggregation, removing": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
    },
}

NUMBER = st.none() | st.integers(-2, 3)
TEXT = st.none() | st.sampled_from(["", "a", "b"])
VALUES = st.tuples(NUMBER, NUMBER, NUMBER, NUMBER, TEXT, TEXT)
# Mostly adds, so that histories go on for long before an engine refuses one.
KIND = st.sampled_from([*ADDS, *ADDS, *ADDS, *KINDS])
ROWS = st.lists(st.tuples(st.integers(0, 3), KIND, VALUES), max_size=14)
ADDED = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(ADDS), VALUES), max_size=14)
Row = tuple[int, str, tuple[Any, ...]]


def made(options: dict[str, str]) -> TableSchema:
    return new_schema(COLUMNS, primary_keys=["k"], options={"bucket": "1", **options}, now_millis=0)


def modelled(schema: TableSchema, rows: list[Row]) -> list[oracle.Record]:
    """The model's answer: a record of a key that has just one stays; the others go to the engine."""
    fields = tuple(oracle.Field(field.id, field.name, field.type) for field in schema.fields)
    model = oracle.Schema(fields, schema.primary_keys, (), dict(schema.options))
    records = [oracle.Record((k,), number, kind, (k, *values)) for number, (k, kind, values) in enumerate(rows)]
    kept: list[oracle.Record | None] = []
    for _, versions in groupby(sorted(records, key=lambda one: one.key), key=lambda one: one.key):
        first, *others = versions
        if not others:
            kept.append(first)
            continue
        engine = oracle.ENGINES[schema.options.get("merge-engine", "deduplicate")](model, frozenset())
        for record in (first, *others):
            engine.add(record)
        kept.append(engine.result())
    return [record for record in kept if record is not None]


def reduced(schema: TableSchema, rows: list[Row]) -> list[oracle.Record]:
    types = arrow_schema(schema.fields)
    columns = [[k for k, _, _ in rows], *([values[i] for _, _, values in rows] for i in range(6))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, types, strict=True)]
    arrays.append(pa.array([KINDS.index(kind) for _, kind, _ in rows], pa.int8()))
    names = [*COLUMNS, "kind"]
    records = RecordColumns([pa.RecordBatch.from_arrays(arrays, names)], "kind")
    order = order_rows(key_words([records.column("k")]), len(rows))

    left = reduce(records, order, merge_spec(schema), names)

    batch = left.batch(records, names)
    assert np.array_equal(batch.column("kind").to_numpy(), left.kinds_in(records))
    return [
        oracle.Record((k,), int(number), KINDS[kind], (k, *values))
        for number, (k, *values, kind) in zip(left.rows, (row.values() for row in batch.to_pylist()), strict=True)
    ]


def known(record: oracle.Record, options: dict[str, str]) -> oracle.Record:
    """Leave out the number where Java gives whatever another key left: of a key of retracts that are all ignored."""
    is_chance = options.get("ignore-delete") == "true" and not record.adds
    return replace(record, number=-1) if is_chance else record


@pytest.mark.parametrize("options", TABLES.values(), ids=TABLES)
@given(rows=st.one_of(ROWS, ADDED))
def test_the_versions_of_each_key_become_what_the_model_says(options: dict[str, str], rows: list[Row]) -> None:
    schema = made(options)
    try:
        expected = modelled(schema, rows)
    except Refused:
        event("refused")
        with pytest.raises(InvalidRequest):
            reduced(schema, rows)
        return

    assert [known(record, options) for record in reduced(schema, rows)] == [known(one, options) for one in expected]
