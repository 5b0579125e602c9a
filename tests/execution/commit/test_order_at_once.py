"""Overtaken files of several buckets that tasks write anew at the same time: the same rows as by one task after the
other, and after a failure no file is left behind.
"""

from itertools import count

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore
from tests.execution.at_once import data_files, opened

BUCKETS = 4
KEYS = range(20)


def overtaken() -> tuple[MemoryStore, lc.StagedCommit]:
    """Return a table and a staged commit, all of whose keys another commit has written since."""
    store = MemoryStore(clock=VirtualClock())
    catalog = Catalog(store, clock=VirtualClock(seed=9))
    catalog.create_database("db")
    columns, options = {"k": "INT NOT NULL", "v": "STRING"}, {"bucket": f"{BUCKETS}", "write-only": "true"}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options=options)
    staged = table.stage([{"k": key, "v": "staged"} for key in KEYS], commit_user="u", commit_identifier=1)
    table.write([{"k": key, "v": "between"} for key in KEYS])
    return store, staged


def values(store: ObjectStore) -> list[str]:
    return opened(store, at_once=1).scan().to_arrow().column("v").to_pylist()


@pytest.mark.parametrize("at_once", [1, 2, BUCKETS])
def test_the_later_commit_wins_in_each_bucket(at_once: int) -> None:
    store, staged = overtaken()

    opened(store, at_once=at_once).commit(staged)

    assert values(store) == ["staged"] * len(KEYS)
    assert data_files(store) == {
        f"db.db/t/bucket-{file.bucket}/{file.file_name}" for file in opened(store, at_once=1).files()
    }
    assert opened(store, at_once=1).verify(data=True).findings == ()


@pytest.mark.parametrize("fault", [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.ENOSPC])
def test_a_failure_leaves_the_staged_files_alone_and_the_commit_can_be_repeated(fault: FaultKind, every: int) -> None:
    has_failed = False
    for at in count(1, every):
        store, staged = overtaken()
        files = data_files(store)
        faulty = FaultyStore(store, [Fault(at=at, kind=fault)])
        try:
            opened(faulty, at_once=3).commit(staged)
        except lc.LakehouseError as error:
            if not isinstance(error, lc.CommitOutcomeUnknown):
                has_failed = True
                assert data_files(store) == files, at
            opened(store, at_once=3).commit(staged)
        assert values(store) == ["staged"] * len(KEYS), at
        assert opened(store, at_once=1).verify(data=True).findings == (), at
        if len(faulty.calls) < at:
            break
    assert has_failed
