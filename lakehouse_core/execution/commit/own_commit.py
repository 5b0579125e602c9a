"""Own commits: what a verb commits by itself, as an append of its messages, or of none.

Rule: the user is fresh unless the verb commits several times, because batch commits share one identifier.
Source: docs/semantics/commit.md#users-and-identifiers.
"""

from collections.abc import Mapping, Sequence

from lakehouse_core.execution.context import TableContext
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, Append, CommitMessage
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit


def own_commit(
    table: TableContext,
    schema_id: int,
    messages: Sequence[CommitMessage] = (),
    *,
    base: Snapshot | None = None,
    identity: tuple[str, int] | None = None,
    properties: Mapping[str, str] | None = None,
    watermark: int | None = None,
) -> StagedCommit:
    """Return the staged commit of a verb that saw the snapshot `base`. `identity`: the user and the identifier; None: a
    fresh user.
    """
    commit_user, commit_identifier = identity or (table.clock.uuid(), BATCH_IDENTIFIER)
    return StagedCommit(
        table=table.name or table.store.uri(""),
        commit_user=commit_user,
        commit_identifier=commit_identifier,
        mode=Append(),
        messages=tuple(messages),
        schema_id=schema_id,
        base_snapshot_id=None if base is None else base.id,
        base_time_millis=None if base is None else base.time_millis,
        properties=dict(properties or {}),
        watermark=watermark,
    )
