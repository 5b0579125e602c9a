"""Staging: write the files of each batch under a stable identity, and keep their staged commits in the table's folder.

Rule: a run that was killed between staging and commit continues from there; nothing is written twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch, Feed
from lakehouse_dagster.pipeline.groups import Groups, group_user, late_reason
from lakehouse_dagster.pipeline.overtaking import overtaken_by, read_after
from lakehouse_dagster.pipeline.table_state import (
    BATCH,
    committed_identifier,
    committed_identifiers,
    pending_batches,
)
from lakehouse_dagster.specs import TableSpec

# How the files of a batch change the table.
StageMode: TypeAlias = lc.Append | lc.StaticOverwrite | lc.DynamicOverwrite


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A batch and the files written for it. `is_committed`: it was committed before, and nothing is written."""

    batch: Batch
    is_committed: bool = False
    files: int = 0
    rows: int = 0
    bytes: int = 0


def stage_mode(spec: TableSpec) -> StageMode:
    """Return how a batch changes the table: an overwrite replaces the partitions that it has rows of, or the whole
    table when that has no partitions.
    """
    if spec.write_mode != "overwrite":
        return lc.Append()
    return lc.DynamicOverwrite() if spec.partition_by else lc.StaticOverwrite()


def refuse_gap(
    table: lc.Table,
    batches: Sequence[Batch],
    feed: Feed,
    is_gap: Callable[[str | None, str], bool],
    *,
    commit_user: str,
) -> None:
    """Raise InvalidRequest when a batch before one of `batches` was never committed: a later one would hide the gap.

    `is_gap` returns whether batches strictly between two bring rows. An append table that has batches of another
    version of the feed is refused too: the table would hold their rows twice.
    """
    if not batches or batches[0].key is None:
        return
    known = committed_identifiers(table)
    _refuse_other_version(table, known, commit_user)
    if group_user(commit_user) in known:
        raise lc.InvalidRequest(
            f"{table.name}: found batches that were committed together, which are not known one by one. Write 'commit: "
            "together' in its specification again."
        )
    done = known.get(commit_user)
    last = None if done is None else feed.batch_key(done)
    new = [batch for batch in batches if done is None or batch.identifier > done]
    ready = without_gap(new, last, is_gap)
    if len(ready) < len(new):
        reason = gap_reason(new[len(ready)], ready[-1].key if ready else last, is_committed=not ready)
        raise lc.InvalidRequest(f"{table.name}: {reason}")


def without_gap(
    batches: Sequence[Batch], last: str | None, is_gap: Callable[[str | None, str], bool]
) -> Sequence[Batch]:
    """Return the first of some batches, up to the first one that batches with rows are missing before.

    `last` is the last batch that is committed, None without one.
    """
    before = last
    for count, batch in enumerate(batches):
        if is_gap(before, str(batch.key)):
            return batches[:count]
        before = batch.key
    return batches


def gap_reason(batch: Batch, last: str | None, *, is_committed: bool = True) -> str:
    """Return why a batch cannot be taken after the batch `last`, which is committed, or taken by the same run."""
    before = "last committed batch" if is_committed else "batch before it"
    return (
        f"found batch {batch.key}, but the {before} is {last or 'none'}, and batches are taken in order. Load the "
        "batches between first."
    )


def refuse_other_version(table: lc.Table, *, commit_user: str) -> None:
    """Raise InvalidRequest for an append table that has batches of another version of the feed."""
    _refuse_other_version(table, committed_identifiers(table), commit_user)


def _refuse_other_version(table: lc.Table, known: Iterable[str], commit_user: str) -> None:
    same_feed = commit_user.partition("@")[0] + "@"
    earlier = [user for user in known if user.startswith(same_feed)]
    if earlier and not table.schema.primary_keys and not {commit_user, group_user(commit_user)} & {*earlier}:
        raise lc.InvalidRequest(
            f"{table.name}: found batches of {commit_user} for an append table that took them from {earlier[-1]}, "
            "which would double its rows. Continue with that version of the feed, or load another warehouse."
        )


def refuse_late(table: lc.Table, batches: Iterable[Batch], groups: Groups, name: Callable[[int], str]) -> None:
    """Raise InvalidRequest for a batch that the order of batches does not let into the table any more.

    `name` returns the key of an identifier.
    """
    last = groups.last_committed
    for batch in batches:
        if batch.identifier < last and not groups.is_committed(batch.identifier):
            raise lc.InvalidRequest(f"{table.name}: {late_reason(batch, name(last))}.")


def stage_batches(
    table: lc.Table,
    batches: Iterable[Batch],
    read: Callable[[Batch], object],
    *,
    commit_user: str,
    mode: Callable[[Batch], StageMode] = lambda _: lc.Append(),
    rowkind_column: str | None = None,
    properties: Callable[[Batch], Mapping[str, str]] = lambda _: {},
    groups: Groups | None = None,
    by_run: bool = False,
    progress: Callable[[lc.Progress], None] | None = None,
) -> Iterator[Staged]:
    """Write the files of each batch and keep its staged commit in the table's folder, one batch after the other.

    Batches that an earlier attempt of the same user has staged or committed are not written again, unless what was
    staged cannot be committed any more. `properties` is asked for more properties of a staged commit after the rows of
    its batch were read. With `groups`, other runs may stage other batches at the same time, and the committer puts them
    in order. `by_run`: each run reads anew, so rows that another run has overtaken are read again.
    """
    done = committed_identifier(table, commit_user)
    # Without them a batch would number its rows as if those before it did not exist, and not win over them.
    uncommitted: list[lc.StagedCommit] = []
    batches = list(batches)
    pending = pending_batches(table, commit_user, batches)
    for batch in batches:
        if groups.is_committed(batch.identifier) if groups else done is not None and batch.identifier <= done:
            yield Staged(batch=batch, is_committed=True)
            continue
        staged = _usable(table, pending, batch.identifier)
        if by_run and staged is not None and overtaken_by(table, staged) is not None:
            staged = None
        if staged is None:
            # Before its rows are read: what comes meanwhile may be newer.
            known = read_after(table) if by_run else {}
            staged = table.stage(
                read(batch),
                commit_user=commit_user,
                commit_identifier=batch.identifier,
                mode=mode(batch),
                rowkind_column=rowkind_column,
                properties={BATCH: batch.key} if batch.key else {},
                behind=uncommitted,
                progress=progress,
            )
            staged = replace(staged, properties={**staged.properties, **known, **properties(batch)})
            table.keep_pending(staged)
        if groups is None:
            uncommitted.append(staged)
        files = [file for message in staged.messages for file in message.new_files]
        yield Staged(
            batch=batch,
            files=len(files),
            rows=sum(file.row_count for file in files),
            bytes=sum(file.file_size for file in files),
        )


def _usable(
    table: lc.Table, pending: Callable[[int], lc.StagedCommit | None], commit_identifier: int
) -> lc.StagedCommit | None:
    """Return what an earlier attempt has staged, if it can be committed: its object may be damaged, its files may be
    gone, or the table may have another bucket count now.
    """
    try:
        staged = pending(commit_identifier)
    except lc.CorruptTable:
        return None
    return None if staged is None or table.why_not_committed([staged]) != [None] else staged
