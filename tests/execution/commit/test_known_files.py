"""A staged file is committed once, by whatever user and identifier it is committed again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore

TABLES = {
    "keys": {"primary_keys": ["k"], "options": {"bucket": "1"}},
    "append": {},
    "append in buckets": {"options": {"bucket": "2", "bucket-key": "k"}},
    "append by partition": {"partition_keys": ["dt"]},
}


def alone(table: lc.Table, staged: lc.StagedCommit) -> object:
    return table.commit(staged)


def by_another(table: lc.Table, staged: lc.StagedCommit) -> object:
    return table.commit(replace(staged, commit_user="another"))


def together(table: lc.Table, staged: lc.StagedCommit) -> object:
    return table.commit_together([staged], commit_user="group", commit_identifier=1)


def in_another_group(table: lc.Table, staged: lc.StagedCommit) -> object:
    return table.commit_together([staged], commit_user="group", commit_identifier=2)


WAYS = [(alone, together), (together, alone), (together, in_another_group), (alone, by_another)]
# After many commits of others, which take long, each kind of table in one way.
CASES = [
    pytest.param(kind, others, *way, marks=[pytest.mark.long] * (place != turn))
    for place, kind in enumerate(TABLES)
    for turn, way in enumerate(WAYS)
    for others in (0, 3, 40)
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "others", "first", "second"), CASES)
def test_files_that_are_committed_are_refused_under_another_name(
    kind: str, others: int, first: Callable[..., object], second: Callable[..., object]
) -> None:
    catalog = Catalog(MemoryStore(clock=VirtualClock()), clock=VirtualClock())
    catalog.create_database("db")
    columns = {"k": "INT NOT NULL", "dt": "STRING"}
    table = catalog.create_table("db.t", columns, **{"nullable": False, **TABLES[kind]})
    table.write([{"k": -1, "dt": "a"}])
    staged = table.stage([{"k": 0, "dt": "a"}], commit_user="stager", commit_identifier=1)
    first(table, staged)
    for number in range(others):
        table.write([{"k": 1 + number, "dt": "b" if number % 2 else "a"}])
    before = table.snapshot()

    with pytest.raises(lc.CommitConflict, match="already: another user or identifier committed the same file"):
        second(table, staged)

    assert table.snapshot() == before
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == list(range(-1, 1 + others))
    assert table.verify().findings == ()
