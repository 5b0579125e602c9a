"""Together: several staged commits as one, which becomes one snapshot.

Rule: the order of the parts is the order of their rows, as if they were committed one after the other.
Source: docs/reliability/commit.md#several-at-once.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from lakehouse_core.errors import CommitConflict, InvalidRequest
from lakehouse_core.planning.commit.file_changes import is_compaction
from lakehouse_core.table.commit_message import Append, CommitMessage
from lakehouse_core.table.manifest import HASH_INDEX
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit

# The parts of a joint commit, by which a repetition with other parts is known.
PARTS_PROPERTY: Final = "lakehouse.parts"


def joined(
    parts: Sequence[StagedCommit], *, commit_user: str, commit_identifier: int, properties: Mapping[str, str]
) -> StagedCommit:
    """Return one staged commit with the messages of all `parts`, in their order.

    Raises InvalidRequest for no parts, for parts of several tables, for a part that is given twice, and for parts that
    do more than add files.
    """
    if not parts:
        raise InvalidRequest("commit_together([]): expected at least one staged commit.")
    first = parts[0]
    seen: set[tuple[str, int]] = set()
    for part in parts:
        name = f"{part.commit_user}/{part.commit_identifier}"
        if part.table != first.table:
            raise InvalidRequest(f"{name} is staged for {part.table}, and the first one for {first.table}.")
        if (part.commit_user, part.commit_identifier) in seen:
            raise InvalidRequest(f"{name} is given twice. Give each staged commit once.")
        seen.add((part.commit_user, part.commit_identifier))
        if not isinstance(part.mode, Append):
            raise InvalidRequest(f"{name} is an overwrite, which needs a snapshot of its own. Commit it by itself.")
        if any(map(_removes_files, part.messages)) or any(map(is_compaction, part.messages)):
            raise InvalidRequest(f"{name} removes files, which needs a snapshot of its own. Commit it by itself.")
    # What came after the earliest base came after some of the parts were staged.
    earliest = min(parts, key=lambda part: part.base_snapshot_id or 0)
    return StagedCommit(
        table=first.table,
        commit_user=commit_user,
        commit_identifier=commit_identifier,
        mode=Append(),
        messages=tuple(message for part in parts for message in part.messages),
        schema_id=max(part.schema_id for part in parts),
        base_snapshot_id=earliest.base_snapshot_id,
        base_time_millis=earliest.base_time_millis,
        properties={**properties, PARTS_PROPERTY: _digest(parts)},
        watermark=max((part.watermark for part in parts if part.watermark is not None), default=None),
    )


def _removes_files(message: CommitMessage) -> bool:
    """Return whether the message removes data files or marks rows; to replace a hash index removes nothing."""
    return bool(message.deleted_files) or any(file.index_type != HASH_INDEX for file in message.deleted_index_files)


def check_replayed(joint: StagedCommit, snapshots: Iterable[Snapshot]) -> None:
    """Raise CommitConflict if these snapshots of the same user and identifier were made of other parts.

    Snapshots of earlier releases do not tell.
    """
    for snapshot in snapshots:
        if (
            snapshot.properties.get(PARTS_PROPERTY, joint.properties[PARTS_PROPERTY])
            != joint.properties[PARTS_PROPERTY]
        ):
            raise CommitConflict(
                f"{joint.commit_user}/{joint.commit_identifier}: snapshot {snapshot.id} was committed under this user "
                "and identifier with other staged commits. Nothing was applied: commit these under another identifier."
            )


def _digest(parts: Sequence[StagedCommit]) -> str:
    names = "\n".join(f"{part.commit_identifier} {part.commit_user}" for part in parts)
    return f"{len(parts)}:{blake2b(names.encode(), digest_size=16).hexdigest()}"
