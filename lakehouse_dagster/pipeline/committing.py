"""Committing: commit each staged batch once, oldest first; safe to repeat at any point."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline.cursors import CURSOR
from lakehouse_dagster.pipeline.overtaking import READ_AFTER, overtaken
from lakehouse_dagster.pipeline.table_state import (
    AFTER,
    RUN_ID,
    SnapshotFacts,
    TableState,
    committed_identifier,
    committed_snapshots,
    pending_batches,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """A batch and the report of its commit; None when the batch was committed before and nothing is pending.

    `original` is the snapshot that an earlier commit made of the batch; None when there was no earlier commit, when it
    had no rows, or when its snapshot has expired.
    """

    batch: Batch
    report: lc.CommitReport | None
    original: SnapshotFacts | None = None

    @property
    def is_replay(self) -> bool:
        """Whether the batch was committed before."""
        return self.report is None or self.report.replayed

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that has its rows: 0 if it has no rows, None if that is not known any more."""
        if self.original is not None:
            return self.original.id
        if self.report is None or self.report.replayed:
            return None
        return self.report.snapshot_id or 0

    @property
    def noop_reason(self) -> str:
        """Why this commit made no snapshot; empty if it made one."""
        if self.report is not None and not self.report.replayed:
            return self.report.noop_reason or ""
        if self.original is None:
            return "committed before; no retained snapshot has it"
        return f"committed before by {self.original.made_by} as snapshot {self.original.id}"


def commit_batches(
    table: lc.Table,
    batches: Iterable[Batch],
    *,
    commit_user: str,
    run_id: str,
    tag_batches: bool,
    by_run: bool = False,
    progress: Callable[[lc.Progress], None] | None = None,
) -> Iterator[CommittedBatch]:
    """Commit each staged batch, oldest first, and tag the table after it.

    Safe to repeat at any point: a committed batch is not committed again. Staged commits are removed after the last
    batch. Raises NotFound for a batch that is neither staged nor committed, and, `by_run`, InvalidRequest when another
    run has overtaken one: then none is committed.
    """
    batches = list(batches)
    for batch, why in overtaken(table, batches, commit_user=commit_user).items() if by_run else ():
        raise lc.InvalidRequest(
            f"{table.name}: {batch.key or 'whole load'}: found rows that would replace newer ones: {why}. Nothing was "
            "committed. Execute the run again with its ingest, which reads them anew."
        )
    done = committed_identifier(table, commit_user)
    earlier: dict[int, SnapshotFacts] | None = None
    finished = []
    pending = pending_batches(table, commit_user, batches)
    for batch in batches:
        staged = pending(batch.identifier)
        if staged is None and done is not None and batch.identifier <= done:
            earlier = committed_snapshots(table, commit_user) if earlier is None else earlier
            yield CommittedBatch(batch=batch, report=None, original=earlier.get(batch.identifier))
            continue
        if staged is not None and not staged.messages and done is not None and batch.identifier < done:
            # A batch without rows leaves no snapshot: the table cannot tell that it was committed, and need not.
            finished.append(staged)
            yield CommittedBatch(batch=batch, report=None)
            continue
        if staged is None:
            raise lc.NotFound(
                f"{table.name}: batch {batch.key or 'whole load'} of {commit_user} is not staged. Materialise its "
                "ingest asset first, in the same run or a re-execution of it."
            )
        report = commit_staged(table, staged, run_id, progress=progress)
        if tag_batches and batch.key is not None and report.snapshot_ids:
            # The compaction's, if there was one: where readers pass over level 0, it shows the rows.
            tag_batch(table, batch.key, report.snapshot_ids[-1])
        finished.append(staged)
        yield CommittedBatch(batch=batch, report=report, original=original_of(table, report))
    if finished:
        table.forget_pending(*finished)


def partition_versions(state: TableState, committed: Mapping[str, CommittedBatch]) -> dict[str, str]:
    """Return the data versions of the partitions that have another one than the table: the snapshot of their batch.

    A later batch of the same step changes the table, and not the partitions before it. A batch without rows has
    version 0. The version of a batch that was committed by an expired snapshot is not known.
    """
    ids = {key: part.snapshot_id for key, part in committed.items()}
    versions = {key: state.version_at(snapshot_id) for key, snapshot_id in ids.items() if snapshot_id is not None}
    return {key: version for key, version in versions.items() if version != state.content_version}


def original_of(table: lc.Table, report: lc.CommitReport) -> SnapshotFacts | None:
    """Return the snapshot that an earlier commit made where a commit was a replay; None for any other commit."""
    if not report.replayed:
        return None
    return committed_snapshots(table, report.commit_user).get(report.commit_identifier)


def commit_staged(
    table: lc.Table,
    staged: lc.StagedCommit,
    run_id: str,
    *,
    progress: Callable[[lc.Progress], None] | None = None,
) -> lc.CommitReport:
    """Commit with the id of the run in the snapshot's properties, which link the run and the snapshot."""
    properties = {name: value for name, value in staged.properties.items() if name not in (CURSOR, AFTER, READ_AFTER)}
    return table.commit(replace(staged, properties={**properties, RUN_ID: run_id}), progress=progress)


def tag_batch(table: lc.Table, key: str, snapshot_id: int) -> None:
    """Tag the snapshot after a batch. A batch that is delivered again moves its tag."""
    name = f"batch-{key}"
    try:
        table.create_tag(name, at=snapshot_id)
    except lc.InvalidRequest:
        existing = {tag.name: tag.snapshot_id for tag in table.tags()}.get(name)
        if existing is None:
            raise
        if existing != snapshot_id:
            table.delete_tag(name)
            table.create_tag(name, at=snapshot_id)
