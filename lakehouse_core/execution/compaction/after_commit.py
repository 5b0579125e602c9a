"""Compaction after a commit: compact as the table's options say, once the rows are committed.

Rule: the rows stay committed if the compaction fails. `planning/compaction/trigger` decides what to compact.
Source: docs/semantics/compaction.md#triggers-of-a-write.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from lakehouse_core.errors import CommitConflict, LakehouseError
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.compaction.compact import CompactionResult, compact
from lakehouse_core.execution.compaction.scope import WrittenBuckets
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.compaction.trigger import Trigger, trigger_after
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.retry import Retry
from lakehouse_core.table.bucketing import is_placed, may_wait
from lakehouse_core.table.commit_message import Append
from lakehouse_core.table.staged_commit import StagedCommit

# A concurrent commit leaves less to compact. After three attempts the next write does it.
_OVERTAKEN: Final = Retry(3)


@dataclass(frozen=True, slots=True)
class WriteCompaction:
    """The outcome of the compaction after a write: its result, or its failure; neither if no compaction was due.

    `result` covers all attempts, if conflicts made several necessary.
    """

    result: CompactionResult | None = None
    failure: str | None = None
    duration_seconds: float = 0.0


def compact_written(
    table: TableContext,
    staged: StagedCommit,
    *,
    replayed: bool,
    watch: Watch = NO_WATCH,
) -> WriteCompaction:
    """Compact as the table's options say after this commit; repeat the compaction of buckets with a conflict.

    A failure is part of the result, because the rows are committed; the next compaction does the work. `replayed`: an
    earlier call committed the rows and may have compacted them, so a compaction now gets a fresh identity. If the rows
    were not staged again, their buckets are unknown, and all buckets are in scope.
    """
    started = table.clock.monotonic_seconds()
    done: list[CompactionResult] = []

    def outcome(failure: str | None = None) -> WriteCompaction:
        seconds = table.clock.monotonic_seconds() - started
        return WriteCompaction(result=_all_of(done), failure=failure, duration_seconds=seconds)

    schema = table.schemas.known.newest
    assert schema is not None, "the commit has read it"
    trigger = trigger_after(schema, staged.commit_identifier)
    places = {(message.partition, message.bucket) for message in staged.messages if is_placed(message.bucket)}
    # Rows that wait for their buckets are for a compaction of its own, which moves many at once.
    waits = may_wait(schema.bucketing)
    if trigger is Trigger.NOTHING or not (places or (replayed and not waits)):
        return outcome()
    stop = schema.table_options.compaction.stop_run_count
    scope = WrittenBuckets(
        places=None if not places or (trigger is Trigger.FULL and not waits) else places,
        above_runs=stop if trigger is Trigger.BACK_PRESSURE else 0,
    )
    identity = None if replayed else (staged.commit_user, staged.commit_identifier)
    for _ in _OVERTAKEN.attempts():
        try:
            made = compact(
                table,
                scope,
                full=trigger is Trigger.FULL,
                identity=identity,
                properties=staged.properties,
                # As in Java: neither an overwrite nor its compaction has a changelog.
                emits_changelog=isinstance(staged.mode, Append),
                watch=watch,
            )
        except CommitConflict:
            continue
        except LakehouseError as error:
            return outcome(str(error))
        if made.commit is None:
            break
        done.append(made)
        if not made.commit.conflicts:
            break
        # A user and an identifier commit one compaction, so the next one gets others.
        identity = None
    return outcome()


def _all_of(done: Sequence[CompactionResult]) -> CompactionResult | None:
    """Return the results of all attempts as one, with the plan of the first and the commits of all."""
    if not done:
        return None
    commits = [one.commit for one in done if one.commit is not None]
    buckets = tuple(bucket for one in done for bucket in one.buckets)
    return replace(done[0], buckets=buckets, commit=reduce(CommitResult.then, commits))
