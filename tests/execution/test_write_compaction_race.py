"""Writers of one bucket whose compactions overtake each other: no row twice, no change untold, none told wrong."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc

Rows = dict[int, dict[str, Any]]

TABLES = {
    "lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "full compaction": {"changelog-producer": "full-compaction"},
}
WRITERS, WRITES = 3, 6


@pytest.mark.slow
@pytest.mark.parametrize("options", TABLES.values(), ids=TABLES)
def test_the_changelog_of_racing_writers_leads_to_the_rows_that_are_read(
    tmp_path: Path, options: dict[str, str]
) -> None:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("db")
    columns = {"k": "INT NOT NULL", "v": "INT"}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": "1", **options})

    with ThreadPoolExecutor(WRITERS) as pool:
        written: Rows = {
            key: row for rows in pool.map(writes_of, [tmp_path] * WRITERS, range(WRITERS)) for key, row in rows.items()
        }
    table.compact(full=True)

    read = table.scan().to_arrow().to_pylist()
    assert sorted(read, key=lambda row: row["k"]) == [written[key] for key in sorted(written)]
    assert folded(table) == written


def writes_of(warehouse: Path, writer: int) -> Rows:
    """Write to keys that no other writer has; return the last row of each."""
    table = lc.connect(str(warehouse)).table("db.t")
    chance = random.Random(writer)
    last: Rows = {}
    for number in range(WRITES):
        rows = [{"k": 100 * writer + chance.randrange(10), "v": 100 * number + place} for place in range(6)]
        assert table.write(rows).compaction_failure is None
        last |= {row["k"]: row for row in rows}
    return last


def folded(table: lc.Table) -> Rows:
    """Apply the changelog from the first snapshot on; what it takes away must be what is there."""
    state: Rows = {}
    for change in table.changes(after=0).to_arrow().to_pylist():
        kind = change.pop("rowkind")
        if kind in ("-U", "-D"):
            assert state.pop(change["k"]) == change
        else:
            assert change["k"] not in state
            state[change["k"]] = change
    return state
