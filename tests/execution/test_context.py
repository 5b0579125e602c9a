"""The context of a table: one branch of it, with logs that see this branch alone."""

import pickle

import pytest

from lakehouse_core.errors import NotFound
from lakehouse_core.storage import LocalStore
from lakehouse_core.table.manifest import file_identifier
from tests.contexts import context_of
from tests.execution.small_table import SmallTable


def test_a_branch_has_snapshots_tags_and_schemas_of_its_own_and_shares_the_files():
    table = SmallTable()
    for _ in range(3):
        table.write({1: "a"})
    table.branch("b", at=2)
    branch = table.context.on_branch("b")
    on_main, on_branch = table.context.snapshots.snapshot(2), branch.snapshots.snapshot(2)

    assert table.context.snapshots.ids.latest() == 3
    assert branch.snapshots.ids.latest() == 2
    assert branch.snapshots.ids.earliest() == 2
    assert branch.tags.names() == []
    assert branch.schemas.latest() == table.context.schemas.latest()
    assert [*map(file_identifier, branch.manifests.live_entries(on_branch))] == [
        *map(file_identifier, table.context.manifests.live_entries(on_main))
    ]
    assert branch.on_branch(None).snapshots.ids.latest() == 3


def test_a_branch_that_is_not_there_has_no_schema():
    with pytest.raises(NotFound, match="branch/branch-b/schema: there is no schema"):
        SmallTable().context.on_branch("b").schemas.latest()


def test_the_boundary_of_the_main_branch_hides_nothing_on_another():
    table = SmallTable()
    for _ in range(3):
        table.write({1: "a"})
    table.branch("b", at=1)
    table.context.snapshots.boundary.advance(3)

    assert table.context.snapshots.ids.earliest() == 3
    assert table.context.on_branch("b").snapshots.ids.earliest() == 1


def test_a_context_is_pickled_with_its_branch(tmp_path):
    table, disk = SmallTable(), LocalStore(str(tmp_path))
    table.write({1: "a"})
    table.branch("b", at=1)
    table.write({2: "b"})
    for info in table.store.list(""):
        disk.write({info.key: table.store.read(info.key)})
    branch = context_of(disk, table.clock).on_branch("b")
    again = pickle.loads(pickle.dumps(branch))

    assert again.layout == branch.layout
    assert again.snapshots.ids.latest() == 1
