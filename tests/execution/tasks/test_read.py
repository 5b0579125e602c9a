"""What a read task makes of files: merged by the rules, evolved, filtered after the merge, checked for damage."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable, UnsupportedFeature
from lakehouse_core.execution.tasks import merge_read
from lakehouse_core.planning.schema_change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    UpdateColumnType,
    apply_changes,
)
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.predicate import col
from tests.damage import damaged
from tests.execution.tasks.loose_files import LooseFiles, append_table, key_table, rows
from tests.oracle import merge as oracle

KINDS = ("+I", "-U", "+U", "-D")

RECORDS = st.lists(
    st.tuples(st.integers(0, 12), st.none() | st.integers(0, 3), st.sampled_from(KINDS)), min_size=0, max_size=25
)


@settings(max_examples=100, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from(["none", "ascending", "descending"]), st.booleans())
def test_reads_before_and_after_compaction_are_those_of_the_slow_twin(batches, order, compacts_between):
    options = {} if order == "none" else {"sequence__field": "ts", "sequence__field__sort_order": order}
    table = key_table({"k": "INT", "ts": "INT", "v": "STRING"}, **options)
    is_descending = order == "descending"
    versions: list[oracle.Version] = []
    arrivals = 0
    for number, batch in enumerate(batches):
        for key, ts, kind in batch:
            sequence = () if order == "none" else (ts,)
            versions.append(oracle.Version(key=(key,), sequence=sequence, number=arrivals, kind=kind, value=arrivals))
            arrivals += 1
        data = [
            {"k": version.key[0], "ts": ts, "v": str(version.value), "op": version.kind}
            for version, (_, ts, _) in zip(versions[len(versions) - len(batch) :], batch, strict=True)
        ]
        table.write(data, rowkind_column="op")
        if compacts_between and number == 1:
            table.compact()
            # The top level forgets deletes, so a row of an older sequence may come back after one.
            versions = oracle.deduplicate(versions, descending=is_descending, drop_delete=True)
    left = oracle.deduplicate(versions, descending=is_descending, drop_delete=True)
    expected = [(version.key[0], str(version.value)) for version in left]

    before = pairs(table)
    table.compact()

    assert before == expected
    assert pairs(table) == expected
    assert all(file.delete_row_count == 0 for file in table.all_files())


def pairs(table: LooseFiles) -> list[tuple[int, str]]:
    if not table.all_files():
        return []
    found = table.read(["k", "v"])
    return list(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
