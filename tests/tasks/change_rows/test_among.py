"""Rows among those of a source are found as a join finds them, whatever way of looking for them the values allow."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_core.tasks.change_rows import among
from lakehouse_core.tasks.change_rows.among import Among

LEAST, GREATEST = -(2**63), 2**63 - 1
FAR = pa.array([2**40, 2**50 + 1, -(2**41)], pa.int64())
# By columns, those of the source and those of the table.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "numbers close together": ({"k": [3, 5, 5, 8]}, {"k": [LEAST, -1, 2, 3, 4, 5, 8, 9, GREATEST]}),
    "the least numbers": ({"k": [LEAST, LEAST + 2]}, {"k": [GREATEST, LEAST, LEAST + 1, LEAST + 2, 0]}),
    "the greatest numbers": ({"k": [GREATEST, GREATEST - 2]}, {"k": [LEAST, GREATEST, GREATEST - 1, 0]}),
    "numbers far apart": ({"k": FAR}, {"k": [0, 2**40, 2**50, 2**50 + 1, LEAST]}),
    "other integers": ({"k": pa.array([1, 300], pa.int16())}, {"k": pa.array([1, 44, 300], pa.int32())}),
    "numbers with nulls": ({"k": [1, None]}, {"k": [None, 0, 1]}),
    "far numbers with nulls": ({"k": [2**40, None, 0]}, {"k": [None, 0, 1]}),
    "texts": ({"k": ["a", "", "a long text of words", None]}, {"k": ["", "a", "b", None, "a long text of word"]}),
    "texts of another type": ({"k": pa.array(["a"]).dictionary_encode()}, {"k": ["b", "a"]}),
    "dates": ({"k": pa.array([0, 40], pa.date32())}, {"k": pa.array([None, 1, 40, 2932896], pa.date32())}),
    "two columns": ({"k": [1, 1, 2, None], "p": ["a", "b", "a", "a"]}, {"p": ["a", "b", "b", None], "k": [2, 2, 1, 1]}),
    "no rows": ({"k": pa.array([], pa.int64())}, {"k": [0, 1, None]}),
    "no texts": ({"k": pa.array([], pa.string()), "p": pa.array([], pa.string())}, {"k": ["", None], "p": ["", ""]}),
    "an empty batch": ({"k": FAR}, {"k": pa.array([], pa.int64())}),
}


@pytest.mark.parametrize("few_texts", [0, 10_000])
@pytest.mark.parametrize("case", CASES)
def test_a_row_is_among_those_of_a_source_if_a_join_finds_one(case, few_texts, monkeypatch):
    monkeypatch.setattr(among, "_FEW_TEXTS", few_texts)
    source, target = map(pa.table, CASES[case])
    found = Among(source)
    (batch,) = target.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=target.schema)]
    names = source.column_names
    wanted = {tuple(row[name] for name in names) for row in source.to_pylist() if None not in row.values()}
    expected = [tuple(row[name] for name in names) in wanted for row in target.to_pylist()]

    assert found.holds(batch).tolist() == expected
    assert found.may_hold(batch)[expected].all()
    assert pickle.loads(pickle.dumps(found)).holds(batch).tolist() == expected


@pytest.mark.parametrize("kind", ["close", "far", "texts"])
def test_most_rows_that_a_source_lacks_are_left_out_before_they_are_compared(kind):
    draw = np.random.default_rng(3)
    values = draw.permutation(200_000)
    made = {
        "close": pa.array,
        "far": lambda rows: pa.array(rows * 1_000_003),
        "texts": lambda rows: pa.array(rows).cast(pa.string()),
    }[kind]
    found = Among(pa.table({"k": made(values[:20_000])}))
    batch = pa.record_batch({"k": made(values)})

    assert found.holds(batch).tolist() == [True] * 20_000 + [False] * 180_000
    assert found.may_hold(batch)[:20_000].all()
    assert found.may_hold(batch)[20_000:].mean() < 0.03


def test_some_columns_tell_of_rows_what_they_can():
    found = Among(pa.table({"k": [1, 2], "p": [7, 8]}))
    batch = pa.record_batch({"k": [1, 1, 2, 3], "p": [7, 8, 8, 7]})

    assert found.only(["p", "k", "other"]) is found
    assert found.only(["other"]) is None
    assert found.only(["k"]).holds(batch).tolist() == [True, True, True, False]
    assert found.holds(batch).tolist() == [True, False, True, False]
