"""Together: commit the batches that are staged in one snapshot, or in several of a bounded number of batches.

Rule: safe to repeat at any point, and beside other committers of the table. A staged commit is removed last, so what a
killed committer has committed and not yet told of is found by the next one.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline.committing import CommittedBatch, tag_batch
from lakehouse_dagster.pipeline.groups import (
    GroupedBatch,
    Groups,
    group_user,
    read_groups,
    record_group,
    recorded_groups,
)
from lakehouse_dagster.pipeline.table_state import BATCH, RUN_ID, SnapshotFacts, batch_properties, committed_snapshots

# As often other committers may come first.
_MOST_RACES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class JointCommit:
    """What a committer has committed or found committed, oldest first, and the reasons of the batches that wait."""

    committed: Sequence[CommittedBatch]
    waiting: Mapping[Batch, str] = field(default_factory=dict)
    # To be removed once the result is told.
    staged: Sequence[lc.StagedCommit] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """The committer of the batches that `commit_user` stages for a table.

    `held_back` returns the staged batches that must wait for others, with the reason.
    """

    catalog: lc.Catalog
    table: lc.Table
    commit_user: str
    run_id: str
    most_batches: int
    tag_batches: bool = False
    held_back: Callable[[Iterable[Batch], Groups], Mapping[int, str]] = lambda *_: {}
    progress: Callable[[lc.Progress], None] | None = None
    _originals: dict[int, SnapshotFacts] = field(default_factory=dict)

    def commit(self, wanted: Sequence[Batch]) -> JointCommit:
        """Commit all batches that are staged now, oldest first, and say what became of the `wanted` ones.

        Batches that are staged meanwhile are left to the next committer. Call `forget_committed` once the result is
        told. Raises NotFound for a wanted batch that is neither staged nor committed.
        """
        groups, staged = self._checked(wanted)
        at_first, found = staged, dict(staged)
        told: dict[int, CommittedBatch] = {}
        waiting: Mapping[int, str] = {}
        refused: dict[int, str] = {}
        lost = 0
        while lost <= _MOST_RACES:
            ready: list[lc.StagedCommit] = []
            refused |= self._refused(staged[one] for one in _unfinished(groups) if one in staged)
            undone = [] if groups.outlived else _rolled_back(groups, staged.keys() - refused.keys())
            if not undone and not groups.outlived:
                finished = self._finish(groups, staged, told)
                if finished is None:
                    lost += 1
                    groups, staged = read_groups(self.catalog, self.table, commit_user=self.commit_user)
                    found |= staged
                    continue
                groups = finished
                if self.tag_batches:
                    self._tag(groups, at_first.keys() - told.keys())
                # Also what an earlier committer has committed and did not come to remove.
                told |= self._found(groups, map(batch_of, at_first.values()), but=told)
                numbers = at_first.keys() & staged.keys() - told.keys() - refused.keys()
                left = [staged[number] for number in sorted(numbers)]
                waiting = {number: reason for number, reason in refused.items() if not groups.is_committed(number)}
                waiting |= self.held_back(map(batch_of, left), groups)
                ready = [each for each in left if each.commit_identifier not in waiting][: self.most_batches]
                if not ready:
                    break
                if found_bad := self._refused(ready):
                    refused |= found_bad
                    continue
            number, members = _next_group(groups, ready)
            if not record_group(self.catalog, self.table, groups, members, undone=undone, commit_user=self.commit_user):
                lost += 1
            elif ready and number == groups.done:
                # Nothing is committed, and where other groups are meanwhile, the record tells what became of these.
                with suppress(lc.StaleCommit, lc.CommitConflict):
                    told |= self._commit_group(groups.next_number, ready)
            groups, staged = read_groups(self.catalog, self.table, commit_user=self.commit_user)
            found |= staged
        else:
            raise lc.CommitConflict(
                f"{self.table.name}: other runs recorded {lost} groups of batches at the same time. Run the commit "
                "again."
            )
        told |= self._found(groups, wanted, but=told)
        held = {batch_of(staged[number]): reason for number, reason in sorted(waiting.items()) if number in staged}
        return JointCommit(
            committed=[told[number] for number in sorted(told)],
            waiting=held,
            staged=[each for number, each in found.items() if number in told],
        )

    def _checked(self, wanted: Sequence[Batch]) -> tuple[Groups, Mapping[int, lc.StagedCommit]]:
        """Read the groups and what is staged. Raises NotFound for a wanted batch that is neither."""
        missing: list[Batch] = []
        # Read again when one is missing: another committer may have committed it between the two reads.
        for _ in range(2):
            groups, staged = read_groups(self.catalog, self.table, commit_user=self.commit_user)
            missing = [
                batch
                for batch in wanted
                if batch.identifier not in staged and not groups.is_committed(batch.identifier)
            ]
            if not missing:
                return groups, staged
        raise lc.NotFound(
            f"{self.table.name}: batch {missing[0].key} of {self.commit_user} is not staged. Materialise its ingest "
            "asset first."
        )

    def _refused(self, staged: Iterable[lc.StagedCommit]) -> dict[int, str]:
        """Return the staged batches that cannot be committed, with the reason. No group may have them, which would
        keep all other batches from the table.
        """
        parts = list(staged)
        return {
            part.commit_identifier: f"it cannot be committed: {reason} Run its ingest again"
            for part, reason in zip(parts, self.table.why_not_committed(parts), strict=True)
            if reason is not None
        }

    def _finish(
        self, groups: Groups, staged: Mapping[int, lc.StagedCommit], told: dict[int, CommittedBatch]
    ) -> Groups | None:
        """Commit the groups that are recorded and not committed, in the order of their numbers; add them to `told`.

        None: another committer has committed a later group meanwhile, so the record has to be read again.
        """
        for number, members in groups.unfinished.items():
            try:
                told |= self._commit_group(number, [staged[each.batch.identifier] for each in members])
            except lc.StaleCommit:
                now = recorded_groups(self.catalog, self.table, commit_user=self.commit_user)
                if now.done <= groups.done:
                    raise
                return None
            groups = replace(groups, done=number)
        return groups

    def _commit_group(self, number: int, parts: Sequence[lc.StagedCommit]) -> dict[int, CommittedBatch]:
        """Commit the batches of a group as one snapshot. Raises StaleCommit if a later group is committed already."""
        batches = [batch_of(part) for part in parts]
        keys = [batch.key or "" for batch in batches]
        report = self.table.commit_together(
            parts,
            commit_user=group_user(self.commit_user),
            commit_identifier=number,
            properties={**batch_properties(keys), RUN_ID: self.run_id},
            progress=self.progress,
        )
        if self.tag_batches and report.snapshot_ids:
            tag_batch(self.table, keys[-1], report.snapshot_ids[-1])
        return {
            batch.identifier: CommittedBatch(
                batch=batch,
                report=share,
                original=self._original(number, batch, _rows(part)) if report.replayed else None,
            )
            for batch, part, share in zip(batches, parts, _shares(report, parts), strict=True)
        }

    def _tag(self, groups: Groups, staged: Iterable[int]) -> None:
        """Tag the snapshots of committed groups with staged batches: their committer may have ended before it did."""
        of_group = {
            each.group: each.batch
            for each in sorted(groups.batches.values(), key=lambda each: each.batch.identifier)
            if each.group <= groups.done
        }
        for number in {groups.batches[one].group for one in staged if one in groups.batches} & of_group.keys():
            facts = self._original(number, of_group[number], 1)
            if facts is not None:
                tag_batch(self.table, of_group[number].key or "", facts.id)

    def _found(self, groups: Groups, batches: Iterable[Batch], *, but: Container[int]) -> dict[int, CommittedBatch]:
        """Return the batches that were committed before, without those that are told of already."""
        return {
            batch.identifier: self._committed_before(groups, batch)
            for batch in batches
            if batch.identifier not in but and groups.is_committed(batch.identifier)
        }

    def _committed_before(self, groups: Groups, batch: Batch) -> CommittedBatch:
        found = groups.batches.get(batch.identifier)
        if found is None:
            alone = committed_snapshots(self.table, self.commit_user)
            return CommittedBatch(batch=batch, report=None, original=alone.get(batch.identifier))
        return CommittedBatch(batch=batch, report=None, original=self._original(found.group, batch, found.rows))

    def _original(self, number: int, batch: Batch, rows: int) -> SnapshotFacts | None:
        """Return the snapshot of a group, with the rows of one batch; None for a batch without rows."""
        if number not in self._originals:
            self._originals.update(committed_snapshots(self.table, group_user(self.commit_user)))
        facts = self._originals.get(number)
        return None if facts is None or not rows else replace(facts, change=rows, batch=batch.key or "")


def forget_committed(table: lc.Table, joint: JointCommit) -> None:
    """Remove the staged commits of the batches that are committed."""
    if joint.staged:
        table.forget_pending(*joint.staged)


def batch_of(staged: lc.StagedCommit) -> Batch:
    """Return the batch that was staged."""
    return Batch(key=staged.properties.get(BATCH), identifier=staged.commit_identifier)


def _next_group(groups: Groups, ready: Sequence[lc.StagedCommit]) -> tuple[int, list[GroupedBatch]]:
    """Return the number of the next group and its members. Batches without rows make no snapshot, so they need no group
    of their own.
    """
    number = groups.next_number if any(map(_rows, ready)) else groups.done
    own = (GroupedBatch(batch=batch_of(each), group=number, rows=_rows(each)) for each in ready)
    return number, [*groups.outlived, *own]


def _unfinished(groups: Groups) -> dict[int, GroupedBatch]:
    """Return the batches of the groups that are not committed, by identifier."""
    return {each.batch.identifier: each for members in groups.unfinished.values() for each in members}


def _rolled_back(groups: Groups, committable: Container[int]) -> list[GroupedBatch]:
    """Return the batches of all groups that are not committed, if one of them is not staged any more, or cannot be
    committed; else none.

    They must leave the record before another group is committed, which would count them as committed too.
    """
    unfinished = _unfinished(groups)
    return [] if all(number in committable for number in unfinished) else list(unfinished.values())


def _rows(staged: lc.StagedCommit) -> int:
    return sum(file.row_count for message in staged.messages for file in message.new_files)


def _shares(report: lc.CommitReport, parts: Sequence[lc.StagedCommit]) -> list[lc.CommitReport]:
    """Return the share of each part in the report of their commit. The shares add up to it: files that the commit wrote
    anew count by the size of what was staged, and the last part has the changelog, the time and the compaction. Each
    has the attempts, which are those of their one snapshot.
    """
    if report.replayed:
        return [report for _ in parts]
    files = [[file for message in part.messages for file in message.new_files] for part in parts]
    rows = apportioned(report.rows_added, [_rows(part) for part in parts])
    counts = apportioned(report.files_added, [len(of_part) for of_part in files])
    sizes = apportioned(report.bytes_added, [sum(file.file_size for file in of_part) for of_part in files])
    shares = [
        replace(report, rows_added=row_count, files_added=file_count, bytes_added=size)
        for row_count, file_count, size in zip(rows, counts, sizes, strict=True)
    ]
    return [*map(_of_rows_alone, shares[:-1]), shares[-1]]


def _of_rows_alone(share: lc.CommitReport) -> lc.CommitReport:
    compacted = None if share.compaction is None else share.compaction.snapshot_id
    return replace(
        share,
        snapshot_ids=tuple(each for each in share.snapshot_ids if each != compacted),
        changelog_files_added=0,
        changelog_rows_added=0,
        duration_seconds=0.0,
        compaction=None,
        compaction_failure=None,
        tags_created=(),
        tags_deleted=(),
        tag_failure=None,
        clock_note=None,
    )


def apportioned(total: int, weights: Sequence[int]) -> list[int]:
    """Return whole shares of `total` by their weights, which add up to it; equal shares without any weight."""
    weights = weights if any(weights) else [1] * len(weights)
    ends = [total * end // sum(weights) for end in accumulate(weights)]
    return [end - before for before, end in pairwise([0, *ends])]
