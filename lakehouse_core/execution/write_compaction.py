"""The compaction that a write brings along, once its rows are committed. What to compact is decided in `planning`."""

from collections.abc import Callable
from dataclasses import dataclass

from lakehouse_core.errors import CommitConflict, LakehouseError
from lakehouse_core.execution.commit import CommitResult
from lakehouse_core.execution.compaction import compact
from lakehouse_core.execution.engines.engine import Engine
from lakehouse_core.execution.schema_log import SchemaLog
from lakehouse_core.execution.snapshot_log import SnapshotLog
from lakehouse_core.planning.write_trigger import Trigger, trigger_after
from lakehouse_core.table.changes import StagedCommit


@dataclass(frozen=True, slots=True)
class WriteCompaction:
    """What became of the compaction after a write: its commit, or why it failed; neither: there was none to do."""

    commit: CommitResult | None = None
    failure: str | None = None


def compact_written(
    log: SnapshotLog, schemas: SchemaLog, engine: Callable[[], Engine], staged: StagedCommit
) -> WriteCompaction:
    """Compact what the table wants compacted after this commit.

    The rows are committed whatever happens here, so a failure is an answer; the next compaction finds the same to do.
    """
    trigger = trigger_after(schemas.latest(), staged.commit_identifier)
    places = {(message.partition, message.bucket) for message in staged.messages}
    if trigger is Trigger.NOTHING or not places:
        return WriteCompaction()
    try:
        result = compact(
            log,
            schemas,
            engine,
            full=trigger is Trigger.FULL,
            places=None if trigger is Trigger.FULL else places,
            identity=(staged.commit_user, staged.commit_identifier),
            properties=staged.properties,
            table=staged.table,
        )
    except CommitConflict:
        # Whoever was faster has compacted these buckets.
        return WriteCompaction()
    except LakehouseError as error:
        return WriteCompaction(failure=str(error))
    return WriteCompaction(commit=result.commit)
