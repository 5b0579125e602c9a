"""The compaction that a write brings along, once its rows are committed. What to compact is decided in `planning`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from lakehouse_core.errors import CommitConflict, LakehouseError
from lakehouse_core.execution.commit.loop import together
from lakehouse_core.execution.compaction.compact import CompactionResult, compact
from lakehouse_core.execution.compaction.scope import WrittenBuckets
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.compaction.trigger import Trigger, trigger_after
from lakehouse_core.progress import NOBODY, Watch
from lakehouse_core.table.commit_message import Append
from lakehouse_core.table.staged_commit import StagedCommit

# Whoever overtook a compaction has left less to do; more often than this, the next write may see to it.
_MOST_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class WriteCompaction:
    """What became of the compaction after a write: what it did, or why it failed; neither: there was none to do.

    Of one that was tried again where another commit was faster, `result` has all that was done.
    """

    result: CompactionResult | None = None
    failure: str | None = None
    duration_seconds: float = 0.0


def compact_written(
    table: TableContext,
    staged: StagedCommit,
    *,
    replayed: bool,
    watch: Watch = NOBODY,
) -> WriteCompaction:
    """Compact what the table wants compacted after this commit, again where another commit was faster.

    The rows are committed whatever happens here, so a failure is an answer; the next compaction finds the same to do.
    `replayed`: the rows were committed before, and maybe compacted: a compaction now is one of its own. Staged again,
    nothing tells where they are, and all buckets are looked at.
    """
    started = table.clock.monotonic_seconds()
    done: list[CompactionResult] = []

    def outcome(failure: str | None = None) -> WriteCompaction:
        seconds = table.clock.monotonic_seconds() - started
        return WriteCompaction(result=_all_of(done), failure=failure, duration_seconds=seconds)

    try:
        schema = table.schemas.latest()
    except LakehouseError as error:
        return outcome(str(error))
    trigger = trigger_after(schema, staged.commit_identifier)
    places = {(message.partition, message.bucket) for message in staged.messages}
    if trigger is Trigger.NOTHING or not (places or replayed):
        return outcome()
    stop = schema.table_options.compaction.stop_run_count
    scope = WrittenBuckets(
        places=None if trigger is Trigger.FULL or not places else places,
        above_runs=stop if trigger is Trigger.BACK_PRESSURE else 0,
    )
    identity = None if replayed else (staged.commit_user, staged.commit_identifier)
    for _ in range(_MOST_ATTEMPTS):
        try:
            made = compact(
                table,
                scope,
                full=trigger is Trigger.FULL,
                identity=identity,
                properties=staged.properties,
                # As in Java: an overwrite has no changelog, nor has the compaction that belongs to it.
                tells=isinstance(staged.mode, Append),
                watch=watch,
            )
        except CommitConflict:
            continue
        except LakehouseError as error:
            return outcome(str(error))
        if made.commit is None:
            break
        done.append(made)
        if not made.commit.lost:
            break
        # An identity commits one compaction.
        identity = None
    return outcome()


def _all_of(done: Sequence[CompactionResult]) -> CompactionResult | None:
    """Return one after the other as one: it found what the first found, and its commit is all of their commits."""
    if not done:
        return None
    commits = [one.commit for one in done if one.commit is not None]
    buckets = tuple(bucket for one in done for bucket in one.buckets)
    return replace(done[0], buckets=buckets, commit=reduce(together, commits))
