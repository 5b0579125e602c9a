"""The compaction that a write brings along, once its rows are committed. What to compact is decided in `planning`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import CommitConflict, LakehouseError
from lakehouse_core.execution.commit import CommitResult, together
from lakehouse_core.execution.compaction import compact
from lakehouse_core.execution.compaction_scope import WrittenTo
from lakehouse_core.execution.engines.engine import Engine
from lakehouse_core.execution.progress import NOBODY, Watch
from lakehouse_core.execution.schema_log import SchemaLog
from lakehouse_core.execution.snapshot_log import SnapshotLog
from lakehouse_core.planning.write_trigger import Trigger, trigger_after
from lakehouse_core.table.changes import Append, StagedCommit

# Whoever overtook a compaction has left less to do; more often than this, the next write may see to it.
_MOST_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class WriteCompaction:
    """What became of the compaction after a write: its commit, or why it failed; neither: there was none to do."""

    commit: CommitResult | None = None
    failure: str | None = None


def compact_written(
    log: SnapshotLog,
    schemas: SchemaLog,
    engine: Callable[[], Engine],
    staged: StagedCommit,
    *,
    replayed: bool,
    watch: Watch = NOBODY,
) -> WriteCompaction:
    """Compact what the table wants compacted after this commit, again where another commit was faster.

    The rows are committed whatever happens here, so a failure is an answer; the next compaction finds the same to do.
    `replayed`: the rows were committed before, and maybe compacted: a compaction now is one of its own.
    """
    try:
        schema = schemas.latest()
    except LakehouseError as error:
        return WriteCompaction(failure=str(error))
    trigger = trigger_after(schema, staged.commit_identifier)
    places = {(message.partition, message.bucket) for message in staged.messages}
    if trigger is Trigger.NOTHING or not places:
        return WriteCompaction()
    stop = schema.table_options.compaction.stop_run_count
    scope = WrittenTo(
        places=None if trigger is Trigger.FULL else places, above_runs=stop if trigger is Trigger.BACK_PRESSURE else 0
    )
    identity = None if replayed else (staged.commit_user, staged.commit_identifier)
    done: CommitResult | None = None
    for _ in range(_MOST_ATTEMPTS):
        try:
            made = compact(
                log,
                schemas,
                engine,
                scope,
                full=trigger is Trigger.FULL,
                identity=identity,
                properties=staged.properties,
                table=staged.table,
                # As in Java: an overwrite has no changelog, nor has the compaction that belongs to it.
                tells=isinstance(staged.mode, Append),
                watch=watch,
            ).commit
        except CommitConflict:
            continue
        except LakehouseError as error:
            return WriteCompaction(commit=done, failure=str(error))
        if made is None:
            break
        done = made if done is None else together(done, made)
        if not made.lost:
            break
        # An identity commits one compaction.
        identity = None
    return WriteCompaction(commit=done)
