"""The files of one new snapshot: durable before it is named, and used by later attempts as far as they fit."""

from lakehouse_core.execution.commit.snapshot_files import NewSnapshot, SnapshotFiles
from lakehouse_core.planning.commit.ledger import Ledger
from lakehouse_core.planning.commit.steps import CommitStep, StepPlan, commit_steps
from tests.execution.commit.commit_vocabulary import CommitTable, commit_table


def step_of(table: CommitTable) -> CommitStep:
    (step,) = commit_steps(table.append("mine", user="me"), skips_empty=True)
    return step


def written(table: CommitTable, files: SnapshotFiles, step: CommitStep) -> NewSnapshot:
    """Write the files of an attempt after the latest snapshot."""
    schema, latest = table.schemas.latest(), table.context.snapshots.latest()
    changes = step.changes  # type: ignore[union-attr]
    base = files.merge(files.before(latest), StepPlan(changes=changes), schema)
    return files.write(latest, step, changes, base, schema=schema, ledger=Ledger(), marks={})


def stored(table: CommitTable) -> set[str]:
    return set(table.store.children("manifest").files)


def filled() -> CommitTable:
    table = commit_table()
    table.commit(table.append("f1", user="u1"))
    return table


def test_what_a_snapshot_names_is_in_the_store_before_it_is_published() -> None:
    table = filled()
    new = written(table, SnapshotFiles(table.context, table.schemas.latest()), step_of(table))

    assert new.file_names <= stored(table)
    assert {new.snapshot.base_manifest_list, new.snapshot.delta_manifest_list} <= new.file_names
    assert (new.snapshot.id, table.context.snapshots.ids.latest()) == (2, 1)


def test_a_later_attempt_uses_the_manifests_of_the_changes_again() -> None:
    table = filled()
    files, step = SnapshotFiles(table.context, table.schemas.latest()), step_of(table)
    first = written(table, files, step)
    before = stored(table)
    table.commit(table.append("f2", user="u2"))
    theirs = stored(table) - before
    second = written(table, files, step)

    assert second.snapshot.id == 3
    assert second.snapshot.delta_manifest_list == first.snapshot.delta_manifest_list
    assert stored(table) - before - theirs == {second.snapshot.base_manifest_list}


def test_keeping_a_snapshot_deletes_what_only_earlier_attempts_named() -> None:
    table = filled()
    files, step = SnapshotFiles(table.context, table.schemas.latest()), step_of(table)
    first = written(table, files, step)
    table.commit(table.append("f2", user="u2"))
    second = written(table, files, step)
    files.keep(second)

    assert first.snapshot.base_manifest_list not in stored(table)
    assert second.file_names <= stored(table)


def test_discarded_files_are_written_again_when_another_attempt_needs_them() -> None:
    table = filled()
    before = stored(table)
    files, step = SnapshotFiles(table.context, table.schemas.latest()), step_of(table)
    written(table, files, step)
    files.discard()

    assert stored(table) == before
    assert written(table, files, step).file_names <= stored(table)
