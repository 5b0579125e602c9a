"""Reading the changes of all snapshots that are left: on branches, while they expire, and where one is damaged."""

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable
from lakehouse_core.execution.read.lineage import load_lineage, made_by_run
from lakehouse_core.storage import MemoryStore
from tests.contexts import context_of
from tests.execution.small_table import SmallTable


def test_a_branch_knows_the_snapshot_it_began_with_and_its_own():
    table = SmallTable()
    table.write({1: "a"})
    table.write({2: "b"})
    table.branch("trial", at=2)
    table.write({3: "c"})
    (of_main,) = newest_files(table)
    branch = table.context.on_branch("trial")

    known = load_lineage(branch)

    assert [*known.snapshots] == [2]
    names = {entry.file.file_name for entry in branch.manifests.live_entries(branch.snapshots.latest())}
    assert sorted(known.lineage.origin(name).snapshot_id or 0 for name in names) == [0, 2]
    assert not known.lineage.knows(of_main)
    assert [*load_lineage(table.context).snapshots] == [1, 2, 3]


def test_a_snapshot_that_expires_during_the_read_counts_as_expired_before():
    clock = VirtualClock()
    table = SmallTable(store=ExpiringStore(clock=clock), clock=clock)
    for number in range(4):
        table.write({number: "a"})
    table.store.before_the_first_manifest = lambda: table.expire(retain_max=2)

    known = load_lineage(context_of(table.store, table.clock))

    assert [*known.snapshots] == [3, 4]


def test_a_retained_snapshot_without_its_changes_is_damage():
    table = SmallTable()
    table.write({1: "a"})
    table.write({2: "b"})
    table.store.delete([f"manifest/{table.context.snapshots.snapshot(1).delta_manifest_list}"])

    with pytest.raises(CorruptTable, match="missing"):
        load_lineage(context_of(table.store, table.clock))


def test_a_snapshot_without_a_run_belongs_to_none():
    table = SmallTable()
    table.write({1: "a"})

    assert made_by_run(table.context, "00000000") == []


class ExpiringStore(MemoryStore):
    """Calls a function before the first manifest list is read."""

    before_the_first_manifest = None

    def read(self, key):
        if key.startswith("manifest/manifest-list") and (call := self.before_the_first_manifest):
            self.before_the_first_manifest = None
            call()
        return super().read(key)


def newest_files(table):
    latest = table.context.snapshots.latest()
    return load_lineage(table.context).lineage.brought_by(latest.id)
