"""Committing: commit each staged batch once, oldest first; safe to repeat at any point."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline.table_state import RUN_ID, committed_identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A batch and the report of its commit; None when the batch was committed before and nothing is pending."""

    batch: Batch
    report: lc.CommitReport | None


def commit_batches(
    table: lc.Table,
    batches: Iterable[Batch],
    *,
    commit_user: str,
    run_id: str,
    tag_batches: bool,
    progress: Callable[[lc.Progress], None] | None = None,
) -> Iterator[Committed]:
    """Commit each staged batch, oldest first, and tag the table after it.

    Safe to repeat at any point: a committed batch is not committed again. Staged commits are removed after the last
    batch. Raises NotFound for a batch that is neither staged nor committed.
    """
    done = committed_identifier(table, commit_user)
    finished = []
    for batch in batches:
        staged = table.pending(commit_user, batch.identifier)
        if staged is None and done is not None and batch.identifier <= done:
            yield Committed(batch=batch, report=None)
            continue
        if staged is not None and not staged.messages and done is not None and batch.identifier < done:
            # A batch without rows leaves no snapshot: the table cannot tell that it was committed, and need not.
            finished.append(staged)
            yield Committed(batch=batch, report=None)
            continue
        if staged is None:
            raise lc.NotFound(
                f"{table.name}: batch {batch.key or 'whole load'} of {commit_user} is not staged. Materialise its "
                "ingest asset first, in the same run or a re-execution of it."
            )
        report = commit_staged(table, staged, run_id, progress=progress)
        if tag_batches and batch.key is not None and report.snapshot_ids:
            # The compaction's, if there was one: where readers pass over level 0, it shows the rows.
            _tag(table, f"batch-{batch.key}", report.snapshot_ids[-1])
        finished.append(staged)
        yield Committed(batch=batch, report=report)
    for staged in finished:
        table.forget_pending(staged)


def commit_staged(
    table: lc.Table,
    staged: lc.StagedCommit,
    run_id: str,
    *,
    progress: Callable[[lc.Progress], None] | None = None,
) -> lc.CommitReport:
    """Commit with the id of the run in the snapshot's properties, which link the run and the snapshot."""
    return table.commit(replace(staged, properties={**staged.properties, RUN_ID: run_id}), progress=progress)


def _tag(table: lc.Table, name: str, snapshot_id: int) -> None:
    """Tag the snapshot of a batch. A batch that is delivered again moves its tag."""
    existing = {tag.name: tag.snapshot_id for tag in table.tags()}.get(name)
    if existing == snapshot_id:
        return
    if existing is not None:
        table.delete_tag(name)
    table.create_tag(name, at=snapshot_id)
