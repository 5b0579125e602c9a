"""Deletion plan: the unlinked roots and the stage of a deletion, stored as `lakehouse/plan-<uuid>.json`.

Order: write the plan → unlink its roots → wait for readers → delete the files that no other root needs. Source:
docs/reliability/deletion.md#order.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, ValidationError

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.strict_json import json_with_checksum, strict_json
from lakehouse_core.table.layout import deletion_plan_key
from lakehouse_core.table.root import Root, RootKind

PLAN_VERSION = 2
# Releases that know no other one leave a branch half deleted.
_OF_BRANCH_VERSION = 2
_FIRST_VERSION = 1


class DeletionStage(StrEnum):
    """The stage of a deletion. Stored in plans. Never rename."""

    UNLINKING = "unlinking"
    WAITING = "waiting"
    DELETING = "deleting"


class DeletionPlan(BaseModel):
    """The files that `roots` name may be deleted once their readers have ended and no other root needs them.

    `roots` have rising ids. `successor`: the first kept snapshot, whose delta names the last unreachable files.
    `made_changelog_ids`: the snapshots whose long-lived changelogs must exist before they are unlinked.
    `waiting_since_millis`: by the storage's clock; `file_count` and `size_bytes`: those of the files found unreachable
    then.
    """

    # A plan of a newer version is refused by its version number, so an unknown field means damage.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: int = _FIRST_VERSION
    uuid: str
    kind: RootKind
    stage: DeletionStage = DeletionStage.UNLINKING
    roots: tuple[Root, ...]
    successor: Root | None = None
    made_changelog_ids: tuple[int, ...] = ()
    # The roots are all those of a branch that is deleted, of every kind.
    of_branch: bool = False
    waiting_since_millis: int | None = None
    file_count: int = 0
    size_bytes: int = 0

    @property
    def key(self) -> str:
        return deletion_plan_key(self.uuid)

    @property
    def branch_prefix(self) -> str:
        """The prefix of the keys of the branch whose roots are unlinked."""
        return self.roots[0].history

    @property
    def first_kept_id(self) -> int:
        """The first snapshot id that a plan for snapshots keeps."""
        return self.roots[-1].snapshot_id + 1


def branch_deletion(uuid: str, roots: tuple[Root, ...]) -> "DeletionPlan":
    """Return the plan that deletes a branch with these roots."""
    return DeletionPlan(version=_OF_BRANCH_VERSION, uuid=uuid, kind=RootKind.SNAPSHOT, roots=roots, of_branch=True)


def serialize_plan(plan: DeletionPlan) -> bytes:
    return json_with_checksum(
        plan.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude=None if plan.of_branch else {"of_branch"}
        )
    )


def parse_plan(data: bytes, key: str) -> DeletionPlan:
    """Return the plan in `data`. Raises CorruptTable, or UnsupportedFeature for a plan of a newer version."""
    document = strict_json(data, key)
    version = document.get("version")
    if isinstance(version, int) and version > PLAN_VERSION:
        raise UnsupportedFeature(
            f"{key}: plan version is {version}, expected {PLAN_VERSION}. Upgrade, then call again."
        )
    try:
        plan = DeletionPlan.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CorruptTable(
            f"{key}: field {field} is {first['input']!r:.100}: {first['msg']}. While it exists, nothing is "
            "deleted. Keep a copy as evidence, remove the plan, then remove orphan files."
        ) from error
    if key != plan.key or not plan.roots:
        raise CorruptTable(
            f"{key}: the plan is {plan.uuid} with {len(plan.roots)} roots, which does not fit its "
            "name. Keep a copy as evidence, and remove the file."
        )
    return plan
